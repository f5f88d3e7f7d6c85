# SPDX-License-Identifier: Apache-2.0
"""Schedulers that are found by SRV records: a DNS server of this test's own, in a network
and a mount namespace where it is the only resolver."""

import ctypes
import os
import socket
import struct
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
SRV, NO_SUCH_NAME = 33, 3


def name(text):
    labels = [part.encode() for part in text.split(".") if part]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def answer(query, records):
    """What DNS says to @query, with records {name: [(priority, weight, port, host)]}."""
    end = query.index(b"\0", 12) + 5
    question, (kind,) = query[12:end], struct.unpack(">H", query[end - 4:end - 2])
    labels, at = [], 0
    while question[at]:
        labels.append(question[at + 1:at + 1 + question[at]].decode())
        at += 1 + question[at]
    found = records.get(".".join(labels).lower(), []) if kind == SRV else []
    body = b""
    for priority, weight, port, host in found:
        data = struct.pack(">HHH", priority, weight, port) + name(host)
        body += b"\xc0\x0c" + struct.pack(">HHIH", SRV, 1, 60, len(data)) + data
    flags = 0x8580 | (0 if found else NO_SUCH_NAME)
    return query[:2] + struct.pack(">HHHHH", flags, 1, len(found), 0, 0) + question + body


@contextmanager
def dns(case, records):
    """From here on this process and its children ask nobody else."""
    if os.geteuid() != 0:
        case.skip("namespaces of one's own need root")
    case.need_tool("ip")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | CLONE_NEWNET) != 0:
        case.skip(f"no namespaces: {os.strerror(ctypes.get_errno())}")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    case.check(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) == 0, "mount")
    for file, text in (("resolv.conf", "nameserver 127.0.0.1\n"),
                       ("nsswitch.conf", "hosts: files dns\n")):
        over, ours = Path("/etc", file).resolve(), case.folder / file
        ours.write_text(text)
        if over.exists() and libc.mount(bytes(ours), bytes(over), None, MS_BIND, None) != 0:
            case.skip(f"{over} cannot be replaced: {os.strerror(ctypes.get_errno())}")
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))

    def serve():
        while True:
            query, peer = server.recvfrom(4096)
            if not query:
                return
            server.sendto(answer(query, records), peer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        server.sendto(b"", server.getsockname())
        thread.join()
        server.close()


def test_schedulers_are_found_by_srv_records_and_a_dead_one_is_passed_over(case):
    records = {}
    with dns(case, records):
        dead, alive = case.free_port(), case.free_port()
        records["_gpupool._tcp.pool.test"] = [(20, 0, alive, "localhost"),
                                              (10, 0, dead, "localhost")]
        case.spawn(["gpupool-scheduler", "--listen", f"127.0.0.1:{alive}", "--state-dir",
                    case.folder / "state", "--allow-anonymous", "client", "--allow-anonymous",
                    "server"], stdout=subprocess.DEVNULL)
        case.spawn(["gpupool-server", "--listen", f"127.0.0.1:{case.free_port()}", "--driver",
                    "softgpu", "--name", "node", "--scheduler",
                    "srv:_gpupool._tcp.pool.test"], env={"SOFTGPU_CARDS": "1"},
                   stdout=subprocess.DEVNULL)
        case.wait_for(lambda: "alive" in case.run(
            ["gpupool", "servers", "--scheduler", "srv:pool.test"], status=None).out,
            "the server found the scheduler, and so does the command line")
        case.run(["gpupool", "run", "--scheduler", "srv:pool.test", "--core", "10",
                  "--memory", "64MiB", "--", "true"])
        none = case.run(["gpupool", "servers", "--scheduler", "srv:nowhere.test"], status=4)
        case.contains(none.err, "_gpupool._tcp.nowhere.test: there is no such SRV record",
                      "a name without records")
        records["_gpupool._tcp.pool.test"] = [(10, 0, dead, "localhost")]
        none = case.run(["gpupool", "servers", "--scheduler", "srv:pool.test"], status=4)
        case.contains(none.err, f"localhost:{dead}", "nobody answers")
