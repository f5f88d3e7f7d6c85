# SPDX-License-Identifier: Apache-2.0
"""What `python -m torch.utils.collect_env` says of a session, which bug reports carry."""

import re

import torch
from torch.utils import collect_env

from client import check, main


@check
def cards_and_driver_are_told():
    text = collect_env.get_pretty_env_info()
    print(text)
    assert "Is CUDA available: True" in text
    card = re.search(r"^GPU models and configuration: (GPU 0: .+)$", text, re.M)
    assert card and torch.cuda.get_device_name(0) in card.group(1), card
    # A program whose report names no version is asked which driver it has.
    assert re.search(r"^Nvidia driver version: \d+\.\d+", text, re.M), text


main(f"PyTorch {torch.__version__}")
