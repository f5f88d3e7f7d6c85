# SPDX-License-Identifier: Apache-2.0
"""What a session promises to the one who holds it, and what the pool's keeper can do."""

import re
import signal

from harness import Cudash
from test_full_disk import LEASES, renewed

GIB = 1 << 30


def test_run_renews_its_lease_and_ticket_over_a_scheduler_restart(case):
    pool = case.pool(servers=1, cards=1, options=["--lease-ms", 1000])
    session = pool.session(core=30)
    for _ in range(2):
        before = session.field("ticket")
        case.wait_for(lambda old=before: session.field("ticket") != old,
                      "a new ticket comes before the old one ends")
    scheduler = pool.pid("gpupool-scheduler")
    before = session.field("ticket")
    pool.restart(scheduler)
    for _ in range(2):
        case.wait_for(lambda old=before: session.field("ticket") != old,
                      "tickets come again after the restart")
        before = session.field("ticket")
    session.run(case.programs / "vecadd")
    case.equal([item["name"] for item in pool.sessions()], ["s1"], "sessions")
    case.equal(session.close(), 0, "exit status of gpupool run")
    case.equal(pool.sessions(), [], "sessions after the end")


def test_explain_takes_nothing_and_says_why_per_card(case):
    pool = case.pool(servers=2, cards=2)
    uuids = [card["uuid"] for server in pool.status()["servers"] for card in server["cards"]]
    good = pool.cli("explain", "--core", 30, "--memory", "1GiB")
    for uuid in uuids:
        case.contains(good.out, uuid, "explain")
    case.contains(good.out, "chosen", "explain")
    bad = pool.cli("explain", "--core", 30, "--memory", "100GiB", status=3)
    for uuid in uuids:
        case.contains(bad.out, f"{uuid}: memory: 4.00 GiB of 4.00 GiB free, 100.00 GiB wanted",
                      "explain")
    case.equal(pool.sessions(), [], "sessions")


def test_drained_server_keeps_what_it_has_and_gets_nothing_new(case):
    pool = case.pool(servers=2, cards=1)
    old = pool.session(core=30, options=["--server", "local-1"])
    pool.cli("drain", "local-1")
    refused = pool.run("true", options=["--server", "local-1"], status=3)
    case.contains(refused.err, "the server is being drained", "the refusal")
    new = pool.session(core=30)
    server_of = {item["name"]: item["slices"][0]["server"] for item in pool.sessions()}
    case.equal(server_of, {"s1": "local-1", "s2": "local-2"}, "servers of the sessions")
    old.run(case.programs / "vecadd")
    pool.cli("drain", "--undo", "local-1")
    pool.run("true", options=["--server", "local-1"])
    old.close()
    new.close()


def test_closing_a_session_of_somebody_else_ends_its_processes(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=30)
    program = case.spawn(["sleep", "1000"], env=session.env)
    client = session.cudash()
    client.begin()
    case.wait_for(lambda: pool.sessions()[0]["attachments"] == 1, "the attachment is reported")
    pool.cli("close", "s1")
    case.equal(pool.sessions(), [], "sessions")
    case.equal(pool.workers(), [], "workers of the closed session")
    case.equal(program.poll(), None, "a process without a GPU goes on")
    again = session.run(case.programs / "vecadd", status=None)
    case.check(again.status != 0, "the old ticket opens no door")
    pool.run(case.programs / "vecadd")
    program.kill()
    session.close()


def test_session_on_a_server_that_stands_still_can_be_closed(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=30)
    client = session.cudash()
    client.begin()
    case.wait_for(lambda: pool.sessions()[0]["attachments"] == 1, "the attachment is reported")
    server = pool.pid("gpupool-server")
    pool.kill(server, signal.SIGSTOP)
    # Until the server counts as dead, which takes longer than other commands wait.
    case.contains(pool.cli("close", "s1").out, "s1 closed", "close")
    case.equal(pool.sessions(), [], "sessions")
    pool.kill(server, signal.SIGCONT)
    case.wait_for(lambda: not pool.workers(), "its worker ends when the server goes on")
    session.close()


def test_whole_cards_come_with_all_memory_and_alone(case):
    pool = case.pool(servers=1, cards=2, options=["--memory", "1GiB"])
    session = pool.session(core=200, memory=None)
    slices = pool.sessions()[0]["slices"]
    case.equal([item["memory_bytes"] for item in slices], [GIB, GIB], "memory of the slices")
    case.equal([item["core_percent"] for item in slices], [100, 100], "core of the slices")
    refused = pool.run("true", core=1, memory="1MiB", status=3)
    case.contains(refused.err, "core: 0 % free, 1 % wanted", "the refusal")
    session.close()
    pool.run("true", core=1, memory="1MiB")


def test_binpack_fills_and_spread_spreads(case):
    for placement, servers in (("binpack", 1), ("spread", 2)):
        pool = case.pool(servers=2, cards=1, options=["--placement", placement])
        sessions = [pool.session(core=20) for _ in range(2)]
        used = {item["slices"][0]["server"] for item in pool.sessions()}
        case.equal(len(used), servers, f"servers in use with {placement}")
        for session in sessions:
            session.close()
        pool.stop()


def test_session_files_of_killed_runs_are_swept(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=10)
    pool.kill(session.process.pid)
    case.check(case.run(["ls", session.file]).out, "the file of a killed run stays for now")
    pool.run("true", core=10)
    case.run(["ls", session.file], status=2)


def test_top_shows_what_a_session_used(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=50)
    case.wait_for(lambda: session.run(case.programs / "matmul") and
                  pool.sessions()[0]["slices"][0]["gpu_ns"] > 0, "GPU time is reported")
    top = pool.cli("top", "--count", 1).out
    case.check(re.search(r"s1 +local-1 +50 % +\d+\.\d % +\d+\.\d ms", top),
               f"top shows share and GPU time:\n{top}")
    session.close()


def test_scheduler_that_stands_still_for_longer_than_a_lease_ends_no_session(case):
    """As in a control group that is frozen, or on a host that does not get on."""
    pool = case.pool(servers=1, cards=1, options=LEASES)
    session = pool.session(core=30)
    shell = Cudash(case, case.spawn([case.programs / "cudash"], env=session.env)).begin()
    scheduler = pool.pid("gpupool-scheduler")
    said = case.folder / "spawned.err"
    pool.kill(scheduler, signal.SIGSTOP)
    case.wait_for(lambda: "has not answered for a whole lease" in said.read_text(),
                  "the run misses the scheduler")
    pool.kill(scheduler, signal.SIGCONT)
    renewed(case, pool, "s1", times=2)
    case.contains(pool.log(), "stood still for", "the scheduler's log")
    shell.ok("alloc", 1 << 20)
    case.equal(shell.close(), 0, "exit status of the program")
    case.equal(session.close(), 0, "exit status of gpupool run")
