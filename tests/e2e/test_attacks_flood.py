# SPDX-License-Identifier: Apache-2.0
"""Floods of connections: a host that floods a server keeps out nobody but itself."""

import os
import resource
import socket
import time

from harness.cudash import DEVICE_UNAVAILABLE
from harness.raw import Raw, attach_request, where
from test_hostile_scheduler import address as scheduler_address

FLOOD = 2000
KEPT = 600  # more than a server keeps, fewer than a process may open


def flood(case, address, source, count, keep):
    """@count silent connections from the address @source; the last @keep stay open."""
    kept = []
    for _ in range(count):
        kept.append(socket.create_connection(address, timeout=case.patience,
                                             source_address=(source, 0)))
        if len(kept) > keep:
            kept.pop(0).close()
    return kept


def test_flood_from_one_address_does_not_cut_off_a_slow_client_of_another(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    address = where(session)

    def crowded():
        return [line for line in pool.log().splitlines() if "connections wait to attach" in line]

    slow = socket.create_connection(address, timeout=case.patience)
    request = attach_request(session.field("ticket"))
    slow.sendall(request[:10])
    flooding = flood(case, address, "127.0.0.2", FLOOD, KEPT)
    try:
        slow.sendall(request[10:])
        case.equal(len(slow.recv(1)), 1, "what a slow client gets behind a flood of another")
        session.run(case.programs / "vecadd")
        # The kernel has taken the connections; the server may still be accepting them.
        case.wait_for(crowded, "the server says who crowds it")
    except ConnectionError:
        case.fail("the slow client was cut off by another address's flood")
    finally:
        for peer in (*flooding, slow):
            peer.close()
    lines = crowded()
    case.check(1 <= len(lines) <= 5, f"{len(lines)} lines about the flood: {lines[:8]}")


def test_server_without_descriptors_waits_and_goes_on(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    server = pool.pid("gpupool-server")
    _, most = resource.prlimit(server, resource.RLIMIT_NOFILE)
    room = max(pool.files(server)) + 20
    resource.prlimit(server, resource.RLIMIT_NOFILE, (room, most))
    silent = flood(case, where(session), "127.0.0.1", 100, 100)
    case.wait_for(lambda: "cannot accept a connection" in pool.log(),
                  "the server says that it lacks descriptors")
    # Silent connections are sent away after their time, and the rest of the queue comes in.
    for peer in silent:
        case.equal(peer.recv(1), b"", "what a silent peer gets")
    lines = pool.log().count("cannot accept a connection")
    case.check(lines <= 5, f"{lines} lines about one lack of descriptors")
    case.contains(pool.log(), "raise the limit of open files", "the remedy")
    for peer in silent:
        peer.close()
    resource.prlimit(server, resource.RLIMIT_NOFILE, (most, most))
    session.run(case.programs / "vecadd")


def cpu_seconds(pid):
    """Time that the process has computed."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        user, system = file.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_scheduler_without_descriptors_waits_and_goes_on(case):
    pool = case.pool(servers=1, cards=1)
    pid = pool.pid("gpupool-scheduler")
    _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    room = max(pool.files(pid)) + 5
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (room, most))
    silent = [socket.create_connection(scheduler_address(pool), timeout=case.patience)
              for _ in range(room)]
    case.wait_for(lambda: len(pool.files(pid)) == room, "it has all descriptors that it may")
    before, since = cpu_seconds(pid), time.monotonic()
    # Silent connections are sent away after their time.
    case.equal(silent[0].recv(1), b"", "what a silent peer gets")
    share = (cpu_seconds(pid) - before) / (time.monotonic() - since)
    case.check(share < 0.3, f"the scheduler computes {share:.0%} of the time that it waits")
    lines = pool.log().count("cannot accept a connection")
    case.check(1 <= lines <= 5, f"{lines} lines about one lack of descriptors")
    case.contains(pool.log(), "raise the limit of open files", "the remedy")
    for peer in silent:
        peer.close()
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, most))
    pool.session(core=20, memory="128MiB").run(case.programs / "vecadd")


def scrape(port, path, patience):
    """Status line, headers and body of GET @path."""
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as scraper:
        scraper.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        answer = b""
        while part := scraper.recv(65536):
            answer += part
    head, _, body = answer.decode().partition("\r\n\r\n")
    return head, body


def at_rest(pid):
    """Whether a process holds the same descriptors for a moment."""
    before = os.listdir(f"/proc/{pid}/fd")
    time.sleep(0.3)
    return os.listdir(f"/proc/{pid}/fd") == before


def test_metrics_without_descriptors_wait_and_go_on(case):
    """A scraper that comes while a daemon has no descriptor left waits in the kernel's
    queue; the daemon neither spins nor ends, and answers as soon as it has room."""
    pool = case.pool(servers=1, cards=1)
    for program in ("gpupool-scheduler", "gpupool-server"):
        port = case.free_port()
        pool.restart(pool.pid(program), "--metrics-listen", f"127.0.0.1:{port}")
        pid = pool.pid(program)
        case.contains(scrape(port, "/healthz", case.patience)[1], "ok", f"{program} is healthy")
        case.wait_for(lambda pid=pid, files=len(pool.files(pid)): len(pool.files(pid)) <= files,
                      "the scraper's descriptor is closed")
        _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        # The server that lost its scheduler is back; from now on nobody comes or goes.
        case.wait_for(lambda: [s["state"] for s in pool.status()["servers"]] == ["alive"],
                      "the server is registered")
        case.wait_for(lambda pid=pid: at_rest(pid), f"{program} opens and closes nothing more")
        # No descriptor that is free is below the limit.
        used = set(os.listdir(f"/proc/{pid}/fd"))
        room = next(n for n in range(most) if str(n) not in used)
        lines = pool.log().count("cannot accept a connection")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (room, most))
        with socket.create_connection(("127.0.0.1", port), timeout=case.patience) as scraper:
            scraper.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            case.wait_for(lambda lines=lines:
                          pool.log().count("cannot accept a connection") > lines,
                          f"{program} says that it lacks descriptors")
            before, since = cpu_seconds(pid), time.monotonic()
            scraper.settimeout(2)
            try:
                case.fail(f"{program} answered {scraper.recv(65536)} without a descriptor")
            except TimeoutError:
                pass
            share = (cpu_seconds(pid) - before) / (time.monotonic() - since)
            case.check(share < 0.3, f"{program} computes {share:.0%} of the time that it waits")
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, most))
            scraper.settimeout(case.patience)
            case.contains(scraper.recv(65536).decode(), "200 OK", f"{program}'s answer afterwards")
        head, body = scrape(port, "/metrics", case.patience)
        case.contains(head, "text/plain; version=0.0.4", f"{program}'s content type")
        case.contains(body, "# TYPE gpupool_", f"{program}'s metrics")
        case.contains(scrape(port, "/nosuch", case.patience)[0], "404", f"{program}: no such path")


def test_one_owner_does_not_take_all_client_processes_of_a_server(case):
    pool = case.pool(servers=1, cards=1)
    pool.restart(pool.pid("gpupool-server"), "--owner-attachments", "3")
    greedy = [pool.session(core=10, memory="16MiB", options=("--owner", "mallory")) for _ in range(2)]
    held = [greedy[i % 2].cudash().begin() for i in range(3)]
    case.equal(greedy[1].cudash()("init")[0], DEVICE_UNAVAILABLE, "a fourth client process of one owner")
    case.contains(pool.log(), "owner mallory has 3 client processes on this server, the limit for one "
                  "owner: end some, or start gpupool-server with a larger --owner-attachments",
                  "the words")
    pool.session(core=10, memory="16MiB", options=("--owner", "alice")).cudash().begin()
    held.pop().close()
    case.wait_for(lambda: greedy[1].cudash()("init")[0] == 0, "the place of one that has ended")


def test_one_address_does_not_take_all_client_processes_of_a_server(case):
    """The owner is what a client says where clients share a token."""
    pool = case.pool(servers=1, cards=1)
    pool.restart(pool.pid("gpupool-server"), "--address-attachments", "2")
    sessions = [pool.session(core=10, memory="16MiB", options=("--owner", f"owner{i}"))
                for i in range(3)]
    tcp = {"GPUPOOL_TRANSPORT": "tcp"}
    held = [session.cudash(tcp).begin() for session in sessions[:2]]
    case.equal(sessions[2].cudash(tcp)("init")[0], DEVICE_UNAVAILABLE, "a third client process of one address")
    case.contains(pool.log(), "2 client processes from this address are on this server, the limit "
                  "for one address: end some, or start gpupool-server with a larger "
                  "--address-attachments", "the words")
    Raw(case, sessions[2], source="127.0.0.3").ping()
    case.equal([shell.close() for shell in held], [0, 0], "those that were served")
