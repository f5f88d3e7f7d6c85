# SPDX-License-Identifier: Apache-2.0
"""A supervisor that ends, however, and another one that takes its workers over."""

import contextlib
import fcntl
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from harness import proc
from harness.cudash import OUT_OF_MEMORY, SUCCESS, Cudash
from harness.cutter import Cutter
from harness.pool import SERVER

MIB = 1 << 20
KEEPER = "gpupool-keeper"
SEED = int(os.environ.get("GPUPOOL_SEED", "1"))
# Launches, copies both ways, managed memory, graphs; seconds each on a busy machine.
PROGRAMS = ("vecadd", "pipeline", "histogram", "managed", "graphs")
# Of `make test-chaos`: asynchronous copies down, descriptors of memory, several threads
# and contexts as well.  hostfuncs, hostnodes and stress take minutes each on two cores.
CHAOS = (*PROGRAMS, "matmul", "threads", "landing", "graphcopies", "copies", "shareable")


class Kept:
    """A pool whose server keeps its workers."""

    def __init__(self, case, *options, window=60, **pool):
        self.case = case
        self.pool = case.pool(**pool)
        self.folder = case.folder / "server-state"
        self.ready = case.folder / "server.ready"
        self.ready.touch()
        host = os.environ.get("E2E_LISTEN", "127.0.0.1:0").rpartition(":")[0]
        self.server = self.pool.restart(
            self.pool.pid(SERVER), "--listen", f"{host}:{case.free_port()}", "--state-dir",
            str(self.folder), "--adopt-window", str(window), "--ready-file", str(self.ready),
            *options)
        # Successors listen where the first one did, as a service with a fixed port does.
        self.args = self.pool._with_fixed_port(proc.command_line(self.server))
        self.env = self.pool.environment(self.server)
        self.starts = 0
        self.alive()

    def kill(self):
        self.pool.kill(self.server)
        os.unlink(self.ready)

    def start(self, *more, wait=True):
        """A successor, with the command line of the first one."""
        with open(self.case.folder / "successors.log", "ab") as log:
            process = subprocess.Popen([*self.args, *more], env=self.env, stdout=log,
                                       stderr=log, cwd=self.case.folder,
                                       stdin=subprocess.DEVNULL, start_new_session=True)
        self.case._processes.append(process)
        if not wait:
            return process
        self.server = process.pid
        self.starts += 1
        self.case.wait_for(lambda: os.path.exists(self.ready), "the successor listens")
        return process

    def restart(self):
        """kill -9, and at once another one."""
        self.kill()
        self.start()

    def hand_over(self):
        """It leaves its workers to another one, as `systemctl restart` has it do."""
        self.pool.kill(self.server, signal.SIGUSR2)
        self.case.wait_for(lambda: self.pool._gone(self.server), "the server has left")
        os.unlink(self.ready)
        self.start()

    def start_again(self):
        """It starts its program anew in the same process."""
        os.unlink(self.ready)
        self.pool.kill(self.server, signal.SIGUSR1)
        self.starts += 1
        self.case.wait_for(lambda: os.path.exists(self.ready), "the server listens again")

    def keepers(self):
        return [pid for pid in proc.descendants() if proc.command_line(pid)[:1] == [KEEPER]]

    def shell(self, session, transport, **env):
        return Cudash(self.case, self.case.spawn(
            [self.case.programs / "cudash"],
            env={**session.env, "GPUPOOL_TRANSPORT": transport, **env})).begin()

    def attaches(self):
        """How many programs have attached since the start.  Whoever is in the middle of it
        when the server is killed is cut off."""
        return self.pool.log().count(": attached, worker ")

    def alive(self):
        """The scheduler knows the server that runs now."""
        self.case.wait_for(lambda: self.pool._is_alive(self.server),
                           "the scheduler knows the successor")


def used(pool):
    return sum(slice_["used_bytes"] for session in pool.sessions()
               for slice_ in session["slices"])


def test_control_connection_comes_to_a_worker_that_was_adopted(case):
    kept = Kept(case, servers=1, cards=1)
    session = kept.pool.session(core=40, memory="1GiB")
    shells = [kept.shell(session, transport, GPUPOOL_LOG="stub:debug")
              for transport in ("tcp", "shm")]
    for shell in shells:
        shell.ok("context")
    kept.restart()
    said = case.folder / "spawned.err"
    for n, shell in enumerate(shells):
        case.equal(shell("hostfn"), [SUCCESS, 1], "a host function of the adopted worker")
        # Whichever attempt it is: the first may have met no server.
        case.wait_for(lambda n=n: said.read_text().count("a control connection, number") > n,
                      "it has a control connection")
    kept.restart()
    for shell in shells:
        case.equal(shell("hostfn"), [SUCCESS, 1], "and of one that is adopted again")
        case.equal(shell.close(), 0, "exit status")


def test_programs_do_not_notice_that_their_server_is_killed(case):
    kept = Kept(case, servers=1, cards=1)
    sessions = [kept.pool.session(core=40, memory="1GiB") for _ in range(2)]
    rnd = random.Random(SEED)
    runs = []
    for transport, session in zip(("tcp", "shm"), sessions):
        for program in PROGRAMS:
            runs.append(case.spawn([case.programs / program],
                                   env={**session.env, "GPUPOOL_TRANSPORT": transport}))
    case.wait_for(lambda: kept.attaches() >= len(runs), "all have attached")
    began = time.monotonic()
    while any(run.poll() is None for run in runs):
        time.sleep(rnd.uniform(0.1, 0.8))
        kept.restart()
    print(f"seed {SEED}: {kept.starts} servers killed under {len(runs)} programs in "
          f"{time.monotonic() - began:.0f} s", flush=True)
    errors = (case.folder / "spawned.err").read_text()
    case.equal([run.wait() for run in runs], [0] * len(runs), f"exit statuses; {errors}")
    kept.alive()
    case.equal(len(kept.pool.sessions()), 2, "sessions that the scheduler knows")
    case.wait_for(lambda: not kept.pool.workers(), "the workers are gone with their programs")
    case.wait_for(lambda: used(kept.pool) == 0, "all memory is given back")
    case.equal(len(kept.keepers()), 1, "keepers")


def test_each_way_to_a_successor_keeps_memory_limits_and_names(case):
    kept = Kept(case)
    session = kept.pool.session(memory="64MiB")
    name = kept.pool.sessions()[0]["name"]
    first, second = kept.shell(session, "shm"), kept.shell(session, "tcp")
    memory = first.ok("alloc", 24 * MIB)
    first.ok("store", memory, 0, 4711)
    second.ok("alloc", 24 * MIB)
    for way in (kept.restart, kept.hand_over, kept.start_again, kept.restart):
        way()
        case.equal(first.ok("peek", memory, 0), 4711, "what the card's memory holds")
        case.equal(second("alloc", 24 * MIB)[0], OUT_OF_MEMORY, "memory beyond the limit")
        more = second.ok("alloc", 8 * MIB)
        second.ok("free", more)
        third = kept.shell(session, "tcp")
        case.equal(third("alloc", 24 * MIB)[0], OUT_OF_MEMORY, "a new process beyond it")
        third.close()
    kept.alive()
    case.equal([s["name"] for s in kept.pool.sessions()], [name], "sessions")
    case.wait_for(lambda: kept.pool.sessions()[0]["attachments"] == 2, "attachments")
    case.wait_for(lambda: used(kept.pool) == 48 * MIB, "memory in use")
    first.close()
    case.wait_for(lambda: used(kept.pool) == 24 * MIB, "the first's memory is given back")
    second.close()
    case.equal(session.close(), 0, "exit status of gpupool run")
    case.wait_for(lambda: kept.pool.sessions() == [], "the session is closed")


def rekept(kept, how):
    """The server is killed, and what it has left is that of another version."""
    kept.kill()
    changed = kept.case.run([kept.case.build / "tests" / "e2e" / "rekeep", kept.folder, how]).out
    # The server's, the arbiter's, the jail's, the probe's; of the session two, of each
    # of two workers two.
    kept.case.check(int(changed) >= 10, f"only {changed} files were changed")


def version_goes_on(case, how):
    """What the supervisor of another version has left is taken over, more than once."""
    kept = Kept(case)
    session = kept.pool.session(memory="64MiB")
    shells = [kept.shell(session, transport) for transport in ("shm", "tcp")]
    memory = [shell.ok("alloc", 24 * MIB) for shell in shells]
    for number in range(2):
        for shell, at in zip(shells, memory):
            shell.ok("store", at, 0, 4711 + number)
        rekept(kept, how)
        kept.start()
        for shell, at in zip(shells, memory):
            case.equal(shell.ok("peek", at, 0), 4711 + number, "what the memory holds")
        case.equal(shells[1]("alloc", 24 * MIB)[0], OUT_OF_MEMORY, "memory beyond the limit")
        third = kept.shell(session, "tcp")
        case.equal(third("alloc", 24 * MIB)[0], OUT_OF_MEMORY, "a new process beyond it")
        third.close()
        kept.alive()
    case.wait_for(lambda: used(kept.pool) == 48 * MIB, "memory in use")
    kept.restart()  # nothing of the other version is left that would be in the way
    case.equal(shells[0].ok("peek", memory[0], 0), 4712, "what the memory holds")
    for shell in shells:
        case.equal(shell.close(), 0, "exit status")
    case.wait_for(lambda: used(kept.pool) == 0, "all memory is given back")
    case.equal(len(kept.keepers()), 1, "keepers")


def test_workers_of_the_version_before_are_taken_over(case):
    version_goes_on(case, "form4")


def test_what_a_future_version_knows_more_is_left_alone(case):
    version_goes_on(case, "future")


def test_lock_of_a_keeper_that_is_ending_is_waited_for(case):
    """Its end is seen before the kernel lets its lock go."""
    kept = Kept(case)
    kept.kill()
    keeper, = kept.keepers()
    kept.pool.kill(keeper)
    case.wait_for(lambda: not kept.keepers(), "the keeper is gone")
    lock = os.open(kept.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    timer = threading.Timer(0.5, os.close, [lock])
    timer.start()
    kept.start()
    timer.join()
    case.equal(len(kept.keepers()), 1, "keepers")


def test_form_that_is_not_read_ends_the_workers_and_is_named(case):
    kept = Kept(case)
    session = kept.pool.session()
    shells = [kept.shell(session, transport) for transport in ("shm", "tcp")]
    rekept(kept, "strange")
    kept.start()
    log = (case.folder / "successors.log").read_text(errors="replace")
    case.contains(log, "is of form 6, and this one reads 4 to 5", "the successor's log")
    case.wait_for(lambda: not kept.pool.workers(), "the workers are ended")
    for shell in shells:
        case.check(shell("alloc", MIB)[0] != SUCCESS, "a call succeeded without a worker")
        shell.close()
    kept.alive()
    session.run(case.programs / "vecadd")


def test_chaos_of_servers_that_are_killed_or_replaced_every_second(case):
    """Every program, alone in its session, over both transports, with the right output:
    `make test-chaos`."""
    if "GPUPOOL_CHAOS" not in os.environ:
        case.skip("it takes minutes: make test-chaos")
    kept = Kept(case)
    # Some say what memory of the session is free, which would be the other one's doing.
    sessions = {transport: kept.pool.session(core=45, memory="1GiB")
                for transport in ("tcp", "shm")}
    rnd = random.Random(SEED)
    began, wrong = time.monotonic(), 0
    for program in CHAOS:
        expected = sessions["tcp"].run(case.programs / program).out
        before = kept.attaches()
        runs = [case.spawn([case.programs / program],
                           env={**session.env, "GPUPOOL_TRANSPORT": transport},
                           stdout=open(case.folder / f"{transport}.out", "w", encoding="utf-8"))
                for transport, session in sessions.items()]
        case.wait_for(lambda: kept.attaches() >= before + len(runs), "both have attached")
        while any(run.poll() is None for run in runs):
            time.sleep(rnd.uniform(0.2, 2.0))
            rnd.choice((kept.restart, kept.restart, kept.hand_over, kept.start_again))()
        for run, transport in zip(runs, sessions):
            out = (case.folder / f"{transport}.out").read_text()
            if run.returncode != 0 or out != expected:
                wrong += 1
                print(f"{program} over {transport}: exit status {run.returncode}, output\n"
                      f"{out}--- instead of\n{expected}---", flush=True)
    kept.alive()
    case.wait_for(lambda: not kept.pool.workers(), "the workers are gone with their programs")
    case.wait_for(lambda: used(kept.pool) == 0, "all memory is given back")
    print(f"chaos: seed {SEED}: {kept.starts} servers killed or replaced under "
          f"{2 * len(CHAOS)} programs in {time.monotonic() - began:.0f} s, results wrong {wrong}",
          flush=True)
    case.equal(wrong, 0, "programs with a wrong result")


def test_upgrade_of_scheduler_and_server_ends_no_session(case):
    """The scheduler is away for several leases, as in an upgrade of minutes: the lease is
    one second here instead of thirty."""
    kept = Kept(case, options=("--lease-ms", 1000, "--heartbeat-ms", 200))
    session = kept.pool.session(memory="64MiB")
    name = kept.pool.sessions()[0]["name"]
    shell = kept.shell(session, "tcp")
    shell.ok("store", shell.ok("alloc", MIB), 0, 4711)
    scheduler = kept.pool.pid("gpupool-scheduler")
    os.kill(scheduler, signal.SIGSTOP)  # nobody hears it; restart() below kills it
    end = time.monotonic() + 3
    while time.monotonic() < end:
        kept.hand_over()
        case.equal(shell("peek", 0, 0), [SUCCESS, 4711], "what the card's memory holds")
    kept.pool.restart(scheduler)
    kept.alive()
    case.equal([s["name"] for s in kept.pool.sessions()], [name], "sessions")
    case.wait_for(lambda: kept.pool.sessions()[0]["attachments"] == 1, "attachments")
    case.equal(shell("peek", 0, 0), [SUCCESS, 4711], "what the card's memory holds")
    session.run(case.programs / "vecadd")
    case.equal(session.close(), 0, "exit status of gpupool run")
    case.wait_for(lambda: kept.pool.sessions() == [], "the session is closed")


def connections_to(port):
    """Established ones of this host."""
    with open("/proc/net/tcp", encoding="ascii") as lines:
        return [line for line in lines
                if line.split()[2].endswith(f":{port:04X}") and line.split()[3] == "01"]


def test_who_comes_while_there_is_no_server_waits_for_the_next(case):
    kept = Kept(case)
    session = kept.pool.session(memory="64MiB")
    kept.kill()
    port = int(session.field("server").rpartition(":")[2])
    run = case.spawn([case.programs / "vecadd"],
                     env={**session.env, "GPUPOOL_TRANSPORT": "tcp"})
    case.wait_for(lambda: connections_to(port), "it is connected to a server that is not there")
    kept.start()
    case.equal(run.wait(case.patience), 0, "exit status of the program")


def test_programs_that_end_while_there_is_no_server_leave_nothing(case):
    kept = Kept(case)
    session = kept.pool.session(memory="64MiB")
    ends = kept.shell(session, "tcp")
    ends.ok("alloc", 8 * MIB)
    before = set(kept.pool.workers())
    killed = kept.shell(session, "shm")
    killed.ok("alloc", 4 * MIB)
    goes_on = kept.shell(session, "tcp")
    goes_on.ok("alloc", 2 * MIB)
    case.wait_for(lambda: used(kept.pool) == 14 * MIB, "memory in use")
    kept.kill()
    case.equal(ends.close(), 0, "exit status")
    kept.pool.kill(killed.process.pid)
    kept.start()
    case.wait_for(lambda: not before & set(kept.pool.workers()), "its worker is gone")
    kept.alive()
    case.wait_for(lambda: kept.pool.sessions()[0]["attachments"] == 1, "attachments")
    case.wait_for(lambda: used(kept.pool) == 2 * MIB, "memory of those that ended")
    goes_on.ok("alloc", 56 * MIB)


def worker_dies_without_a_server(case, resume):
    """Without a server nobody can say that the worker is dead: a program whose link may be
    replaced hears it from the successor, another one fails at once."""
    kept = Kept(case)
    session = kept.pool.session(memory="64MiB")
    shell = kept.shell(session, "tcp", GPUPOOL_RESUME=resume)
    worker, = kept.pool.workers()
    kept.kill()
    os.kill(worker, signal.SIGKILL)
    shell.send("alloc", MIB)
    if resume == "0":
        case.check(shell.answer()[0] != SUCCESS, "a call without a worker succeeds")
    kept.start()
    kept.alive()
    if resume != "0":
        case.check(shell.answer()[0] != SUCCESS, "a call without a worker succeeds")
    case.wait_for(lambda: kept.pool.sessions()[0]["attachments"] == 0, "attachments")
    other = kept.shell(session, "tcp")
    other.ok("alloc", 60 * MIB)
    words = f"worker {worker} was killed by signal 9"
    case.contains(kept.pool.log(), words, "what the successor knows")
    kept.restart()
    case.equal(kept.pool.log().count(words), 1, "successors that hear of it")


def test_worker_that_is_killed_while_there_is_no_server_fails_its_program_at_once(case):
    worker_dies_without_a_server(case, "0")


def test_program_hears_from_the_successor_that_its_worker_was_killed(case):
    worker_dies_without_a_server(case, "60")


def test_what_processes_share_outlives_the_server(case):
    """A descriptor of memory, whose maker ends, and a name of memory."""
    kept = Kept(case)
    session = kept.pool.session(core=20, memory="64MiB")
    path = case.folder / "meet"
    giver = case.spawn([case.programs / "shareable", "lend", path], env=session.env)
    case.equal(giver.stdout.readline(), "listening\n", "the process that exports")
    maker, user = kept.shell(session, "tcp"), kept.shell(session, "tcp")
    name = maker.ok("export", maker.ok("alloc", MIB))
    kept.restart()
    user.ok("import", name)
    taker = case.spawn([case.programs / "shareable", "keep", path], env=session.env)
    case.equal(taker.stdout.readline(), "kept\n", "the process that imports")
    case.equal(giver.wait(case.patience), 0, "exit status of the process that exports")
    kept.restart()
    kept.alive()
    case.wait_for(lambda: used(kept.pool) == 3 * MIB,
                  lambda: f"the importer pays 2 MiB: {used(kept.pool)}")
    taker.stdin.write("\n")
    taker.stdin.flush()
    case.equal(taker.wait(case.patience), 0, "exit status of the process that imports")
    case.wait_for(lambda: used(kept.pool) == MIB, "what it shared is given back")


def test_links_are_replaced_across_servers(case):
    """A link that breaks while there is no server; its client comes to the next one."""
    kept = Kept(case)
    session = kept.pool.session(memory="64MiB")
    host, _, port = session.field("server").rpartition(":")
    cutter = Cutter(case, (host, int(port)), 3600, seed=SEED)
    file = case.folder / "cut.session"
    with open(session.file, encoding="utf-8") as lines:
        file.write_text("".join(
            f"server 127.0.0.1:{cutter.port}\n" if line.startswith("server ") else line
            for line in lines if not line.startswith("local ")))
    file.chmod(0o600)
    shell = Cudash(case, case.spawn(
        [case.programs / "cudash"],
        env={**session.env, "GPUPOOL_SESSION_FILE": str(file), "GPUPOOL_RESUME": "60",
             "GPUPOOL_TRANSPORT": "tcp", "GPUPOOL_TLS": "off"})).begin()
    memory = shell.ok("alloc", MIB)
    shell.ok("store", memory, 0, 4711)
    for _ in range(2):
        kept.kill()
        cutter.cut()
        shell.send("peek", memory, 0)
        kept.start()
        case.equal(shell.answer(), [SUCCESS, 4711], "what the card's memory holds")


def test_server_that_nobody_starts_again_frees_its_cards(case):
    kept = Kept(case, window=1)
    session = kept.pool.session(memory="64MiB")
    shell = kept.shell(session, "tcp")
    shell.ok("alloc", MIB)
    kept.kill()
    case.wait_for(lambda: not kept.pool.workers(), "the workers end after the window")
    case.check(shell("alloc", MIB)[0] != SUCCESS, "a call without a worker succeeds")
    case.wait_for(lambda: not kept.keepers(), "the keeper ends as well")
    kept.start()
    session.run(case.programs / "vecadd")


def test_server_that_is_stopped_ends_its_workers(case):
    kept = Kept(case)
    session = kept.pool.session(memory="64MiB")
    shell = kept.shell(session, "tcp")
    kept.restart()
    kept.pool.kill(kept.server, signal.SIGTERM)
    case.wait_for(lambda: kept.pool._gone(kept.server), "the server ends")
    case.equal((kept.pool.workers(), kept.keepers()), ([], []), "workers and keepers")
    case.check(shell("alloc", MIB)[0] != SUCCESS, "a call after the stop succeeds")
    lines = (case.folder / "spawned.err").read_text()
    case.contains(lines, "the server is stopping", "the program's words")


def is_told_to_end(pid):
    """SIGTERM waits for it, or it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    return bool(int(re.search(r"ShdPnd:\s*(\w+)", status)[1], 16) & 1 << signal.SIGTERM - 1)


def test_workers_that_have_not_run_since_say_what_their_newest_server_says(case):
    """They get its memory, where the reason is, and the signal before they run again."""
    kept = Kept(case, servers=1, cards=1)
    session = kept.pool.session(core=60, memory="256MiB")
    shells = [kept.shell(session, "tcp") for _ in range(6)]
    workers = kept.pool.workers()
    for worker in workers:
        kept.pool.kill(worker, signal.SIGSTOP)
    kept.restart()
    kept.pool.kill(kept.server, signal.SIGTERM)
    case.wait_for(lambda: all(map(is_told_to_end, workers)), "the workers have the signal")
    for worker in workers:
        with contextlib.suppress(ProcessLookupError):  # who waits too long is killed
            kept.pool.kill(worker, signal.SIGCONT)
    case.wait_for(lambda: kept.pool._gone(kept.server), "the server ends")
    for shell in shells:
        case.check(shell("alloc", MIB)[0] != SUCCESS, "a call after the stop succeeds")
    lines = (case.folder / "spawned.err").read_text()
    case.check("ended by the pool" not in lines, f"the server said why: {lines}")
    if "did not end within" not in (case.folder / "successors.log").read_text():
        case.contains(lines, "the server is stopping", "the programs' words")


def test_keeper_that_is_killed_takes_its_workers_with_it(case):
    """The kernel ends workers whose parent is gone, so none is without anybody."""
    kept = Kept(case)
    session = kept.pool.session(memory="64MiB")
    kept.shell(session, "tcp")
    kept.pool.kill(kept.keepers()[0])
    case.wait_for(lambda: not kept.pool.workers(), "the workers are gone")
    case.wait_for(lambda: kept.pool._gone(kept.server), "the server ends, to be restarted")
    os.path.exists(kept.ready) and os.unlink(kept.ready)
    kept.start()
    session.run(case.programs / "vecadd")


def test_signals_for_the_server_that_its_whole_unit_gets_end_no_program(case):
    """`systemctl kill -s USR1` signals every process of the unit."""
    kept = Kept(case)
    shell = kept.shell(kept.pool.session(memory="64MiB"), "tcp")
    for signo in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        for pid in (*kept.keepers(), *kept.pool.workers()):
            os.kill(pid, signo)
    kept.start_again()
    shell.ok("sync")
    shell.close()


def ask_keeper(path, user):
    """Whether the keeper answers a process of that user which greets it."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setresuid(user, user, user)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
                sock.settimeout(20)
                sock.connect(str(path))
                os._exit(0 if sock.recv(4096) else 3)
        except OSError:
            os._exit(4)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_server_starts_workers_of_its_own_version_until_it_is_restarted(case):
    """An upgrade replaces the programs some time before it restarts the server, and what a
    worker is handed is for those of the server's build."""
    folder, built = case.folder / "installed", case.build / "bin" / "gpupool-worker"
    folder.mkdir()
    (case.folder / "lib").symlink_to(case.build / "lib")
    program, following = folder / "gpupool-worker", folder / "gpupool-worker.new"
    shutil.copy2(built, program)
    kept = Kept(case, "--worker", program)
    session = kept.pool.session(memory="64MiB")
    shells = [kept.shell(session, "shm")]
    memory = shells[0].ok("alloc", MIB)
    shells[0].ok("store", memory, 0, 4711)
    shutil.copy2(shutil.which("false"), following)
    following.rename(program)
    shells += [kept.shell(session, transport) for transport in ("shm", "tcp")]
    for shell in shells[1:]:
        shell.ok("alloc", MIB)
    program.unlink()
    shells.append(kept.shell(session, "shm"))
    shells[-1].ok("alloc", MIB)
    shutil.copy2(built, program)
    kept.hand_over()
    shells.append(kept.shell(session, "shm"))
    case.equal(shells[0].ok("peek", memory, 0), 4711, "what the card's memory holds")
    for shell in shells:
        case.equal(shell.close(), 0, "exit status")


def test_nobody_else_gets_at_the_keeper(case):
    if os.geteuid() != 0:
        case.skip("only root becomes another user")
    kept = Kept(case)
    path = kept.folder / "keeper.sock"
    case.equal(kept.folder.stat().st_mode & 0o777, 0o700, "mode of the state directory")
    case.equal(ask_keeper(path, 65534), 4, "another user")
    # The same where somebody has opened the folder for everybody.
    for part in (case.folder, kept.folder, path):
        part.chmod(0o777)
    case.check(ask_keeper(path, 65534) != 0, "the keeper answers another user")
    case.contains(kept.pool.log(), "refused at the keeper's socket: user 65534", "the log")
    kept.folder.chmod(0o700)
    other = kept.start(wait=False)
    case.check(other.wait(case.patience) != 0, "a second server has started")
    case.contains((case.folder / "successors.log").read_text(),
                  f"another gpupool-server (process {kept.server}) uses the state directory",
                  "its words")
    session = kept.pool.session(memory="64MiB")
    session.run(case.programs / "vecadd")
