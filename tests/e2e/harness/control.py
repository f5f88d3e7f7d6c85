# SPDX-License-Identifier: Apache-2.0
"""A peer of the scheduler by hand: protobuf as an attacker, or a test that counts every
message, would write it.  The numbers are those of control.proto."""

import os
import socket
import struct


def varint(value):
    out = bytearray()
    while value > 0x7f:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def number(field, value):
    return varint(field << 3) + varint(value)


def text(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def message(body, content=b"", request=1):
    data = number(1, request) + text(body, content)
    return struct.pack("<I", len(data)) + data


REGISTER, OPEN, RENEW, CLOSE, STATUS, DRAIN, WAIT_SERVERS = 2, 5, 6, 7, 8, 9, 10
WATCH_POOL, CORDON, RENEW_MANY, FORGET = 41, 80, 90, 91


def fields(data):
    """[(number, value)] of one protobuf message; bytes stay bytes."""
    found, at = [], 0

    def one():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if not byte & 0x80:
                return value

    while at < len(data):
        tag = one()
        if tag & 7 == 0:
            found.append((tag >> 3, one()))
        elif tag & 7 == 1:
            found.append((tag >> 3, int.from_bytes(data[at:at + 8], "little")))
            at += 8
        elif tag & 7 == 5:
            found.append((tag >> 3, int.from_bytes(data[at:at + 4], "little")))
            at += 4
        else:
            size = one()
            found.append((tag >> 3, data[at:at + size]))
            at += size
    return found


class Link:
    """A connection to the scheduler that speaks by hand."""

    def __init__(self, case, where, patience=None):
        family = socket.AF_UNIX if isinstance(where, (str, os.PathLike)) else socket.AF_INET
        self.socket = socket.socket(family)
        self.socket.settimeout(patience or case.patience)
        self.socket.connect(str(where) if family == socket.AF_UNIX else where)

    def ask(self, body, content=b""):
        """(code, words) of a refusal, or (0, fields of the reply)."""
        self.socket.sendall(message(body, content))
        return self.hear()

    def hear(self):
        reply = self._reply()
        for field, value in reply:
            if field == 2:
                error = dict(fields(value))
                return error.get(1, 0), error.get(2, b"").decode()
        return 0, reply

    def ask_whole(self, body, content=b""):
        """The code of a refusal and its fields, or 0 and those of the reply."""
        self.socket.sendall(message(body, content))
        reply = dict(self._reply())
        error = dict(fields(reply[2])) if 2 in reply else None
        return (error.get(1, 0), error) if error else (0, reply)

    def _reply(self):
        return fields(self._exactly(struct.unpack("<I", self._exactly(4))[0]))

    def _exactly(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the scheduler has closed the connection")
            data += part
        return data

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
