# SPDX-License-Identifier: Apache-2.0
"""Several cards near each other: from what drivers say, from the rules, in explain."""

import json
import os
import signal

MANY = ("--core", 50, "--memory", "64MiB", "--cards")


def cards(pool):
    return [card for server in json.loads(pool.cli("servers", "--json").out)["servers"]
            for card in server["cards"]]


def test_cards_that_the_driver_links_are_an_island(case):
    pool = case.pool(servers=1, cards=3)
    case.equal([card["island"] for card in cards(pool)], [1, 1, 1], "islands of a soft server")
    case.equal({card["fault"] for card in cards(pool)}, {""}, "faults")
    text = pool.cli("explain", *MANY, 2).out
    case.contains(text, "linked to each other (island 1 of server local-1)", "explain")
    case.contains(text, "GiB free, island 1", "the words of a card")


def test_rules_say_what_is_linked_and_are_read_again(case):
    rules = case.folder / "rules"
    rules.write_text("[servers local-*]\nislands = 0-1, 2-3\n[servers local-2]\nfabric = row1\n",
                     encoding="utf-8")
    pool = case.pool(servers=2, cards=4, env={"GPUPOOL_SCHEDULER_RULES": str(rules)})
    case.equal([card["island"] for card in cards(pool)], [1, 1, 2, 2] * 2, "islands")
    refused = pool.cli("explain", *MANY, 3, "--near", "island", status=3).out
    case.contains(refused, "no island (cards that are linked) has 3 cards that fit", "refusal")
    case.contains(pool.cli("explain", *MANY, 3).out, "on 2 islands of server", "without --near")
    case.contains(pool.cli("explain", *MANY, 5, "--near", "fabric", status=3).out,
                  "no fabric has 5 cards", "a fabric that is too small")
    case.contains(pool.cli("explain", *MANY, 5, "--near", "server", "--span", status=2).out,
                  "leave one of the two out", "options that exclude each other")
    rules.write_text("[servers local-*]\nislands = 0-3\nfabric = row1\n", encoding="utf-8")
    os.kill(pool.pid("gpupool-scheduler"), signal.SIGHUP)
    case.wait_for(lambda: cards(pool)[3]["island"] == 1, "the rules are read again")
    case.contains(pool.cli("explain", *MANY, 3, "--near", "island").out, "linked to each other",
                  "a larger island")
    case.contains(pool.cli("explain", *MANY, 5, "--near", "fabric").out,
                  "on 2 servers of fabric row1", "servers of one fabric")
    session = pool.session(core=50, options=["--cards", "4", "--near", "island"])
    case.equal(len({item["server"] for item in pool.sessions()[0]["slices"]}), 1, "servers")
    session.close()


def test_fabric_that_nvml_names_is_the_servers_unless_the_rules_say_otherwise(case):
    fabric = "01020304-0506-0708-090a-0b0c0d0e0f10/7"
    rules = case.folder / "rules"
    rules.write_text("", encoding="utf-8")
    pool = case.pool(servers=2, cards=2, env={"GPUPOOL_SCHEDULER_RULES": str(rules),
                                              "SOFTGPU_FABRIC": fabric})
    case.equal([server["fabric"] for server in pool.status()["servers"]], [fabric] * 2, "fabrics")
    case.contains(pool.cli("explain", *MANY, 3, "--near", "fabric").out,
                  f"on 2 servers of fabric {fabric}", "cards of both servers")
    rules.write_text("[servers local-2]\nfabric = row1\n", encoding="utf-8")
    os.kill(pool.pid("gpupool-scheduler"), signal.SIGHUP)
    case.wait_for(lambda: pool.status()["servers"][1]["fabric"] == "row1", "the rules are read")
    case.equal(pool.status()["servers"][0]["fabric"], fabric, "the other server")
    case.contains(pool.cli("explain", *MANY, 3, "--near", "fabric", status=3).out,
                  "no fabric has 3 cards", "a fabric that is too small now")


def test_servers_that_the_clients_node_does_not_reach_are_not_chosen(case):
    rules = case.folder / "rules"
    rules.write_text("[servers local-1]\nclients = gpu-*, nobody\n", encoding="utf-8")
    pool = case.pool(servers=2, cards=1, env={"GPUPOOL_SCHEDULER_RULES": str(rules)})
    small = ("--core", 10, "--memory", "64MiB")
    text = pool.cli("explain", *small).out
    case.contains(text, "reach: the programs' node does not reach the server (clients in the "
                  "rules)", "explain")
    for _ in range(2):
        pool.run("true", core=60, memory="64MiB")  # either would do, but for that
    first = pool.session(core=60)
    case.equal(pool.sessions()[0]["slices"][0]["server"], "local-2", "the only one")
    refused = pool.run("true", core=60, memory="64MiB", status=3).err
    case.contains(refused, "1 is not reached by the request's programs", "the refusal")
    waits = pool.spawn("echo", "served", core=60, memory="64MiB", options=["--wait=5m"])
    case.wait_for(lambda: "echo" in pool.cli("queue", "--json").out, "it waits")
    rules.write_text(f"[servers local-1]\nclients = gpu-*, {os.uname().nodename}\n",
                     encoding="utf-8")
    os.kill(pool.pid("gpupool-scheduler"), signal.SIGHUP)
    case.equal(waits.stdout.readline(), "served\n", "who waits is served once it reaches one")
    case.equal(waits.wait(case.patience), 0, "its exit status")
    first.close()


def test_transport_that_is_insisted_on_chooses_among_servers(case):
    pool = case.pool(servers=1, cards=1)
    small = ("--core", 10, "--memory", "64MiB")
    shm, rdma = {"GPUPOOL_TRANSPORT": "shm"}, {"GPUPOOL_TRANSPORT": "rdma"}
    pool.run(case.programs / "vecadd", env=shm)
    if json.loads(pool.cli("servers", "--json").out)["servers"][0]["rdma"]:
        case.skip("this machine has an RDMA port")
    text = pool.cli("explain", *small, env=rdma, status=3).out
    case.contains(text, "reach: the programs go over RDMA, and the server offers no port",
                  "explain")
    refused = pool.run("true", core=10, memory="64MiB", env=rdma, status=3).err
    case.contains(refused, "not reached by the request's programs", "the refusal")


def test_preferred_servers_come_first_and_others_are_taken_when_those_are_full(case):
    rules = case.folder / "rules"
    rules.write_text("[servers local-1]\nlabels = rack=r1\n[servers local-2]\nlabels = rack=r2, zone=a\n",
                     encoding="utf-8")
    pool = case.pool(servers=2, cards=1, env={"GPUPOOL_SCHEDULER_RULES": str(rules)})
    small = ("--core", 60, "--memory", "64MiB")
    text = pool.cli("explain", *small, "--prefer", "rack=r2").out
    case.contains(text, "another was better: 100 % core and", "the other server")
    case.contains(text, "GiB free, rack=r2 is preferred, the server has rack=r1", "what it lacks")
    prefer = ["--prefer", "zone=a", "--prefer", "rack=r1"]
    first = pool.session(core=60, options=prefer)
    case.equal(pool.sessions()[0]["slices"][0]["server"], "local-2", "the first counts most")
    second = pool.session(core=60, options=prefer)
    case.equal({session["slices"][0]["server"] for session in pool.sessions()},
               {"local-1", "local-2"}, "another server when that is full")
    refused = pool.run("true", core=60, memory="64MiB", options=["--prefer", "zone"], status=2).err
    case.contains(refused, "NAME=VALUE", "what is no label")
    for session in (first, second):
        session.close()
