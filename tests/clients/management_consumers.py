# SPDX-License-Identifier: Apache-2.0
"""Programs that look for cards on their way to something else: GPUtil and Ray.

GPUtil parses what nvidia-smi prints, which in a session is ours; Ray asks NVML through the
binding that it carries with it, when a node registers and for its dashboard.
"""

import importlib.metadata
import os

import GPUtil
import ray._private.thirdparty.pynvml as nv
from ray._private.accelerators.nvidia_gpu import NvidiaGPUAcceleratorManager as Manager
from ray.dashboard.modules.reporter.gpu_providers import NvidiaGpuProvider

from client import check, main

LIMIT_MIB = int(os.environ["CLIENT_MEMORY_BYTES"]) >> 20


@check
def gputil_parses_our_nvidia_smi():
    cards = GPUtil.getGPUs()
    assert len(cards) == 1, cards
    card = cards[0]
    assert card.id == 0 and card.uuid.startswith("GPU-") and card.name, vars(card)
    assert card.memoryTotal == LIMIT_MIB, card.memoryTotal
    assert abs(card.memoryUsed + card.memoryFree - LIMIT_MIB) <= 1, vars(card)
    assert card.load == 0, card.load
    assert GPUtil.getAvailable() == [0]


@check
def ray_counts_the_cards_of_a_node():
    assert Manager.get_current_node_num_accelerators() == 1
    # The type is the second word of an NVIDIA card's name; a software card's is SoftGPU.
    assert Manager.get_current_node_accelerator_type(), "no type"


@check
def rays_reporter_shows_the_slice():
    provider = NvidiaGpuProvider()
    assert provider.is_available()
    cards = provider.get_gpu_utilization()
    assert len(cards) == 1, cards
    assert cards[0]["memory_total"] == LIMIT_MIB, cards
    assert cards[0]["uuid"].startswith("GPU-"), cards
    assert not cards[0]["processes_pids"], cards


@check
def binding_inside_ray_finds_every_function():
    nv.nvmlInit()
    card = nv.nvmlDeviceGetHandleByIndex(0)
    assert nv.nvmlDeviceGetMemoryInfo(card).total >> 20 == LIMIT_MIB
    for ask in (nv.nvmlDeviceGetMigMode, nv.nvmlDeviceGetPowerUsage):
        try:
            ask(card)
        except nv.NVMLError_NotSupported:
            pass
    nv.nvmlShutdown()


main(f"GPUtil {importlib.metadata.version('gputil')}, Ray {importlib.metadata.version('ray')}")
