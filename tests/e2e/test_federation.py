# SPDX-License-Identifier: Apache-2.0
"""Pools of pools: what does not fit in one goes to another that has room, whose servers,
tickets and leases it then uses; who may hand on, and what is said when nobody has room."""

import json
import signal
import socket
import threading
import time

from harness import Cudash
from harness.control import OPEN, Link, number, text
from test_init import Hosts
from test_rotation import reread


class Pools:
    """The pool west, which knows the pool east, and a client of west alone."""

    def __init__(self, case, rights="open+forward", east=True, **more):
        self.case = case
        self.west = Hosts(case, "west")
        self.east = Hosts(case, "east", "--users", f"west:{rights},elsa:open+read")
        self.rules = case.folder / "west.rules"
        self.know(**more)
        self.scheduler = self.west.scheduler("--rules", self.rules)
        self.west.server("server", "--cards", "1", name="west-1")
        if east:
            self.start_east()

    def start_east(self, *more):
        self.east_scheduler = self.east.scheduler(*more)
        self.east_server = self.east.server("server", "--cards", "1", name="east-1")

    def know(self, token="client-west", more=""):
        east = self.east.client(token)
        self.rules.write_text(
            "[pool east]\n"
            f"scheduler = {self.east.where}\n"
            f"key-file = {east['GPUPOOL_SCHEDULER_KEY']}\n"
            f"token-file = {east['GPUPOOL_TOKEN_FILE']}\n" + more)

    def cli(self, *args, status=0):
        return self.west.cli(*args, env=self.west.client(), status=status)

    def hold(self, *options, core=100):
        """A program of a client of west, which holds its session until it is closed."""
        shell = Cudash(self.case, self.case.spawn(
            [self.west.gpupool, "run", "--core", core, "--memory", "64MiB", *options, "--",
             self.case.programs / "cudash"], env=self.west.client()))
        return shell.begin()

    def sessions(self, hosts):
        return json.loads(hosts.cli("status", "--json").out)["sessions"]

    def owners(self, hosts):
        return sorted(session["owner"] for session in self.sessions(hosts))

    def others(self):
        return json.loads(self.cli("pools", "--json").out)["pools"]


def test_request_that_does_not_fit_runs_in_another_pool(case):
    pools = Pools(case)
    first = pools.hold("--owner", "ada@lab")
    case.equal((pools.owners(pools.west), pools.owners(pools.east)), (["ada@lab"], []),
               "owners while there is room")
    done = pools.cli("run", "-v", "--core", 30, "--memory", "64MiB", "--owner", "ada@lab", "--",
                     case.programs / "vecadd")
    case.contains(done.out, ": ok\n", "a program in the other pool")
    case.contains(done.err, "of pool east: east-1 GPU-", "where it ran")
    case.wait_for(lambda: not pools.sessions(pools.east), "its session is given back")

    # Held there like any other: renewed, and ended soon after its client is killed.
    second = pools.hold("--owner", "ada@lab", core=50)
    case.equal(pools.owners(pools.east), ["west/ada@lab"], "the owner in the other pool")
    second.ok("sync")
    second.close()
    case.wait_for(lambda: not pools.sessions(pools.east), "the second session is given back")
    first.close()
    done = pools.cli("run", "-v", "--core", 30, "--memory", "64MiB", "--", "true")
    case.contains(done.err, ": west-1 GPU-", "with room at home again")
    case.check("of pool" not in done.err, done.err)

    other = pools.others()[0]
    case.equal((other["name"], other["asked"], other["granted"], other["answers"]),
               ("east", 2, 2, True), "what west knows of east")
    events = json.loads(pools.cli("events", "--output", "json").out)["events"]
    case.equal([event["words"] for event in events if event["kind"] == "hand"],
               ["session s2 of pool east", "session s1 of pool east"], "events")


def test_session_elsewhere_needs_the_first_pool_no_more(case):
    pools = Pools(case)
    first = pools.hold()
    second = pools.hold("--owner", "ada@lab")
    pools.scheduler.send_signal(signal.SIGKILL)
    pools.scheduler.wait(case.patience)
    # Longer than a held session lives without its client.
    time.sleep(7)
    second.ok("sync")
    case.equal(pools.owners(pools.east), ["west/ada@lab"], "while west is away")
    second.close()
    case.wait_for(lambda: not pools.sessions(pools.east), "it is given back")
    pools.west.scheduler("--rules", pools.rules)
    first.close()


def test_explain_says_what_the_other_pool_answered(case):
    pools = Pools(case)
    case.contains(pools.cli("explain", "--core", 100).out, "west-1", "with room at home")
    first = pools.hold()
    done = pools.cli("explain", "--core", 100)
    case.contains(done.out, "in pool east:", "the pool that has room")
    case.contains(done.out, "east/east-1", "its cards")
    case.equal(pools.sessions(pools.east), [], "an explanation takes nothing")
    second = pools.hold()
    done = pools.cli("explain", "--core", 100, status=3)
    case.contains(done.out, "pool east: ", "a pool that has none")
    done = pools.cli("run", "--core", 100, "--", "true", status=3)
    case.contains(done.err, "  pool east: ", "the reasons of a refusal")
    # As many cards as neither has: the words of both.
    done = pools.cli("run", "--cards", 2, "--", "true", status=3)
    case.contains(done.err, "  pool east: ", "two cards")
    second.close()
    first.close()


def test_pool_is_chosen_by_name_or_left_out(case):
    pools = Pools(case)
    done = pools.cli("run", "-v", "--pool", "east", "--core", 30, "--memory", "64MiB", "--", "true")
    case.contains(done.err, "of pool east", "by name, with room at home")
    case.contains(pools.cli("explain", "--pool", "east", "--core", 100).out, "in pool east: ",
                  "explained")
    done = pools.cli("run", "--pool", "north", "--core", 100, "--", "true", status=2)
    case.contains(done.err, "no pool north; there are: east", "a pool that is none")
    done = pools.cli("run", "--pool", "east", "--wait", "--core", 100, "--", "true", status=2)
    case.contains(done.err, "leave out --wait or --pool", "waiting elsewhere")
    first = pools.hold()
    done = pools.cli("run", "--pool", "here", "--core", 100, "--", "true", status=3)
    case.check("pool east" not in done.err, f"asked against the user's will: {done.err}")
    # A server of this pool is wanted.
    done = pools.cli("run", "--server", "west-1", "--core", 100, "--", "true", status=3)
    case.check("pool east" not in done.err, f"another pool has no west-1: {done.err}")
    first.close()


def test_request_goes_in_no_circle(case):
    pools = Pools(case, east=False)
    # east knows west as well; each is full.
    token = case.folder / "token"
    token.write_text("a token of east in the pool west\n")
    token.chmod(0o600)
    users = case.folder / "users"
    users.write_text(f"east:open,forward:{token.read_text()}")
    users.chmod(0o600)
    key = pools.west.client()["GPUPOOL_SCHEDULER_KEY"]
    rules = case.folder / "east.rules"
    rules.write_text(f"[pool west]\nscheduler = {pools.west.where}\nkey-file = {key}\n"
                     f"token-file = {token}\n")
    pools.scheduler.send_signal(signal.SIGTERM)
    pools.scheduler.wait(case.patience)
    pools.scheduler = pools.west.scheduler("--rules", pools.rules, "--users-file", users)
    case.wait_for(lambda: pools.west.alive("west-1"), "west has its server again")
    pools.start_east("--rules", rules)
    first, second = pools.hold(), pools.hold()
    done = pools.cli("run", "--core", 100, "--", "true", status=3)
    case.contains(done.err, "pool east: ", "what east said")
    asked = json.loads(pools.east.cli("pools", "--json", env=pools.east.client("client-elsa")).out)
    case.equal(asked["pools"][0]["asked"], 0, "what east asked of west")
    second.close()
    # The other way round it is used: elsa's request goes from east to west.
    first.close()
    third = pools.hold("--pool", "east")
    done = pools.east.cli("run", "-v", "--core", 100, "--", "true",
                          env=pools.east.client("client-elsa"))
    case.contains(done.err, "of pool west: west-1", "from east")
    third.close()


def test_who_waits_gets_room_in_the_other_pool_when_it_comes_free_there(case):
    pools = Pools(case)
    first, second = pools.hold(), pools.hold()
    waiting = Cudash(case, case.spawn(
        [pools.west.gpupool, "run", "--wait", "-v", "--core", 100, "--owner", "late@lab", "--",
         case.programs / "cudash"], env=pools.west.client()))
    case.wait_for(lambda: json.loads(pools.cli("queue", "--json").out)["waiting"] == 1,
                  "it waits at home")
    second.close()
    waiting.begin()
    case.equal(pools.owners(pools.east), ["west/late@lab"], "owners in the other pool")
    case.equal(json.loads(pools.cli("queue", "--json").out)["waiting"], 0, "who waits at home")
    # One that waits is still served at home, too.
    more = Cudash(case, case.spawn(
        [pools.west.gpupool, "run", "--wait", "--core", 100, "--owner", "more@lab", "--",
         case.programs / "cudash"], env=pools.west.client()))
    case.wait_for(lambda: json.loads(pools.cli("queue", "--json").out)["waiting"] == 1,
                  "another one waits")
    first.close()
    more.begin()
    case.equal(pools.owners(pools.west), ["more@lab"], "owners at home")
    more.close()
    waiting.close()


def test_pool_without_the_right_to_forward_gets_nothing(case):
    pools = Pools(case, rights="open+read")
    first = pools.hold()
    done = pools.cli("run", "--core", 100, "--", "true", status=3)
    case.contains(done.err, "needs the token of a user with the right to forward", "refused")
    first.close()


def test_pool_that_refuses_the_token_is_one_that_does_not_answer(case):
    pools = Pools(case)
    other = case.folder / "other-token"
    other.write_text("no token that the pool east has ever seen")
    other.chmod(0o600)
    rules = pools.rules.read_text()
    pools.rules.write_text("\n".join(f"token-file = {other}" if line.startswith("token-file")
                                     else line for line in rules.splitlines()) + "\n")
    reread(case, pools.scheduler, pools.west.log("scheduler"), "were read again")
    first = pools.hold()
    done = pools.cli("run", "--core", 100, "--", "true", status=3)
    case.contains(done.err, "pool east: wrong client token", "why the other pool was no help")
    case.equal(pools.scheduler.poll(), None, "the scheduler's exit status")
    case.equal(pools.others()[0]["answers"], False, "whether it answers")
    first.close()


def test_pool_that_is_away_costs_little_and_is_named(case):
    pools = Pools(case)
    first = pools.hold()
    pools.east_scheduler.send_signal(signal.SIGKILL)
    pools.east_scheduler.wait(case.patience)
    done = pools.cli("run", "--core", 100, "--", "true", status=3)
    case.contains(done.err, "  pool east: ", "a pool that is away")
    done = pools.cli("run", "--core", 100, "--", "true", status=3)
    case.contains(done.err, "did not answer", "it is not asked at once again")
    other = pools.others()[0]
    case.contains(pools.cli("pools").out, "away", "the table")
    case.equal(pools.cli("complete", "pools").out.split(), ["here", "east"], "completion")
    case.equal((other["answers"], other["failed"]), (False, 1), "what west knows of east")
    # One that hangs holds nobody's request longer than `gpupool run` waits, and others go on.
    pools.east.scheduler()
    case.wait_for(lambda: pools.east.alive("east-1"), "east has its server again")

    def runs():
        return pools.cli("run", "--core", 100, "--", "true", status=None).status == 0
    case.wait_for(runs, "east is asked again")
    first.close()


def test_pool_that_hangs_holds_nobody_else_and_gets_back_what_its_client_left(case):
    pools = Pools(case, east=False)
    pools.start_east("--heartbeat-ms", 5000)  # its server is not taken for dead meanwhile
    first = pools.hold(core=50)
    east = pools.east_scheduler
    east.send_signal(signal.SIGSTOP)
    left = case.spawn([pools.west.gpupool, "run", "--core", 100, "--", "true"],
                      env=pools.west.client())
    log = pools.west.log("scheduler")
    time.sleep(0.3)  # it is being asked
    pools.cli("run", "--core", 10, "--memory", "64MiB", "--", "true")
    left.kill()
    left.wait(case.patience)
    east.send_signal(signal.SIGCONT)

    def ends():
        events = json.loads(pools.east.cli("events", "--output", "json").out)["events"]
        return [event["words"] for event in events if event["kind"] == "end"]
    case.wait_for(ends, "what nobody took is given back")
    case.contains(ends()[0], "closed by its owner", "not by the end of its lease")
    east.send_signal(signal.SIGSTOP)
    begin = time.monotonic()
    done = pools.cli("run", "--core", 100, "--", "true", status=3)
    case.contains(done.err, "  pool east: ", "a pool that hangs")
    again = time.monotonic()
    pools.cli("run", "--core", 100, "--", "true", status=3)
    case.check(time.monotonic() - again < (again - begin) / 2, "it was asked at once again")
    case.check("pool east does not answer" in log.read_text(), "the log of west")
    east.send_signal(signal.SIGCONT)
    first.close()


class Gate:
    """Stands between west and east, and keeps the bytes of either direction back when it is
    told to; @questions counts the pieces that came from west."""

    def __init__(self, case, port):
        self.target = ("127.0.0.1", port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.where = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.up, self.down = threading.Event(), threading.Event()
        self.up.set()
        self.down.set()
        self.questions = 0
        threading.Thread(target=self.accept, daemon=True).start()
        case.at_end(self.listener.close)

    def accept(self):
        while True:
            try:
                west, _ = self.listener.accept()
            except OSError:
                return
            east = socket.create_connection(self.target)
            for source, sink, may in ((west, east, self.up), (east, west, self.down)):
                threading.Thread(target=self.carry, args=(source, sink, may), daemon=True).start()

    def carry(self, source, sink, may):
        try:
            while data := source.recv(65536):
                self.questions += may is self.up
                may.wait()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def test_session_of_another_pool_that_came_too_late_is_given_back(case):
    """Who waits is served at home while another pool grants the same request, and then goes:
    the other pool's session is given back, and the scheduler forgets the request only then."""
    pools = Pools(case)
    gate = Gate(case, pools.east.port)
    pools.rules.write_text(pools.rules.read_text().replace(pools.east.where, gate.where))
    reread(case, pools.scheduler, pools.west.log("scheduler"), "were read again")
    first, second = pools.hold(), pools.hold()
    late = Link(case, next((case.folder / "west-state").rglob("scheduler.sock")))
    code, _ = late.ask(OPEN, number(1, 1) + text(3, "late@lab") + number(4, 100) + number(50, 1)
                       + number(70, 1))
    case.equal(code, 0, "the answer to a request that waits")
    case.equal(json.loads(pools.cli("queue", "--json").out)["waiting"], 1, "who waits")
    gate.down.clear()  # what east answers does not come
    second.close()
    questions = gate.questions
    case.wait_for(lambda: gate.questions > questions, "east is asked for it")
    first.close()
    while 5 not in dict(late.hear()[1]):  # CtlReply.grant
        pass
    gate.up.clear()
    questions = gate.questions
    gate.down.set()
    case.wait_for(lambda: gate.questions > questions, "its session is to be given back")
    late.close()
    pools.cli("status")
    gate.up.set()

    def ends():
        events = json.loads(pools.east.cli("events", "--output", "json").out)["events"]
        return [event for event in events if event["owner"] == "west/late@lab"
                and event["kind"] == "end"]
    case.wait_for(ends, "what came too late is given back")
    case.contains(ends()[0]["words"], "closed by its owner", "why it ended")
    pools.others()
    case.equal(pools.scheduler.poll(), None, "the scheduler's exit status")


def test_rules_with_a_fault_are_refused_and_changes_need_no_restart(case):
    pools = Pools(case)
    good = pools.rules.read_text()
    log = pools.west.log("scheduler")
    for text, words in (
            (good.replace("scheduler =", "schedulers ="), "west.rules:2: schedulers: unknown"),
            (good.split("token-file")[0], "token-file is not there"),
            (good.replace("token-file = ", "token-file = /nowhere"), "[pool east]: "),
            (good + good, "pool east is there twice"),
            (good.replace("[pool east]", "[pool here]"), "the name of this pool")):
        pools.rules.write_text(text)
        reread(case, pools.scheduler, log, words)
    first = pools.hold()
    pools.hold("--pool", "east", core=10).close()
    pools.rules.write_text("")
    reread(case, pools.scheduler, log, "were read again")
    case.equal(pools.others(), [], "pools that west knows")
    done = pools.cli("run", "--core", 100, "--", "true", status=3)
    case.check("pool east" not in done.err, f"east is known no more: {done.err}")
    pools.rules.write_text(good)
    reread(case, pools.scheduler, log, "were read again")
    pools.hold("--pool", "east", core=10).close()
    # A key that is not east's: nothing is shown to who answers there.
    lines = good.splitlines()
    lines[2] = f"key-file = {pools.west.client()['GPUPOOL_SCHEDULER_KEY']}"
    pools.rules.write_text("\n".join(lines) + "\n")
    reread(case, pools.scheduler, log, "were read again")
    done = pools.cli("run", "--pool", "east", "--core", 100, "--", "true", status=3)
    case.contains(done.err, "key", "a key that is another's")
    first.close()


def test_members_of_a_gang_stay_in_one_pool(case):
    """East has room for each, and none for the promise that they are served together."""
    pools = Pools(case)
    first = pools.hold()
    members = []
    for n in (1, 2):
        members.append(case.spawn(
            [pools.west.gpupool, "run", "--wait", "--gang", "team:2", "--core", 30, "--memory",
             "64MiB", "--", case.programs / "vecadd"], env=pools.west.client()))
        case.wait_for(lambda n=n: json.loads(pools.cli("queue", "--json").out)["waiting"] == n,
                      f"{n} members wait")
        case.equal(pools.sessions(pools.east), [], "sessions of the other pool")
    first.close()
    for member in members:
        out, _ = member.communicate(timeout=case.patience)
        case.contains(out, ": ok\n", "a member after there was room for both")
