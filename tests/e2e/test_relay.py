# SPDX-License-Identifier: Apache-2.0
"""A scheduler that follows asks the one that leads for those who ask it: what an
unauthenticated peer, a leader that hangs, two that each think the other leads, and a
flood make of that."""

import signal
import time

from harness.browser import Browser
from harness.control import Link, fields, number, text
from test_replicas import Cluster, Reads

LIST, QUEUE, ASKER = 60, 50, 100
DENIED, LIMIT, NOT_LEADER = 3, 6, 50
POOL, SESSIONS, EVENTS = 0, 3, 5


def address(cluster, i):
    host, port = cluster.addresses[i].rsplit(":", 1)
    return host, int(port)


def both(case, *options):
    """Two schedulers, of which the follower has heard of the leader: its index, the other's."""
    cluster = Cluster(case, schedulers=2, http=True, more=options)
    case.wait_for(lambda: cluster.leader() is not None, "one of the schedulers leads")
    leader = cluster.leader()
    case.wait_for(lambda: cluster.page(1 - leader, "queue")[0] == 200, "the follower asks it")
    return cluster, leader, 1 - leader


def ask_as(link, asker, body, content=b""):
    """A request that names for whom it is: (code, words) or (0, fields)."""
    data = number(1, 1) + text(ASKER, asker) + text(body, content)
    link.socket.sendall(len(data).to_bytes(4, "little") + data)
    return link.hear()


def test_only_a_scheduler_of_the_pool_asks_for_others(case):
    cluster, leader, follower = both(case)
    for number_of in (leader, follower):
        for asker in (b"", text(1, b"\x7f\0\0\1"), text(2, "alice"), text(2, "x" * 4000)):
            for body, content in ((QUEUE, b""), (LIST, number(2, SESSIONS))):
                with Link(case, address(cluster, number_of)) as link:
                    code, words = ask_as(link, asker, body, content)
                    case.equal(code, DENIED, f"as {asker[:9]} at {number_of}: {words}")
                    case.contains(words, "only a scheduler of this pool", "why")
    case.equal(cluster.page(follower, "queue")[0], 200, "the follower is not kept from asking")


def test_schedulers_that_want_tls_speak_it_to_each_other(case):
    cluster, leader, follower = both(case, "--tls", "require")
    _, queue = cluster.page(follower, "queue")
    case.equal((queue["source"], queue["waiting"]), ("leader", 0), "the queue")


def test_schedulers_without_tls_ask_each_other_in_clear(case):
    cluster, leader, follower = both(case, "--tls", "off")
    _, queue = cluster.page(follower, "queue")
    case.equal((queue["source"], queue["waiting"]), ("leader", 0), "the queue")


def test_other_key_is_no_scheduler_of_the_pool(case):
    cluster = Cluster(case, schedulers=2, http=True,
                      more=lambda i: ("--key-file", key_file(case, i)))
    case.wait_for(lambda: cluster.leader() is not None, "one of the schedulers leads")
    follower = 1 - cluster.leader()
    log = case.folder / f"s{follower}.log"
    case.wait_for(lambda: "gave no answer" in log.read_text(), "the follower asks")
    case.contains(log.read_text(), "is not the pool's scheduler", "why it does not trust the answer")
    status, page = cluster.page(follower, "queue")
    case.equal(status, 503, "the queue at the follower")
    case.contains(page["error"]["message"], cluster.addresses[1 - follower], "who has it")
    # Who asks the follower with the command line still gets there.
    case.contains(case.run(["gpupool", "queue", "--json", "--scheduler",
                            cluster.addresses[follower]]).out, "waiting", "gpupool queue")


def key_file(case, i):
    path = case.folder / f"key{i}.pem"
    case.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", path])
    path.chmod(0o600)
    return path


def test_leader_that_hangs_holds_nobody_up(case):
    # A lease that is so long that no other takes over while the leader hangs.
    cluster, leader, follower = both(case, "--etcd-lease-s", "60")
    cluster.schedulers[leader].send_signal(signal.SIGSTOP)
    # Many at once: those on the way wait for one deadline together, not one after the other.
    links = [Link(case, address(cluster, follower)) for _ in range(12)]
    begun = time.monotonic()
    for link in links:
        link.socket.sendall(b"\x05\0\0\0\x08\1\x92\3\0")
    codes = [link.hear()[0] for link in links]
    case.check(set(codes) <= {NOT_LEADER}, f"answers while the leader hangs: {codes}")
    waited = time.monotonic() - begun
    case.wait_for(lambda: "gave no answer" in (case.folder / f"s{follower}.log").read_text(),
                  "the follower knows")
    # From now on nobody waits, and what the follower has it shows.
    begun = time.monotonic()
    for _ in range(10):
        case.equal(cluster.page(follower, "queue")[0], 503, "the queue")
        case.equal(cluster.page(follower, "events")[0], 200, "events")
        case.equal(cluster.page(follower, "sessions")[0], 200, "sessions")
    print(f"twelve waited {waited:.1f} s, thirty pages took {time.monotonic() - begun:.1f} s")
    cluster.schedulers[leader].send_signal(signal.SIGCONT)
    case.wait_for(lambda: cluster.page(follower, "queue")[0] == 200, "it answers again")


def test_two_that_each_think_the_other_leads_do_not_ask_in_circles(case):
    cluster = Cluster(case, schedulers=2, http=True, metrics=True, start=False)
    # A record without a lease: the second one is said to lead, and does not know of it.
    cluster.put("leader", cluster.addresses[1].encode())
    cluster.schedulers = [cluster.start(i) for i in range(2)]
    for i in range(2):
        case.wait_for(lambda: cluster.page(i, "status")[0] == 200, f"s{i} answers")
        status, page = cluster.page(i, "queue")
        case.equal(status, 503, f"the queue at s{i}")
        case.contains(page["error"]["message"], "does not lead", "why")
    # It was told so, once each second, and not as often as it can ask.
    case.wait_for(lambda: relayed(cluster, 0)["none"] >= 2, "it asks")
    before, begun = relayed(cluster, 0)["none"], time.monotonic()
    case.wait_for(lambda: relayed(cluster, 0)["none"] >= before + 2, "it asks again")
    case.check(relayed(cluster, 0)["none"] - before <= 3 + 2 * (time.monotonic() - begun),
               "questions of a follower whom nobody answers")


def relayed(cluster, i):
    found = {}
    for line in cluster.read_metrics(i).splitlines():
        if line.startswith("gpupool_relayed_total{"):
            name, value = line.split("\"")[1], line.split()[-1]
            found[name] = int(value)
    return found


def test_flood_counts_against_who_asks_also_at_the_leader(case):
    cluster, leader, follower = both(case, "--rate-requests", "20")
    with Link(case, address(cluster, follower)) as link:
        codes = [link.ask(QUEUE)[0] for _ in range(400)]
    case.check(LIMIT in codes, "400 requests at once at the follower")
    case.check(codes[:20] == [0] * 20, f"the first ones: {codes[:20]}")
    # The address has used up what it may ask of the leader as well.
    # It ends a connection that goes on behind refusals.
    with Link(case, address(cluster, leader)) as link:
        case.check(any(link.ask(QUEUE)[0] == LIMIT for _ in range(100)),
                   "requests at the leader after those at the follower")
    # The follower's own questions have no limit.
    case.wait_for(lambda: 0 < cluster.page(follower, "status")[1].get("age_ms", 0) < 5000,
                  "the follower has heard of the leader meanwhile")


def test_user_whom_the_leader_does_not_know_reads_nothing_of_it(case):
    for i in range(3):
        users = case.folder / f"users{i}"
        users.write_text("alice:read:a token of alice for reading\n")
        users.chmod(0o600)
    cluster = Cluster(case, schedulers=3, http=True, roles=("server", "admin"),
                      more=lambda i: ("--users-file", case.folder / f"users{i}"))
    case.wait_for(lambda: cluster.leader() is not None, "one of the schedulers leads")
    leader = cluster.leader()
    follower = (leader + 1) % 3
    token = case.folder / "token"
    token.write_text("a token of alice for reading")
    token.chmod(0o600)
    ask = ["gpupool", "queue", "--json", "--token-file", token, "--scheduler",
           cluster.addresses[follower]]
    case.wait_for(lambda: cluster.page(follower, "queue")[0] == 200, "the follower asks it")
    case.run(ask)
    # She is taken out at the leader first.
    (case.folder / f"users{leader}").write_text("bob:read:a token of bob for reading\n")
    cluster.schedulers[leader].send_signal(signal.SIGHUP)
    case.wait_for(lambda: case.run(ask, status=None).status != 0, "the leader does not know her")
    case.contains(case.run(ask, status=None).err, "no such user", "why")
    # Who is sent to the leader is refused there in words, too.
    other = next(i for i in range(3) if i not in (leader, follower))
    ask = ["gpupool", "run", "--token-file", token, "--scheduler", cluster.addresses[other],
           "--core", "10", "--memory", "64MiB", "--", "true"]
    case.contains(case.run(ask, status=3).err, "wrong client token", "a run")


def test_metrics_of_a_follower_leave_out_what_it_does_not_know(case):
    reads = Reads(case, metrics=True)
    cluster = reads.cluster
    leader = cluster.leader()
    follower = next(i for i in range(3) if i != leader)
    reads.compare([follower], "at the start", ("status", "events", "queue"))
    own, other = cluster.read_metrics(leader), cluster.read_metrics(follower)
    for line in ("gpupool_sessions 1", "gpupool_queue_waiting 1",
                 'gpupool_servers{state="alive"} 1'):
        case.contains(own, f"\n{line}\n", "the leader's metrics")
        case.contains(other, f"\n{line}\n", "the follower's")
    case.contains(own, "gpupool_scheduler_leads 1", "the leader")
    case.contains(other, "gpupool_scheduler_leads 0", "the follower")
    for name in ("gpupool_server_busy_percent", "gpupool_server_memory_used_bytes",
                 "gpupool_tenant_gpu_seconds_total", "gpupool_queue_reservations"):
        case.check(name in own, f"the leader has {name}")
        case.check(name not in other, f"the follower, which does not know it, has {name}")


def test_page_of_a_follower_shows_what_the_leader_knows(case):
    browser = Browser(case)
    reads = Reads(case)
    cluster = reads.cluster
    leader = cluster.leader()
    follower = next(i for i in range(3) if i != leader)
    reads.compare([follower], "at the start", ("status", "events", "queue"))
    browser.open(f"http://127.0.0.1:{cluster.http[follower]}/")
    for place, words in (("queue", "70 %"), ("state", f"{cluster.addresses[leader]} leads"),
                         ("events", "register"), ("sessions", "s1")):
        browser.wait_js(f"(document.getElementById('{place}') || {{innerText: ''}})"
                        f".innerText.includes('{words}')", f"{place} of the page at the follower")
    case.equal(browser.js("document.querySelectorAll('svg polyline').length"), 3, "curves")
    case.equal(browser.complaints(), [], "complaints of the browser")
    browser.close()
