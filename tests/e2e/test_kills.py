# SPDX-License-Identifier: Apache-2.0
"""Kill -9 of client, worker, server and scheduler: nothing hangs, nothing leaks,
and `status` is true again within the heartbeat time."""

import signal

from harness import proc

MIB = 1 << 20


def attachments(pool):
    return sum(session["attachments"] for session in pool.sessions())


def spinning(case, session):
    """A Cudash whose kernel never ends, with a call waiting for it."""
    shell = session.cudash().begin()
    shell.ok("load", case.build / "tests" / "ptx" / "spin.ptx")
    slot = shell.ok("alloc", MIB)
    shell.ok("store", slot, 0, 7)
    shell.ok("launch", "spin", 1, 32, slot, 7)
    shell.send("sync")
    return shell


def own_files(pool, server):
    """Open files of the server without its sessions' memory: it keeps that for a while
    after the last client, to be there for the next."""
    return len([what for what in pool.files(server).values()
                if "gpupool-session" not in what and "gpupool-kept" not in what])


def test_daemon_outlives_a_peer_that_is_gone_when_it_writes(case):
    pool = case.pool()
    for pid in pool.daemons():
        case.check(proc.ignores(pid, signal.SIGPIPE), f"SIGPIPE ends {proc.program_of(pid)}")


def test_killed_client_leaves_nothing_even_while_its_kernel_spins(case):
    pool = case.pool()
    session = pool.session(core=50, memory="64MiB")
    server = pool.pid("gpupool-server")
    before = own_files(pool, server)
    shell = spinning(case, session)
    case.equal(len(pool.workers()), 1, "workers")
    pool.kill(shell.process.pid)
    case.wait_for(lambda: not pool.workers(), "the worker of a killed client is gone")
    case.wait_for(lambda: attachments(pool) == 0, "status shows no attachment")
    case.wait_for(lambda: own_files(pool, server) == before, lambda:
                  f"descriptors of the server: {before} before, {pool.files(server)} now")
    session.run(case.programs / "vecadd")


def test_killed_worker_fails_its_client_and_nobody_else(case):
    pool = case.pool()
    session = pool.session(core=50, memory="64MiB")
    victim = session.cudash().begin()
    first = set(pool.workers())
    other = session.cudash().begin()
    other.ok("alloc", MIB)
    case.equal(len(first), 1, "workers of the first client")
    pool.kill(first.pop())
    result, *_ = victim("alloc", MIB)
    case.check(result != 0, "a call after the worker's death succeeded")
    case.equal(victim("sync")[0], victim("info")[0], "every later call says the same")
    case.check(victim("sync")[0] != 0, "a later call succeeded")
    case.equal(victim.close(), 0, "the program itself goes on to its end")
    other.ok("alloc", MIB)
    case.wait_for(lambda: attachments(pool) == 1, "status shows the one that lives")
    session.run(case.programs / "vecadd")


def test_killed_server_ends_its_workers_and_is_shown_as_gone(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=50, memory="64MiB")
    client = session.cudash().begin()
    server = pool.pid("gpupool-server")
    pool.kill(server)
    result, *_ = client("info")
    case.check(result != 0, "a call after the server's death succeeded")
    case.wait_for(lambda: not pool.workers(), "its workers are gone")
    case.wait_for(lambda: all(item["state"] != "alive" for item in pool.status()["servers"]),
                  "status says that the server is gone")


def test_restarted_server_serves_again(case):
    pool = case.pool(servers=1, cards=1)
    server = pool.pid("gpupool-server")
    pool.run(case.programs / "vecadd")
    pool.restart(server)
    pool.run(case.programs / "vecadd")


def test_killed_scheduler_leaves_running_sessions_alone_and_finds_them_again(case):
    pool = case.pool(servers=2, cards=1)
    session = pool.session(core=50, memory="64MiB")
    client = session.cudash().begin()
    name = pool.sessions()[0]["name"]
    pool.restart(pool.pid("gpupool-scheduler"))
    client.ok("alloc", MIB)
    session.run(case.programs / "vecadd")
    case.wait_for(lambda: len([item for item in pool.status()["servers"]
                               if item["state"] == "alive"]) == 2, "both servers are back")
    case.equal([item["name"] for item in pool.sessions()], [name], "sessions")
    case.wait_for(lambda: attachments(pool) == 1, "and its attachment")
    client.ok("alloc", MIB)
    case.equal(client.close(), 0, "exit status of the client")
    case.equal(session.close(), 0, "exit status of gpupool run")
    case.wait_for(lambda: pool.sessions() == [], "the session is closed")


def test_killed_gpupool_run_gives_its_slice_back(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=90, memory="64MiB")
    pool.kill(session.process.pid)
    case.wait_for(lambda: pool.sessions() == [],
                  "the lease of a killed gpupool run ends", patience=case.patience * 3)
    pool.run("true", core=90)


def test_astray_kernel_ends_its_own_process_only(case):
    pool = case.pool()
    session = pool.session(core=50, memory="64MiB")
    astray, other = session.cudash().begin(), session.cudash().begin()
    astray.ok("load", case.build / "tests" / "ptx" / "spin.ptx")
    slot = astray.ok("alloc", MIB)
    astray("launch", "astray", 1, 32, slot, 7)
    case.equal(astray("sync")[0], 700, "CUresult (CUDA_ERROR_ILLEGAL_ADDRESS)")
    case.equal(astray("alloc", MIB)[0], 700, "the context stays lost")
    other.ok("alloc", MIB)
    session.run(case.programs / "vecadd")


def test_down_ends_everything_with_programs_still_running(case):
    pool = case.pool(servers=2, cards=2)
    session = pool.session(core=50, memory="64MiB")
    spinning(case, session)
    pool.stop()
    for program in ("gpupool-scheduler", "gpupool-server", "gpupool-worker"):
        case.equal(pool.pids(program), [], f"{program} processes after down")
