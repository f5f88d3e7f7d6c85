# SPDX-License-Identifier: Apache-2.0
"""pynvml: what a monitoring program asks of a slice."""

import ctypes
import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys

import pynvml as nv

from client import check, main

LIMIT = int(os.environ["CLIENT_MEMORY_BYTES"])


@check
def one_card_with_name_and_uuid():
    assert nv.nvmlDeviceGetCount() == 1
    assert nv.nvmlDeviceGetName(card)
    uuid = nv.nvmlDeviceGetUUID(card)
    assert uuid.startswith("GPU-")
    for name in (uuid, uuid[4:]):  # the latter is what CUDA calls it, and cuda.core asks with
        assert nv.nvmlDeviceGetIndex(nv.nvmlDeviceGetHandleByUUID(name)) == 0


@check
def memory_is_the_slice():
    info = nv.nvmlDeviceGetMemoryInfo(card)
    assert info.total == LIMIT, info.total
    assert info.used + info.free == info.total, (info.used, info.free)
    second = nv.nvmlDeviceGetMemoryInfo(card, version=nv.nvmlMemory_v2)
    assert second.total == LIMIT, second.total


@check
def versions_are_told():
    # Programs take them apart: JAX, cuda.core.
    driver = [int(part) for part in nv.nvmlSystemGetDriverVersion().split(".")]
    assert len(driver) == 3 and driver[0] >= 525
    library = [int(part) for part in nv.nvmlSystemGetNVMLVersion().split(".")]
    assert library[0] == nv.nvmlSystemGetCudaDriverVersion() // 1000 and library[1:] == driver
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
    for ask in (nv.nvmlDeviceGetPowerUsage, nv.nvmlDeviceGetPersistenceMode,
                nv.nvmlDeviceGetTotalEnergyConsumption):
        try:
            ask(card)
        except nv.NVMLError_NotSupported:
            continue
        raise AssertionError(f"{ask.__name__} answers, though the card is shared")


@check
def utilisation_is_the_sessions_own():
    rates = nv.nvmlDeviceGetUtilizationRates(card)
    assert rates.gpu == 0, rates.gpu


@check
def processes_are_the_sessions_own():
    cuda, context, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert nv.nvmlDeviceGetComputeRunningProcesses(card) == []
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(3 << 20)) == 0
    processes = nv.nvmlDeviceGetComputeRunningProcesses(card)
    assert [(p.pid, p.usedGpuMemory) for p in processes] == [(os.getpid(), 3 << 20)], processes
    assert nv.nvmlSystemGetProcessName(os.getpid())
    assert nv.nvmlDeviceGetGraphicsRunningProcesses(card) == []


@check
def every_function_of_the_binding_is_there():
    library = ctypes.CDLL("libnvidia-ml.so.1")
    source = pathlib.Path(nv.__file__).read_text(encoding="utf-8")
    names = set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', source))
    assert len(names) > 300, len(names)
    missing = sorted(name for name in names if not hasattr(library, name))
    assert not missing, missing


@check
def gpustat_shows_the_slice():
    tool = pathlib.Path(sys.executable).with_name("gpustat")
    shown = json.loads(subprocess.run([tool, "--json"], check=True, text=True,
                                      stdout=subprocess.PIPE).stdout)
    assert [c["memory.total"] for c in shown["gpus"]] == [LIMIT >> 20], shown


@check
def nvitop_shows_the_slice():
    tool = pathlib.Path(sys.executable).with_name("nvitop")
    shown = subprocess.run([tool, "-1", "--no-unicode"], check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    assert f"/ {LIMIT >> 20}MiB" in shown, shown


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
