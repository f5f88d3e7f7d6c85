# SPDX-License-Identifier: Apache-2.0
"""Device code as compilers lay it out, made by hand."""

import struct


def cubin(sm=75):
    """An ELF header as a cubin has it, with one empty section table: machine code
    for a real card, as far as anybody can see, and none of it there."""
    ident = b"\x7fELF" + bytes([2, 1, 1, 0x41, 8]) + bytes(7)
    header = struct.pack("<16sHHIQQQIHHHHHH", ident, 2, 190, 1, 0, 0, 64, sm << 8, 64, 0, 0,
                         64, 1, 0)
    return header + bytes(64)


def fatbin(*entries):
    """A fat binary of (kind, sm, payload): 1 is PTX, 2 machine code."""
    body = b""
    for kind, sm, payload in entries:
        padded = payload + bytes(-len(payload) % 8)
        body += struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 64, len(padded), 0, 0, 5, 8, sm,
                            0, 0, 0x11, 0, 0) + padded
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body
