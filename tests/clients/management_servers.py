# SPDX-License-Identifier: Apache-2.0
"""pynvml, gpustat, nvitop and its exporter: a session with cards of several servers."""

import ctypes
import importlib.metadata
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from pathlib import Path

import pynvml as nv

from client import check, main

LIMIT = int(os.environ["CLIENT_MEMORY_BYTES"])
CARDS = int(os.environ["CLIENT_CARDS"])
PATIENCE_S = 60


def driver():
    """libcuda.so.1, ready."""
    cuda = ctypes.CDLL("libcuda.so.1")
    assert cuda.cuInit(0) == 0
    return cuda


def drivers_uuids():
    cuda, found = driver(), []
    for ordinal in range(CARDS):
        raw = (ctypes.c_ubyte * 16)()
        assert cuda.cuDeviceGetUuid_v2(raw, ordinal) == 0
        found.append(f"GPU-{uuid.UUID(bytes=bytes(raw))}")
    return found


def tool(name):
    return Path(sys.executable).with_name(name)


def output(*command):
    return subprocess.run([str(word) for word in command], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


@check
def cards_have_the_drivers_order_and_uuids():
    assert nv.nvmlDeviceGetCount() == CARDS
    uuids = [nv.nvmlDeviceGetUUID(card) for card in cards]
    assert uuids == drivers_uuids(), uuids
    assert len(set(uuids)) == CARDS, uuids
    for index, name in enumerate(uuids):
        assert nv.nvmlDeviceGetIndex(nv.nvmlDeviceGetHandleByUUID(name)) == index


@check
def each_card_shows_its_slice():
    for card in cards:
        info = nv.nvmlDeviceGetMemoryInfo(card)
        assert info.total == LIMIT, info.total


@check
def use_of_one_server_is_not_the_others():
    cuda, before = driver(), [nv.nvmlDeviceGetMemoryInfo(card).used for card in cards]
    context, address = ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), CARDS - 1) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(5 << 20)) == 0
    used = [nv.nvmlDeviceGetMemoryInfo(card).used for card in cards]
    assert used[:-1] == before[:-1], (before, used)
    assert used[-1] >= before[-1] + (5 << 20), (before, used)
    processes = [nv.nvmlDeviceGetComputeRunningProcesses(card) for card in cards]
    assert [len(of_card) for of_card in processes] == [0] * (CARDS - 1) + [1], processes
    assert processes[-1][0].pid == os.getpid(), processes
    assert cuda.cuMemFree_v2(address) == 0


@check
def bus_addresses_lead_back_to_their_cards():
    for index, card in enumerate(cards):
        bus = nv.nvmlDeviceGetPciInfo(card).busId
        assert nv.nvmlDeviceGetIndex(nv.nvmlDeviceGetHandleByPciBusId(bus)) == index


@check
def gpustat_shows_all_cards():
    shown = json.loads(output(tool("gpustat"), "--json"))["gpus"]
    assert [card["memory.total"] for card in shown] == [LIMIT >> 20] * CARDS, shown
    assert [card["uuid"] for card in shown] == drivers_uuids(), shown


@check
def nvitop_shows_all_cards():
    shown = output(tool("nvitop"), "-1", "--no-unicode")
    assert shown.count(f"/ {LIMIT >> 20}MiB") == CARDS, shown


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


TOTAL = re.compile(r'^gpu_memory_total_MiB{.*uuid="([^"]+)"} (\S+)$', re.M)


def scrape(address, exporter):
    """What the exporter says of each card's memory, once it does of all."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and exporter.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                text = answer.read().decode()
        except OSError:
            text = ""
        if len(TOTAL.findall(text)) == CARDS:
            return dict(TOTAL.findall(text))
        time.sleep(0.2)
    raise AssertionError("no figures of all cards")


@check
def prometheus_exporter_tells_of_all_cards():
    port = free_port()
    with subprocess.Popen([str(tool("nvitop-exporter")), "--port", str(port),
                           "--bind-address", "127.0.0.1"]) as exporter:
        try:
            totals = scrape(f"http://127.0.0.1:{port}/metrics", exporter)
        finally:
            exporter.terminate()
    assert sorted(totals) == sorted(drivers_uuids()), totals
    assert {float(size) for size in totals.values()} == {LIMIT / (1 << 20)}, totals


nv.nvmlInit()
cards = [nv.nvmlDeviceGetHandleByIndex(index) for index in range(nv.nvmlDeviceGetCount())]
main("nvidia-ml-py " + importlib.metadata.version("nvidia-ml-py"))
