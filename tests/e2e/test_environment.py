# SPDX-License-Identifier: Apache-2.0
"""Environment variables of CUDA, and fork, on several cards of one server and on those of
two servers."""

import pathlib

CLIENT = pathlib.Path(__file__).with_name("env_client.py")
ONE = ({"servers": 1, "cards": 4}, {"core": 50, "memory": "64MiB", "options": ["--cards", 4]})
TWO = ({"servers": 2, "cards": 2},
       {"core": 50, "memory": "64MiB", "options": ["--cards", 4, "--span"]})
NO_CARD = "100"


class Seen:
    """What the client printed, line by line."""

    def __init__(self, session, env=None):
        done = session.run(*session.pool.case.interpreter(), CLIENT, env=env or {})
        self.err = done.err
        self.lines = dict(line.partition(" ")[::2] for line in done.out.splitlines())

    def list(self, word):
        return self.lines[word].split()


def name(uuid):
    """As nvidia-smi prints it."""
    return "GPU-" + "-".join((uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:]))


def check_cards(case, shape):
    pool, slices = shape
    session = case.pool(**pool).session(**slices)
    everything = Seen(session)
    uuids = everything.list("driver")
    case.equal(len(set(uuids)), 4, "four different cards")
    case.equal(everything.list("management"), uuids, "the management library's order")
    good = str([[0] * 5] * 4)
    case.equal(everything.lines["work"], good, "work on each card")
    case.check(everything.lines["child"].startswith("3 "), "a forked child is told so")
    case.check("0" not in everything.lines["child"].replace("[", "").replace("]", "")
               .replace(",", "").split(), "nothing works in it")
    case.equal(everything.lines["parent"], good, "the parent goes on")

    choices = {"2,0": [2, 0], "3": [3], "-1": [], "": [], "1,-1,2": [1], "0,9,1": [0],
               name(uuids[1]): [1], f"{name(uuids[3])},{name(uuids[0])[:14]}": [3, 0],
               name(uuids[2]).lower(): [2], "GPU-": [], "MIG-1234": [],
               f"MIG-{name(uuids[0])}/1/0": [], "0,MIG-1234,1": [0], "none": []}
    for value, wanted in choices.items():
        seen = Seen(session, {"CUDA_VISIBLE_DEVICES": value})
        case.equal(seen.list("driver"), [uuids[i] for i in wanted], f"cards of {value!r}")
        case.equal(seen.list("management"), uuids, f"the library shows all for {value!r}")
        case.equal(seen.lines["work"], str([[0] * 5] * len(wanted)), f"work with {value!r}")
        case.equal(seen.err.count("no MIG instances"), "MIG-" in value, f"words for {value!r}")


def test_cards_of_one_server_are_chosen_and_ordered_by_the_environment(case):
    check_cards(case, ONE)


def test_cards_of_two_servers_are_chosen_and_ordered_by_the_environment(case):
    check_cards(case, TWO)


def check_order(case, shape, servers):
    pool, slices = shape
    session = case.pool(**pool).session(**slices)
    fastest = Seen(session, {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"})
    by_bus = Seen(session, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    case.equal(fastest.list("driver"), Seen(session).list("driver"), "the default order")
    case.equal(sorted(by_bus.list("driver")), sorted(fastest.list("driver")), "all cards")
    each = 4 // servers
    for first in range(0, 4, each):
        part = by_bus.list("bus")[first:first + each]
        case.equal(part, sorted(part), "by bus within a server")
        case.equal(sorted(by_bus.list("driver")[first:first + each]),
                   sorted(fastest.list("driver")[first:first + each]), "server by server")


def test_pci_order_sorts_the_cards_of_each_server(case):
    check_order(case, ONE, 1)


def test_pci_order_sorts_the_cards_of_two_servers(case):
    check_order(case, TWO, 2)


def test_module_loading_is_the_programs_own_choice(case):
    session = case.pool(**TWO[0]).session(**TWO[1])
    for value, mode in ((None, 2), ("LAZY", 2), ("EAGER", 1), ("other", 2)):
        env = {"CUDA_MODULE_LOADING": value} if value else {}
        case.equal(Seen(session, env).lines["loading"], f"0 {mode}", f"mode for {value}")


def test_blocking_launches_report_their_own_errors(case):
    """On the second server's card: the fault is the launch's, not the next call's."""
    session = case.pool(**TWO[0]).session(**TWO[1])
    faults = {}
    for value in ("1", "0"):
        done = session.run(case.programs / "blocking", 3, status=None,
                           env={"CUDA_LAUNCH_BLOCKING": value})
        faults[value] = done.out
    case.equal(faults["1"], "launch 0\nfault 700\nsynchronize 700\n", "blocking")
    case.equal(faults["0"], "launch 0\nfault 0\nsynchronize 700\n", "not blocking")


def test_status_shows_the_links_of_every_server(case):
    pool = case.pool(**TWO[0])
    shell = pool.session(**TWO[1]).cudash(env={"GPUPOOL_TRANSPORT": "tcp"})
    shell.ok("init")
    case.wait_for(lambda: [s["links"] for s in pool.status()["sessions"]]
                  == ["1 tcp; 1 tcp"], "one link at each server")
    case.contains(pool.cli("status", "-o", "wide").out, "1 tcp; 1 tcp", "the picture shows them, too")
    case.equal(shell.close(), 0, "exit status")
