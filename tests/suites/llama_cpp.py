# SPDX-License-Identifier: Apache-2.0
"""llama.cpp as Debian's unstable release builds it: each operation of ggml on a card against the
processor's (test-backend-ops), and llama-server, which answers a prompt with the same words
whether its model is on a card or on the processor.

Models are made from random numbers by llama.cpp's own tests.  What hands a product to cuBLAS is
not applicable: its kernels are machine code.
"""

import json
import re
from pathlib import Path

from debian_root import DebianRoot
from suite import Pool, Report, Result, attempt, quiet, run_all

TESTS = "/usr/libexec/x86_64-linux-gnu/llama.cpp-tests"
PACKAGES = ["llama.cpp-tests", "llama.cpp-tools", "libggml0-backend-cuda", "python3"]
ASK = Path(__file__).resolve().parent / "llama_cpp_inside.py"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Of a product only the types that have kernels of ggml's own, and few columns.
PARAMS = {"MUL_MAT": r"type_a=i?q\w+,type_b=f32,m=16,n=[1-8],k=256,bs=\[1,1\]",
          "MUL_MAT_ID": r"type_a=q\w+,type_b=f32,n_mats=4,n_used=2,b=0,m=512,n=[14],k=256",
          "FLASH_ATTN_EXT": r"hsk=64,hsv=64,nh=4,nr23=\[1,1\],kv=512,nb=[13],.*type_K=f16"}
MODELS = {"llama-dense": "q8_0", "qwen2-dense": "q4_0", "gemma2-dense": "q5_1"}
LIMIT_S = 300


def operation(pool, root, name, folder):
    words = [f"{TESTS}/test-backend-ops", "test", "-b", "CUDA0", "-o", name]
    words += ["-p", PARAMS[name]] if name in PARAMS else []
    log = folder / f"{name}.log"
    lines, status = pool.run(root.command(*words), {}, log, core=40, memory=3 << 30,
                             limit_s=LIMIT_S, options=["--policy", "burst-share"])
    text = COLOUR.sub("", "\n".join(lines))
    right, wrong = len(re.findall(r"\): OK$", text, re.M)), re.findall(r".*: FAIL.*", text)
    if wrong:
        return Result(name, "FAIL", wrong[0].strip()[:200])
    if status == 0:
        return Result(name, "PASS") if right else Result(name, "NA", "the card has no such operation")
    if "softgpu: loading a module" in log.read_text(errors="replace"):
        return Result(name, "NA", "it needs a kernel of cuBLAS")
    if "ended after" in text:
        return Result(name, "NA", f"it takes more than {LIMIT_S} s")
    return Result(name, "FAIL", f"exit status {status}: {text[-200:]}")


def answers(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def near(one, other):
    """The likelihoods of what each says, up to where both say different words that are as
    likely: eight bits of a number are rounded in another order on a card."""
    if len(one) != len(other) or not one:
        return False
    for a, b in zip(one, other, strict=True):
        for mine, yours, x, y in zip(a["tokens"], b["tokens"], a["likely"], b["likely"], strict=True):
            if abs(x - y) > 0.01:
                return False
            if mine != yours:
                break
    return True


def server(pool, root, name, folder):
    model = f"/models/{name}-{MODELS[name]}.gguf"
    ask = ["python3", f"/opt/{ASK.name}", model]
    quiet(root.command("llama-quantize", f"/models/{name}.gguf", model, MODELS[name]), folder,
          "a model cannot be made smaller")
    _, expected = attempt(root.command(*ask, "0", "8091"), folder, None, LIMIT_S)
    lines, status = pool.run(root.command(*ask, "99", "8092"), {}, folder / f"{name}.log", core=40,
                             memory=3 << 30, limit_s=LIMIT_S, options=["--policy", "burst-share"])
    same = near(answers(expected), answers("\n".join(lines)))
    return Result(f"llama-server {name} {MODELS[name]}", "PASS" if same else "FAIL", "" if same else
                  f"status {status}: {expected[-150:]} and {' '.join(lines)[-150:]}")


def run(build, only):
    root = DebianRoot(build, "sid", PACKAGES)
    folder = build / "suites" / "llama_cpp"
    folder.mkdir(exist_ok=True)
    (root.folder / "models").mkdir(exist_ok=True)
    (root.folder / "opt" / ASK.name).write_text(ASK.read_text())
    listed = quiet(root.command(f"{TESTS}/test-backend-ops", "--list-ops"), folder, "no list")
    names = re.findall(r"^\s+([A-Z][A-Z0-9_]+)$", listed, re.M)
    for name in MODELS:
        quiet(root.command(f"{TESTS}/test-llama-archs", "-s", "7", "-a",
                           f"^{name.split('-', maxsplit=1)[0]}$", "-o", "/models"), folder, "no model")
    report = Report(build, "llama_cpp")
    with Pool(build, "softgpu", {"SOFTGPU_CC": "8.6", "SOFTGPU_MEMORY": "8GiB"}) as pool:
        run_all([name for name in names if only in name],
                lambda name: operation(pool, root, name, folder), report)
    with Pool(build, "softgpu", {"SOFTGPU_CC": "9.0", "SOFTGPU_MEMORY": "8GiB"}) as pool:
        for name in MODELS:
            if only in name:
                report.add(server(pool, root, name, folder))
    return report.close()
