# SPDX-License-Identifier: Apache-2.0
"""The sessions of a host are held over one connection to the scheduler, by one of the
keepalive processes of its `gpupool run`s; whoever dies, each session ends with its own run only."""

import base64
import os
import re
import signal
import socket
import time
import urllib.request

from harness import proc
from harness.control import CLOSE, RENEW_MANY, Link, fields, number, text
from harness.cutter import Cutter
from harness.pool import SCHEDULER
from test_replicas import Cluster


def port_of(scheduler):
    """Where a scheduler listens, by its command line."""
    args = proc.command_line(scheduler)
    if "--ready-file" in args:
        with open(args[args.index("--ready-file") + 1], encoding="utf-8") as file:
            return int(file.read().strip().rpartition(":")[2])
    return int(args[args.index("--listen") + 1].rpartition(":")[2])


def connected_to(ports):
    """Inodes of this host's TCP sockets whose other end is one of the ports."""
    found = set()
    for table in ("tcp", "tcp6"):
        with open(f"/proc/net/{table}", encoding="utf-8") as file:
            for line in list(file)[1:]:
                words = line.split()
                if int(words[2].rpartition(":")[2], 16) in ports and words[3] == "01":
                    found.add(words[9])
    return found


def sockets_of(pid):
    try:
        return set(re.findall(r"socket:\[(\d+)\]", " ".join(proc.open_files(pid).values())))
    except OSError:
        return set()


def runs():
    """`gpupool run`s and their keepalive processes."""
    return [pid for pid in proc.descendants() if proc.program_of(pid) == "gpupool"]


def holders(ports):
    """Of these, those that have a connection to the scheduler."""
    theirs = connected_to(ports)
    return [pid for pid in runs() if sockets_of(pid) & theirs]


def agent_socket(case):
    """Path and inode of the one socket on which an agent listens; None: there is none."""
    with open("/proc/net/unix", encoding="utf-8") as file:
        found = [line.split() for line in file if f"{case.folder}/gpupool/agent1-" in line]
    listening = [(words[7], words[6]) for words in found if words[3] == "00010000"]
    return listening[0] if len(listening) == 1 else None


def agent_of(case):
    """The process that is the agent, or None while there is not exactly one."""
    where = agent_socket(case)
    found = [pid for pid in runs() if where and where[1] in sockets_of(pid)]
    return found[0] if len(found) == 1 else None


class Host:
    """Some runs on this host, each idle in a session of its own."""

    def __init__(self, case, n, lease_ms=3000, scheduler=()):
        self.case = case
        self.pool = case.pool(servers=1, cards=8, options=("--lease-ms", lease_ms))
        if scheduler:
            self.pool.restart(self.pool.pid(SCHEDULER), *scheduler)
            case.wait_for(lambda: [item["state"] for item in self.pool.status()["servers"]] ==
                          ["alive"], "the server is back")
        self.ports = {port_of(self.pool.pid(SCHEDULER))}
        self.processes = [self.pool.spawn("cat", core=5, memory="16MiB") for _ in range(n)]
        case.wait_for(lambda: len(self.names()) == n, "all sessions are open")
        self.first = self.names()

    def names(self):
        return sorted(session["name"] for session in self.pool.sessions())

    def await_one_connection(self, words):
        """Exactly one, of the agent."""
        def one():
            agent = agent_of(self.case)
            return agent and holders(self.ports) == [agent] and agent
        return self.case.wait_for(one, lambda: f"{words}: connections of {holders(self.ports)}, "
                                               f"agent {agent_of(self.case)}")

    def await_renewals(self, words, names=None):
        """Each session is renewed three times; none ends."""
        names = names or self.first
        seen = {name: [] for name in names}

        def renewed():
            now = {item["name"]: item["lease_left_ms"] for item in self.pool.sessions()}
            self.case.check(set(names) <= set(now), f"{words}: sessions ended: "
                            f"{sorted(set(names) - set(now))}")
            for name in names:
                seen[name].append(now[name])
            return all(sum(a < b for a, b in zip(left, left[1:])) >= 3
                       for left in seen.values())
        self.case.wait_for(renewed, f"{words}: all sessions are renewed")

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.stdin.close()
        for process in self.processes:
            process.wait(self.case.patience)


def clients(case, port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics",
                                timeout=case.patience) as answer:
        return int(re.search(r"^gpupool_clients (\d+)$", answer.read().decode(), re.M)[1])


def test_sixty_runs_make_one_connection(case):
    port = case.free_port()
    host = Host(case, 0, scheduler=("--metrics-listen", f"127.0.0.1:{port}"))
    case.wait_for(lambda: clients(case, port) == 0, "nobody is connected")
    host.processes = [host.pool.spawn("cat", core=5, memory="16MiB") for _ in range(60)]
    case.wait_for(lambda: len(host.names()) == 60, "sixty sessions are open")
    case.wait_for(lambda: clients(case, port) == 1, lambda: f"{clients(case, port)} connections")
    host.first = host.names()
    host.await_renewals("sixty sessions over one connection")
    case.equal(clients(case, port), 1, "connections after some leases")
    host.close()
    case.equal([process.returncode for process in host.processes], [0] * 60, "exit statuses")
    case.wait_for(lambda: not host.names(), "all sessions are closed")
    case.equal(list((case.folder / "gpupool").glob("agent1-*")), [], "sockets left behind")


def test_killed_agent_costs_no_session(case):
    host = Host(case, 8)
    for turn in range(3):
        agent = host.await_one_connection(f"turn {turn}")
        host.pool.kill(agent)
        case.check(host.await_one_connection("after the agent's death") != agent, "another agent")
        host.await_renewals("after the agent's death")
    case.equal(len(runs()), 16, "each run has a keepalive again")
    case.equal(host.names(), host.first, "sessions")
    host.close()


def test_agent_that_ends_with_its_run_costs_no_other_session(case):
    host = Host(case, 4)
    while len(host.processes) > 1:
        agent = host.await_one_connection("some runs are left")
        run, = [process for process in host.processes
                if process.pid == proc.parent_and_state(agent)[0]]
        run.stdin.close()
        case.equal(run.wait(case.patience), 0, "exit status of the agent's run")
        host.processes.remove(run)
        host.first = host.names()
        case.equal(len(host.first), len(host.processes), "sessions left")
        host.await_renewals("after the end of the agent's run")
    host.close()


def test_stopped_agent_costs_no_session(case):
    """As long as it is stopped its own session is nobody's; the others leave it."""
    host = Host(case, 4)
    agent = host.await_one_connection("at first")
    run = proc.parent_and_state(agent)[0]
    os.kill(agent, signal.SIGSTOP)
    try:
        case.wait_for(lambda: len(host.names()) == 3, "the stopped keepalive's session ends")
        host.await_renewals("while the agent is stopped", names=host.names())
    finally:
        os.kill(agent, signal.SIGCONT)
    for process in host.processes:
        if process.pid == run:
            process.kill()
    host.await_one_connection("it goes on")
    host.await_renewals("after it went on", names=host.names())
    host.close()


def test_killed_run_ends_its_session_at_once_and_no_other(case):
    """Prompt: not by its lease, nor by the grace time of a connection that broke."""
    host = Host(case, 5, lease_ms=60000, scheduler=("--hold-grace-ms", 60000))
    for which in ("another", "the agent's own"):
        agent = host.await_one_connection("all runs are there")
        its = proc.parent_and_state(agent)[0]
        process = [process for process in host.processes
                   if (process.pid == its) == (which == "the agent's own")][0]
        before = host.names()
        with case.within(20 * case.patience / 60, f"the session of {which} run ends"):
            process.kill()
            case.wait_for(lambda: len(host.names()) == len(before) - 1, "its session ends")
        host.processes.remove(process)
        case.check(set(host.names()) < set(before), "the others stay")
    host.await_one_connection("two runs were killed")
    case.equal(len(host.names()), 3, "sessions")
    host.close()


def test_killed_keepalive_costs_no_session(case):
    host = Host(case, 3)
    agent = host.await_one_connection("at first")
    parents = {pid: proc.parent_and_state(pid)[0] for pid in runs()}
    keepalive = [pid for pid in parents if parents[pid] in parents and pid != agent][0]
    host.pool.kill(keepalive)
    case.wait_for(lambda: len(runs()) == 6, "its run starts another")
    host.await_renewals("after the death of a keepalive")
    host.await_one_connection("after the death of a keepalive")
    host.close()


def test_scheduler_restart_is_survived_by_all(case):
    host = Host(case, 6)
    host.await_one_connection("at first")
    host.pool.restart(host.pool.pid(SCHEDULER))
    host.await_renewals("after the scheduler's restart")
    host.await_one_connection("after the scheduler's restart")
    case.equal(host.names(), host.first, "sessions")
    host.close()


def through_a_relay(case):
    """A relay before the pool's scheduler, and the environment of runs that go through it."""
    folder = case.folder / "gpupool" / "pool.d"
    relay = Cutter(case, (folder / "scheduler.ready").read_text().strip().rsplit(":", 1))
    relay.every(0)
    return relay, {"GPUPOOL_SCHEDULER": f"127.0.0.1:{relay.port}",
                   "GPUPOOL_TOKEN_FILE": str(folder / "client-token"),
                   "GPUPOOL_RUN_DIR": str(case.folder / "elsewhere")}


def test_cut_connection_costs_no_session_however_long_its_lease(case):
    """Sessions end some seconds after their connection, whenever they would be due."""
    pool = case.pool(options=("--lease-ms", 600000))
    relay, env = through_a_relay(case)

    def left():
        return {item["name"]: item["lease_left_ms"] for item in pool.sessions()}

    processes = [pool.spawn("cat", core=5, memory="16MiB", env=env) for _ in range(3)]
    case.wait_for(lambda: len(left()) == 3, "the sessions are open")
    names = sorted(left())
    relay.cut()
    case.wait_for(lambda: all(f"{name}: its client" in pool.log() for name in names),
                  "the scheduler misses their client")
    case.wait_for(lambda: sorted(left()) != names or min(left().values()) > 60000,
                  lambda: f"they are held again: {left()}")
    case.equal(sorted(left()), names, "sessions")
    for process in processes:
        process.stdin.close()
    case.equal([process.wait(case.patience) for process in processes], [0] * 3, "exit statuses")


def test_session_that_leaves_while_the_scheduler_is_away_costs_no_other(case):
    """The agent connects again all the same, not when the next of the others is due."""
    pool = case.pool(options=("--lease-ms", 600000))
    pool.restart(pool.pid(SCHEDULER), "--hold-grace-ms", 20000)
    case.wait_for(lambda: [item["state"] for item in pool.status()["servers"]] == ["alive"],
                  "the server is back")
    relay, env = through_a_relay(case)
    processes = [pool.spawn("cat", core=5, memory="16MiB", env=env) for _ in range(4)]
    case.wait_for(lambda: len(pool.sessions()) == 4, "the sessions are open")
    case.wait_for(lambda: len(holders({relay.port})) == 1, "one connection")
    agent = holders({relay.port})[0]
    relay.cut()
    os.kill(relay.process.pid, signal.SIGSTOP)
    try:
        case.wait_for(lambda: pool.log().count(": its client") == 4, "the scheduler misses them")
        its = proc.parent_and_state(agent)[0]
        other = [process for process in processes if process.pid != its][0]
        other.stdin.close()
        case.equal(other.wait(case.patience), 0, "the one that leaves")
        time.sleep(1)
    finally:
        os.kill(relay.process.pid, signal.SIGCONT)

    def is_left():
        left = [item["lease_left_ms"] for item in pool.sessions()]
        return len(left) <= 3 and (len(left) < 3 or min(left) > 60000)

    case.wait_for(is_left, lambda: f"the others are held again: {pool.sessions()}")
    case.equal(len(pool.sessions()), 3, "sessions")
    for process in processes:
        process.kill()


def test_agent_waits_for_a_scheduler_that_is_slow_to_answer(case):
    """After a restart thousands connect at once: who gives up soon begins at the end again, and
    what the scheduler does for it is in vain."""
    pool = case.pool(options=("--lease-ms", 600000))
    relay, env = through_a_relay(case)
    process = pool.spawn("cat", core=5, memory="16MiB", env=env)
    case.wait_for(lambda: len(pool.sessions()) == 1 and len(holders({relay.port})) == 1,
                  "its connection")
    agent = holders({relay.port})[0]

    def links():
        return sockets_of(agent) & connected_to({relay.port})

    relay.cut()
    os.kill(relay.process.pid, signal.SIGSTOP)
    try:
        for _ in range(100):
            case.wait_for(links, "it connects again")
            start, first = time.monotonic(), links()
            time.sleep(1.5)
            if first == links():
                break
            case.check(time.monotonic() - start > 4, "it gave up soon")
    finally:
        os.kill(relay.process.pid, signal.SIGCONT)
    process.kill()


def test_session_that_a_slow_agent_gives_up_is_held_by_its_own_run(case):
    """It may have been renewed by the agent when its own run takes it back."""
    pool = case.pool(options=("--lease-ms", 600000))
    first = pool.spawn("cat", core=5, memory="16MiB")
    case.wait_for(lambda: pool.sessions() and agent_of(case), "an agent")
    agent, scheduler = agent_of(case), pool.pid(SCHEDULER)
    os.kill(agent, signal.SIGSTOP)
    try:
        second = pool.spawn("cat", core=5, memory="16MiB")
        case.wait_for(lambda: len(pool.sessions()) == 2, "the second session is open")
        time.sleep(0.5)  # it asks the agent, which it waits for two seconds
        os.kill(scheduler, signal.SIGSTOP)
        os.kill(agent, signal.SIGCONT)
        time.sleep(4)  # the agent renews; then it is left, and gives the session up
    finally:
        os.kill(agent, signal.SIGCONT)
        os.kill(scheduler, signal.SIGCONT)
    case.wait_for(lambda: len(pool.sessions()) == 2, "the scheduler answers")
    time.sleep(7)  # more than the grace time of a session that nobody holds
    case.equal(len(pool.sessions()), 2, "sessions")
    for process in (first, second):
        process.stdin.close()
        case.equal(process.wait(case.patience), 0, "the end of a run")


def test_failover_to_another_leader_is_survived_by_all(case):
    cluster = Cluster(case)
    case.wait_for(lambda: cluster.leader() is not None, "one of the schedulers leads")
    cluster.server()
    case.wait_for(cluster.alive, "the server is registered")
    ports = {int(address.rpartition(":")[2]) for address in cluster.addresses}
    processes = [case.spawn(["gpupool", "run", "--scheduler", cluster.all, "--core", 5,
                             "--memory", "16MiB", "--", "cat"]) for _ in range(5)]

    def names():
        return sorted(item["name"] for item in (cluster.status() or {"sessions": ()})["sessions"])

    def one():
        agent = agent_of(case)
        return agent and holders(ports) == [agent]

    case.wait_for(lambda: len(names()) == 5, "five sessions are open")
    case.wait_for(one, "one connection")
    before, first = names(), cluster.leader()
    cluster.schedulers[first].kill()
    case.wait_for(lambda: cluster.leader() not in (None, first), "another leads")
    case.wait_for(lambda: one() and names() == before, lambda: f"one connection to the new "
                  f"leader, {len(holders(ports))} are there, sessions {names()} of {before}")
    for process in processes:
        process.stdin.close()
    case.equal([process.wait(case.patience) for process in processes], [0] * 5, "exit statuses")


def asks_as(user, path):
    """What a process of that user gets from the agent: 0 an answer, 3 nothing, 4 no
    connection."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setresuid(user, user, user)
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(20)
                sock.connect(path)
                os._exit(0 if sock.recv(4096) else 3)
        except ConnectionResetError:
            os._exit(3)
        except OSError:
            os._exit(4)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_nobody_else_gets_at_the_agent(case):
    host = Host(case, 2)
    host.await_one_connection("two runs")
    path = agent_socket(case)[0]
    case.equal(os.stat(path).st_mode & 0o777, 0o600, "mode of the agent's socket")
    if os.geteuid() != 0:
        case.skip("only root becomes another user")
    case.equal(asks_as(65534, path), 4, "another user")
    # The same where somebody has opened the folder for everybody.
    mode = case.folder.stat().st_mode & 0o777
    for part in (case.folder, case.folder / "gpupool", path):
        os.chmod(part, 0o777)
    case.equal(asks_as(65534, path), 3, "another user whom the folder lets in")
    os.chmod(case.folder / "gpupool", 0o700)
    os.chmod(case.folder, mode)
    host.await_renewals("afterwards")
    host.close()


def id_of(file):
    """The whole id of a session, from the claims of the ticket in its file."""
    ticket = re.search(r"^ticket ([\w-]+)\.", file.read_text(), re.M)[1]
    return dict(fields(base64.urlsafe_b64decode(ticket + "=" * (-len(ticket) % 4))))[1]


def test_agent_gives_nobody_a_session_without_its_lease_key(case):
    """Also not to its own user: the scheduler compares the key, and a connection reaches the
    session that it has shown the key of, and no other."""
    host = Host(case, 2)
    host.await_one_connection("two runs")
    path, wrong = agent_socket(case)[0], bytes(16)
    session = id_of(next((case.folder / "gpupool" / "sessions").glob("s1.*[0-9]")))
    one = b"\x09" + session.to_bytes(8, "little") + text(2, wrong)
    with Link(case, path) as link:
        _, words = link.ask(RENEW_MANY, text(1, one) + number(2, 1))
        case.equal(words, "wrong lease key", "answer to a wrong key")
    for content in (number(1, session) + text(2, wrong), b""):
        with Link(case, path) as link:
            try:
                case.fail(f"an answer to a close that is not its own: {link.ask(CLOSE, content)}")
            except ConnectionError:
                pass
    for rubbish in (b"\xff" * 64, b"\0\0\0\0", b"\x04\0\0\0abcd"):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(case.patience)
            sock.connect(path)
            sock.sendall(rubbish)
            case.equal(sock.recv(100), b"", f"answer to {rubbish!r}")
    host.await_renewals("afterwards")
    host.await_one_connection("afterwards")
    host.close()
