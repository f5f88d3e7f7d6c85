#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make ptx-forms`: every form of every PTX instruction, by what an assembler accepts.

forms.txt writes the language's grammar down as {alternatives}; each expansion is one
instruction.  Those that no software card can run are shown to ptxas (of a CUDA toolkit,
for several architectures).  A form that ptxas accepts and softgpu does not carry is
printed; the exit status is 0 if refused.txt, which gives a reason for each opcode that is
poisoned by name, explains them all.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ARCHITECTURES = ["sm_90a", "sm_100a", "sm_120a", "sm_80", "sm_75"]
REGISTERS = (".reg .pred %p<10>; .reg .b16 %h<20>; .reg .b32 %r<300>; .reg .b64 %l<30>; "
             ".reg .b128 %q<10>; .reg .b8 %b<4>;")


def alternatives(text):
    """{a|b{c|d}} split at its own bars."""
    parts, depth, part = [], 0, ""
    for c in text:
        depth += (c == "{") - (c == "}")
        if c == "|" and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += c
    return [*parts, part]


def closing(text, at):
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return i
    raise ValueError(text)


def expand(text):
    """All instructions of one line.  Braces without a bar of their own stay: vectors;
    <n> in one stands for n registers; a second bar means a bar in the text."""
    for at, c in enumerate(text):
        if c != "{":
            continue
        end = closing(text, at)
        inner = text[at + 1:end]
        parts = alternatives(inner)
        if len(parts) == 1:
            for head in expand(inner):
                for tail in expand(text[end + 1:]):
                    yield f"{text[:at]}\1{head}\2{tail}"
            return
        if inner.startswith("||"):
            parts = ["", "\3" + inner[2:]]
        for part in parts:
            yield from expand(text[:at] + part + text[end + 1:])
        return
    yield text


def finished(text):
    text = text.translate({1: "{", 2: "}", 3: "|"})
    columns = re.search(r"m64n(\d+)k", text)
    if columns:
        text = text.replace("<n/2>", f"<{int(columns[1]) // 2}>")
        text = text.replace("<n/4>", f"<{int(columns[1]) // 4}>")
    return re.sub(r"<(\d+)>", lambda m: ",".join(f"%r{20 + i}" for i in range(int(m[1]))), text)


def forms():
    seen = {}
    for line in (HERE / "forms.txt").read_text().split("\n"):
        if line and not line.startswith("#"):
            seen.update((finished(form), True) for form in expand(line))
    return list(seen)


WORDS, LONGS = [*range(1, 12), *range(20, 24)], range(1, 10)
# Every address is the wild one, every offset and number the near one.
WILD = ("{{ {registers} .reg .b64 %own, %wild; .reg .b32 %near; "
        "ld.param.u64 %wild, [wild]; ld.param.u32 %near, [near]; "
        + " ".join(f"mov.u32 %r{i}, %near;" for i in WORDS)
        + " ".join(f"mov.u64 %l{i}, %wild;" for i in LONGS)
        + " ".join(f"setp.ne.u32 %p{i}, %near, 0; mov.u16 %h{i}, 3;" for i in range(1, 10))
        + " mov.b128 %q1, {{%wild, %wild}}; mov.b128 %q2, %q1; {form}; ld.param.u64 %own, [out]; "
        + " ".join(f"st.global.u32 [%own+{4 * i}], %r{i};" for i in WORDS)
        + " ".join(f"st.global.u64 [%own+{96 + 8 * i}], %l{i};" for i in LONGS)
        + " ret; }}\n")


def wild(program, every):
    """Runs one in @every form, with addresses of memory that is not the kernel's own."""
    with tempfile.TemporaryDirectory() as folder:
        files = [HERE / "wild.ptx"]
        chosen = list(enumerate(forms()))[::every]
        for number, batch in enumerate(batches(chosen)):
            files.append(Path(folder) / f"wild{number}.ptx")
            files[-1].write_text(".version 9.0\n.target sm_100a\n.address_size 64\n" + "".join(
                f".visible .entry k{n}(.param .u64 wild, .param .u32 near, .param .u64 out) "
                + WILD.format(registers=REGISTERS, form=form) for n, form in batch))
        return subprocess.run([program, *files], check=False).returncode


def module(chosen, architecture):
    yield f".version 9.0\n.target {architecture}\n.address_size 64\n"
    for number, form in chosen:
        yield f".visible .entry k{number}() {{ {REGISTERS} {form}; ret; }}\n"


class Checker:
    def __init__(self, run, ptxas):
        self.run, self.ptxas = run, ptxas
        self.file = Path(tempfile.mkdtemp()) / "forms.ptx"

    def call(self, chosen, architecture, command):
        self.file.write_text("".join(module(chosen, architecture)))
        return subprocess.run([*command, self.file], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def refused(self, chosen):
        """What softgpu does not carry, with its words."""
        done = self.call(chosen, "sm_100a", [self.run, "--check"])
        found = {int(line[0]): line[1] for line in
                 re.findall(r"kernel k(\d+): (.*)", done.stdout)}
        if f"{len(chosen)} kernels, {len(found)} cannot run" in done.stdout:
            return [(number, form, found[number]) for number, form in chosen
                    if number in found]
        if len(chosen) == 1:
            return [(*chosen[0], done.stdout.strip().split("\n")[0])]
        half = len(chosen) // 2
        return self.refused(chosen[:half]) + self.refused(chosen[half:])

    def accepted(self, chosen, architecture):
        """What ptxas assembles; it names the lines that it does not."""
        while chosen:
            done = self.call(chosen, architecture,
                             [self.ptxas, "-O0", f"-arch={architecture}", "-o", "/dev/null"])
            if done.returncode == 0:
                break
            lines = {int(n) - 4 for n in re.findall(r"line (\d+);", done.stdout)}
            if not lines & set(range(len(chosen))):
                if len(chosen) == 1:
                    return []
                half = len(chosen) // 2
                return (self.accepted(chosen[:half], architecture)
                        + self.accepted(chosen[half:], architecture))
            chosen = [form for i, form in enumerate(chosen) if i not in lines]
        return chosen


def batches(chosen, size=300):
    return [chosen[i:i + size] for i in range(0, len(chosen), size)]


def explained():
    pairs = [line.split("\t") for line in (HERE / "refused.txt").read_text().split("\n")
             if line and not line.startswith("#")]
    return [(re.compile(pattern), why) for pattern, why in pairs]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--run", help="softgpu-run")
    parser.add_argument("--wild", help="run them with wild addresses in this program instead")
    parser.add_argument("--every", type=int, default=1, help="one form in so many")
    parser.add_argument("--all", action="store_true",
                        help="count what ptxas accepts of all forms (minutes)")
    args = parser.parse_args()
    if args.wild:
        return wild(args.wild, args.every)
    ptxas = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")
    if not ptxas:
        print("SKIP: no ptxas (of a CUDA toolkit)")
        return 0
    check = Checker(args.run, ptxas)
    chosen = list(enumerate(forms()))
    refused = [form for batch in batches(chosen) for form in check.refused(batch)]
    words = {number: why for number, _, why in refused}
    left = chosen if args.all else [form[:2] for form in refused]
    accepted = []
    for architecture in ARCHITECTURES:
        taken = [form for batch in batches(left) for form in check.accepted(batch, architecture)]
        accepted += taken
        left = sorted(set(left) - set(taken))
    missing = sorted(form for form in accepted if form[0] in words)
    reasons = explained()
    bad = [form for form in missing if not any(p.match(form[1]) for p, _ in reasons)]
    for number, form in bad:
        print(f"{form}\n    {words[number]}")
    if args.all:
        print(f"{len(accepted)} forms are accepted by {Path(ptxas).name}, "
              f"{len(accepted) - len(missing)} of them run")
    print(f"{len(chosen)} forms, {len(missing)} accepted ones are refused by name, "
          f"{len(bad)} without a reason")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
