# SPDX-License-Identifier: Apache-2.0
"""Waiting for room: gpupool run --wait, gpupool queue, quotas, ends that are announced."""

import json
import re
import signal

from harness.cudash import Cudash


def queue(pool):
    return json.loads(pool.cli("queue", "--json").out)


def waiting(pool, n):
    pool.case.wait_for(lambda: queue(pool)["waiting"] == n, f"{n} requests wait")


def words_of(case):
    return (case.folder / "spawned.err").read_text(encoding="utf-8")


def test_run_waits_and_says_why_until_there_is_room(case):
    pool = case.pool()
    first = pool.session(core=80)
    second = pool.spawn("echo", "served", core=60, options=["--wait=5m"])
    waiting(pool, 1)
    case.wait_for(lambda: "waiting: position 1 of 1, time unknown: the only card does not fit: it lacks "
                  "core (most free: 20 %, 60 % wanted)" in words_of(case), "the reason on stderr")
    text = pool.cli("queue").out
    case.contains(text, "60%", "the request in the table")
    case.contains(text, "it lacks core", "why it waits, in the table")
    case.contains(text, "256 MiB", "the memory that it wants, in the table")
    entry = queue(pool)["requests"][0]
    case.equal((entry["position"], entry["core_percent"], entry["estimate_ms"], entry["program"]),
               (1, 60, None, "echo"), "the request as JSON")
    first.close()
    case.equal(second.stdout.readline(), "served\n", "output of the program that waited")
    case.equal(second.wait(case.patience), 0, "its exit status")
    waiting(pool, 0)
    case.contains(pool.cli("queue").out, "nobody waits", "an empty queue")


def test_run_without_wait_fails_at_once_and_with_a_limit_later(case):
    pool = case.pool()
    session = pool.session(core=80)
    case.contains(pool.run("true", core=60, status=3).err, "it lacks core", "refusal")
    case.contains(pool.run("true", core=60, options=["--wait=1s"], status=3).err,
                  "timed out in the queue", "refusal after a second")
    session.close()


def test_time_to_wait_ends_while_the_scheduler_is_away(case):
    pool = case.pool()
    session = pool.session(core=80)
    process = pool.spawn("true", core=60, options=["--wait=2s"])
    waiting(pool, 1)
    pool.kill(pool.pid("gpupool-scheduler"))
    case.equal(process.wait(case.patience), 4, "exit status without a scheduler")
    case.contains(words_of(case), "timed out in the queue: scheduler", "the reason")
    session.close()


def test_interrupted_or_killed_run_leaves_the_queue_at_once(case):
    pool = case.pool()
    session = pool.session(core=80)
    for sig, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)):
        process = pool.spawn("true", core=60, options=["--wait"])
        waiting(pool, 1)
        process.send_signal(sig)
        case.equal(process.wait(case.patience), status, f"exit status after {sig}")
        waiting(pool, 0)
    session.close()


def test_place_is_kept_while_the_scheduler_is_started_again(case):
    pool = case.pool()
    session = pool.session(core=80)
    process = pool.spawn("echo", "served", core=60, options=["--wait"])
    waiting(pool, 1)
    pool.restart(pool.pid("gpupool-scheduler"))
    waiting(pool, 1)
    session.close()
    case.equal(process.stdout.readline(), "served\n", "output of the program that waited")
    case.equal(process.wait(case.patience), 0, "its exit status")


def test_time_limit_ends_a_session_and_its_user_reads_why(case):
    pool = case.pool()
    process = pool.spawn("sleep", "60", options=["--time=1s"])
    case.wait_for(lambda: len(pool.sessions()) == 1, "the session")
    case.wait_for(lambda: not pool.sessions(), "the end of its time")
    case.wait_for(lambda: "its time limit is over" in words_of(case), "the reason on stderr")
    process.terminate()
    process.wait(case.patience)


def test_last_line_of_a_run_says_why_its_session_was_ended(case):
    pool = case.pool(servers=1, cards=1, options=("--lease-ms", "1000"))
    for options, end, words in ((["--time=1s"], lambda name: None, "its time limit is over"),
                                ([], lambda name: pool.cli("close", name),
                                 "closed by an administrator")):
        process = pool.spawn("sleep", "60", options=options)
        case.wait_for(lambda: len(pool.sessions()) == 1, "the session")
        name = pool.sessions()[0]["name"]
        end(name)
        case.wait_for(lambda: not pool.sessions(), "the end of the session")
        case.wait_for(lambda: f"session {name}: " in words_of(case), "its run has heard of it")
        process.terminate()
        process.wait(case.patience)
        case.contains(words_of(case), f"run: session {name} was ended: {words}", "the last line")


def test_run_that_was_not_connected_reads_why_its_session_was_closed(case):
    pool = case.pool(servers=1, cards=1)
    process = pool.spawn("sleep", "60")
    # What is about to become the program has the run's name until then.
    case.wait_for(lambda: pool.pids("sleep") and len(pool.pids("gpupool")) == 2,
                  "the program, the run and its keepalive")
    run, keepalive = sorted(pool.pids("gpupool"), key=lambda pid: pid != process.pid)
    pool.kill(run, signal.SIGSTOP)
    pool.kill(keepalive)
    pool.cli("close", "s1")
    pool.kill(run, signal.SIGCONT)
    case.wait_for(lambda: "session s1: closed by an administrator" in words_of(case),
                  "its next keepalive has heard of it")
    process.terminate()
    process.wait(case.patience)
    case.equal(words_of(case).splitlines()[-1],
               "gpupool: run: session s1 was ended: closed by an administrator", "the last line")


def test_program_that_outlives_its_time_limit_is_followed_by_the_reason(case):
    """Also when it ends by itself, long before its lease is renewed again."""
    pool = case.pool(servers=1, cards=1)
    process = pool.spawn("sleep", "60", options=["--time=1s"])
    case.wait_for(lambda: " ends now: its time limit is over" in words_of(case), "the announcement")
    case.wait_for(lambda: not pool.sessions(), "the end of the session")
    process.terminate()
    process.wait(case.patience)
    name = re.search(r"session (s\d+) ends now", words_of(case)).group(1)
    case.equal(words_of(case).splitlines()[-1],
               f"gpupool: run: session {name} was ended: its time limit is over", "the last line")


def test_program_that_uses_the_gpu_beyond_its_time_reads_why_it_is_refused(case):
    pool = case.pool(servers=1, cards=1)
    client = Cudash(case, pool.spawn(case.programs / "cudash", memory="64MiB", options=["--time=2s"]))
    client.begin()
    case.wait_for(lambda: not pool.sessions(), "the end of the session")
    case.wait_for(lambda: client("alloc", 1 << 20)[0] != 0, "a call fails")
    client.process.stdin.close()
    client.process.wait(case.patience)
    case.contains(words_of(case).splitlines()[-1], "its time limit is over", "the last line")


def test_wrong_times_and_classes_are_refused(case):
    pool = case.pool()
    case.contains(pool.run("true", options=["--wait=soon"], status=2).err,
                  "--wait soon: a time like 30s", "a wrong time")
    case.contains(pool.run("true", options=["--priority", "royal"], status=2).err,
                  "no priority class royal; there are: high, normal, batch", "a wrong class")


def test_gang_begins_together_or_not_at_all(case):
    pool = case.pool(cards=2)
    session = pool.session(core=80)
    members = [pool.spawn("echo", f"served {i}", core=60, options=["--gang", "train:2"])
               for i in range(2)]
    waiting(pool, 2)
    case.wait_for(lambda: "no room for all of its 2 members at once" in
                  pool.cli("queue").out, "why both wait, with a card free")
    pool.run("true", core=60)
    session.close()
    for i, member in enumerate(members):
        case.equal(member.stdout.readline(), f"served {i}\n", "output of a member")
        case.equal(member.wait(case.patience), 0, "its exit status")
    case.contains(pool.cli("run", "--gang", "train", "--", "true", status=2).err,
                  "NAME:N is wanted", "a gang without a size")
