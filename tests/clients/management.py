# SPDX-License-Identifier: Apache-2.0
"""pynvml: what a monitoring program asks of a slice."""

import importlib.metadata
import os

import pynvml as nv

from client import check, main

LIMIT = int(os.environ["CLIENT_MEMORY_BYTES"])


@check
def one_card_with_name_and_uuid():
    assert nv.nvmlDeviceGetCount() == 1
    assert nv.nvmlDeviceGetName(card)
    assert nv.nvmlDeviceGetUUID(card).startswith("GPU-")
    same = nv.nvmlDeviceGetHandleByUUID(nv.nvmlDeviceGetUUID(card))
    assert nv.nvmlDeviceGetIndex(same) == 0


@check
def memory_is_the_slice():
    info = nv.nvmlDeviceGetMemoryInfo(card)
    assert info.total == LIMIT, info.total
    assert info.used + info.free == info.total, (info.used, info.free)
    second = nv.nvmlDeviceGetMemoryInfo(card, version=nv.nvmlMemory_v2)
    assert second.total == LIMIT, second.total


@check
def versions_are_told():
    assert nv.nvmlSystemGetDriverVersion()
    assert nv.nvmlSystemGetNVMLVersion()
    assert nv.nvmlSystemGetCudaDriverVersion() >= 12000
    major, minor = nv.nvmlDeviceGetCudaComputeCapability(card)
    assert major >= 7 and minor >= 0, (major, minor)


@check
def bus_is_told():
    pci = nv.nvmlDeviceGetPciInfo(card)
    assert pci.busId
    assert nv.nvmlDeviceGetHandleByPciBusId(pci.busId)


@check
def figures_of_the_whole_card_are_not_told():
    for ask in (nv.nvmlDeviceGetUtilizationRates, nv.nvmlDeviceGetPowerUsage):
        try:
            ask(card)
        except nv.NVMLError_NotSupported:
            continue
        raise AssertionError(f"{ask.__name__} answers, though the card is shared")


@check
def unknown_card_is_an_error():
    for index in (1, 99):
        try:
            nv.nvmlDeviceGetHandleByIndex(index)
        except nv.NVMLError_InvalidArgument:
            continue
        raise AssertionError(f"card {index} exists")


nv.nvmlInit()
card = nv.nvmlDeviceGetHandleByIndex(0)
main("nvidia-ml-py " + importlib.metadata.version("nvidia-ml-py"))
