# SPDX-License-Identifier: Apache-2.0
"""A client that wants more of a card's memory than its slice, by the variables of its modules:
declarations that hide, images cut into parts, ids that are used again."""

import struct

from harness.raw import Client, handle
from test_attacks_memory import calls

MIB = 1 << 20
SUCCESS = 0
MODULE, LIBRARY, STREAM = 2, 3, 5
SLICE = 64 * MIB
HEAD = ".version 8.0\n.target sm_75\n.address_size 64\n"
BIG = f".b8 big[{65 * MIB}];"


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


def test_no_declaration_hides_from_the_limit(case):
    """What a driver takes for a variable is one, however it is written."""
    pool = case.pool()
    a = Attack(case, pool.session(core=20, memory="64MiB"))
    for number, text in enumerate((
            f".extern .global {BIG}", f".extern .global .visible {BIG}", f".b8 .global big[{65 * MIB}];",
            f".global .b8%big[{65 * MIB}];", f".b8 .global%big[{65 * MIB}];",
            f".global .align 8==8 {BIG}", f"@@ \"\n.global {BIG}\n@@ \"\n", f"@@ /*\n.global {BIG}\n@@ */\n",
            "".join(f".align 65536 .global .b8 a{i};\n" for i in range(1100)),
            f".shared .attribute({{) .b8 s[4];\n.global {BIG}",
            f".visible .entry k() {{ .loc 1 2 3, function_name f.global {BIG} ret; }}")):
        result = a.load(handle(MODULE, number + 1), HEAD + text)
        case.check(result != SUCCESS, f"{text[:60]!r} was loaded into a slice of 64 MiB")
    case.equal(a.free(), SLICE, "free after all refusals")


def test_parts_of_an_image_are_what_a_driver_reads(case):
    """A text goes on to its NUL, whatever a client says of its length."""
    pool = case.pool()
    a = Attack(case, pool.session(core=20, memory="64MiB"))
    small = HEAD + ".visible .entry k() { ret; }\n"
    unit = HEAD + ".visible .entry l() { ret; }\n"
    rest = f".version 8.0 .target sm_75 .address_size 64 /*\n.global {BIG}\n//*/"
    case.check(a.load(handle(MODULE, 1), small + "\0", HEAD + "//", rest) != SUCCESS,
               "variables between two parts")
    case.equal(a.load(handle(MODULE, 2), small + "\0", unit), SUCCESS, "texts that end")


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
