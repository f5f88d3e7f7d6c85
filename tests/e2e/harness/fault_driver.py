# SPDX-License-Identifier: Apache-2.0
"""A pool whose driver fails, delays or holds calls as a file says (tests/faultdrv)."""

import struct

ALWAYS, DELAY, HOLD = 2, 3, 4  # FAULTDRV_ALWAYS and so on


class FaultDriver:
    """@case is skipped where there is none.  env: what its driver and its programs need."""

    def __init__(self, case):
        self.case = case
        self.library = case.need_file(case.build / "tests" / "softgpu-fault" / "libfaultdrv.so",
                                      "the driver that fails calls is for x86-64 only")
        self.control = case.folder / "control"
        self.control.write_bytes(bytes(4096))
        self.env = {"FAULTDRV_CONTROL": str(self.control),
                    "FAULTDRV_REAL": str(case.build / "lib" / "libsoftgpu.so")}

    def say(self, armed, result, stem):
        """Drivers have the file mapped: it is never shorter, and @armed comes last."""
        with open(self.control, "r+b", buffering=0) as file:
            file.seek(4)
            file.write(struct.pack("<i64s", result, stem))
            file.seek(0)
            file.write(struct.pack("<I", armed))

    def silent(self):
        """No call is meant any more."""
        with open(self.control, "r+b", buffering=0) as file:
            file.write(struct.pack("<I", 0))

    def pool(self, *words, **kwargs):
        """Every server has the driver, and @words on its command line."""
        pool = self.case.pool(env=self.env, **kwargs)
        for server in pool.pids("gpupool-server"):
            pool.restart(server, "--driver", str(self.library), *words)
        return pool
