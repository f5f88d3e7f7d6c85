# SPDX-License-Identifier: Apache-2.0
"""What only a network card can show: run by tests/rdma/run.sh in a guest that has one."""

import json
import os
import pathlib
import shutil
import signal

from harness import proc
from harness.cutter import Cutter
from harness.cudash import Cudash

MIB = 1 << 20
LAUNCHES = 20000  # ten times what a ring holds


def need_port(case):
    if os.environ.get("E2E_TRANSPORT") != "rdma":
        case.skip("no RDMA port here (make test-rdma makes one in a virtual machine)")


def rdma_pool(case, **options):
    need_port(case)
    return case.pool(**options)


def test_runs_in_a_guest_of_its_own(case):
    """All the others of this file, and the transport's unit tests, as part of the suite
    where that costs seconds: `make test-rdma` runs more, and emulates if need be."""
    if os.environ.get("E2E_TRANSPORT") == "rdma":
        case.skip("this is the guest")
    if case.sanitizer:
        case.skip("a guest for sanitizers is emulated and slow (make test-rdma SAN=...)")
    for tool in ("busybox", "rdma", "kmod"):
        if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
            case.skip(f"{tool} is not installed (see tests/rdma/rdma-vm --help)")
    cache = pathlib.Path(os.environ.get("RDMA_VM_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "rdma-vm"))
    if not (cache / "kernel-6.1").exists() and not (cache / "uml-6.1").exists():
        case.skip("no kernel for a guest yet (make test-rdma fetches one)")
    script = pathlib.Path(__file__).parent.parent / "rdma" / "run.sh"
    done = case.run([script, "--short", case.build], env={"RDMA_VM_DIR": cache}, status=None,
                    timeout=460)
    if done.status == 125:
        case.skip((done.err.strip().splitlines() or ["no guest"])[-1])
    case.equal(done.status, 0, f"the tests in the guest:\n{done}\nexit status")


def test_attaches_over_rdma_and_says_so(case):
    pool = rdma_pool(case)
    result = pool.run(case.programs / "vecadd", env={"GPUPOOL_LOG": "stub:info"})
    case.contains(result.err, "over rdma", "the stub's log")


def test_server_without_a_port_says_why_it_stays_with_tcp(case):
    """Only the program asks for RDMA: for a session that does, no server would be found."""
    pool = rdma_pool(case, options=["--rdma", "127.0.0.1"])
    result = pool.run("env", "GPUPOOL_TRANSPORT=rdma", case.programs / "vecadd", status=None,
                      env={"GPUPOOL_TRANSPORT": "auto"})
    case.contains(result.err, "does not offer RDMA", "what went wrong")
    case.contains(result.err, "no RDMA port has the address 127.0.0.1", "the reason")


def from_afar(case, session, **env):
    """A program in the session that sees no way of this host to the server, and chooses
    by itself; what its stub says."""
    far = case.folder / "far.session"
    lines = open(session.file, encoding="utf-8").readlines()
    far.touch(mode=0o600)
    far.write_text("".join(line for line in lines if not line.startswith("local ")))
    return session.run(case.programs / "vecadd", env={
        "GPUPOOL_SESSION_FILE": str(far), "GPUPOOL_TRANSPORT": "auto",
        "GPUPOOL_LOG": "stub:info", **env}).err


def test_left_to_itself_a_distant_client_takes_rdma(case):
    words = from_afar(case, rdma_pool(case).session())
    case.contains(words, "over rdma", "the stub's log")


def test_without_the_libraries_tcp_is_taken_and_the_reason_said(case):
    session = rdma_pool(case).session()
    (case.folder / "libibverbs.so.1").write_text("not a library\n")
    words = from_afar(case, session, LD_LIBRARY_PATH=":".join(
        [session.env["LD_LIBRARY_PATH"], str(case.folder)]))
    case.contains(words, "no RDMA: ", "what there is not")
    case.contains(words, "libibverbs.so.1", "the reason")
    case.contains(words, "over tcp", "what was taken")


def resources(case):
    """What the kernel holds of verbs objects, by kind: {"qp": 1, "mr": 0...}."""
    words = case.run(["rdma", "-j", "resource", "show"]).out
    found = {}
    for device in json.loads(words):
        for kind, count in device.items():
            if kind not in ("ifindex", "ifname"):
                found[kind] = found.get(kind, 0) + count
    return found


def test_attaches_a_hundred_times_and_leaves_nothing(case):
    need_port(case)
    before = resources(case)
    pool = rdma_pool(case, driver="null")
    session = pool.session()
    for _ in range(100):
        shell = session.cudash().begin()
        case.equal(shell.close(), 0, "exit status of cudash")
    case.wait_for(lambda: not pool.workers(), "workers outlive their clients")
    case.wait_for(lambda: resources(case) == before, "verbs objects are left behind")


def links(pool):
    return [session["links"] for session in pool.sessions()]


def copies_over(case, mode, gpudirect):
    """All kinds of copies in that GPUDirect mode, which status shows."""
    pool = rdma_pool(case, options=["--gpudirect", gpudirect],
                     env={"GPUPOOL_LOG": "worker:info"})
    session = pool.session()
    shell = session.cudash().begin()  # stays, so that status can show its link
    shell.ok("alloc", 4 << 20)
    case.equal(shell.ok("copy", 0, 4 << 20), "same", "what was copied up and down again")
    case.wait_for(lambda: any(f"rdma ({mode})" in words for words in links(pool)),
                  "status does not show how RDMA reaches the card")
    session.run(case.programs / "copies")
    case.equal(shell.close(), 0, "exit status of cudash")
    return pool


def test_copies_go_straight_to_the_cards_memory(case):
    pool = copies_over(case, "mapped", gpudirect="auto")
    case.contains(pool.log(), "not dmabuf: ", "why not the better mode")


def test_copies_go_through_slots_where_no_adapter_reaches_the_card(case):
    pool = copies_over(case, "slots", gpudirect="dmabuf")
    case.contains(pool.log(), "registers no dma-buf", "the reason")


def test_programs_that_try_the_order_of_things_pass(case):
    """Elsewhere each runs over the transports that every machine has."""
    pool = rdma_pool(case)
    for program in ("landing", "stress", "wakers"):
        pool.run(case.programs / program, core=100, memory="1GiB")


def test_explain_says_what_would_be_taken_and_why_not_the_others(case):
    pool = rdma_pool(case)
    case.contains(pool.cli("explain").out, "not tcp: GPUPOOL_TRANSPORT=rdma",
                  "the transports that were not asked for")
    words = pool.cli("explain", env={"GPUPOOL_TRANSPORT": "auto"}).out
    case.contains(words, "shared memory, by way of ", "a server on this host")
    case.contains(words, "not rdma: shm is faster", "the other")
    pool.stop()
    pool = rdma_pool(case, options=["--rdma", "off"])
    refused = pool.cli("explain", status=3)
    case.contains(refused.out + refused.err, "the programs go over RDMA, and the server offers "
                  "no port", "the reason of the refusal")
    words = pool.cli("explain", env={"GPUPOOL_TRANSPORT": "auto"}).out
    case.contains(words, "not rdma: the server offers no RDMA port", "the reason")


def test_killed_worker_ends_its_client_at_once(case):
    pool = rdma_pool(case)
    shell = pool.session().cudash().begin()
    pool.kill(pool.workers()[0])
    with case.within(10, "the client notices"):
        result, *_ = shell("alloc", 1 << 20)
    case.check(result != 0, "a call succeeded though the worker is dead")


def test_killed_client_leaves_nothing(case):
    """Whose link would not be replaced: the guest's two ports are as two hosts, and a
    client of another host may come back."""
    pool = rdma_pool(case, env={"GPUPOOL_RESUME": "0"})
    shell = pool.session().cudash().begin()
    os.kill(shell.process.pid, signal.SIGKILL)
    with case.within(10, "the worker ends"):
        case.wait_for(lambda: not pool.workers(), "the worker outlives its client")


def mend(case, routes):
    """The wire of the guest again, as it was: the kernel forgets routes with a link, and
    Soft-RoCE's queue pair for connection management has ended with its first error."""
    case.run(["ip", "link", "set", "rdma1", "up"])
    for route in routes:
        case.run(["ip", "route", "replace", "dev", "rdma1", *route.split()])
    case.run(["rdma", "link", "delete", "rxe1"])
    case.run(["rdma", "link", "add", "rxe1", "type", "rxe", "netdev", "rdma1"])


def need_wire(case):
    need_port(case)
    if os.environ.get("RDMA_VM_NET") != "pair":
        case.skip("the guest's RDMA port is a dummy interface, which cannot be cut (-n pair)")


def wire_routes(case):
    return case.run(["ip", "-4", "route", "show", "table", "all", "dev", "rdma1"]).out


def test_cut_link_is_noticed_in_seconds(case):
    need_wire(case)
    pool = rdma_pool(case, env={"GPUPOOL_RESUME": "0"})
    routes = wire_routes(case)
    shell = pool.session().cudash().begin()
    shell.ok("alloc", 1 << 20)
    try:
        case.run(["ip", "link", "set", "rdma1", "down"])
        with case.within(20, "the client notices"):
            result, *_ = shell("alloc", 1 << 20)
        case.check(result != 0, "a call succeeded over a link that is down")
        with case.within(20, "the worker notices"):
            case.wait_for(lambda: not pool.workers(), "the worker outlives the link")
        pool.stop()
    finally:
        shell.close()  # it holds the adapters open
        mend(case, [r for r in routes.splitlines() if not r.startswith("local")])
    rdma_pool(case).run(case.programs / "vecadd")


class Wire:
    """A pool whose RDMA port is at the other end of a wire and whose control connections
    take another way, and a cudash that uses it."""

    def __init__(self, case, **session):
        need_wire(case)
        self.case = case
        self.pool = rdma_pool(case, options=["--listen", "127.0.0.1"])
        self.session = self.pool.session(**session)
        self.routes = wire_routes(case)
        self.process = None

    def cudash(self):
        shell = self.session.cudash(env={"GPUPOOL_LOG": "stub:info"})
        self.process = shell.process
        return shell.begin()

    def attached(self):
        self.case.wait_for(lambda: any("rdma" in words for words in links(self.pool)),
                           "status does not show RDMA")

    def cut_when_busy(self):
        worker, = self.pool.workers()
        busy = proc.cpu_ticks(worker)
        self.case.wait_for(lambda: proc.cpu_ticks(worker) > busy + 20, "work is under way")
        self.case.run(["ip", "link", "set", "rdma1", "down"])

    def lossy(self):
        """Cut under work, but the ports stay: what is sent is lost."""
        self.case.run(["tc", "qdisc", "add", "dev", "rdma1", "root", "netem", "loss", "100%"])

    def whole(self):
        self.case.run(["tc", "qdisc", "del", "dev", "rdma1", "root"], status=None)

    def goes_over(self, transport):
        self.case.wait_for(lambda: any(transport in words for words in links(self.pool)),
                           f"status does not show {transport}", patience=4 * self.case.patience)

    def went_on(self, words):
        """What the client says: what began with TLS goes on with TLS."""
        self.case.contains(words, "over rdma with TLS", "how it began")
        self.case.contains(words, "was RDMA; going on over TCP with TLS", "how it went on")

    def mend(self):
        self.whole()
        if self.process:
            self.process.kill()  # it may hold the adapters open
            self.process.wait()
        self.pool.stop()
        mend(self.case, [r for r in self.routes.splitlines() if not r.startswith("local")])


def test_launches_go_on_over_tcp_and_are_carried_out_once(case):
    wire = Wire(case, core=100)
    try:
        shell = wire.cudash()
        shell.ok("load", case.build / "tests" / "ptx" / "spin.ptx")
        word = shell.ok("alloc", MIB)
        shell.ok("store", word, 4, 0)
        wire.attached()
        shell.send("flood", word, LAUNCHES)
        wire.cut_when_busy()
        case.equal(shell.answer(("flood",), patience=6 * case.patience), [0, LAUNCHES],
                   "launches")
        case.equal(shell("sync", patience=6 * case.patience), [0], "the wait for them")
        case.equal(shell.ok("peek", word, 4), LAUNCHES, "executed")
        case.wait_for(lambda: any("tcp" in words for words in links(wire.pool)),
                      "status does not show TCP")
        case.equal(shell.close(), 0, "exit status of cudash")
        case.wait_for(lambda: not wire.pool.workers(), "the worker outlives its client")
        wire.went_on((case.folder / "spawned.err").read_text(errors="replace"))
    finally:
        wire.mend()


def test_copies_go_on_over_tcp(case):
    wire = Wire(case)
    try:
        shell = wire.cudash()
        memory = shell.ok("alloc", 16 * MIB)
        shell.send("copies", memory, 16 * MIB, 60)
        wire.cut_when_busy()
        case.equal(shell.answer(("copies",), patience=6 * case.patience), [0, 60], "copies")
        case.equal(shell.ok("copy", memory, 16 * MIB), "same", "a copy afterwards")
        case.equal(shell.close(), 0, "exit status of cudash")
        wire.went_on((case.folder / "spawned.err").read_text(errors="replace"))
    finally:
        wire.mend()


def program_goes_on_over_tcp(case, *program):
    """It compares what it has copied; the wire is cut under its work."""
    wire = Wire(case, core=100, memory="1GiB")
    try:
        process = wire.process = case.spawn(
            [case.programs / program[0], *program[1:]],
            env={**wire.session.env, "GPUPOOL_LOG": "stub:info"})
        log = case.folder / "spawned.err"
        case.wait_for(lambda: "attached to" in log.read_text(errors="replace"),
                      "the program attaches")
        wire.cut_when_busy()
        case.equal(process.wait(6 * case.patience), 0, "exit status of the program")
        wire.went_on(log.read_text(errors="replace"))
    finally:
        wire.mend()


def test_program_that_tries_the_order_of_things_goes_on_over_tcp(case):
    """Up, down and between, in several streams."""
    program_goes_on_over_tcp(case, "stress", 600)


def test_sources_of_copies_may_go_away_behind_the_call(case):
    """The card's end reads a payload from the program's memory when it gets to it, and it
    is sent again when the link is lost before that."""
    rdma_pool(case).run(case.programs / "sources", core=100, memory="1GiB",
                        timeout=6 * case.patience)


def test_sources_may_go_away_though_copies_go_on_over_tcp(case):
    program_goes_on_over_tcp(case, "sources")


def there_and_back(case, work):
    """A wire that loses everything for some seconds while @work(shell, round) goes on."""
    wire = Wire(case, core=100)
    try:
        shell = wire.cudash()
        wire.attached()
        work(shell, wire.lossy)
        wire.goes_over("tcp")
        work(shell, wire.whole)
        wire.goes_over("rdma")
        work(shell, lambda: None)
        case.equal(shell.close(), 0, "exit status of cudash")
        case.wait_for(lambda: not wire.pool.workers(), "the worker outlives its client")
        words = (case.folder / "spawned.err").read_text(errors="replace")
        wire.went_on(words)
        case.contains(words, "can be RDMA again; going on over RDMA", "the way back")
    finally:
        wire.whole()
        shell.process.kill()
        shell.process.wait()
        wire.pool.stop()


def test_launches_go_back_to_rdma_and_are_carried_out_once(case):
    done = 0

    def work(shell, event):
        nonlocal done
        if not done:
            shell.ok("load", case.build / "tests" / "ptx" / "spin.ptx")
            work.word = shell.ok("alloc", MIB)
            shell.ok("store", work.word, 4, 0)
        shell.send("flood", work.word, LAUNCHES)
        event()
        case.equal(shell.answer(("flood",), patience=6 * case.patience), [0, LAUNCHES],
                   "launches")
        case.equal(shell("sync", patience=6 * case.patience), [0], "the wait for them")
        done += LAUNCHES
        case.equal(shell.ok("peek", work.word, 4), done, "executed")

    there_and_back(case, work)


def test_copies_go_back_to_rdma_and_to_windows(case):
    memory = None

    def work(shell, event):
        nonlocal memory
        memory = memory or shell.ok("alloc", 16 * MIB)
        shell.send("copies", memory, 16 * MIB, 20)
        event()
        case.equal(shell.answer(("copies",), patience=6 * case.patience), [0, 20], "copies")
        case.equal(shell.ok("copy", memory, 16 * MIB), "same", "a copy afterwards")

    there_and_back(case, work)


def test_cut_control_connections_go_back_to_rdma_at_once(case):
    """A short cut: the ports answer, so RDMA follows on RDMA, through no second of TCP."""
    wire = Wire(case, core=100)
    host, _, port = wire.session.field("server").rpartition(":")
    cutter = Cutter(case, (host, int(port)), 3600, seed=1)
    behind = case.folder / "cut.session"
    with open(wire.session.file, encoding="utf-8") as lines:
        behind.write_text("".join(
            f"server 127.0.0.1:{cutter.port}\n" if line.startswith("server ") else line
            for line in lines if not line.startswith("local ")))
    behind.chmod(0o600)
    shell = Cudash(case, case.spawn([case.programs / "cudash"], env={
        **wire.session.env, "GPUPOOL_SESSION_FILE": str(behind),
        "GPUPOOL_LOG": "stub:info"})).begin()
    memory = shell.ok("alloc", 16 * MIB)
    log = case.folder / "spawned.err"
    wire.attached()
    for cut in range(1, 3):
        shell.send("copies", memory, 16 * MIB, 10)
        cutter.cut()
        case.equal(shell.answer(("copies",), patience=6 * case.patience), [0, 10], "copies")
        case.wait_for(lambda: log.read_text(errors="replace").count(" after ") >= cut,
                      "the link is replaced")
        wire.goes_over("rdma")
    case.equal(shell.close(), 0, "exit status of cudash")
    case.contains(log.read_text(errors="replace"), "replaced", "the log")
