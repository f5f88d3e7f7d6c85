# SPDX-License-Identifier: Apache-2.0
"""A client that wants more of a card's memory than its slice, by the variables of its modules:
ids that are used again."""

import struct

from harness.raw import Client, handle
from test_attacks_memory import calls

MIB = 1 << 20
SUCCESS = 0
MODULE, LIBRARY, STREAM = 2, 3, 5
HEAD = ".version 8.0\n.target sm_75\n.address_size 64\n"


class Attack(Client):
    """A client with a context, who knows how much of its slice is free."""

    def __init__(self, case, session):
        super().__init__(case, session)
        self.must(calls("cuDevicePrimaryCtxRetain"), struct.pack("<II", 0, 0))
        self.ctx = 1

    def load(self, ident, *texts, library=False):
        """The result of loading @texts, the parts of one image."""
        parts = [text if isinstance(text, bytes) else text.encode() for text in texts]
        image = b"".join(parts)
        lengths = b"".join(struct.pack("<Q", len(part)) for part in parts) if len(parts) > 1 else b""
        counts = (0, 0, len(lengths) // 8, 0) if library else (0, len(lengths) // 8, 0, 0)
        body = struct.pack("<QIIIIQ", ident, *counts, len(image)) + lengths
        call = "cuLibraryLoadData" if library else "cuModuleLoadDataEx"
        return self.ask(calls(call), body + image + bytes(-len(image) % 8))[0]

    def post(self, call, body):
        """A call that is not answered."""
        self.sock.sendall(self.frame(calls(call), body, flags=0, ctx=self.ctx))

    def free(self):
        return struct.unpack("<QQ", self.must(calls("cuMemGetInfo_v2"))[:16])[0]

    def stop(self):
        """A stream that waits; what lets it go on."""
        place, = struct.unpack("<Q", self.must(calls("cuMemAlloc_v2"), struct.pack("<Q", 4)))
        streams = [handle(STREAM, 100), handle(STREAM, 101)]
        for stream in streams:
            self.must(calls("cuStreamCreate"), struct.pack("<QII", stream, 1, 0))
        self.must(calls("cuMemsetD32_v2"), struct.pack("<QQII", place, 1, 0, 0))
        self.post("cuStreamWaitValue32_v2", struct.pack("<QQII", streams[0], place, 7, 0))
        return lambda: self.post("cuStreamWriteValue32_v2", struct.pack("<QQII", streams[1], place, 7, 0))


def test_ids_that_are_used_again_give_back_what_was_theirs(case):
    """The end of an object that had no variables waits for the card; what is loaded under its id meanwhile
    has some, which count until its own end."""
    pool = case.pool()
    none = HEAD + ".visible .entry k() { ret; }\n"
    some = HEAD + f".visible .global .b8 some[{20 * MIB}];\n"
    for kind, library, unload in ((MODULE, False, "cuModuleUnload"), (LIBRARY, True, "cuLibraryUnload")):
        a = Attack(case, pool.session(core=20, memory="64MiB"))
        ident = handle(kind, 7)
        before = a.free()
        go_on = a.stop()
        case.equal(a.load(ident, none, library=library), SUCCESS, "without variables")
        a.post(unload, struct.pack("<Q", ident))
        result = a.load(ident, some, library=library)
        go_on()
        a.must(calls("cuCtxSynchronize"))
        held = 20 * MIB if result == SUCCESS else 0
        case.check(a.free() <= before - held, f"{unload}: {before - a.free()} bytes are counted of {held}")
        a.sock.close()
