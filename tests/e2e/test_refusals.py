# SPDX-License-Identifier: Apache-2.0
"""Bad requests and absent peers: refused at once, in words that help."""

import socket


def one_line(case, done, *parts):
    lines = [line for line in done.err.strip().split("\n") if line]
    case.equal(len(lines), 1, f"lines on stderr:\n{done}")
    for part in parts:
        case.contains(lines[0], str(part), "the one line")


def test_scheduler_that_nobody_runs_is_named_within_5_seconds(case):
    port = case.free_port()
    with case.within(5, "gpupool run without a scheduler"):
        done = case.run([case.build / "bin" / "gpupool", "run", "--scheduler",
                         f"127.0.0.1:{port}", "--core", 10, "--memory", "64MiB", "--",
                         "true"], status=None)
    case.check(done.status not in (0, None), f"it succeeded:\n{done}")
    one_line(case, done, f"127.0.0.1:{port}", "refused")


def test_scheduler_that_never_answers_is_named_within_5_seconds(case):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with case.within(6, "gpupool run against a silent scheduler"):
            done = case.run([case.build / "bin" / "gpupool", "run", "--scheduler",
                             f"127.0.0.1:{port}", "--core", 10, "--memory", "64MiB", "--",
                             "true"], status=None)
    case.check(done.status not in (0, None), f"it succeeded:\n{done}")
    one_line(case, done, f"127.0.0.1:{port}")


def init_against(case, address):
    """cuInit with a session file that names @address as the server."""
    session = case.folder / "session"
    session.write_text(f"gpupool-session 1\nsession s1\nserver {address}\n"
                       "ticket bm90IGEgdGlja2V0.bm90IGEgc2lnbmF0dXJl\n")
    commands = case.folder / "commands"
    commands.write_text("init\ncount\n")
    with open(commands, encoding="utf-8") as stdin:
        return case.run([case.programs / "cudash"], stdin=stdin, env={
            "LD_LIBRARY_PATH": str(case.build / "lib"),
            "GPUPOOL_SESSION_FILE": str(session)})


def test_server_that_nobody_runs_fails_init_within_5_seconds(case):
    address = f"127.0.0.1:{case.free_port()}"
    with case.within(5, "cuInit without a server"):
        done = init_against(case, address)
    case.check(done.out.split()[0] != "0", f"cuInit succeeded:\n{done}")
    one_line(case, done, address, "refused")


def test_server_that_never_answers_fails_init_within_5_seconds(case):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with case.within(6, "cuInit against a silent server"):
            done = init_against(case, address)
    case.check(done.out.split()[0] != "0", f"cuInit succeeded:\n{done}")
    one_line(case, done, address)


def test_server_that_talks_nonsense_fails_init_and_nothing_worse(case):
    with socket.create_server(("127.0.0.1", 0)) as liar:
        address = f"127.0.0.1:{liar.getsockname()[1]}"
        session = case.folder / "session"
        session.write_text(f"gpupool-session 1\nsession s1\nserver {address}\nticket a.b\n")
        process = case.spawn([case.programs / "cudash"], env={
            "LD_LIBRARY_PATH": str(case.build / "lib"),
            "GPUPOOL_SESSION_FILE": str(session)})
        process.stdin.write("init\n")
        process.stdin.flush()
        connection, _ = liar.accept()
        connection.sendall(b"\xff\xff\xff\x7f" + bytes(range(256)) * 16)
        out, _ = process.communicate(timeout=case.patience)
        connection.close()
    case.equal(process.returncode, 0, "exit status of the program")
    case.check(out.split()[0] != "0", "cuInit succeeded against nonsense")


def test_core_between_101_and_199_is_refused_naming_the_rule(case):
    pool = case.pool(servers=1, cards=2)
    for core in (101, 150, 199):
        done = pool.cli("run", "--core", core, "--memory", "64MiB", "--", "true", status=None)
        case.check(done.status not in (0, None), f"--core {core} was accepted")
        case.contains(done.err, str(core), "what was asked")
        case.contains(done.err, "100", "the rule")
    for core in (0, -1, 250, "abc"):
        done = pool.cli("run", "--core", core, "--memory", "64MiB", "--", "true", status=None)
        case.check(done.status not in (0, None), f"--core {core} was accepted")
    pool.cli("run", "--core", 200, "--", "true")


def test_request_that_fits_no_card_says_which_limit_on_which_card(case):
    pool = case.pool(servers=1, cards=2)
    done = pool.cli("run", "--core", 10, "--memory", "100TiB", "--", "true", status=None)
    case.check(done.status not in (0, None), "100 TiB were granted")
    case.contains(done.err, "memory", "the limit that failed")
    case.contains(done.err, "local-1, 2 cards: memory", "the cards of a server have their reason")


def test_full_cards_refuse_by_core_and_give_back_afterwards(case):
    pool = case.pool(servers=1, cards=1)
    holder = pool.session(core=80, memory="64MiB")
    done = pool.cli("run", "--core", 30, "--memory", "64MiB", "--", "true", status=None)
    case.check(done.status not in (0, None), "110 % of a card were granted")
    case.contains(done.err, "core", "the limit that failed")
    case.equal(holder.close(), 0, "exit status of the holder")
    pool.cli("run", "--core", 30, "--memory", "64MiB", "--", "true")


def test_program_that_does_not_exist_gives_127_and_no_session(case):
    pool = case.pool()
    done = pool.run("/does/not/exist", status=127)
    case.contains(done.err, "/does/not/exist", "which program")
    case.equal(pool.sessions(), [], "sessions left behind")
