# SPDX-License-Identifier: Apache-2.0
"""Seeds for fuzz_worker: what programs of tests/programs send to their worker, and the
attacks of tests/e2e/test_attacks_memory.py.

    python3 tests/fuzz/record.py --build build [--into tests/fuzz/seeds-worker]

A proxy stands between a client and its server and writes down the frames behind the
attach request.  Payloads come inside the frames, large ones are left out: a seed is a
few KiB.
"""

import argparse
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

FRAMES_MAX = 7000  # a seed is as long as the fuzzers' inputs may be
FRAME_MAX = 4096
BULK = 1
HERE = Path(__file__).resolve().parent
# Those that make many different calls, and few of each.
PROGRAMS = ("vecadd", "graphs", "nodes", "rarecalls", "linking", "textures", "moves", "shapes",
            "queries", "kept", "order", "callbacks", "shareable", "managed", "unified",
            "greens", "released", "updates", "conditions", "ends")


def take(sock, size):
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


class Proxy:
    """Hands one client's bytes on and keeps what it sent."""

    def __init__(self, server):
        self.server = server
        self.sent = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            host, _, port = self.server.rpartition(":")
            server = socket.create_connection((host, int(port)))
            log = bytearray()
            self.sent.append(log)
            threading.Thread(target=self.copy, args=(client, server, log), daemon=True).start()
            threading.Thread(target=self.copy, args=(server, client, None), daemon=True).start()

    @staticmethod
    def copy(source, sink, log):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
                if log is not None:
                    log += data
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


SIZES = {"uint64": 8, "int64": 8, "uint32": 4, "int32": 4, "uint16": 2, "uint8": 1, "float": 4,
         "double": 8}


def payloads():
    """Where a request that can have a payload says how long it is: {number: offset}."""
    found = {}
    for line in (HERE.parents[1] / "proto" / "wire.lock").read_text("ascii").splitlines():
        if line.startswith("#"):
            continue
        number, _, request, _ = line.split()
        at = 0
        for name, _, kind in (f.partition(":") for f in request.split(",") if f[0] not in "+-"):
            size = 8 * int(kind[:-1]) if kind.endswith("w") else SIZES[kind]
            if name.endswith(("len", "Count", "size")):
                found[int(number, 16)] = at
            at += size
    return found


def frames(data):
    """The frames behind the attach; small payloads come inside of them."""
    lengths = payloads()
    for _ in ("the request", "the proof that the ticket is ours"):
        if len(data) < 4:
            return b""  # another connection of the client
        size, = struct.unpack_from("<I", data)
        data = data[4 + size:]
    out = b""
    while len(data) >= 16:
        size, call, flags = struct.unpack_from("<IHH", data)
        if size < 16 or size > len(data):
            break
        frame, data = data[:size], data[size:]
        if flags & BULK:
            length, = struct.unpack_from("<Q", frame, 16 + lengths[call])
            payload = b""
            while len(payload) < length and len(data) >= 8: # in blocks (xport_block.h)
                block, = struct.unpack_from("<I", data)
                payload, data = payload + data[8:8 + block], data[8 + block:]
            frame += payload + bytes(-length % 8)
            frame = struct.pack("<IHH", len(frame), call, flags & ~BULK) + frame[8:]
        if len(frame) <= FRAME_MAX and len(out) + len(frame) <= FRAMES_MAX:
            out += frame
    return out


def record(build, program, into):
    """One program through a pool of its own."""
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, GPUPOOL_RUN_DIR=folder, GPUPOOL_TRANSPORT="tcp", GPUPOOL_TLS="off",
                   GPUPOOL_COMPRESS="off")
        gpupool = build / "bin" / "gpupool"
        subprocess.run([gpupool, "up"], env=env, check=True, stdout=subprocess.DEVNULL)
        try:
            shown = subprocess.run([gpupool, "run", "--", sys.executable, __file__, "--inside",
                                    build / "tests" / "programs" / program, folder],
                                   env=env, check=False, timeout=120)
            for i, log in enumerate(sorted(Path(folder).glob("sent-*"))):
                seed = frames(log.read_bytes())
                if seed:
                    (into / f"{program}-{i}").write_bytes(seed)
            print(f"{program}: status {shown.returncode}")
        finally:
            subprocess.run([gpupool, "down", "--force"], env=env, check=False)


def inside(program, folder):
    """In the session: the same, through the proxy."""
    session = Path(os.environ["GPUPOOL_SESSION_FILE"])
    text = session.read_text(encoding="utf-8")
    server = next(line.split()[1] for line in text.splitlines()
                  if line.startswith("server "))
    proxy = Proxy(server)
    copy = Path(folder) / "session"
    copy.write_text(text.replace(server, proxy.address), encoding="utf-8")
    copy.chmod(0o600)
    env = dict(os.environ, GPUPOOL_SESSION_FILE=str(copy))
    status = subprocess.run([program], env=env, check=False, timeout=60,
                            stdout=subprocess.DEVNULL).returncode
    for i, log in enumerate(proxy.sent):
        (Path(folder) / f"sent-{i}").write_bytes(bytes(log))
    return status


def attacks(into):
    """The four graph copies of a client that names an address of the worker."""
    sys.path.insert(0, str(HERE.parent / "e2e"))
    import test_attacks_memory as a
    from harness.raw import handle

    address = 0x7f1234567008
    graph, node, second, executable = (handle(a.GRAPH, 1), handle(a.NODE, 1),
                                       handle(a.NODE, 2), handle(a.EXEC, 1))

    def frame(call, body):
        return struct.pack("<IHHII", 16 + len(body), call, 2, 0, 1) + body

    start = frame(a.GRAPH_CREATE, struct.pack("<QQ", graph, 0)) + \
        frame(a.ADD_COPY, struct.pack("<QQQ", node, graph, 0) +
              a.copy(a.DEVICE, 0x1000, a.DEVICE, 0x2000) + bytes(8)) + \
        frame(a.INSTANTIATE, struct.pack("<QQQ", executable, graph, 0))
    for kind, word in ((a.HOST, "host"), (a.UNIFIED, "unified")):
        bad = a.of_worker(kind, address, 0x2000)
        ways = {
            "add": frame(a.ADD_COPY, struct.pack("<QQQ", second, graph, 0) + bad + bytes(8)),
            "set": frame(a.SET_COPY, struct.pack("<Q", node) + bad),
            "exec": frame(a.EXEC_SET_COPY, struct.pack("<QQ", executable, node) + bad + bytes(8)),
            "any": frame(a.ADD_ANY, struct.pack("<QQQ", second, graph, 0) + (
                struct.pack("<i3iiiQ", a.MEMCPY_NODE, 0, 0, 0, 0, 0, 0) + bad).ljust(256, b"\0") +
                struct.pack("<QIIII", 0, 0, 0, 0, 0)),
        }
        for way, bytes_ in ways.items():
            (into / f"attack-{way}-{word}").write_bytes(start + bytes_)
    stream = handle(a.STREAM, 1)
    (into / "attack-attribute").write_bytes(
        frame(a.STREAM_CREATE, struct.pack("<QII", stream, 0, 0)) +
        frame(a.STREAM_SET, struct.pack("<QQ56xii", stream, address, 7, 0)))


def numbers(into):
    """Numbers of cards and of nodes that there are not, and lists that no frame holds."""
    ctx, graph, node = 1 << 46 | 1 << 40 | 2 << 4, 1 << 46 | 7 << 40 | 1 << 4, \
        1 << 46 | 9 << 40 | 1 << 4

    def frame(call, body, index=2):
        return struct.pack("<IHHII", 16 + len(body), call, 2, 0, index) + body

    def create(dev):
        return frame(0x0327, struct.pack("<Q24xIiII", ctx, 0, dev, 0, 0), 0)

    memory = frame(0x080b, struct.pack("<Q", 4096))
    (into / "attack-card").write_bytes(create(42) + memory)
    made = create(0) + frame(0x0e0a, struct.pack("<QII", graph, 0, 0)) + \
        frame(0x0e03, struct.pack("<QQQ", node, graph, 0))
    lists = b"".join(
        frame(0xe037, struct.pack("<QQQQIIII", graph if what < 4 else 0, node if what >= 4 else 0,
                                  first, room, what, wanted, 4096, 0))
        for what in range(9) for first, room in ((0, 9000), (4096, 9000), (1 << 63, 1 << 62))
        for wanted in (1, 7))
    ahead = b"".join(
        frame(0xe038, struct.pack("<QIIII", first, 2, to, data, 0) + struct.pack("<QQ", node, node) +
              struct.pack("<QQ", node, node)[:8 * to] + bytes(8 * data))
        for first, to, data in ((0, 2, 0), (2, 2, 0), (2, 0, 2), (0, 0, 0), (0, 2, 2), (7, 2, 2)))
    (into / "attack-lists").write_bytes(made + lists)
    named = b"".join(frame(0x0e03, struct.pack("<QQQQQ", node + 16 * i, graph, 2, 0, 0))
                     for i in (1, 2))
    (into / "attack-ahead").write_bytes(made + ahead + named + ahead)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--into", type=Path, default=HERE / "seeds-worker")
    parser.add_argument("--inside", nargs=2)
    a = parser.parse_args()
    if a.inside:
        return inside(*a.inside)
    a.into.mkdir(exist_ok=True)
    attacks(a.into)
    numbers(a.into)
    for program in PROGRAMS:
        record(a.build.resolve(), program, a.into)
    return 0


if __name__ == "__main__":
    sys.exit(main())
