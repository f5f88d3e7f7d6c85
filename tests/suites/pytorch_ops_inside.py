# SPDX-License-Identifier: Apache-2.0
"""Runs in the root that pytorch_ops.py makes:  pytorch_ops_inside.py [PART-OF-A-NAME]

Each operation gets the examples of PyTorch's own tests on the processor and on the card.  A
line of JSON says what came of each operation and type.  Workers are processes: after a kernel
that fails nothing else runs in one.
"""

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading

import torch
from torch.testing._internal.common_methods_invocations import op_db

TYPES = [torch.float32, torch.int32, torch.float16, torch.complex64, torch.float64, torch.bool,
         torch.uint8, torch.bfloat16, torch.int64, torch.complex128]
EXAMPLES = 12  # of each type
LIMIT_S = 60  # for each operation and type; examples that are left are left out
TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.float32: 1e-4,
             torch.complex64: 1e-4, torch.float64: 1e-7, torch.complex128: 1e-7}

# Libraries whose kernels are machine code, and what this build lacks.
LIBRARIES = re.compile("cublas|cudnn|cusolver|cufft|cusparse|curand|magma|no kernel image|nvrtc|"
                       "torch_cuda_linalg|not implemented for|Could not run|LAPACK", re.I)
# Operations that are calls of those libraries.
CALLS_THEM = re.compile(r"fft\.|linalg|stft|istft|v?dot$|ormqr|svd|qr$|pinverse|cholesky|lu($|_)|"
                        "logdet|triangular_solve|geqrf|pca_lowrank")
# Random numbers of the processor's generator and of the card's are others.
RANDOM = re.compile(r"cauchy|exponential|geometric|log_normal|normal(\.|$)|uniform|rand|bernoulli|"
                    "multinomial|rrelu|fractional_max_pool|dropout|empty")
# Which of equal elements is meant is not said: the values are compared and not the places.
FIRST_ONLY = re.compile("sort|topk|kthvalue|median|msort|cummax|cummin|max$|min$")
NOT_THE_SAME = {
    "as_strided.partial_views": "its examples are parts of larger memory, which is not copied along",
    "tensor_split": "it wants its indices on the processor",
    "mode": "which of several values that are as frequent is meant is not said",
    "fmod": "the processor's is NaN for a divisor of 2^-126, where the card's is right",
    "remainder": "the processor's is NaN for a divisor of 2^-126, where the card's is right",
}


def name_of(op):
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def moved(value, device):
    if isinstance(value, torch.Tensor):
        return value.detach().to(device)
    if type(value) in (list, tuple):
        return type(value)(moved(item, device) for item in value)
    if isinstance(value, dict):
        return {key: moved(item, device) for key, item in value.items()}
    return device if isinstance(value, torch.device) or value in ("cpu", "cuda") else value


def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)


def compare(name, expected, got):
    pairs = list(zip(tensors(expected), tensors(got), strict=True))
    for a, b in pairs[:1] if FIRST_ONLY.search(name) else pairs:
        a, b = a.detach().cpu(), b.detach().cpu()
        near = TOLERANCE.get(a.dtype, 1 if name.startswith("linspace") else 0)
        torch.testing.assert_close(b.to(a.dtype), a, rtol=near, atol=near, equal_nan=True,
                                   check_stride=False)


class TooLong(Exception):
    pass


def too_long(*_):
    raise TooLong


def examples(op, dtype):
    torch.manual_seed(7)
    for number, sample in enumerate(op.sample_inputs("cpu", dtype)):
        if number == EXAMPLES:
            break
        if not sample.kwargs.get("dropout_p"):
            yield sample


def try_type(op, name, dtype):
    """(outcome, why, may go on) of an operation with one type."""
    right = libraries = 0
    try:
        for sample in examples(op, dtype):
            words = sample.input, sample.args, sample.kwargs
            try:
                one = moved(words, "cpu")
                expected = op.op(one[0], *one[1], **one[2])
            except RuntimeError:
                continue  # not on the processor either
            try:
                one = moved(words, "cuda")
                got = op.op(one[0], *one[1], **one[2])
                torch.cuda.synchronize()
            except (RuntimeError, NotImplementedError) as error:
                if not LIBRARIES.search(str(error)):
                    return "FAIL", str(error).split("\n")[0][:200], False
                libraries += 1
                continue
            try:
                compare(name, expected, got)
            except (AssertionError, ValueError) as error:
                return "FAIL", f"{str(error)[:200]} {sample.summary()}".replace("\n", " "), True
            right += 1
    except TooLong:
        pass
    if right:
        return "PASS", "", True
    why = "it needs a kernel of a library" if libraries else "no example, or none in time"
    return "NA", why, True


def worker(say):
    torch._C._set_cudnn_enabled(False)
    signal.signal(signal.SIGALRM, too_long)
    for line in sys.stdin:
        op = op_db[int(line)]
        name = name_of(op)
        for dtype in TYPES:
            if dtype not in op.dtypes or dtype not in op.dtypesIfCUDA:
                continue
            signal.alarm(LIMIT_S)
            outcome, why, on = try_type(op, name, dtype)
            signal.alarm(0)
            say({"name": f"{name} {str(dtype).removeprefix('torch.')}", "outcome": outcome,
                 "why": why})
            if not on:
                os._exit(0)
        say({})


def left_out(name):
    if name in NOT_THE_SAME:
        return NOT_THE_SAME[name]
    if CALLS_THEM.search(name):
        return "it is a call of a library whose kernels are machine code"
    return "its result is random" if RANDOM.search(name) else None


def serve(numbers, lock):
    child = None
    while True:
        try:
            number = numbers.get_nowait()
        except queue.Empty:
            break
        child = child or subprocess.Popen([sys.executable, "-W", "ignore", __file__, "--worker"],
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        child.stdin.write(f"{number}\n")
        child.stdin.flush()
        line, failed = child.stdout.readline(), False
        while line and line != "{}\n":
            with lock:
                print(line, end="", flush=True)
            failed, line = '"FAIL"' in line, child.stdout.readline()
        if not line:
            if not failed:
                print(json.dumps({"name": name_of(op_db[number]), "outcome": "FAIL",
                                  "why": "the process ended"}), flush=True)
            child.wait()
            child = None
    if child:
        child.stdin.close()
        child.wait()


def main():
    if sys.argv[1:] == ["--worker"]:
        out = os.dup(1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        worker(lambda said: os.write(out, (json.dumps(said) + "\n").encode()))
        os._exit(0)
    numbers, lock = queue.Queue(), threading.Lock()
    for number, op in enumerate(op_db):
        name = name_of(op)
        if (sys.argv[1] if len(sys.argv) > 1 else "") not in name:
            continue
        if why := left_out(name):
            print(json.dumps({"name": name, "outcome": "NA", "why": why}), flush=True)
        else:
            numbers.put(number)
    threads = [threading.Thread(target=serve, args=(numbers, lock))
               for _ in range(os.cpu_count())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


main()
