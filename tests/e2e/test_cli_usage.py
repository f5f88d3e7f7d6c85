# SPDX-License-Identifier: Apache-2.0
"""The command line with wrong, short and awkward input: what it says, and its exit status."""

import os
import pathlib
import signal

from harness.cudash import Cudash


def usage(case, words, *args, status=2):
    """`gpupool ARGS` says @words under its own name and exits with @status."""
    done = case.run([case.build / "bin" / "gpupool", *args], status=status,
                    env={"GPUPOOL_RUN_DIR": str(case.folder)})
    text = done.err + done.out
    case.contains(text, words, f"gpupool {' '.join(args)}")
    for line in done.err.splitlines():
        case.check(line.startswith("gpupool: "), f"a line of another form: {line}")


def test_size_without_unit_is_refused_with_the_remedy(case):
    for command in (("run",), ("explain",), ("up",)):
        tail = ("--", "true") if command == ("run",) else ()
        usage(case, "--memory 1000: in which unit? Say 1000MiB or 1000GiB",
              *command, "--memory", "1000", *tail)
        usage(case, "--memory 4Gb: a size like 512MiB", *command, "--memory", "4Gb", *tail)


def test_wrong_options_and_arguments_are_refused_under_one_name(case):
    usage(case, "extra: unexpected argument", "down", "extra")
    usage(case, "extra: unexpected argument", "doctor", "extra")
    usage(case, "extra: unexpected argument", "status", "extra")
    usage(case, "unknown option --jsn; is --json meant?", "status", "--jsn")
    usage(case, "unknown option --nonsense", "run", "--nonsense", "--", "true")
    usage(case, "unknown option --nonsense", "explain", "--nonsense")
    usage(case, "--interval 0: seconds from 0.1 to 3600", "top", "--interval", "0")
    usage(case, "--placement foo: binpack or spread is wanted", "up", "--placement", "foo")
    usage(case, "--scheduler is empty", "status", "--scheduler", "")
    usage(case, "--scheduler is empty", "run", "--scheduler", "", "--", "true")
    usage(case, "one SERVER is wanted", "drain")


def test_short_options_and_help_of_a_command_are_there(case):
    for args in (("run", "-h"), ("help", "run"), ("status", "-h"), ("explain", "-h")):
        usage(case, f"Usage: gpupool {args[0] if args[0] != 'help' else args[1]}", *args,
              status=0)
    usage(case, "gpupool ", "-v", status=0)
    usage(case, "no command nosuch", "help", "nosuch")


def test_a_pool_that_is_not_there_has_one_exit_status(case):
    for args in (("status",), ("servers",), ("sessions",), ("top", "--count", "1"),
                 ("drain", "local-1"), ("close", "s1"), ("explain",), ("run", "--", "true")):
        command, *rest = args
        usage(case, "127.0.0.1:1", command, "--scheduler", "127.0.0.1:1", *rest, status=4)


def test_bad_request_has_one_exit_status_for_run_and_explain(case):
    pool = case.pool(servers=1, cards=1)
    for args in (("explain", "--core", "150"), ("run", "--core", "150", "--", "true")):
        case.contains(pool.cli(*args, status=2).err + pool.cli(*args, status=2).out, "150",
                      f"gpupool {args[0]}")


def test_percent_sign_and_fractions_of_a_second_are_taken(case):
    pool = case.pool(servers=1, cards=1)
    case.contains(pool.cli("explain", "--core", "30%", "--memory", "64MiB").out, "chosen",
                  "explain --core 30%")
    pool.cli("top", "--interval", "0.5", "--count", "2")


def test_missing_program_opens_no_session(case):
    pool = case.pool(servers=1, cards=1)
    done = pool.cli("run", "--", "no-such-program", status=127)
    case.contains(done.err, "no-such-program: no such program in PATH", "what run says")
    pool.cli("run", "--", str(pathlib.Path(case.folder) / "nosuch"), status=127)
    case.check("session s1" not in pool.log(), "no session was opened")


def test_down_asks_before_it_ends_sessions(case):
    pool = case.pool(servers=1, cards=1)
    client = pool.spawn(case.programs / "cudash", memory="64MiB")
    case.wait_for(lambda: pool.status()["sessions"], "the session is there")
    done = pool.cli("down", status=1)
    case.contains(done.err, "1 sessions run; `gpupool down --force` ends them", "what down says")
    case.check(pool.status()["sessions"], "the session runs on")
    done = pool.cli("down", "--force")
    case.contains(done.out, "and 1 sessions", "what down says")
    client.kill()
    client.wait()


def test_stopped_run_keeps_its_session_beyond_the_lease(case):
    """As Ctrl-Z and fg do: everything of the terminal's job stops, longer than the lease."""
    pool = case.pool(servers=1, cards=1, options=("--lease-ms", "1000"))
    client = Cudash(case, pool.spawn(case.programs / "cudash", memory="64MiB"))
    client.begin()
    client.ok("alloc", 1 << 20)
    session = pool.status()["sessions"][0]["name"]
    os.kill(client.process.pid, signal.SIGSTOP)
    renewed = []

    def lease_was_renewed():
        left = pool.status()["sessions"]
        case.check(left, "the session ended while its run was stopped")
        renewed.append(left[0]["lease_left_ms"])
        return sum(a < b for a, b in zip(renewed, renewed[1:])) >= 3
    try:
        case.wait_for(lease_was_renewed, "the lease is renewed three times")
    finally:
        os.kill(client.process.pid, signal.SIGCONT)
    case.equal(pool.status()["sessions"][0]["name"], session, "the session afterwards")
    client.ok("alloc", 1 << 20)
