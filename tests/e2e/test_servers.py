# SPDX-License-Identifier: Apache-2.0
"""One session on several servers: what a program sees, and what happens when one dies."""

import pathlib
import re
import signal

from harness.fault_driver import FaultDriver

PEER_CLIENT = pathlib.Path(__file__).with_name("peer_client.py")
LOST = (46, 205, 802, 803)  # what calls return when their server is gone
SPAN = {"core": 50, "memory": "100MiB", "options": ["--cards", 4, "--span"]}
WHOLE = {"core": 400, "memory": None, "options": ["--span"]}
POOL = {"servers": 2, "cards": 2, "options": ["--memory", "512MiB"]}


def on_one_machine(case, name="cards"):
    """What the program prints on four cards of the driver itself."""
    folder = case.folder / "driver"
    folder.mkdir(exist_ok=True)
    link = folder / "libcuda.so.1"
    if not link.exists():
        link.symlink_to(case.build / "lib" / "libsoftgpu.so")
    return case.run([case.programs / name],
                    env={"LD_LIBRARY_PATH": str(folder), "SOFTGPU_CARDS": "4",
                         "SOFTGPU_MEMORY": "512MiB", "SOFTGPU_INSTANCE": case.folder.name})


def compare(case, transports, slices, env=None, words="go directly"):
    local = on_one_machine(case)
    case.contains(local.out, "cards: ok", "on the driver itself")
    pool = case.pool(**POOL)
    for transport in transports:
        remote = pool.run(case.programs / "cards", status=None,
                          env={"GPUPOOL_TRANSPORT": transport,
                               "GPUPOOL_LOG": "stub:info", **(env or {})}, **slices)
        case.equal(remote.out, local.out, f"two servers against one machine, {transport}")
        case.equal(remote.status, 0, "exit status")
        for way in ("server 0 to server 1", "server 1 to server 0"):
            said = re.findall(f"copies from {way} ([a-z ]*[a-z])", remote.err)
            case.equal(said, [words], "the way of copies, first and last")


def test_cards_of_two_servers_work_like_cards_of_one_machine(case):
    compare(case, ("auto", "tcp"), SPAN)


def test_boxes_between_servers_of_which_only_the_extent_is_given(case):
    local = on_one_machine(case, "boxes")
    remote = case.pool(**POOL).run(case.programs / "boxes", status=None, **SPAN)
    case.equal(remote.out, local.out, "two servers against one machine")
    case.equal(remote.status, 0, "exit status")


def test_whole_cards_of_two_servers_wait_for_each_other_without_the_host(case):
    compare(case, ("auto", "tcp"), WHOLE)


def test_copies_pass_through_the_client_where_servers_do_not_reach_each_other(case):
    compare(case, ("auto",), SPAN, {"GPUPOOL_PEER_COPIES": "client"},
            "pass through this program")


def test_copies_between_servers_move_no_bytes_through_the_program(case):
    """By what the kernel counts for its connections."""
    session = case.pool(**POOL).session(**{**SPAN, "memory": "200MiB"})
    moved = {}
    for way in ("direct", "client"):
        done = session.run(*case.interpreter(), PEER_CLIENT, env={
            "GPUPOOL_TRANSPORT": "tcp", "GPUPOOL_COMPRESS": "off",
            **({"GPUPOOL_PEER_COPIES": "client"} if way == "client" else {})})
        case.contains(done.out, "right\n", f"the bytes, {way}")
        moved[way] = int(done.out.split()[1])
    case.check(moved["client"] >= 128 << 20, f"in and out of the program: {moved}")
    case.check(moved["direct"] < 64 << 10, f"past the program: {moved}")


def test_copies_between_servers_go_on_behind_one_of_which_a_half_failed(case):
    driver = FaultDriver(case)
    pool = driver.pool(servers=2, cards=1, options=["--memory", "512MiB"])
    sliced, whole = {**SPAN, "options": ["--cards", 2, "--span"]}, {**WHOLE, "core": 200}
    for transport, slices in (("auto", sliced), ("tcp", sliced), ("auto", whole), ("tcp", whole)):
        done = pool.run(case.programs / "halves", driver.control, status=None, timeout=3 * case.patience,
                        env={**driver.env, "GPUPOOL_TRANSPORT": transport,
                             "GPUPOOL_LOG": "stub:info"}, **slices)
        case.check("WRONG" not in done.out and done.status == 0,
                   f"every part, {transport}, {slices}:\n{done.out}{done.err}")
        ways = re.findall("copies from server . to server . ([a-z ]*[a-z])", done.err)
        case.equal(ways, ["go directly"] * 2, "the way of copies, first and last")


def shared(case, pool, slices, env=None):
    local = on_one_machine(case, "sharedcards")
    case.contains(local.out, "shared cards: ok", "on the driver itself")
    done = pool.run(case.programs / "sharedcards", status=None, env=env, **slices)
    case.equal((done.out, done.err), (local.out, ""), "in a session against one machine")
    case.equal(done.status, 0, "exit status")


def test_managed_memory_follows_the_cards_of_one_server(case):
    shared(case, case.pool(servers=1, cards=4, options=POOL["options"]),
           {**SPAN, "options": ["--cards", 4]})


def test_managed_memory_follows_the_cards_of_several_servers(case):
    shared(case, case.pool(**POOL), SPAN)


def test_managed_memory_follows_whole_cards_of_several_servers(case):
    shared(case, case.pool(**POOL), WHOLE, {"GPUPOOL_TRANSPORT": "tcp"})


def test_card_without_room_for_managed_memory_of_another_works_on(case):
    session = case.pool(**POOL).session(core=50, memory="8MiB",
                                        options=["--cards", 4, "--span"])
    shell = session.cudash(env={"GPUPOOL_LOG": "stub:warn"})
    shell.ok("init")
    shell.ok("primary", 2)
    shell.ok("alloc", 7 << 20)
    shell.ok("primary", 0)
    shell.ok("managed", 4 << 20)
    shell.ok("store", 1, 8, 77)
    shell.ok("primary", 2)
    case.check(shell("store", 1, 8, 78)[0] != 0, "what has no place there is out of reach")
    shell.ok("store", 0, 4, 79)
    case.equal(shell.ok("peek", 0, 4), 79, "the card's own memory")
    shell.ok("free", 0)
    shell.ok("store", 1, 8, 80)  # there is room now
    shell.ok("sync")
    shell.ok("primary", 0)
    case.equal(shell.ok("peek", 1, 8), 80, "what one server's card wrote, at the other")
    case.equal(shell.close(), 0, "exit status")


def test_session_spans_servers_only_when_asked_to(case):
    pool = case.pool(**POOL)
    alone = pool.run("true", status=3, **{**SPAN, "options": ["--cards", 4]})
    case.contains(alone.err, "no server has 4 cards that fit", "words of the refusal")
    case.contains(alone.err, "--span", "the refusal names the way out")
    pair = pool.run("sh", "-c", "grep -c ^ticket $GPUPOOL_SESSION_FILE",
                    **{**SPAN, "options": ["--cards", 2, "--span"]})
    case.equal(pair.out, "1\n", "tickets of a session that fits on one server")
    row = pool.run("gpupool", "sessions", "--no-headers", **SPAN).out.split()
    case.equal(sorted(row[4].split(",")), ["local-1", "local-2"], "its servers in the list")
    four = pool.run("sh", "-c", "grep -c ^ticket $GPUPOOL_SESSION_FILE", **SPAN)
    case.equal(four.out, "2\n", "tickets of a session on two servers")


def test_limits_hold_on_every_server(case):
    shell = case.pool(**POOL).session(**SPAN).cudash()
    shell.ok("init")
    case.equal(shell.ok("count"), 4, "cards of the session")
    for card in range(4):
        shell.ok("primary", card)
        case.equal(shell.ok("info")[1], 100 << 20, f"memory of card {card}")
        case.equal(shell("alloc", (100 << 20) + 1)[0], 2, f"more than that on card {card}")
        shell.ok("alloc", 50 << 20)
    case.equal(shell.close(), 0, "exit status")


def test_visible_devices_choose_and_order_cards_of_all_servers(case):
    session = case.pool(**POOL).session(**SPAN)
    everything = session.cudash()
    everything.ok("init")
    uuids = []
    for card in range(4):
        everything.ok("device", card)
        uuids.append(everything.ok("uuid"))
    case.equal(len(set(uuids)), 4, "different UUIDs")
    for visible, wanted in (("3,0", [3, 0]), ("2", [2]), ("1,7,2", [1]), ("", []),
                            (f"{uuids[2]},{uuids[1]}", [2, 1]),
                            (uuids[3][:12], [3])):
        shell = session.cudash(env={"CUDA_VISIBLE_DEVICES": visible})
        if not wanted:
            case.equal(shell("init")[0], 100, "no device is visible")
            continue
        shell.ok("init")
        case.equal(shell.ok("count"), len(wanted), f"cards of {visible}")
        for ordinal, card in enumerate(wanted):
            shell.ok("device", ordinal)
            case.equal(shell.ok("uuid"), uuids[card], f"{visible}: card {ordinal}")
            shell.ok("primary", ordinal)
            shell.ok("alloc", 1 << 20)
        case.equal(shell.close(), 0, "exit status")


def test_dead_server_takes_only_its_own_contexts(case):
    pool = case.pool(**POOL)
    session = pool.session(**SPAN)
    shell = session.cudash()
    shell.ok("init")
    for card in range(4):  # allocation N is on card N
        shell.ok("primary", card)
        shell.ok("alloc", 4096)
        shell.ok("store", card, 0, 1000 + card)
    dead, alive = pool.pids("gpupool-server")
    place = next(s for s in pool.status()["servers"] if s["pid"] == dead)["endpoint"]
    order = [line.split()[1] for line in open(session.file, encoding="utf-8")
             if line.startswith("server ")]
    gone, left = ((0, 1), (2, 3)) if order[0] == place else ((2, 3), (0, 1))
    pool.kill(dead, signal.SIGKILL)
    for card in gone:
        case.wait_for(lambda card=card: shell("peek", card, 0)[0] != 0, "the loss shows")
        case.check(shell("peek", card, 0)[0] in LOST, "an error of a lost server")
    for card in left:
        case.equal(shell.ok("peek", card, 0), 1000 + card, f"memory of card {card}")
        shell.ok("primary", card)
        shell.ok("alloc", 1 << 20)
        shell.ok("sync")
    case.check(shell("primary", gone[0])[0] in (0, *LOST), "the dead one's context")
    case.check(shell("alloc", 4096)[0] in LOST, "nothing is allocated there")
    shell.ok("primary", left[1])
    case.equal(shell.ok("peek", left[0], 0), 1000 + left[0], "from another context")
    case.equal(shell.close(), 0, "exit status")
