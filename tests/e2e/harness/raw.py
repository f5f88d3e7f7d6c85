# SPDX-License-Identifier: Apache-2.0
"""A client by hand: what a program could send that has a ticket and no stub."""

import socket
import struct
import subprocess

PING = 0xe003
RETAIN = 0x031d
MALLOC = 0x080b
STREAM_CREATE = 0x0c01
COPY_UP = 0x0a23
REPLY = 2
BULK = 1


def handle(kind, index, generation=0):
    """An id as a client mints it."""
    return 1 << 46 | kind << 40 | generation << 32 | index << 4


def where(session):
    host, _, port = session.field("server").rpartition(":")
    return host, int(port)


def field(number, value):
    """One field of a protobuf message: a number or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def attach_request(ticket, major=1, minor=0, bound=True):
    body = b"".join([field(1, major), field(2, minor), field(3, ticket.encode()), field(5, 1234),
                     field(6, b"test"), field(7, b"raw\n\x1b[31mclient"),
                     field(21, 1) if bound else b""])
    return struct.pack("<I", len(body)) + body


def challenge(reply):
    """(nonce, server's key) of an ATTACH_PROVE; None: it is another answer."""
    if not reply.startswith(b"\x08\x09"):
        return None
    found = []
    for tag in (field(24, b"")[:2], field(25, b"")[:2]):
        at = reply.index(tag + b"\x20") + 3
        found.append(reply[at:at + 32])
    return tuple(found)


def prove(case, ticket, secret, asked, rounds=3):
    """The AttachProof that answers a challenge, and cookies of all stripes, @rounds rounds of
    them."""
    nonce, key = asked
    done = subprocess.run([case.build / "tests" / "e2e" / "mkproof", secret, key.hex(), nonce.hex(),
                           str(rounds)],
                          input=ticket + "\n", capture_output=True, text=True, check=True,
                          timeout=case.patience)
    proof, *cookies = map(bytes.fromhex, done.stdout.split())
    body = field(1, proof)
    return struct.pack("<I", len(body)) + body, cookies


class Raw:
    """A client by hand: attaches, sends frames, reads answers."""

    def __init__(self, case, session, ticket=None, source=None):
        self.case = case
        self.seq = 0
        self.sock = socket.create_connection(where(session), timeout=case.patience,
                                             source_address=source and (source, 0))
        ticket = ticket or session.field("ticket")
        self.sent = attach_request(ticket)
        self.sock.sendall(self.sent)
        reply = self.take(struct.unpack("<I", self.take(4))[0])
        asked = challenge(reply)
        if asked:
            proof, self.cookies = prove(case, ticket, session.field("secret"), asked)
            self.sent += proof
            self.sock.sendall(proof)
            reply = self.take(struct.unpack("<I", self.take(4))[0])
        case.check(not reply.startswith(b"\x08"), f"the attachment was refused: {reply!r}")

    def take(self, size):
        data = b""
        while len(data) < size:
            part = self.sock.recv(size - len(data))
            if not part:
                self.case.fail(f"the server closed after {len(data)} of {size} bytes")
            data += part
        return data

    def frame(self, call, body=b"", flags=REPLY, seq=None, size=None, ctx=0):
        self.seq = self.seq + 1 if seq is None else seq
        head = struct.pack("<IHHII", 16 + len(body) if size is None else size, call, flags,
                           self.seq, ctx)
        return head + body

    def ping(self, value=7):
        self.sock.sendall(self.frame(PING, struct.pack("<Q", value)))
        size, call, _, seq, result = struct.unpack("<IHHIi", self.take(16))
        echo = struct.unpack("<Q", self.take(size - 16))[0]
        self.case.equal((call, seq, result, echo), (PING, self.seq, 0, value), "ping")

    def ends(self, words):
        """The server lets go of this connection."""
        try:
            while self.sock.recv(65536):
                pass
        except ConnectionError:
            pass
        except TimeoutError:
            self.case.fail(f"the attachment goes on after {words}")
        self.sock.close()


class Client(Raw):
    """A client by hand that makes calls and understands answers."""

    def __init__(self, case, session):
        super().__init__(case, session)
        self.ctx = 0

    def ask(self, call, body=b""):
        """The result of a call and what its answer holds, a payload included."""
        self.sock.sendall(self.frame(call, body, ctx=self.ctx))
        while True:
            size, told, flags, seq, result = struct.unpack("<IHHIi", self.take(16))
            reply = self.take(size - 16)
            if (told, seq) != (call, self.seq):
                continue  # an event
            if flags & BULK:
                reply += self.take(struct.unpack("<Q", reply[:8])[0])
            return result, reply

    def must(self, call, body=b""):
        """The answer of a call that has to succeed."""
        result, reply = self.ask(call, body)
        self.case.equal(result, 0, f"call {call:#06x}")
        return reply
