# SPDX-License-Identifier: Apache-2.0
"""The command line with wrong, short and awkward input: what it says, and its exit status."""

import json
import os
import pathlib
import re
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
    usage(case, "unknown option --jsn; did you mean --json?", "status", "--jsn")
    usage(case, "unknown option --nonsense", "run", "--nonsense", "--", "true")
    usage(case, "unknown option --nonsense", "explain", "--nonsense")
    usage(case, "--interval 0: seconds from 0.1 to 3600", "top", "--interval", "0")
    usage(case, "--placement foo: binpack, spread or fgd is wanted", "up", "--placement", "foo")
    usage(case, "--scheduler is empty", "status", "--scheduler", "")
    usage(case, "--scheduler is empty", "run", "--scheduler", "", "--", "true")
    usage(case, "one SERVER is wanted", "drain")


def test_daemons_with_wrong_options_have_one_exit_status(case):
    for program, *args in (("gpupool-server",), ("gpupool-scheduler",),
                           ("gpupool-scheduler", "migrate"), ("gpupool-kube", "controller"),
                           ("gpupool-kube", "webhook"), ("gpupool-kube", "extender"),
                           ("gpupool-kube", "node-plugin")):
        done = case.run([case.build / "bin" / program, *args, "--nonsense"], status=2)
        case.contains(done.err, "unknown option --nonsense", f"{program} {args}")
    done = case.run([case.build / "bin" / "gpupool-scheduler", "migrate"], status=2)
    case.contains(done.err, "--from sqlite:PATH and --to etcd:URL,... are needed", "migrate")
    done = case.run([case.build / "bin" / "gpupool-server", "--listen", "127.0.0.1:0"], status=2)
    case.contains(done.err, "--scheduler HOST:PORT or --scheduler-key FILE is needed", "gpupool-server")


def test_server_takes_times_with_their_unit(case):
    server = case.build / "bin" / "gpupool-server"
    for name in ("resume", "link-timeout", "adopt-window", "check-seconds", "work-limit", "work-limit-offline"):
        for value in ("5m", "30s", "1h", "300"):
            case.run([server, "--check-options", f"--{name}", value])
        done = case.run([server, "--check-options", f"--{name}", "5min"], status=2)
        case.contains(done.err, f"--{name} 5min: a number of seconds, or a time like 30s, 10m or 2h", name)


def test_scheduler_refuses_what_would_be_ignored_or_cannot_be(case):
    scheduler = case.build / "bin" / "gpupool-scheduler"
    where = ("--listen", "127.0.0.1:0", "--state-dir", case.folder / "state")
    for option in (("--http-cert", "c.pem"), ("--http-key", "k.pem"), ("--http-public",)):
        done = case.run([scheduler, *where, *option], status=2)
        case.contains(done.err, f"{option[0]} says how the page is served, and --http HOST:PORT", option[0])
    keys = case.folder / "keys"
    keys.mkdir()
    done = case.run([scheduler, *where, "--key-file", keys], status=1)
    case.contains(done.err, f"--key-file: {keys} is a directory; name the file that holds the scheduler's key",
                  "a folder as a key")


def test_states_that_are_taken_are_in_the_help(case):
    for command in ("status", "servers", "sessions"):
        refused = case.run([case.build / "bin" / "gpupool", command, "--state", "nosuch"], status=2)
        states = re.findall(r"[a-z-]+", refused.err.split("--state nosuch: ")[1].split(" is wanted")[0])
        said = case.run([case.build / "bin" / "gpupool", command, "--help"]).out
        case.check(len(states) > 3, f"states of {command}: {states}")  # with "or"
        for state in states:
            case.contains(said.split("--state STATE")[1].split("\n      --")[0], state, f"{command} --help")


def test_short_options_and_help_of_a_command_are_there(case):
    for args in (("run", "-h"), ("help", "run"), ("status", "-h"), ("explain", "-h")):
        usage(case, f"Usage: gpupool {args[0] if args[0] != 'help' else args[1]}", *args,
              status=0)
    usage(case, "gpupool ", "-v", status=0)
    usage(case, "no command nosuch", "help", "nosuch")


def test_wrong_command_is_answered_with_what_is_near_to_it(case):
    usage(case, "no command stauts; did you mean status?", "stauts")
    usage(case, "no command foo (see gpupool --help)", "foo")
    usage(case, "--scheduler: options come after the command", "--scheduler", "x", "status")


def test_misspelt_variable_is_answered_with_what_is_near_to_it(case):
    hint = "gpupool: GPUPOOL_TRANSPROT is set, and nothing reads it; did you mean GPUPOOL_TRANSPORT?\n"
    pool = case.pool(servers=1, cards=1)
    own = {"GPUPOOL_SHARE": "1", "GPUPOOL_SCHEDULER_PORT": "tcp://10.0.0.1:7", "GPUPOOL_X": "",
           "GPUPOOL_" + "A" * 100: "1", "GPUPOOL_TRACE": "0"}
    for args in (("status",), ("run", "--core", "5", "--memory", "16MiB", "--", "true")):
        done = pool.cli(*args, env={**own, "GPUPOOL_TRANSPROT": "tcp"}, status=0)
        case.equal(done.err, hint, f"gpupool {args[0]}")
        case.equal(pool.cli(*args, env=own, status=0).err, "", f"gpupool {args[0]}, with others")
    done = pool.cli("doctor", env={**own, "GPUPOOL_TRANSPROT": "tcp"}, status=None)
    case.contains(done.out, "warn  environment: GPUPOOL_TRANSPROT is set, and nothing reads it", "doctor")
    case.contains(done.out, "did you mean GPUPOOL_TRANSPORT?", "doctor")
    case.equal(done.err, "", "doctor")


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


def test_wrong_token_has_one_exit_status_for_run_and_explain(case):
    pool = case.pool(servers=1, cards=1)
    wrong = case.folder / "wrong-token"
    wrong.write_text("not-it\n", encoding="utf-8")
    for args in (("explain",), ("run", "--", "true"), ("status",)):
        command, *rest = args
        done = pool.cli(command, "--token-file", wrong, *rest, status=3)
        case.contains(done.err, "wrong client token", f"gpupool {command}")


def test_refusals_of_several_cards_are_grouped_by_server(case):
    pool = case.pool(servers=2, cards=2)
    for words in (("--cards", "3", "--core", "50", "--memory", "64MiB"), ("--core", "1600"),
                  ("--core", "300")):
        said = (pool.cli("explain", *words, status=3).out, pool.cli("run", *words, "--", "true", status=3).err)
        for text in said:
            case.equal(len([line for line in text.splitlines() if ", 2 cards: would fit" in line]), 2,
                       f"lines of servers for {words}:\n{text}")
    each = pool.cli("explain", "--core", "300", "-o", "wide", status=3).out
    case.equal(each.count(": would fit"), 4, f"lines of cards:\n{each}")


def test_decimal_unit_is_said_where_it_decides(case):
    pool = case.pool(servers=1, cards=1, options=("--memory", "1GiB"))
    note = "--memory 1.05GB was read as 1.05 GiB; with a decimal unit it is 1001MiB"
    want = ("--core", "10", "--memory", "1.05GB")
    case.contains(pool.cli("explain", *want, status=3).out, note, "explain")
    case.contains(pool.cli("run", *want, "--", "true", status=3).err, note, "run")
    case.check("decimal" not in pool.cli("explain", "--core", "10", "--memory", "1.05GiB", status=3).out,
               "a unit that is clear")
    case.check("decimal" not in pool.cli("explain", "--core", "10", "--memory", "64MB").out, "it fits")


def test_verbose_run_names_the_transport(case):
    pool = case.pool(servers=1, cards=1)
    said = pool.run("true", options=("--verbose",)).err
    case.contains(said, ": local-1 over shared memory, by way of ", "by itself")
    said = pool.run("true", options=("-v",), env={"GPUPOOL_TRANSPORT": "tcp"}).err
    case.contains(said, ": local-1 over TCP to 127.0.0.1:", "GPUPOOL_TRANSPORT=tcp")


def test_drain_of_an_unknown_server_names_those_there_are(case):
    pool = case.pool(servers=2, cards=1)
    for command in ("drain", "cordon"):
        case.contains(pool.cli(command, "nosuch", status=3).err, "no server nosuch; known servers: local-", command)
    case.equal(sorted(s["state"] for s in pool.status()["servers"]), ["alive"] * 2, "nothing drains")


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


def test_wait_with_its_time_as_a_word_of_its_own_is_explained(case):
    pool = case.pool(servers=1, cards=1)
    done = pool.cli("run", "--wait", "1s", "--", "true", status=127)
    case.contains(done.err, "run: 1s: no such program in PATH\n", "what is missing")
    case.contains(done.err, "run: a time to wait is written --wait=1s\n", "the hint")
    done = pool.cli("run", "--wait", "no-such-program", status=127)
    case.check("is written" not in done.err, f"a hint where there is no time:\n{done}")


def test_numbers_and_days_that_are_none_are_refused(case):
    usage(case, "--cards 0", "run", "--cards", "0", "--", "true")
    usage(case, "--processes 0", "run", "--processes", "0", "--", "true")
    usage(case, "2026-02-31", "usage", "--since", "2026-02-31")
    pool = case.pool(servers=1, cards=1)
    for command in (("status",), ("run", "--", "true"), ("doctor",), ("drain", "local-1")):
        done = pool.cli(*command, env={"GPUPOOL_TLS": "x"}, status=1 if command == ("doctor",) else 2)
        case.contains(done.out + done.err, "GPUPOOL_TLS", " ".join(command))


def test_close_takes_a_name_and_no_id(case):
    """jq reads numbers as doubles: the id of one session becomes that of another."""
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=10, memory="64MiB")
    shown, = pool.sessions()
    case.check(shown["id"] > 1 << 53, f"the id {shown['id']} is small")
    for number in (shown["id"], int(float(shown["id"]))):
        case.contains(pool.cli("close", str(number), status=2).err, "is not a session name",
                      f"close {number}")
    case.equal(len(pool.sessions()), 1, "sessions after that")
    for text in (shown["id_hex"][2:], shown["id_hex"].upper(), shown["id_hex"] + "0", "0x7",
                 "2471915400000001", str(1 << 32)):  # as of an id_hex whose digits are decimal ones
        case.contains(pool.cli("close", text, status=2).err, "nor an id_hex", f"close {text}")
    pool.cli("close", shown["name"])
    case.equal(pool.sessions(), [], "sessions after close with the name")
    session.process.kill()
    session.process.wait(case.patience)


def test_id_of_a_session_is_there_as_text_and_taken_so(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=10, memory="64MiB")
    shown, = pool.sessions()
    case.equal(int(shown["id_hex"], 16), shown["id"], "the id as text and as number")
    described = json.loads(pool.cli("describe", "session", shown["id_hex"], "--json").out)
    case.equal(described["name"], shown["name"], "describe")
    case.equal(json.loads(pool.cli("get", "session", shown["id_hex"], "--json").out)["id_hex"],
               shown["id_hex"], "get")
    # Of another epoch, with the same number.
    other = f"0x{shown['id'] + (1 << 32):016x}"
    pool.cli("describe", "session", other, status=3)
    pool.cli("close", other, status=3)
    case.equal(len(pool.sessions()), 1, "sessions after the order for another")
    case.contains(pool.cli("close", shown["id_hex"]).out, "closed", "close")
    case.equal(pool.sessions(), [], "sessions after close with the id")
    session.process.kill()
    session.process.wait(case.patience)


def test_down_asks_before_it_ends_sessions(case):
    pool = case.pool(servers=1, cards=1)
    client = pool.spawn(case.programs / "cudash", memory="64MiB")
    case.wait_for(lambda: pool.status()["sessions"], "the session is there")
    done = pool.cli("down", status=1)
    case.contains(done.err, "1 session runs; `gpupool down --force` ends it", "what down says")
    case.check(pool.status()["sessions"], "the session runs on")
    done = pool.cli("down", "--force")
    case.contains(done.out, "and 1 session", "what down says")
    client.kill()
    client.wait()


def test_down_asks_when_the_scheduler_cannot_count_the_sessions(case):
    """A dead scheduler counts no sessions; programs run on all the same."""
    pool = case.pool(servers=1, cards=1)
    client = Cudash(case, pool.spawn(case.programs / "cudash", memory="64MiB"))
    client.begin()
    client.ok("alloc", 1 << 20)
    pool.kill(pool.pid("gpupool-scheduler"))
    done = pool.cli("down", status=1)
    case.contains(done.err, "down: the scheduler does not answer, so sessions may be running; "
                  "`gpupool down --force` ends the pool", "what down says")
    case.equal(len(pool.workers()), 1, "workers after down was refused")
    client.process.kill()
    client.process.wait(case.patience)
    done = pool.cli("down", "--force")
    case.contains(done.out, "pool down: 1 process ended\n", "what down --force says")


def test_down_cleans_up_an_idle_pool_without_a_scheduler(case):
    pool = case.pool(servers=1, cards=1)
    pool.kill(pool.pid("gpupool-scheduler"))
    case.contains(pool.cli("down").out, "pool down: 1 process ended\n", "what down says")


def test_dead_server_is_named_by_up_and_doctor(case):
    pool = case.pool(servers=1, cards=1)
    pool.kill(pool.pid("gpupool-server"))
    case.contains(pool.cli("up", status=1).err,
                  "but server local-1 has died; `gpupool down --force` ends it", "what up says")
    case.wait_for(lambda: pool.status()["servers"][0]["state"] == "dead", "the server counts as dead")
    done = pool.cli("doctor", status=1)
    case.contains(done.out, "servers: none of 1 is connected", "what doctor finds")
    case.check("no card has core left" not in done.out, f"doctor speaks of room:\n{done}")
    case.contains(done.out, "start gpupool-server again", "the remedy")


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


def test_server_or_card_that_is_not_there_is_answered_with_those_that_are(case):
    pool = case.pool(servers=2, cards=2)
    for command in (("explain",), ("run",)):
        tail = ("--", "true") if command == ("run",) else ()
        done = pool.cli(*command, "--server", "nosuch", *tail, status=3)
        said = done.out + done.err
        case.contains(said, "no server nosuch; known servers: local-", " ".join(command))
        case.check("GPU-" not in said, f"lines about single cards:\n{said}")
    nobody = "GPU-00000000-0000-0000-0000-000000000000"
    case.contains(pool.cli("explain", "--card", nobody, status=3).out,
                  f"the pool has no card {nobody}", "a card that is not there")


def test_name_that_is_of_no_cards_form_is_bad_usage_everywhere(case):
    pool = case.pool()
    for command in (("describe", "card", "GPU-"), ("get", "card", "GPU-"), ("cordon", "local-1/GPU-"),
                    ("run", "--card", "GPU-", "--core", 10, "--memory", "64MiB", "--", "true")):
        case.contains(pool.cli(*command, status=2).err, "NUMBER@SERVER or SERVER/NUMBER", f"{command}")
    pool.cli("describe", "card", "GPU-0123", status=3)


def test_cards_of_a_server_that_share_a_reason_are_one_line(case):
    pool = case.pool(servers=2, cards=2)
    said = pool.cli("run", "--cards", 3, "--core", 10, "--memory", "64MiB", "--", "true",
                    status=3).err
    case.contains(said, "no server has 3 cards", "what run says")
    for name in ("local-1", "local-2"):
        case.equal(said.count(name), 1, f"lines about {name} in:\n{said}")
    case.contains(said, "local-1, 2 cards: would fit", "what run says")


def test_card_is_named_by_number_or_by_the_beginning_of_its_uuid(case):
    pool = case.pool(servers=2, cards=2)
    server = pool.status()["servers"][1]
    card = next(card for card in server["cards"] if card["index"] == 1)
    for name in (f"1@{server['name']}", f"{server['name']}/1", card["uuid"][:12], card["uuid"].lower(),
                 f"{server['name']}/{card['uuid'][:12]}"):
        said = pool.cli("explain", "--core", 10, "--memory", "64MiB", "--card", name).out
        case.contains(said, f"{server['name']} {card['uuid']}: chosen", f"--card {name}")
    for name, words in (("7@local-1", "server local-1 has 2 cards, counted from 0"),
                        ("0@nosuch", "no server nosuch; `gpupool servers` lists them"),
                        ("GPU-", "a uuid like GPU-01234567-..., its beginning, NUMBER@SERVER or SERVER/NUMBER"),
                        ("0", "NUMBER@SERVER or SERVER/NUMBER is wanted"),
                        ("GPU-fffffffffff", "no card of the pool begins so")):
        done = pool.cli("run", "--card", name, "--", "true", status=2)
        case.contains(done.err, f"--card {name}: ", f"--card {name}")
        case.contains(done.err, words, f"--card {name}")


def test_verbose_run_says_what_it_got_and_name_and_environment_reach_their_places(case):
    pool = case.pool(servers=1, cards=1)
    card = pool.status()["servers"][0]["cards"][0]
    done = pool.run("sh", "-c", 'echo "$GREETING"; exec "$0" sessions --json', pool.gpupool,
                    memory="64MiB", options=("-v", "--name", "training", "--env",
                                             "GREETING=hello = there", "--env", "EMPTY="))
    first, _, rest = done.out.partition("\n")
    case.equal(first, "hello = there", "the variable")
    case.equal([s["program"] for s in json.loads(rest)["sessions"]], ["training"], "the name")
    case.contains(done.err, f"local-1 {card['uuid']} ({card['name']}), 30 % core, 64 MiB",
                  "what run says")
    usage(case, "--env GREETING: NAME=VALUE is wanted", "run", "--env", "GREETING", "--", "true")


def test_dry_run_answers_as_explain_and_runs_nothing(case):
    pool = case.pool(servers=1, cards=1)
    request = ("--core", 30, "--memory", "64MiB")
    done = pool.cli("run", "--dry-run", *request, "--", "touch", case.folder / "never")
    case.equal(done.out, pool.cli("explain", *request).out, "the answer")
    case.check(not (case.folder / "never").exists(), "the program ran")
    pool.cli("run", "--dry-run", "--core", 30, "--memory", "640GiB", status=3)


def test_drain_of_a_server_without_sessions_says_that_it_is_drained(case):
    pool = case.pool(servers=1, cards=1)
    case.contains(pool.cli("drain", "local-1").out, "drained, no sessions there", "drain")
    case.contains(pool.cli("drain", "--undo", "local-1").out, "accepts sessions again", "drain --undo")


def test_doctor_names_the_token_when_that_is_wrong(case):
    pool = case.pool(servers=1, cards=1)
    wrong = case.folder / "wrong"
    wrong.write_text("no secret\n", encoding="utf-8")
    said = pool.cli("doctor", "--token-file", wrong, status=1).out
    case.contains(said, "name the file that holds the pool's client token", "the remedy")
    case.check("start one" not in said, f"the remedy of another fault:\n{said}")


def test_drain_of_a_server_that_is_not_connected_says_that_programs_may_still_run(case):
    pool = case.pool(servers=2, options=("--heartbeat-ms", 100))
    words = "gpupool: drain: server local-1 is not connected: what was started there before may still run"
    case.equal(pool.cli("drain", "local-1").err, "", "of one that is connected")
    server = next(s for s in pool.status()["servers"] if s["name"] == "local-1")
    pool.kill(server["pid"], signal.SIGSTOP)
    case.wait_for(lambda: [s["state"] for s in pool.status()["servers"]
                           if s["name"] == "local-1"] == ["dead"], "it is silent for too long")
    for options in ((), ("--wait=1s",), ("--output", "json")):
        done = pool.cli("drain", *options, "local-1")
        case.contains(done.err, words, f"drain {options}")
        case.contains(done.out, "drained", f"drain {options}")
    case.equal(pool.cli("drain", "--undo", "local-1").err, "", "of --undo")
    pool.kill(server["pid"], signal.SIGCONT)


def test_key_of_the_scheduler_that_is_none_is_named_with_its_file(case):
    file = case.folder / "pins"
    file.write_text("# the pool's\n", encoding="ascii")
    for key, words in ((str(file), f"GPUPOOL_SCHEDULER_KEY: {file}: no key of a scheduler: 32 bytes"),
                       ("pins", "GPUPOOL_SCHEDULER_KEY: no key of a scheduler: 32 bytes of base64url "
                                "(a path has a / in it)")):
        done = case.run([case.build / "bin" / "gpupool", "status"], status=None,
                        env={"GPUPOOL_RUN_DIR": str(case.folder), "GPUPOOL_SCHEDULER": "127.0.0.1:1",
                             "GPUPOOL_SCHEDULER_KEY": key})
        case.contains(done.err, words, key)


def test_daemons_refuse_what_they_could_never_use(case):
    """An address without a port, or a name that no scheduler takes, was tried for ever."""
    state = case.folder / "state"
    for words, program, *args in (
            ("--scheduler pool:port: HOST or HOST:PORT is wanted", "gpupool-server",
             "--scheduler", "pool:port"),
            ("--advertise two words: HOST or HOST:PORT is wanted", "gpupool-server",
             "--scheduler", "127.0.0.1:1", "--advertise", "two words"),
            ("--name is empty: a name of 1 to 63 characters", "gpupool-server",
             "--scheduler", "127.0.0.1:1", "--name", ""),
            ("--name two words: a name without blanks", "gpupool-server",
             "--scheduler", "127.0.0.1:1", "--name", "two words"),
            ("--listen 127.0.0.1:99999: HOST or HOST:PORT is wanted", "gpupool-scheduler",
             "--listen", "127.0.0.1:99999"),
            ("--listen is empty: HOST or HOST:PORT is wanted", "gpupool-scheduler",
             "--listen", ""),
            ("--metrics-listen host: HOST:PORT is wanted", "gpupool-scheduler",
             "--metrics-listen", "host"),
            ("--scheduler pool:port: HOST or HOST:PORT is wanted", "gpupool-kube",
             "controller", "--scheduler", "pool:port")):
        done = case.run([case.build / "bin" / program, *args, *(
            ["--state-dir", state] if program != "gpupool-kube" else [])], status=2)
        case.contains(done.err, words, f"{program} {args}")
    case.check(not state.exists(), "nothing was made before the options were checked")


def test_audit_log_that_cannot_be_opened_yet_is_no_wrong_option(case):
    """Units start no daemon again that ends with 2, and a disk may have room later."""
    for program, *args in (("gpupool-scheduler",), ("gpupool-server", "--scheduler", "127.0.0.1:1")):
        done = case.run([case.build / "bin" / program, *args, "--listen", "127.0.0.1:0",
                         "--state-dir", case.folder / program, "--audit-log",
                         case.folder / "none" / "audit"], status=1)
        case.contains(done.err, "No such file or directory", program)
        case.contains(done.err, "audit", program)
