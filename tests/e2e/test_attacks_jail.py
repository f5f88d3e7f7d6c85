# SPDX-License-Identifier: Apache-2.0
"""A hostile worker tries everything that it must not do; nobody beside it notices.

The driver of these pools (tests/attacks) is softgpu, but attacks its host from inside the
worker when the test says so, where a client that has taken its worker over would be.
"""

import ctypes
import errno
import mmap
import os
import pathlib
import subprocess
import sys

MIB = 1 << 20
GRAPH_CLIENT = pathlib.Path(__file__).with_name("graph_client.py")
CONTROL_SIZE = 4096

# What stops an attack.  ENOENT and the like would mean that the attack was let in and found
# nothing to do harm to.
DENIED = {errno.EPERM, errno.EACCES, errno.ENOSYS}
# The limits' own words.
BOMBS = {
    "bomb_memory": (errno.ENOMEM, 600 * MIB),
    "bomb_file": (errno.EFBIG, 1 << 40),
    "bomb_descriptors": (errno.EMFILE, 10000),
}
THREADS = ("bomb_threads", errno.EAGAIN, 4500)
SHARED = "bomb_shared"


class Control(ctypes.Structure):
    """struct hostile of tests/attacks/hostile.h"""
    _fields_ = [("armed", ctypes.c_uint32), ("error", ctypes.c_int32),
                ("victim", ctypes.c_int32), ("supervisor", ctypes.c_int32),
                ("amount", ctypes.c_uint64), ("name", ctypes.c_char * 64),
                ("path", ctypes.c_char * 256)]


class Hostile:
    """A pool with a victim's session and a hostile one."""

    def __init__(self, case, *options, client=None):
        library = case.build / "tests" / "softgpu-hostile" / "libhostiledrv.so"
        if case.sanitizer:
            case.skip("workers of sanitizer builds have no system call filter")
        self.case = case
        control = case.folder / "control"
        control.write_bytes(bytes(CONTROL_SIZE))
        self.file = open(control, "r+b")
        self.map = mmap.mmap(self.file.fileno(), CONTROL_SIZE)
        self.control = Control.from_buffer(self.map)
        env = {"HOSTILE_CONTROL": str(control)}
        self.pool = case.pool(env=env)
        server = self.pool.pid("gpupool-server")
        self.control.supervisor = self.pool.restart(
            server, "--driver", str(library), "--worker-memory", "512MiB", *options)
        self.victim = self.pool.session()
        self.neighbour = self.victim.cudash().begin()
        self.memory = self.neighbour.ok("alloc", MIB)
        self.neighbour.ok("store", self.memory, 0, 0x12345678)
        self.control.victim, = self.pool.workers()
        self.session = self.pool.session()
        self.shell = self.session.cudash(client).begin()
        self.worker, = set(self.pool.workers()) - {self.control.victim}
        self.secret = case.folder / "secret"
        self.secret.write_text("the pool's token\n")
        self.secret.chmod(0o600)
        self.control.path = str(self.secret).encode()

    def attack(self, name, amount=0):
        """The errno that stopped it; 0: nothing did."""
        self.control.name = name.encode()
        self.control.amount = amount
        self.control.error = 0
        self.control.armed = 1
        self.shell.ok("alloc", 512)
        self.case.equal(self.control.armed, 0, f"{name}: the attack was carried out")
        return self.control.error

    def all_live(self):
        case = self.case
        case.equal(self.neighbour.ok("peek", self.memory, 0), 305419896,
                   "what lies in the victim's memory")
        case.check(self.control.victim in self.pool.workers(), "the victim's worker lives")
        os.kill(self.control.supervisor, 0)
        other = self.pool.session()
        other.cudash().begin().ok("alloc", MIB)
        case.equal(self.secret.read_text(), "the pool's token\n", "the file")
        left = [p.name for p in case.folder.iterdir() if p.name.startswith("secret.")]
        case.equal(left, [], "files that the attacks made")


def names(case):
    done = subprocess.run([case.build / "tests" / "attacks" / "names"], check=True,
                          stdout=subprocess.PIPE, text=True)
    return done.stdout.split()


def all_attacks_fail(case, hostile):
    bombs = {*BOMBS, THREADS[0], SHARED}
    stopped = {name: hostile.attack(name) for name in names(case) if name not in bombs}
    for name, (_, amount) in BOMBS.items():
        stopped[name] = hostile.attack(name, amount)
    for name, error in stopped.items():
        print(f"{name}: {errno.errorcode.get(error, error) if error else 'SUCCEEDED'}")
    open_ones = [name for name, error in stopped.items()
                 if error not in ({BOMBS[name][0]} if name in BOMBS else DENIED)]
    case.equal(open_ones, [], "attacks that nothing stopped")
    case.check(len(stopped) > 100, f"only {len(stopped)} attacks")
    hostile.all_live()


def status(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as lines:
        return {k: v.split() for k, _, v in (line.partition(":") for line in lines)}


def test_worker_is_stopped_whatever_it_attacks(case):
    all_attacks_fail(case, Hostile(case))


def test_worker_of_the_servers_user_is_stopped_as_well(case):
    """Where the server may not change users: only the filter and Landlock hold."""
    hostile = Hostile(case, "--worker-uids", "off")
    case.equal(status(hostile.worker)["Uid"][0], str(os.geteuid()), "user of the worker")
    all_attacks_fail(case, hostile)


def test_worker_holds_no_code_that_signs_or_verifies(case):
    """Tickets are the supervisor's; a library that a worker maps is loaded at every attach."""
    pool = case.pool()
    pool.session().cudash().begin()
    with open(f"/proc/{pool.workers()[0]}/maps", encoding="utf-8") as maps:
        mapped = {line.split()[-1].rsplit("/", 1)[-1] for line in maps if "/" in line}
    case.check(any(name.startswith("libc.so") for name in mapped), "its libraries are seen")
    case.equal([name for name in mapped if name.startswith(("libcrypto", "libssl"))], [],
               "cryptographic libraries in a worker")


def test_every_session_has_a_user_of_its_own_and_gives_it_back(case):
    if os.geteuid() != 0:
        case.skip("a user id for each session needs root")
    if case.sanitizer:
        case.skip("workers with a sanitizer keep the server's user, for their reports")
    pool = case.pool()
    pool.restart(pool.pid("gpupool-server"), "--worker-uids", "61300-61301")
    sessions = [pool.session() for _ in range(2)]
    shells = [s.cudash().begin() for s in sessions]
    again = sessions[0].cudash().begin()
    again.ok("alloc", MIB)
    users = [status(pid)["Uid"] for pid in pool.workers()]
    case.equal(sorted({u for uids in users for u in uids}), ["61300", "61301"],
               "users of the workers of two sessions")
    case.equal(len(users), 3, "workers")
    for pid in pool.workers():
        case.equal(status(pid)["Groups"], [], "groups of a worker")
    third = pool.session()
    case.equal(third.cudash()("init")[0], 100, "a third session finds no user id")
    for shell in (shells[0], again):
        shell.close()
    sessions[0].close()
    case.wait_for(lambda: third.cudash()("init")[0] == 0, "the user id comes back")


def test_processes_of_a_session_that_has_its_own_user_cannot_multiply(case):
    if os.geteuid() != 0:
        case.skip("threads are counted per user: a user for each session needs root")
    hostile = Hostile(case, "--worker-memory", "4GiB")
    name, error, amount = THREADS
    case.equal(hostile.attack(name, amount), error, "what stopped it")
    hostile.all_live()


class Grouped(Hostile):
    """The same where each session has a control group."""

    def __init__(self, case, *options):
        if not os.access("/sys/fs/cgroup/memory/cgroup.procs", os.W_OK) and \
           not os.access("/sys/fs/cgroup/cgroup.subtree_control", os.W_OK):
            case.skip("control groups need root and a writable /sys/fs/cgroup")
        super().__init__(case, "--worker-cgroup", "on", *options)

    def group(self, pid):
        """The names of the groups of a process."""
        with open(f"/proc/{pid}/cgroup", encoding="ascii") as lines:
            return {line.rstrip().rsplit("/", 1)[1] for line in lines if "gpupool-" in line}


def test_threads_of_a_session_end_with_its_control_group(case):
    """Also where the workers are the server's user, whose threads no limit counts."""
    hostile = Grouped(case, "--worker-uids", "off", "--worker-memory", "4GiB")
    name, error, amount = THREADS
    case.equal(hostile.attack(name, amount), error, "what stopped it")
    hostile.all_live()


def test_shared_memory_of_a_session_ends_with_its_control_group(case):
    """What cannot be had ends the worker that wants it, and no other session's."""
    hostile = Grouped(case, "--worker-shared", "64MiB")
    hostile.control.name = SHARED.encode()
    hostile.control.amount = 2048 * MIB
    hostile.control.armed = 1
    answer = hostile.shell("alloc", 512)
    case.check(answer[0] != 0, f"{answer}: 2 GiB beyond the session's limit")
    case.wait_for(lambda: hostile.worker not in hostile.pool.workers(),
                  "the worker that took too much has ended")
    hostile.control.armed = 0
    case.wait_for(lambda: "its session may have " in hostile.pool.log(),
                  "the server says what the worker was killed for")
    case.contains(hostile.pool.log(), "of the server's host memory (--worker-memory, "
                  "--worker-shared)", "the server's words")
    hostile.all_live()


def test_control_group_of_a_session_is_its_own_and_ends_with_it(case):
    hostile = Grouped(case)
    mine, theirs = hostile.group(hostile.worker), hostile.group(hostile.control.victim)
    case.equal(len(mine), 1, "the name of the group in each hierarchy")
    case.check(mine != theirs, f"two sessions in {mine}")
    case.equal(hostile.group(hostile.control.supervisor) & mine, set(), "the supervisor's group")
    second = hostile.session.cudash().begin()
    second.ok("alloc", MIB)
    newest, = set(hostile.pool.workers()) - {hostile.worker, hostile.control.victim}
    case.equal(hostile.group(newest), mine, "the group of the session's second worker")
    second.close()
    hostile.shell.close()
    hostile.session.close()

    def left():
        return list(pathlib.Path("/sys/fs/cgroup").rglob(
            f"gpupool-{hostile.control.supervisor}/{min(mine)}"))
    # A group whose last process has not quite gone is removed with the next session.
    case.wait_for(lambda: hostile.pool.session(core=1, memory="1MiB").close() or not left(),
                  "the group is removed")


def test_unknown_calls_are_logged_and_let_through_when_asked(case):
    hostile = Hostile(case, "--worker-sandbox", "log")
    case.equal(hostile.attack("host_name"), errno.EPERM, "the kernel's own answer")
    case.equal(hostile.attack("file_mask"), 0, "umask(), which harms nobody")


def test_server_says_that_its_limit_of_files_is_too_low(case):
    pool = case.pool()
    server = pool.pid("gpupool-server")
    args = [str(case.build / "bin" / "gpupool-server"), "--listen", "127.0.0.1:0",
            "--scheduler", "127.0.0.1:1", "--driver", "softgpu"]
    case.check(server, "a server")
    for limit in (24, 20, 16):
        done = case.run(["prlimit", f"--nofile={limit}", *args], status=1)
        case.contains(done.err, "limit of open files (RLIMIT_NOFILE", f"its words with {limit} files")


def test_host_memory_of_a_worker_ends_with_an_error_of_the_call(case):
    """Graph nodes cost the server's memory, of which a session's slice says nothing."""
    pool = case.pool()
    options = [] if case.sanitizer else ["--worker-memory", "256MiB"]
    if not options:
        case.skip("sanitizers reserve memory of their own")
    pool.restart(pool.pid("gpupool-server"), *options)
    done = pool.run(sys.executable, GRAPH_CLIENT, 1500000, status=None, timeout=5 * case.patience)
    print(done.out, done.err)
    case.equal(done.status, 0, "exit status")
    case.check(done.out.startswith("full "), f"the call that found no memory: {done.out}")
    case.contains(done.out, "goes on", "the worker afterwards")
