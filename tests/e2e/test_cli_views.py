# SPDX-License-Identifier: Apache-2.0
"""What the command line shows of a pool: forms, filters, colours, single objects."""

import json
import os
import pty
import subprocess
import unicodedata

HEADS = {
    "status": "SERVER CARD NAME SLICES CORE MEMORY USED BUSY STATE",
    "servers": "SERVER STATE ENDPOINT DRIVER CUDA CARDS SLICES PID SILENT VERSION",
    "sessions": "SESSION STATE OWNER POLICY SERVER SLICES CORE MEMORY USED PROCS LEASE PROGRAM",
}


def busy_pool(case):
    """Two servers; a session on each, of different owners and sizes."""
    pool = case.pool(servers=2, cards=1)
    small = pool.session(core=10, memory="64MiB", options=("--owner", "ann@a", "--server", "local-1"))
    large = pool.session(core=40, memory="256MiB", options=("--owner", "bob@b", "--server", "local-2"))
    return pool, small, large


def test_views_show_the_first_rows_and_how_many_more(case):
    pool, small, _ = busy_pool(case)
    third = pool.session(core=5, memory="64MiB", options=("--owner", "ann@a"))
    for options, rows, words in (
            (("sessions", "--limit", "1"), 1, "and 2 more sessions"),
            (("sessions", "--limit", "1", "--owner", "ann@a"), 1, "and 1 more session"),
            (("sessions", "--limit", "2", "--sort", "-core"), 2, "and 1 more session"),
            (("sessions", "--limit", "1", "--state", "idle"), 1, "and more sessions"),
            (("servers", "--limit", "1"), 1, "and 1 more server"),
            (("events", "--limit", "2"), 2, "and more events")):
        head, *lines = pool.cli(*options).out.splitlines()
        case.equal((len(lines), lines[-1]), (rows + 1, words), " ".join(options))
        case.equal(len(pool.cli(*options, "--no-headers").out.splitlines()), rows,
                   f"{options} --no-headers")
    case.check("more" not in pool.cli("sessions", "--limit", "3").out, "all are there")
    status = pool.cli("status", "--limit", "1").out
    for words in ("\nand 1 more card\n", "\nand 2 more sessions\n"):
        case.contains(status, words, "status --limit")
    document = json.loads(pool.cli("sessions", "-o", "json", "--limit", "1", "--owner", "ann@a").out)
    case.equal((len(document["sessions"]), document["sessions_left_off"], document["servers_left_off"]),
               (1, 1, 1), "as JSON")
    small.close()
    third.close()


def test_forms_and_filters_show_the_same_pool(case):
    pool, small, large = busy_pool(case)
    for command, heads in HEADS.items():
        table = pool.cli(command).out.splitlines()
        case.equal(table[0].split(), heads.split(), command)
        wide = pool.cli(command, "-o", "wide").out.splitlines()
        case.check(set(table[0].split()) < set(wide[0].split()), f"{command} -o wide:\n{wide[0]}")
        bare = pool.cli(command, "--no-headers").out
        case.check(heads.split()[-1] not in bare.split(), f"{command} --no-headers:\n{bare}")
        case.equal(json.loads(pool.cli(command, "-o", "json").out).keys(), pool.status().keys(),
                   f"keys of {command}")

    def names(*options):
        return [line.split()[0] for line in
                pool.cli("sessions", "--no-headers", *options).out.splitlines()]

    a, b = small.field("session"), large.field("session")
    case.equal(names("--owner", "ann@a"), [a], "--owner")
    case.equal(names("--server", "local-2"), [b], "--server")
    case.equal(names("--owner", "ann@a", "--server", "local-2"), [], "both")
    case.equal(names("--state", "closing"), [], "--state")
    lines = pool.cli("status", "--server", "local-1", "--no-headers").out.splitlines()
    case.equal([line.split()[:1] for line in lines], [["local-1"], [], [a]], "status --server")
    case.equal(pool.cli("sessions", "--owner", "nobody").out, "no sessions\n", "--owner nobody")
    pool.cli("drain", "local-1")
    case.equal(names("--state", "idle", "--server", "local-1"), [a], "--state and --server")
    case.contains(pool.cli("servers", "--state", "draining").out, "draining", "with a session")
    small.close()
    case.wait_for(lambda: "drained" in pool.cli("servers").out, "the server is drained")


def test_cordoned_card_is_given_to_nobody_until_it_is_uncordoned(case):
    pool = case.pool(servers=1, cards=2)

    def states():
        return [line.split()[-1] for line in pool.cli("status", "--server", "local-1",
                                                      "--no-headers").out.splitlines()[:2]]

    def card(index):
        return json.loads(pool.cli("servers", "--json").out)["servers"][0]["cards"][index]

    def place():
        session = pool.session(core=10, memory="64MiB")
        uuid = pool.sessions()[0]["slices"][0]["card"]
        session.close()
        return [card(i)["uuid"] for i in range(2)].index(uuid)

    first = place()
    session = pool.session(core=10, memory="64MiB")
    case.equal(pool.cli("cordon", f"local-1/{first}").out,
               f"card {first} of server local-1: cordoned, no new sessions, 1 session there\n",
               "the answer")
    session.close()
    case.equal(states()[first], "cordoned", "its state")
    case.equal([card(i)["cordoned"] for i in range(2)], [first == 0, first == 1], "as JSON")
    case.equal(place(), 1 - first, "the card of the next session")
    why = pool.cli("explain", "--core", "10", "--memory", "64MiB").out
    case.contains(why, "cordoned by an administrator", "explain")
    # Over a restart of the server and of the scheduler.
    pool.restart(pool.pid("gpupool-server"))
    pool.restart(pool.pid("gpupool-scheduler"))
    case.wait_for(lambda: pool.cli("servers", status=None).out.count("alive") == 1, "the server")
    case.equal(states()[first], "cordoned", "its state after a restart")
    pool.cli("cordon", f"local-1/{card(1 - first)['uuid']}")
    refused = pool.run("true", status=3).err
    case.contains(refused, "2 are cordoned", "the refusal")
    waits = pool.spawn("echo", "served", options=["--wait=5m"])
    case.wait_for(lambda: "2 are cordoned" in pool.cli("queue").out, "it waits")
    case.contains(pool.cli("uncordon", f"local-1/{first}").out, "accepts sessions again", "uncordon")
    case.equal(waits.stdout.readline(), "served\n", "who waited for it")
    case.equal(waits.wait(case.patience), 0, "its exit status")
    kinds = [event["kind"] for event in json.loads(pool.cli("events", "--json").out)["events"]]
    case.equal([kind for kind in kinds if "cordon" in kind], ["uncordon", "cordon"],
               "events since the restart, newest first")
    for name, words in (("local-1/7", "server local-1 has no card 7"), ("nobody/0", "no server nobody; known servers: local-1"),
                        ("0@nobody", "no server nobody; known servers: local-1"),
                        ("7@local-1", "server local-1 has no card 7"),
                        ("nobody", "no server nobody; known servers: local-1")):
        case.contains(pool.cli("cordon", name, status=3).err, words, f"cordon {name}")
    uuid = card(first)["uuid"]
    for name in (f"{first}@local-1", f"local-1/{uuid[:12]}", uuid[:12], uuid):
        case.contains(pool.cli("cordon", name).out, "of server local-1: cordoned", f"cordon {name}")
        case.equal(card(first)["cordoned"], True, f"the card after cordon {name}")
        case.contains(pool.cli("uncordon", name).out, "accepts sessions again", f"uncordon {name}")
        case.equal(json.loads(pool.cli("describe", "card", name, "-o", "json").out)["uuid"], uuid,
                   f"describe card {name}")
    for name in ("local-1/", "/0", "x@local-1", "0@"):
        case.contains(pool.cli("cordon", name, status=2).err, f"cordon: {name}: a server, or a card", name)
    case.contains(pool.cli("cordon", "GPU-ffffffff", status=3).err, "no card of the pool begins so",
                  "a uuid that no card has")
    case.contains(pool.cli("cordon", "local-1").out, "no sessions there and no new ones",
                  "a whole server")
    case.contains(pool.cli("uncordon", "local-1").out, "accepts sessions again", "and back")


def test_tables_are_sorted_by_a_column_of_theirs(case):
    pool, small, large = busy_pool(case)
    a, b = small.field("session"), large.field("session")

    def rows(command, *options):
        return [line.split()[0] for line in
                pool.cli(command, "--no-headers", *options).out.splitlines() if line]

    case.equal(rows("sessions", "--sort", "memory"), [a, b], "64 MiB before 256 MiB")
    case.equal(rows("sessions", "--sort", "-MEMORY"), [b, a], "the largest first")
    case.equal(rows("sessions", "--sort", "core"), [a, b], "10 % before 40 %")
    case.equal(rows("sessions", "--sort", "-owner"), [b, a], "owners backwards")
    case.equal(rows("sessions", "--sort", "-class"), [a, b], "all alike: by their names")
    case.equal(rows("servers", "--sort=-server"), ["local-2", "local-1"], "servers")
    case.equal(rows("status", "--sort=-memory"), ["local-2", "local-1", b, a], "both tables")
    case.equal(rows("status", "--sort=-owner"), ["local-1", "local-2", b, a], "the second")
    wrong = pool.cli("servers", "--sort", "weight", status=2).err
    case.contains(wrong, "--sort weight: there is no such column, but SERVER, STATE", "words")
    wrong = pool.cli("status", "--sort", "weight", status=2).err
    names = wrong.partition(" but ")[2].strip().split(", ")
    case.equal(len(names), len(set(names)), f"columns of both tables, each once: {wrong}")


def test_drain_waits_and_says_what_is_left(case):
    pool, small, _ = busy_pool(case)
    name = small.field("session")
    late = pool.cli("drain", "local-1", "--wait=1s", status=1)
    case.contains(late.err, f"1 session is left there: {name} of ann@a", "not in time")
    drain = case.spawn([pool.gpupool, "drain", "--wait", "local-1"], env=pool.env,
                       stderr=subprocess.PIPE)
    case.contains(drain.stderr.readline(), f"1 session left with 0 processes: {name} of ann@a",
                  "what is left")
    small.close()
    out, err = drain.communicate(timeout=case.patience)
    case.equal((drain.returncode, out, err),
               (0, "server local-1: drained, no sessions there and no new ones\n", ""), "the end")
    case.contains(pool.cli("drain", "--wait", "local-1").out, "drained", "nothing to wait for")
    case.contains(pool.cli("drain", "--wait", "--undo", "local-1", status=2).err,
                  "nothing to wait for", "both options")


def test_one_object_is_described_for_people_and_for_programs(case):
    pool, small, _ = busy_pool(case)
    name = small.field("session")
    text = pool.cli("describe", "session", name).out
    for line in (f"name: {name}", "owner: ann@a", "    core: 10 %", "    memory: 64 MiB"):
        case.check(line in text.replace("- ", "  ").splitlines(), f"{line!r} is not in\n{text}")
    said = json.loads(pool.cli("describe", "session", name, "-o", "json").out)
    case.equal(said["owner"], "ann@a", "describe -o json")
    card = json.loads(pool.cli("describe", "card", "0@local-1", "-o", "json").out)
    case.equal((card["server"], [s["session"] for s in card["parts"]]), ("local-1", [name]),
               "describe card")
    case.contains(pool.cli("describe", "server", "local-1", "-o", "yaml").out,
                  f"sessions:\n  - name: {name}\n", "describe server")
    case.contains(pool.cli("sessions", "-o", "yaml").out, f"\nsessions:\n  - name: {name}\n",
                  "sessions -o yaml")
    for args, status, words in ((("session", "s999"), 3, "no session s999"),
                                (("server", "x"), 3, "no server x"),
                                (("card", "GPU-ffffffff"), 3, "no card of the pool begins so"),
                                (("session",), 2, "session NAME, server NAME or card NAME")):
        case.contains(pool.cli("describe", *args, status=status).err, words, f"describe {args}")
    case.contains(pool.cli("close", "s999", status=3).err, "no session s999", "close, for the same cause")


def test_server_that_is_not_there_is_no_empty_list(case):
    pool = case.pool(servers=2, cards=1)
    for command in ("status", "servers", "sessions"):
        for form in ((), ("--json",)):
            done = pool.cli(command, "--server", "nope", *form, status=3)
            case.contains(done.err, f"gpupool: {command}: no server nope; known servers: local-1, local-2\n",
                          f"{command} --server nope")
            case.equal(done.out, "", "the list")
    case.equal(pool.cli("sessions", "--server", "local-1").out, "no sessions\n", "a server without any")


def on_a_terminal(pool, *args, **env):
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([pool.gpupool, *args], stdout=theirs, stdin=subprocess.DEVNULL,
                               env={**pool.case.environment(pool.env), "TERM": "xterm", **env})
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 65536):
            said += part
    except OSError:
        pass  # the other end was closed
    os.close(ours)
    pool.case.equal(process.wait(), 0, f"{args}")
    return said.decode()


def test_status_fits_a_hundred_columns(case):
    pool = case.pool(servers=1, cards=2, options=("--memory", "4GiB"))
    session = pool.session(core=40, memory="1536MiB", options=("--owner", "alexandra@node-17"))
    lines = pool.cli("status").out.splitlines()
    case.check(max(len(line) for line in lines) <= 100, "\n".join(lines))
    row = dict(zip(lines[-2].split(), lines[-1].split()))
    case.equal((row["SERVER"], row["OWNER"]), ("local-1", "alexandra@node-17"), "the slice's row")
    described = json.loads(pool.cli("describe", "card", f"{row['CARD']}@local-1", "-o", "json").out)
    case.equal([part["session"] for part in described["parts"]], [session.field("session")],
               "its card, by the number in the table")
    wide = pool.cli("status", "-o", "wide").out
    case.contains(wide, described["uuid"], "-o wide has whole uuids")


def test_explain_and_drain_answer_programs_too(case):
    pool = case.pool(servers=2, cards=1)
    fits = json.loads(pool.cli("explain", "--core", "10", "--memory", "64MiB", "-o", "json").out)
    chosen = [card["server"] for card in fits["cards"] if card["words"].startswith("chosen")]
    case.equal((fits["fits"], len(fits["cards"]), [t["server"] for t in fits["transports"]],
                fits["transports"][0]["transport"]), (True, 2, chosen, "shm"), "a request that fits")
    case.contains(fits["transports"][0]["not"]["tcp"], "shm is faster", "why not TCP")
    not_now = json.loads(pool.cli("explain", "--core", "300", "-o", "json", status=3).out)
    case.equal((not_now["fits"], len(not_now["cards"])), (False, 2), "a request that does not")
    case.contains(not_now["words"], "no server has 3 cards", "why not")
    case.equal(json.loads(pool.cli("drain", "local-1", "-o", "json").out),
               {"name": "local-1", "state": "drained", "sessions": 0}, "drain")
    case.contains(pool.cli("drain", "--undo", "local-1", "-o", "yaml").out, "state: alive", "drain --undo")
    case.contains(pool.cli("cordon", "local-1/0", "--json").out, '"cordoned"', "cordon")


def test_get_shows_what_the_commands_show(case):
    pool, small, large = busy_pool(case)
    name = small.field("session")
    for words, same in ((("servers", "-o", "json"), ("servers", "-o", "json")),
                        (("sessions", "--no-headers", "--owner", "ann@a"),
                         ("sessions", "--no-headers", "--owner", "ann@a")),
                        (("cards",), ("status",)), (("usage", "--by", "day"),) * 2,
                        (("pools",), ("pools",)),
                        (("server", "local-1", "-o", "yaml"),
                         ("describe", "server", "local-1", "-o", "yaml"))):
        got, wanted = pool.cli("get", *words).out, pool.cli(*same).out
        case.equal(got.split()[0], wanted.split()[0], f"get {' '.join(words)}")
        case.equal(len(got.splitlines()), len(wanted.splitlines()), f"lines of get {words}")
    case.contains(pool.cli("get", "session", name).out, f"name: {name}", "get session")
    done = pool.cli("get", "nothing", status=2)
    case.contains(done.err, "nothing: cards, servers, sessions", "a kind that is none")
    case.contains(pool.cli("get", "--help").out, "KIND [NAME]", "the help")
    large.close()


def test_states_have_colours_on_a_terminal_only(case):
    pool = case.pool(servers=1, cards=1)
    case.contains(on_a_terminal(pool, "servers"), "\033[32malive\033[0m", "on a terminal")
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        case.check("\033" not in on_a_terminal(pool, "servers", **env), f"colours with {env}")
    case.check("\033" not in pool.cli("servers").out, "colours in a pipe")


def test_names_that_users_choose_move_no_cursor(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=10, memory="64MiB", options=("--name", "x\033[2Jy\rz"))
    for args in (("sessions",), ("status",), ("describe", "session", session.field("session"))):
        out = pool.cli(*args).out
        case.check("\033" not in out and "\r" not in out, f"{args}: {out!r}")


def test_logs_are_those_of_the_local_pool(case):
    pool = case.pool(servers=1, cards=1)
    case.contains(pool.cli("logs").out, "local-1 listens on", "all logs")
    lines = pool.cli("logs", "-n", 1, "scheduler").out.splitlines()
    case.equal(len(lines), 1, "-n 1")
    case.check("listens on" not in pool.cli("logs", "local-1", "-n", 0).out, "-n 0")
    case.contains(pool.cli("logs", "nosuch", status=2).err, "no such log", "a name without a log")
    follow = case.spawn([pool.gpupool, "logs", "--follow", "scheduler"], env=pool.env)
    pool.cli("drain", "local-1")
    while "draining" not in follow.stdout.readline():
        pass
    follow.kill()
    follow.wait()


def documents(text):
    """The JSON documents that a view printed, one for each look."""
    found, decoder = [], json.JSONDecoder()
    while text := text.strip():
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:]
    return found


def test_queue_has_the_options_of_the_other_views(case):
    pool = case.pool(servers=1, cards=1)
    full = pool.session(core=100)
    for number, (owner, core) in enumerate((("ann@a", 20), ("bob@b", 70), ("ann@a", 40)), 1):
        pool.spawn("true", core=core, memory="64MiB", options=["--wait", "--owner", owner])
        case.wait_for(lambda n=number: json.loads(pool.cli("queue", "-o", "json").out)["waiting"] == n,
                      f"{number} requests wait")

    def rows(*options):
        lines = pool.cli("queue", "--no-headers", *options).out.splitlines()
        return [tuple(line.split()[i] for i in (0, 1, 5))
                for line in lines[:lines.index("") if "" in lines else None]]

    whole = rows()
    case.equal([row[0] for row in whole], ["1", "2", "3"], "the queue in its order")
    by_core = {row[2]: row for row in whole}
    first, second, third = by_core["20%"], by_core["70%"], by_core["40%"]
    case.equal(rows("--owner", "ann@a"), [row for row in whole if row != second],
               "--owner, with places of the whole queue")
    case.equal(rows("--tenant", "bob@b"), [second], "--tenant: an owner is one where no rule says more")
    case.equal(rows("--sort=-core"), [second, third, first], "--sort")
    case.equal(rows("--sort=-core", "--limit", "1"), [second], "the first of those in this order")
    for name in ("limit", "most"):
        case.equal(rows(f"--{name}", "2"), whole[:2], f"--{name}")
    for options in (("--limit", "1", "--owner", "ann@a"), ("--limit", "2"),
                    ("--limit", "2", "--sort", "core")):
        case.contains(pool.cli("queue", *options).out, "\nand 1 more request\n", f"{options}")
    case.contains(pool.cli("queue", "--owner", "nobody").out, "no such request waits", "--owner nobody")
    case.contains(pool.cli("queue", "-o", "yaml").out, "\nrequests:\n  - ", "-o yaml")
    case.check({"KEPT", "PROGRAM"} < set(pool.cli("queue", "-o", "wide").out.split()), "-o wide")
    case.contains(pool.cli("queue", "--sort", "x", status=2).err, "no such column, but #, OWNER", "--sort x")
    looks = documents(pool.cli("queue", "--watch", "--interval", "0.1", "--count", "3", "--json",
                               "--limit", "1", "--owner", "ann@a").out)
    case.equal([(len(look["requests"]), look["requests_left_off"]) for look in looks],
               [(1, 1)] * 3, "one document for each look")
    full.close()


def test_top_has_the_options_of_the_other_views(case):
    pool, small, large = busy_pool(case)
    a, b = small.field("session"), large.field("session")

    def rows(*options):
        return [line.split()[0] for line in
                pool.cli("top", "-n", 1, "--no-headers", *options).out.splitlines()]

    case.equal(rows(), [a, b], "all")
    case.equal(rows("--server", "local-2"), [b], "--server")
    case.equal(rows("--owner", "ann@a"), [a], "--owner")
    case.equal(rows("--sort=-core"), [b, a], "--sort")
    case.contains(pool.cli("top", "-n", 1, "--limit", 1).out, "\nand 1 more session\n", "--limit")
    looks = documents(pool.cli("top", "-n", 2, "-d", "0.1", "-o", "json", "--owner", "ann@a").out)
    case.equal([[s["name"] for s in look["sessions"]] for look in looks], [[a], [a]],
               "one document for each look")
    case.check("servers" not in looks[0], "top is about sessions")
    yaml = pool.cli("top", "-n", 2, "-d", "0.1", "-o", "yaml").out
    case.equal(yaml.split("\n").count("---"), 2, "one YAML document for each look")


def test_top_goes_on_after_a_look_that_failed(case):
    pool = case.pool(servers=1, cards=1)
    said = case.folder / "top.json"
    with said.open("w", encoding="utf-8") as file:
        top = case.spawn([pool.gpupool, "top", "-d", "0.1", "-o", "json"], env=pool.env,
                         stdout=file, stderr=subprocess.PIPE)
    scheduler = pool.pid("gpupool-scheduler")
    start = pool.starter(scheduler)
    case.wait_for(lambda: said.stat().st_size, "the first look")
    pool.kill(scheduler)
    case.contains(top.stderr.readline(), "; looking again", "what it says of a failed one")
    before = said.stat().st_size
    start()
    case.wait_for(lambda: said.stat().st_size > before, "another look")
    case.equal(top.poll(), None, "it goes on")
    top.kill()
    top.wait()
    case.contains(pool.cli("top", "--scheduler", "127.0.0.1:1", status=4).err, "127.0.0.1:1",
                  "nothing was seen yet")


def columns(text):
    """Of a terminal, for the letters that are used here."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
               for c in text)


def test_names_outside_of_ascii_are_shown_and_aligned(case):
    audit = case.folder / "audit.json"
    pool = case.pool(servers=1, cards=1)
    pool.restart(pool.pid("gpupool-scheduler"), "--audit-log", audit)
    owners = ["Jürgen@büro", "王小明@机房", "Жанна@х", "plain@host"]
    held = [pool.session(core=5, memory="64MiB", options=("--owner", owner)) for owner in owners]
    case.equal(sorted(s["owner"] for s in pool.sessions()), sorted(owners), "as JSON")
    head, *lines = pool.cli("sessions").out.splitlines()
    at = head.index("POLICY")
    for owner in owners:
        line, = [line for line in lines if owner in line]
        case.equal(columns(line[:line.index("fixed")]), at, f"columns before the policy: {line}")
    shown = pool.cli("sessions", "--owner", owners[1]).out.splitlines()
    case.equal(len(shown), 2, f"sessions --owner {owners[1]}")
    case.contains(pool.cli("describe", "session", held[0].field("session")).out, owners[0], "describe")
    granted = [json.loads(line) for line in audit.read_text(encoding="ascii").splitlines()]
    case.equal([e["who"] for e in granted if e["event"] == "grant"], owners, "the audit log")
    held[0].run(case.programs / "vecadd")  # the server takes the ticket
    pool.restart(pool.pid("gpupool-scheduler"))
    case.equal(sorted(s["owner"] for s in pool.sessions()), sorted(owners), "after a restart")
    for session in held:
        session.close()
    case.contains(pool.cli("usage").out, owners[1], "usage")


def test_owner_who_is_hostile_moves_no_cursor_and_turns_no_line(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=5, memory="64MiB", options=(
        "--owner", b"a\x1b[2J\xc2\x9b1m\xe2\x80\xae\xe2\x80\x8b\xff\xed\xa0\x80e\xcc\x81".decode(
            errors="surrogateescape")))
    mine = "a?[2J?1m??" + "????" + "e\u0301"
    case.equal([s["owner"] for s in pool.sessions()], [mine], "as JSON")
    for command in (("sessions",), ("status",), ("events",), ("describe", "session", session.field("session"))):
        case.contains(pool.cli(*command).out, mine, " ".join(command))
    session.close()
