# SPDX-License-Identifier: Apache-2.0
"""PyTorch: what goes wrong must go wrong in the same words."""

import subprocess
import sys

from observe import error_of, main, observe
from torch_setup import CARD, torch, version


def alone(program):
    """The last line that @program, in a process of its own, dies with: what it does
    costs the process its context."""
    done = subprocess.run([sys.executable, "-c", "import torch\n" + program], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    lines = [line for line in done.stderr.split("\n") if "Error" in line]
    return [done.returncode, lines[-1] if lines else "no error"]


@observe
def index_out_of_range():
    return alone("x = torch.arange(10, device='cuda')\n"
                 "x[torch.tensor([99], device='cuda')]\ntorch.cuda.synchronize()")


@observe
def context_stays_broken():
    return alone("x = torch.arange(10, device='cuda')\n"
                 "y = x[torch.tensor([99], device='cuda')]\n"
                 "try:\n    torch.cuda.synchronize()\nexcept RuntimeError:\n    pass\n"
                 "print(torch.ones(3, device='cuda').sum().item())")


@observe
def more_memory_than_any_card_has():
    return error_of(lambda: torch.empty(1 << 50, dtype=torch.uint8, device=CARD)).split(".")[0]


@observe
def card_that_is_not_there():
    return error_of(lambda: torch.empty(1, device="cuda:99"))


@observe
def synchronisation_while_capturing():
    return alone("g = torch.cuda.CUDAGraph()\nx = torch.ones(4, device='cuda')\n"
                 "with torch.cuda.graph(g):\n    x.sum().item()")


@observe
def healthy_afterwards():
    return torch.ones(1000, device=CARD).sum()


main(version())
