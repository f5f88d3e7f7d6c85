# SPDX-License-Identifier: Apache-2.0
"""Which calls of a program failed, and how: what `gpupool doctor -- PROGRAM` counts.

The client libraries of the program's processes count in a file that they share
(GPUPOOL_REPORT); its layout is proto/wire_report.h's.
"""

import re
import struct
from pathlib import Path

API = Path(__file__).resolve().parents[2] / "proto/api"
MAGIC, SLOTS = 0x31727067, 4096
NOT_SUPPORTED = 801


class FailedCalls:
    def __init__(self, path):
        self.path = Path(path)
        self.path.write_bytes(struct.pack("<IIII", MAGIC, 0, 0, 0) + bytes(8 * SLOTS))

    def counts(self):
        """{(call, result): how often}, with the calls' names."""
        data = self.path.read_bytes()
        names = {int(number, 16): name for file in API.glob("*.api") for number, name in
                 re.findall(r"(?m)^call (0x[0-9a-f]+) (\w+)", file.read_text("utf-8"))}
        counts = {}
        for what, count in struct.iter_unpack("<II", data[16:]):
            if what:
                call = names.get(what >> 16, f"call 0x{what >> 16:04x}")
                counts[call, what & 0xffff] = count
        return counts

    def text(self):
        """One line for each call and result."""
        return "".join(f"{call} gave {result}, {count} times\n"
                       for (call, result), count in sorted(self.counts().items()))

    def not_carried(self):
        """The names of those that the client library or the driver behind it refused."""
        return sorted({call for call, result in self.counts() if result == NOT_SUPPORTED})
