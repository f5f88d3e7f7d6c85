# SPDX-License-Identifier: Apache-2.0
"""A disk that is full: what cannot be kept is refused and says so, what runs goes on, and
with room again everything is as if it had always been there."""

import json

from harness import Cudash
from harness.disk import Disk
from harness.pool import SCHEDULER, SERVER

MIB = 1 << 20
# Renewed every one and a half seconds.
LEASES = ("--lease-ms", 3000, "--heartbeat-ms", 200)


def shown(case, pool):
    """Sessions, or None while what a reader would see is not on the disk: a change that
    did not fit is tried again with the scheduler's next tick."""
    result = pool.cli("status", "--json", status=None)
    if result.status:
        case.contains(result.err, "full", "why nothing is shown")
        return None
    return json.loads(result.out)["sessions"]


def names(case, pool):
    sessions = shown(case, pool)
    return sessions if sessions is None else [s["name"] for s in sessions]


def renewed(case, pool, name, times=1):
    """The lease of the session is renewed @times more."""
    last = [None, 0]

    def once_more():
        sessions = shown(case, pool)
        if sessions is None:
            return False
        left = [s["lease_left_ms"] for s in sessions if s["name"] == name]
        case.check(left, f"session {name} has ended")
        last[1] += last[0] is not None and left[0] > last[0]
        last[0] = left[0]
        return last[1] >= times
    case.wait_for(once_more, "the lease is renewed")


def audit(path):
    """Its lines; each must be JSON, but for one that was cut short by the full disk."""
    events, cut = [], 0
    for line in path.read_text().splitlines():
        try:
            events.append(json.loads(line))
        except ValueError:
            cut += 1
    return events, cut


def pad(path):
    """Appends a line, so that the file ends 60 bytes before a page does."""
    size = path.stat().st_size
    length = (4096 - 60 - size - 64) % 4096 + 64
    line = json.dumps({"event": "pad", "words": ""})
    with open(path, "a", encoding="ascii") as file:
        file.write(line.replace('""', '"' + "x" * (length - len(line) - 1) + '"') + "\n")


def test_pool_on_a_full_disk_refuses_and_goes_on(case):
    """State, logs, audit logs, session files: all on the disk that is full."""
    disk = Disk(case, case.folder / "gpupool", 8192)
    pool = case.pool(options=LEASES)
    scheduler = pool.restart(pool.pid(SCHEDULER), "--audit-log", disk.folder / "sched.audit")
    pool.restart(pool.pid(SERVER), "--audit-log", disk.folder / "server.audit",
                 "--state-dir", disk.folder / "server", "--adopt-window", "0")
    session, closes = pool.session(memory="64MiB"), pool.session(memory="64MiB", core=10)
    name = session.field("session")
    shell = Cudash(case, case.spawn([case.programs / "cudash"], env=session.env)).begin()
    memory = shell.ok("alloc", MIB)
    shell.ok("store", memory, 0, 4711)

    pad(disk.folder / "sched.audit")
    pad(disk.folder / "server.audit")
    disk.fill()
    refused = pool.run("true", core=10, status=None)
    case.check(refused.status != 0, "a session was opened that is not on disk")
    case.check("full" in refused.err or "No space left" in refused.err,
               f"the refusal does not say why: {refused.err}")
    closes.close()
    renewed(case, pool, name)
    case.equal(shell.ok("peek", memory, 0), 4711, "what the card's memory holds")
    session.run(case.programs / "vecadd")
    case.wait_for(lambda: names(case, pool) == [name],
                  "the session that was closed on the full disk is gone")

    disk.make_room()
    pool.run(case.programs / "vecadd", core=10)
    pool.restart(scheduler)
    case.wait_for(lambda: [s["name"] for s in pool.sessions()] == [name],
                  "the session is there after a restart of the scheduler")
    case.equal(shell.ok("peek", memory, 0), 4711, "what the card's memory holds")
    for file in ("sched.audit", "server.audit"):
        events, cut = audit(disk.folder / file)
        lost = sum(event.get("lines_lost", 0) for event in events)
        print(f"{file}: {len(events)} events, {cut} cut, {lost} lost", flush=True)
        case.equal(cut, 1, f"lines of {file} that are no JSON")
        case.check(lost, f"{file} does not say that it lacks lines")
    case.equal(session.close(), 0, "exit status of gpupool run")
    case.wait_for(lambda: pool.sessions() == [], "the session is closed")


def test_order_on_a_full_disk_is_in_effect_and_says_that_it_is_not_recorded(case):
    disk = Disk(case, case.folder / "gpupool", 8192)
    pool = case.pool(servers=1, cards=2, options=LEASES)
    shell = Cudash(case, pool.spawn(case.programs / "cudash", memory="64MiB")).begin()
    name = pool.sessions()[0]["name"]
    disk.fill()

    def ordered(*command):
        done = pool.cli(*command, status=1)
        case.contains(done.err, f"gpupool: {command[0]}: in effect, but not recorded yet: ", f"{command}")
        case.contains(done.err, "full", f"why {command} is not recorded")
        case.equal(done.out, "", f"output of {command}")
    # Twice: what waits for room is the last word.
    ordered("cordon", "local-1/0")
    ordered("uncordon", "local-1/0")
    ordered("cordon", "local-1/1", "--json")
    ordered("drain", "local-1")
    ordered("close", name)
    case.check(shell("sync") != [0], "a session that was closed goes on")
    case.contains(pool.cli("drain", "nosuch", status=3).err, "no server nosuch", "what is refused")

    disk.make_room()
    case.wait_for(lambda: names(case, pool) == [], "the session is closed")

    def state():
        server, = pool.status()["servers"]
        return server["state"], [card["cordoned"] for card in server["cards"]]
    case.equal(state(), ("draining", [False, True]), "with room again")
    pool.restart(pool.pid(SCHEDULER))
    case.wait_for(lambda: state() == ("draining", [False, True]), "after a restart")
    shell.close()


def answers(pool):
    return pool.cli("status", status=None).status == 0


def test_scheduler_that_starts_on_a_full_disk_loses_nothing(case):
    disk = Disk(case, case.folder / "gpupool", 8192)
    pool = case.pool()
    session = pool.session(memory="64MiB")
    name = session.field("session")
    shell = Cudash(case, case.spawn([case.programs / "cudash"], env=session.env)).begin()
    disk.fill()
    scheduler = pool.pid(SCHEDULER)
    start = pool.starter(scheduler)
    pool.kill(scheduler)
    # It starts, or says why not; the service manager tries again.
    early = start()
    case.wait_for(lambda: pool._gone(early.pid) or answers(pool), "it starts or ends")
    shell.ok("alloc", MIB)
    disk.make_room()
    if early.poll() is not None:
        print("on the full disk it did not start", flush=True)
        start()
    case.wait_for(lambda: answers(pool), "it answers")
    case.equal([s["name"] for s in pool.sessions()], [name], "sessions")
    shell.ok("alloc", MIB)
    case.wait_for(lambda: pool.status()["servers"][0]["state"] == "alive", "the server is back")
    pool.run(case.programs / "vecadd", core=10)


def test_run_that_cannot_write_its_session_file_says_so_and_leaves_nothing(case):
    (case.folder / "gpupool").mkdir(mode=0o700)
    disk = Disk(case, case.folder / "gpupool" / "sessions", 64)
    pool = case.pool(options=LEASES)
    session = pool.session(memory="64MiB")
    name = session.field("session")
    disk.fill()
    refused = pool.run("true", core=10, status=None)
    case.check(refused.status != 0, "it ran without a session file")
    case.contains(refused.err, "No space left on device", "its words")
    case.wait_for(lambda: [s["name"] for s in pool.sessions()] == [name],
                  "only the session of before is left")
    # Its file cannot be renewed, but what runs goes on.
    renewed(case, pool, name)
    case.wait_for(lambda: "No space left on device" in
                  (case.folder / "spawned.err").read_text(),
                  "gpupool run says that the renewal cannot be written")
    disk.make_room()
    renewed(case, pool, name)
    session.run(case.programs / "vecadd")
