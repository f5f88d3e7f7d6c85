# SPDX-License-Identifier: Apache-2.0
"""PyTorch such that one card gives the same bits twice; import it before torch."""

import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

torch.use_deterministic_algorithms(True, warn_only=True)
torch.backends.cudnn.benchmark = False
torch.backends.cudnn.deterministic = True
torch.set_num_threads(1)

CARD = torch.device("cuda")


def seeded(seed=7):
    """The card's and the host's random numbers from the start."""
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


def version():
    properties = torch.cuda.get_device_properties(0)
    return (f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, "
            f"cuDNN {torch.backends.cudnn.version()}, {properties.name}")
