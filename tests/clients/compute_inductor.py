# SPDX-License-Identifier: Apache-2.0
"""torch.compile on a software card: the kernels that it writes compute, compared with
PyTorch on the processor.

PyTorch's own kernels, and the libraries that it multiplies matrices with, are machine
code: what is compiled here becomes kernels of Triton as a whole.
"""

import os

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch  # noqa: E402

from client import check, main  # noqa: E402


def numbers(*shape, seed=3):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def same(function, *args, tolerance=1e-4):
    compiled = torch.compile(function, fullgraph=True, dynamic=False)
    found = compiled(*(arg.to("cuda") for arg in args))
    expected = function(*args)
    if not isinstance(expected, tuple):
        found, expected = (found,), (expected,)
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=tolerance, atol=tolerance)


@check
def element_by_element():
    same(lambda x, y: torch.sin(x) * y + torch.relu(x) / (y * y + 1), numbers(1000),
         numbers(1000, seed=4))
    same(lambda x: (x.half() * 2 + 1, (x * 100).int() // 7, x > 0), numbers(1000), tolerance=1e-2)


@check
def softmax_and_norms():
    same(lambda x: torch.softmax(x, -1), numbers(50, 300))
    same(lambda x: torch.nn.functional.layer_norm(x, (128,)), numbers(32, 128))
    same(lambda x: torch.nn.functional.gelu(x).mean(-1), numbers(64, 256))


@check
def reductions_and_scans():
    same(lambda x: (x.sum(0), x.amax(1), x.var(1), x.argmax(1)), numbers(60, 200))
    same(lambda x: torch.cumsum(x, 1), numbers(20, 500), tolerance=1e-3)


@check
def elements_elsewhere():
    where = torch.randint(0, 100, (50,), generator=torch.Generator().manual_seed(1))
    same(lambda x, i: x[i] + 1, numbers(100, 8), where)
    same(lambda x: torch.cat([x, x * 2], 1).transpose(0, 1).contiguous(), numbers(20, 30))
    same(lambda x: torch.nn.functional.pad(x, (1, 2, 3, 4)).flip(0), numbers(20, 30))


main(f"torch {torch.__version__}")
