# SPDX-License-Identifier: Apache-2.0
"""The drivers that `make test-gpu` knows: a card's own, and two to try the script with."""

import ctypes
import tempfile
from pathlib import Path

REAL_SLICE, SOFT_SLICE, NULL_SLICE = 8 << 30, 1 << 30, 2 << 30  # bytes of memory
PLACES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/aarch64-linux-gnu",
          "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib")


class RealDriver:
    """A libcuda.so.1, and the folder in which programs find it."""

    real = True
    alone = True  # programs can load it without a server
    machine_code = True
    slice = REAL_SLICE
    # Of the pool's server: where the kernel has HMM, cards reach the worker's memory.
    options = ("--pageable-access", "allow")

    def __init__(self, path):
        self.path = path
        self.name = str(path)
        self.environment = {}
        if path.name != "libcuda.so.1":
            self.folder = tempfile.TemporaryDirectory(prefix="gpupool-driver.")
            (Path(self.folder.name) / "libcuda.so.1").symlink_to(path)
            self.environment = {"LD_LIBRARY_PATH": self.folder.name}

    def cards(self):
        """How many cards it shows, and its version; (0, words) when it shows none."""
        try:
            library = ctypes.CDLL(str(self.path))
        except OSError as error:
            return 0, str(error)
        status = library.cuInit(0)
        count, number = ctypes.c_int(), ctypes.c_int()
        library.cuDriverGetVersion(ctypes.byref(number))
        if status != 0 or library.cuDeviceGetCount(ctypes.byref(count)) != 0:
            return 0, f"cuInit of {self.path} says {status}"
        return count.value, f"{number.value // 1000}.{number.value % 1000 // 10}"


class SoftDriver(RealDriver):
    """A software card: it runs PTX, so our own programs are compared and no others."""

    real = False
    machine_code = False
    slice = SOFT_SLICE
    options = ()

    def __init__(self, build):
        super().__init__(build / "lib" / "libsoftgpu.so")
        self.name = "softgpu"


class NullDriver:
    """Every call succeeds and nothing is computed (drivers/, libnulldrv.so): the script's
    rehearsal.  A program that loads it has no results, so there is nothing to compare
    with."""

    real = False
    alone = False
    machine_code = True
    slice = NULL_SLICE
    options = ()
    name = "null"

    def cards(self):
        return 1, "rehearsed on the null driver"


def find_driver(words, build):
    """The driver named by the user, or the one of this machine; None without one."""
    if words in ("softgpu", "null"):
        return SoftDriver(build) if words == "softgpu" else NullDriver()
    if words:
        return RealDriver(Path(words).resolve())
    for place in PLACES:
        path = Path(place) / "libcuda.so.1"
        if path.exists():
            return RealDriver(path)
    return None
