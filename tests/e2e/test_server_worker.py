# SPDX-License-Identifier: Apache-2.0
"""What a worker process may do and holds, and that it ends whatever happens to it;
the server's own front: options, metrics, orderly stop."""

import re
import shutil
import signal
import socket
import time
import urllib.request
from pathlib import Path

MIB = 1 << 20


def status_of(pid):
    """The fields of /proc/PID/status."""
    lines = open(f"/proc/{pid}/status", encoding="ascii").read().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def switches(pid):
    """How often threads of the process have gone to sleep."""
    return sum(int(word) for task in Path(f"/proc/{pid}/task").iterdir()
               for word in re.findall(r"^voluntary_ctxt_switches:\s+(\d+)",
                                      (task / "status").read_text(), re.MULTILINE))


def sleeps(pid):
    """Nothing wakes any of its threads for a while."""
    before = switches(pid)
    time.sleep(1.5)
    return switches(pid) == before


def test_idle_attachment_wakes_nobody(case):
    if case.sanitizer == "thread":
        case.skip("the sanitizer has a thread of its own that wakes up")
    pool = case.pool()
    for link in ("tcp", "shm"):
        session = pool.session(memory="64MiB")
        shell = session.cudash(env={"GPUPOOL_TRANSPORT": link}).begin()
        for size in (MIB, 2 * MIB):  # it sleeps again after it was woken
            shell.ok("alloc", size)
            worker, = pool.workers()
            case.wait_for(lambda: sleeps(worker), f"{link}: the worker sleeps without timers")
            case.wait_for(lambda: sleeps(shell.process.pid), f"{link}: so does its client")
        pool.kill(shell.process.pid)
        case.wait_for(lambda: not pool.workers(), f"{link}: the worker ends with its client")
        session.close()


def test_worker_has_no_privileges_and_a_filter(case):
    pool = case.pool()
    shell = pool.session().cudash().begin()
    shell.ok("alloc", MIB)
    worker, = pool.workers()
    status = status_of(worker)
    case.equal(status["NoNewPrivs"], "1", "NoNewPrivs")
    for name in ("CapEff", "CapPrm", "CapInh", "CapBnd"):
        case.equal(int(status[name], 16), 0, name)
    if not case.sanitizer:
        case.equal(status["Seccomp"], "2", "Seccomp (2 is a filter)")


def test_worker_holds_its_connection_and_nothing_of_the_server(case):
    pool = case.pool()
    session = pool.session()
    shells = [session.cudash().begin() for _ in range(3)]
    for shell in shells:
        shell.ok("alloc", MIB)
    for worker in pool.workers():
        files = pool.files(worker)
        sockets = [name for name in files.values() if name.startswith("socket:")]
        # its connection, and those to the supervisor for questions and for new links
        case.equal(len(sockets), 3, f"sockets of worker {worker}: {files}")
        for name in files.values():
            case.check("eventpoll" not in name and "signalfd" not in name,
                       f"worker {worker} holds a descriptor of the server: {files}")


def test_stopped_worker_is_killed_when_its_client_goes(case):
    pool = case.pool()
    session = pool.session(memory="64MiB")
    shell = session.cudash().begin()
    shell.ok("alloc", MIB)
    worker, = pool.workers()
    pool.kill(worker, signal.SIGSTOP)
    pool.kill(shell.process.pid)
    with case.within(1.5, "a worker that cannot end by itself is gone"):
        case.wait_for(lambda: not pool.workers(), "the worker is gone")
    case.contains(pool.log(), "did not end within", "the server's log")
    other = session.cudash().begin()
    other.ok("alloc", 63 * MIB)


def test_terminated_server_ends_its_workers_and_their_clients_learn_it(case):
    pool = case.pool()
    shell = pool.session().cudash().begin()
    shell.ok("alloc", MIB)
    pool.kill(pool.pid("gpupool-server"), signal.SIGTERM)
    case.wait_for(lambda: not pool.workers() and not pool.pids("gpupool-server"),
                  "server and workers are gone")
    case.check(shell("alloc", MIB)[0] != 0, "a call on the ended session succeeded")
    case.check(shell("sync")[0] != 0, "and the next one")


def test_server_without_scheduler_and_key_says_what_it_needs(case):
    server = case.build / "bin" / "gpupool-server"
    done = case.run([server, "--driver", "null", "--listen", "127.0.0.1:0"], status=2)
    case.contains(done.err, "--scheduler", "what it says")
    done = case.run([server, "--nonsense", "1"], status=2)
    case.contains(done.err, "unknown option --nonsense", "what it says")
    done = case.run([server, "--driver", "/nonexistent/libcuda.so.1", "--listen",
                     "127.0.0.1:0", "--scheduler", "127.0.0.1:9"], status=1)
    case.contains(done.err, "/nonexistent/libcuda.so.1", "what it says")


def test_metrics_tell_cards_sessions_and_refusals(case):
    pool = case.pool()
    pool.run("true")
    keys = [path for path in case.folder.rglob("*.pub") if path.is_file()]
    case.equal(len(keys), 1, f"public keys of the scheduler: {keys}")
    ready = case.folder / "ready"
    server = case.spawn([case.build / "bin" / "gpupool-server", "--driver", "null", "--listen",
                         "127.0.0.1:0", "--name", "apart", "--cards", 3, "--scheduler-key",
                         keys[0], "--metrics-listen", "127.0.0.1:0", "--ready-file", ready])
    case.wait_for(ready.exists, "the server is ready")
    said = (case.folder / "spawned.err").read_text()
    port = re.search(r"metrics on port (\d+)", said)
    case.check(port, f"no metrics port in:\n{said}")
    host, _, attach = ready.read_text().strip().rpartition(":")
    socket.create_connection((host, int(attach))).sendall(b"\x03\0\0\0abc")

    def metrics():
        url = f"http://127.0.0.1:{port[1]}/metrics"
        return urllib.request.urlopen(url, timeout=case.patience).read().decode()

    case.wait_for(lambda: "gpupool_server_refused_total 1" in metrics(), "a refusal is counted")
    case.equal(metrics().count("gpupool_server_card_memory_bytes{"), 3, "cards in the metrics")
    for line in metrics().splitlines():
        case.check(line.startswith("#") or re.fullmatch(r"\w+(\{[^}]*\})? [-+.e\d]+", line),
                   f"not a metric: {line}")
    server.send_signal(signal.SIGTERM)
    begun = time.monotonic()
    case.equal(server.wait(timeout=case.patience), 0, "exit status of the server")
    case.check(time.monotonic() - begun < case.patience / 6, "the server took long to stop")


PHYSICAL = """
import ctypes as c, sys
cu = c.CDLL("libcuda.so.1")
MIB = 1 << 20
ptr, handle, context, device = c.c_uint64(), c.c_uint64(), c.c_void_p(), c.c_int()
free, total = c.c_size_t(), c.c_size_t()
prop = (c.c_uint8 * 64)()
prop[0] = 1   # pinned
prop[8] = 1   # on device 0
def call(name, *args):
    return getattr(cu, name)(*args)
def free_mib():
    assert call("cuMemGetInfo_v2", c.byref(free), c.byref(total)) == 0
    return free.value // MIB
def create():
    return call("cuMemCreate", c.byref(handle), c.c_size_t(600 * MIB), prop, c.c_uint64(0))
assert call("cuInit", 0) == 0
assert call("cuCtxCreate_v2", c.byref(context), 0, 0) == 0
print(create(), free_mib())
assert call("cuMemAddressReserve", c.byref(ptr), c.c_size_t(600 * MIB), c.c_size_t(0),
            c.c_uint64(0), c.c_uint64(0)) == 0
assert call("cuMemMap", ptr, c.c_size_t(600 * MIB), c.c_size_t(0), handle, c.c_uint64(0)) == 0
assert call("cuMemRelease", handle) == 0
print(create(), free_mib())
assert call("cuMemUnmap", ptr, c.c_size_t(600 * MIB)) == 0
print(create(), free_mib())
"""


def test_released_memory_counts_until_its_mapping_goes(case):
    pool = case.pool()
    done = pool.run(*case.interpreter(), "-c", PHYSICAL, core=20, memory="1GiB")
    case.equal(done.out.splitlines(), ["0 424", "2 424", "0 424"],
               "result of cuMemCreate(600 MiB) and MiB free, before, while mapped, after")


def test_worker_program_that_was_replaced_is_named_once(case):
    """As an upgrade does it, before it restarts the server."""
    pool = case.pool()
    (case.folder / "bin").mkdir()
    (case.folder / "lib").symlink_to(case.build / "lib")
    program, following = case.folder / "bin" / "gpupool-worker", case.folder / "bin" / "new"
    shutil.copy2(case.build / "bin" / "gpupool-worker", program)
    pool.restart(pool.pid("gpupool-server"), "--worker", program)
    words = f"{program} is not the program that it was"
    pool.run(case.programs / "vecadd")
    case.check(words not in pool.log(), "the program is what it was")
    shutil.copy2(program, following)
    following.rename(program)
    pool.run(case.programs / "vecadd")
    pool.run(case.programs / "vecadd")
    case.equal(pool.log().count(words), 1, "lines about it")


def test_settings_without_effect_are_named(case):
    """Of the log, which goes on as if they were not there, and numbers for no card."""
    pool = case.pool(env={"GPUPOOL_LOG": "server:loud,info,wran",
                          "GPUPOOL_LOG_FILE": str(case.folder / "none" / "log")})
    lines = "".join((case.folder / "gpupool" / "pool.d" / f"{name}.log").read_text()
                    for name in ("scheduler", "local-1"))
    for words in ("GPUPOOL_LOG: 'server:loud' has no effect", "GPUPOOL_LOG: 'wran' has no effect",
                  f"GPUPOOL_LOG_FILE: {case.folder}/none/log: No such file or directory"):
        case.equal(lines.count(words), 2, f"lines of the two daemons: {words}")
    words = "--memory-scaling 1,0.5: more numbers than cards, of which there is 1"
    case.check(words not in lines, "nobody has asked for it yet")
    pool.restart(pool.pid("gpupool-server"), "--memory-scaling", "1,0.5")
    case.contains(pool.log(), words, "the log")
