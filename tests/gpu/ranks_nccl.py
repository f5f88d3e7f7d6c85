# SPDX-License-Identifier: Apache-2.0
"""NCCL on one host: a process for each card, through torch.distributed."""

import os
import socket
import subprocess
import sys

from observe import main, observe
from torch_setup import torch, version

RANKS = torch.cuda.device_count()
LIMIT_S = 240


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def ranks(operation):
    """What each rank prints after @operation, rank after rank."""
    port = str(free_port())
    children = []
    for rank in range(RANKS):
        env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
               "RANK": str(rank), "WORLD_SIZE": str(RANKS)}
        children.append(subprocess.Popen([sys.executable, __file__, "--rank", operation],
                                         env=env, text=True, stdout=subprocess.PIPE))
    answers = []
    for child in children:
        out, _ = child.communicate(timeout=LIMIT_S)
        assert child.returncode == 0, f"rank ended with {child.returncode}"
        answers.append(out.strip())
    return [RANKS, *answers]


def rank(operation):
    """One rank: the operation on numbers that tell the ranks apart."""
    import torch.distributed as group

    here = int(os.environ["RANK"])
    torch.cuda.set_device(here)
    group.init_process_group("nccl")
    x = torch.arange(1000, device="cuda", dtype=torch.float32) + 1000 * here
    if operation == "gather":
        parts = [torch.empty_like(x) for _ in range(RANKS)]
        group.all_gather(parts, x)
        x = torch.cat(parts)
    elif operation == "broadcast":
        group.broadcast(x, src=RANKS - 1)
    elif operation == "scatter":
        y = torch.empty(1000, device="cuda")
        group.reduce_scatter_tensor(y, x.repeat(RANKS))
        x = y
    else:
        group.all_reduce(x)
    print(x.double().sum().item(), x[:3].tolist(), x[-3:].tolist())
    group.destroy_process_group()


@observe
def all_reduce():
    return ranks("reduce")


@observe
def all_gather():
    return ranks("gather")


@observe
def broadcast():
    return ranks("broadcast")


@observe
def reduce_scatter():
    return ranks("scatter")


if sys.argv[1:2] == ["--rank"]:
    rank(sys.argv[2])
else:
    main(version())
