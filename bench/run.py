#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make bench`: measure, merge the rounds, write build/bench.json and bench.md, print ratios.

A pool with one server on the null driver is started with everything pinned to
one core, so that a round trip is processor time and context switches alone and
hardly notices other load.  First the best setting of the raw transport is searched;
then each round is a fresh process that measures the raw transport and the stub in turn.
A ratio is formed within a slice of a round; the median of the rounds is reported with
its interval.  Exit status: 1 when something was not measured, 2 when an aim is missed
by more than the interval, or the raw transport is beaten without an explanation.
"""

import argparse
import ctypes
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import adopt
import etcd
import journal
import k8s
import kernels
import links
import plot
import report
import rows
import sessions
import shares
import stats
import tls
import veth

# key: (words, limit, True when less is better).  None: reported, no aim.
AIMS = dict(rows.AIMS)
AIMS.update(k8s.AIMS)
AIMS.update({
    "async_call_ns": ("asynchronous call, application thread, ns", 80, True),
    "async_calls_per_s": ("asynchronous calls per second", 5e6, False),
    "async_client_cpu_ns": ("client processor time per asynchronous call, ns", None, True),
    "async_worker_cpu_ns": ("worker processor time per asynchronous call, ns", None, True),
    "threads_per_s_1": ("asynchronous calls per second from one thread", None, False),
    "threads_per_s_4": ("asynchronous calls per second from four threads", None, False),
    "attach_ms": ("attach to first kernel beyond the driver's own, ms", 20, True),
    "place_binpack_per_s": ("placements per second, 100,000 cards, binpack", 5e4, False),
    "place_binpack_p99_us": ("a slow placement (99 %), binpack, us", 1000, True),
    "place_spread_per_s": ("placements per second, 100,000 cards, spread", 5e4, False),
    "place_spread_p99_us": ("a slow placement (99 %), spread, us", 1000, True),
    "placement_per_s": ("placements per second with labels, quotas and a full queue", 5e5, False),
    "placement_p99_ms": ("a slow one of them (99 %), ms", 0.1, True),
    "session_ops_per_s": ("sessions opened, renewed, closed per second, SQLite", 2e4, False),
    "session_etcd_ops_per_s": ("the same, on an etcd of three members on this host", 5e3, False),
    "session_op_deciding_us": ("of each, the deciding thread's processor time, us", 50, True),
    "session_op_cpu_us": ("the scheduler's processor time for each, us", None, True),
    "session_bytes": ("memory of a session that is held", 1024, True),
    "renewals_cores": ("500,000 sessions of 1,000 hosts renewed, each 15 s, processors", 0.5, True),
    "renewals_deciding_cores": ("of these, the thread that decides", 0.2, True),
    "scheduler_storm_first_s": ("5,000 servers register at once, s", None, True),
    "scheduler_heartbeats_cores": ("heartbeats of 10,000 servers, processors", 0.2, True),
    "scheduler_page_p99_us": ("500 of 500,000 sessions listed, us", 50e3, True),
    "scheduler_page_busy_p99_us": ("the same while 255 clients open and close, us", 50e3, True),
    "scheduler_page_beside_scrape_p99_us": ("  and beside a reader of /metrics", 50e3, True),
    "scheduler_json_busy_p99_us": ("500 sessions as the web page's JSON meanwhile, us", 50e3, True),
    "scheduler_scrape_p50_us": ("/metrics of 10,000 servers, us", 50e3, True),
    "scheduler_scrape_busy_p99_us": ("  while 255 clients open and close, us", 50e3, True),
    "scheduler_cards_p50_us": ("/metrics/cards of 80,000 cards, us", None, True),
    "scheduler_cards_busy_p50_us": ("  while 255 clients open and close, us", None, True),
    "scheduler_restart_s": ("restart with 500,000 sessions, s", 5, True),
    "queue_end_per_s": ("ends of sessions per second, with the queue served", None, False),
    "refusal_us": ("a refusal on 100,000 cards, us", 20, True),
    "step_part_of_limit_1ms": ("step at 1 ms / (compute + own syncs x 1 ms x 1.1)", 1, True),
    "sync_trips_per_step": ("round trips in a training-like step (its own: 2)", 2.2, True),
    "resume_ms": ("a call that finds its link broken, ms", 5, True),
    "resume_ms_tls": ("the same through TLS, ms", 5, True),
})
AIMS.update(journal.AIMS)
AIMS.update(links.AIMS)
AIMS.update(tls.AIMS)
AIMS.update(kernels.AIMS)
AIMS.update({
    "sync_call_ratio_rdma": ("synchronous call / polled ib_send_lat round trip, rdma", 1.3,
                             True),
    "h2d_64mib_ratio_rdma": ("64 MiB up / ib_write_bw, rdma", 0.9, False),
    "d2h_64mib_ratio_rdma": ("64 MiB down / ib_write_bw, rdma", 0.9, False),
    "cpu_per_gib_rdma_of_tcp": ("processor time per GiB, rdma / tcp of the same guest", None,
                               True),
})
AIMS.update(shares.AIMS)
AIMS.update(adopt.AIMS)
AIMS.update(sessions.AIMS)
# What `ONLY=fast` must leave in bench.json, whatever the figures are, beside the ratios
# of its links.
OF_ALL = ("async_call_ns", "async_calls_per_s", "async_client_cpu_ns", "async_worker_cpu_ns",
          "attach_ms", "sync_trips_per_step", "step_ms_0", "step_ms_100us", "step_ms_1ms",
          "step_ms_10ms", "journal_overhead", "resume_ms", "resume_ms_tls")
ROUNDS = 3
LOG_LINES = 20  # of each log, shown when a measure fails
OWN_SYNCS = 2  # of the step: it reads a result, and waits once
DELAYS = {"0": 0, "100us": 50, "1ms": 500, "10ms": 5000}  # one way, microseconds


class Bench:
    parse = staticmethod(lambda text: parse(text))

    def __init__(self, args):
        self.build = Path(args.build).resolve()
        self.args = args
        self.folder = Path(tempfile.mkdtemp(prefix="gpb-"))
        self.gpupool = self.build / "bin" / "gpupool"
        self.env = {key: value for key, value in os.environ.items()
                    if not key.startswith("GPUPOOL_")}
        self.env["XDG_RUNTIME_DIR"] = str(self.folder)
        self.driver = args.driver  # of the shares and of attaching
        self.had = {}  # card time of sessions that ended, ns
        self.samples = {}  # of each key: for each round the values, or the one value
        self.around = []  # in front of every command

    def has_link(self, link):
        """Whether clients really get @link here; says so when not."""
        if link == "tcp" or self.run(self.build / "bench" / "fast", "--shm=1", "--only=none",
                                     link=link).get("in_use"):
            return True
        progress(f"{link}: left out, the stub fell back to TCP")
        return False

    def another(self):
        """A second pool beside this one, in a folder of its own."""
        return Bench(self.args)

    def call(self, *args, env=None, core=None):
        """Run a command on @core (the bench's own unless given); its output."""
        core = self.args.core if core is None else core

        def pin():
            if core >= 0:
                os.sched_setaffinity(0, {core})

        done = subprocess.run([str(arg) for arg in (*self.around, *args)], env={**self.env, **(env or {})},
                              preexec_fn=pin, capture_output=True, text=True,
                              timeout=self.args.timeout)
        if done.returncode != 0:
            raise SystemExit(f"bench: {' '.join(map(str, args))} ended with "
                             f"{done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def run(self, *program, link="tcp", tls="off", env=None):
        """The KEY VALUE lines of a program on a slice."""
        return parse(self.call(self.gpupool, "run", "--core", 100, "--memory", "2GiB",
                               "--", *program,
                               env={"GPUPOOL_TRANSPORT": link, "GPUPOOL_TLS": tls,
                                    **(env or {})}))

    def collect(self, rounds):
        """The medians of rounds; what each round had is kept for the intervals."""
        for key in set().union(*rounds):
            self.samples[key] = [values[key] for values in rounds if key in values]
        return median_of(rounds)

    def up(self, driver="null", core=None, listen="127.0.0.1", cards=1):
        # A real driver's cards are those that are there; where the kernel has HMM, they reach
        # the worker's memory.
        which = (["--pageable-access", "allow"] if "/" in driver else
                 ["--servers", 1, "--cards", cards])
        self.call(self.gpupool, "up", "--driver", driver, *which, "--listen", listen, core=core)

    def down(self):
        subprocess.run([str(self.gpupool), "down", "--force"], env=self.env, capture_output=True)

    def close(self):
        """End the pool.  Behind a failure its logs are shown: they say why a session ended."""
        failed = isinstance(sys.exc_info()[1], (Exception, SystemExit))
        self.down()
        if failed:
            self.show_logs()
        shutil.rmtree(self.folder, ignore_errors=True)

    def show_logs(self):
        for log in sorted(self.folder.glob("**/pool.d/*.log")):
            for line in log.read_text(errors="replace").splitlines()[-LOG_LINES:]:
                print(f"{log.name}: {line}", file=sys.stderr)

    def server_pid(self):
        """The process of this pool's server, whose children are the workers."""
        mine = f"XDG_RUNTIME_DIR={self.folder}".encode()
        for entry in Path("/proc").iterdir():
            try:
                if (entry.name.isdigit()
                        and (entry / "exe").resolve().name == "gpupool-server"
                        and mine in (entry / "environ").read_bytes().split(b"\0")):
                    return int(entry.name)
            except OSError:
                continue
        raise SystemExit("bench: the server of the pool is gone")

    def workers_cpu_s(self):
        """Processor time of all workers that ended: the server reaped them."""
        fields = Path(f"/proc/{self.server_pid()}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")

    # ------------------------------------------------------------ measures --

    def beside_raw(self, programs, only=()):
        """Rounds of programs over each link, beside the best raw link."""
        found = {}
        for link in self.args.links:
            if link == "veth" or self.has_link(link):
                found.update(rows.measure(self, link, programs, list(only), progress))
        return found

    def fast(self):
        """Calls and copies."""
        return self.beside_raw(["fast"])

    def real(self):
        """What programs do."""
        return self.beside_raw(["real"])

    def clients(self):
        """Several clients at once."""
        return self.beside_raw(["clients"])

    def one_key(self, key):
        """The rows whose names begin with @key, as the ratio's name or as a time over a link is
        printed."""
        for link in rows.LINKS:
            key = key.removesuffix(f"_ratio_{link}").removeprefix(f"{link}_")
        found = self.beside_raw(rows.programs_of(key), [f"--only={key}"])
        if not any(key in name for name in found):
            raise SystemExit(f"bench: nothing is called {key!r}: see run.py --help, or take a name "
                             "from bench.json of a whole run")
        return found

    def rate(self):
        """The sustained rate alone, with the workers' share of the work."""
        rounds = []
        for number in range(self.args.rounds):
            progress(f"rate: round {number + 1} of {self.args.rounds}")
            before = self.workers_cpu_s()
            values = self.run(self.build / "bench" / "fast", "--only=async_calls_per_s",
                              f"--async-calls={self.args.calls}")
            values["async_worker_cpu_ns"] = (
                (self.workers_cpu_s() - before) * 1e9 / self.args.calls)
            rounds.append(values)
        return self.collect(rounds)

    def split(self):
        """Two cores: both sides poll, if that is what the search finds best."""
        if len(os.sched_getaffinity(0)) < 2:
            progress("split: left out, there is one core only")
            return {}
        self.down()
        self.up(core=1)
        found = rows.split(self, progress)
        self.down()
        self.up()
        return found

    def folder_of_driver(self):
        """Where a program finds the driver of the shares as libcuda.so.1."""
        if self.driver == "softgpu":
            return self.build / "lib" / "softgpu"
        folder = self.folder / "driver"
        folder.mkdir(exist_ok=True)
        (folder / "libcuda.so.1").unlink(missing_ok=True)
        (folder / "libcuda.so.1").symlink_to(Path(self.driver).resolve())
        return folder

    def attach(self):
        """Fresh processes, remote and on the driver itself; the difference.

        With software cards or the driver that is named: the null driver is no library
        that a program can load.
        """
        remote, local = [], []
        why = no_cards(self.driver)
        if why:
            progress(f"attach: not run on {self.driver}, {why}")
            return {}
        driver = self.folder_of_driver()
        self.down()
        self.up(self.driver)
        fast = self.build / "bench" / "fast"
        for number in range(self.args.rounds * 2):
            progress(f"attach: {number + 1} of {self.args.rounds * 2}")
            remote.append(self.run(fast, "--only=none")["first_kernel_ms"])
            local.append(parse(self.call(fast, "--only=none", env={
                "LD_LIBRARY_PATH": str(driver)}))["first_kernel_ms"])
        self.down()
        self.up()
        return {"attach_remote_ms": statistics.median(remote),
                "attach_driver_ms": statistics.median(local),
                "attach_ms": statistics.median(remote) - statistics.median(local)}

    def journal(self):
        """With and without a link that can be replaced, in turns."""
        return journal.measure(self, progress)

    def resume(self):
        """A call that finds its link broken, in clear text and through TLS."""
        found = {}
        for suffix, tls in (("", "off"), ("_tls", "require")):
            rounds = []
            for number in range(self.args.rounds):
                progress(f"resume{suffix}: round {number + 1} of {self.args.rounds}")
                rounds.append(self.run(self.build / "bench" / "resume",
                                       env={"GPUPOOL_RESUME": "60", "GPUPOOL_TLS": tls}))
            found.update(self.collect([{key + suffix: value for key, value in values.items()}
                                       for values in rounds]))
        return found

    def step(self):
        """A training-like step over longer and longer links."""
        found = {}
        proxy = self.build / "bench" / "delay_proxy"
        for name, one_way in DELAYS.items():
            progress(f"step: {name} round trip")
            found[f"step_ms_{name}"] = self.run(
                proxy, one_way, self.build / "bench" / "step",
                f"--steps={self.args.steps}")["step_ms"]
        found["sync_trips_per_step"] = (found["step_ms_10ms"] - found["step_ms_0"]) / 10.0
        found["step_limit_ms_1ms"] = found["step_ms_0"] + OWN_SYNCS * 1.0 * 1.1
        found["step_part_of_limit_1ms"] = found["step_ms_1ms"] / found["step_limit_ms_1ms"]
        return found

    def shares(self):
        """What sessions get of a card under each policy."""
        why = no_cards(self.driver)
        progress(f"shares: on driver {self.driver}" + (f": not run, {why}" if why else ""))
        if self.driver == "softgpu":
            progress("shares: not run on a real driver: name one with --driver")
        if why:
            return {}
        found = shares.measure(self, self.args.case)
        self.down()
        self.up()
        return found

    def links(self):
        """Compression, further connections and images by name, behind the proxy."""
        return links.measure(self, progress)

    def tls(self):
        """Calls, copies and attachments over TLS."""
        return tls.measure(self, progress)

    def rdma(self):
        """Over RDMA and TCP in a guest, beside perftest; every ratio within a round."""
        script = Path(__file__).parent / "rdma.sh"
        machine = Path(__file__).parent.parent / "tests" / "rdma" / "rdma-vm"
        if not shutil.which("ib_send_lat") or not shutil.which("qemu-system-x86_64"):
            progress("rdma: left out, it needs perftest and what tests/rdma/rdma-vm lists")
            return {}
        progress(f"rdma: {self.args.rounds} rounds in a guest")
        done = subprocess.run([machine, "--timeout", "1500", "--", script, self.build,
                               str(self.args.rounds)], env=self.env, text=True,
                              stdout=subprocess.PIPE)
        if done.returncode != 0:
            raise SystemExit(f"bench: the guest ended with {done.returncode}")
        columns = {}
        for line in done.stdout.splitlines():
            words = line.split()
            if len(words) == 2:
                columns.setdefault(words[0], []).append(float(words[1]))
        return rdma_ratios(columns)

    def place(self):
        """The scheduler's decision and booking, on a pool of 100,000 cards."""
        rounds = []
        for number in range(self.args.rounds):
            progress(f"place: round {number + 1} of {self.args.rounds}")
            rounds.append(parse(self.call(self.build / "bench" / "place")))
        return self.collect(rounds)

    def scheduler(self):
        """Decisions with labels, quotas and 10,000 requests that wait."""
        rounds = []
        for number in range(self.args.rounds):
            progress(f"scheduler: round {number + 1} of {self.args.rounds}")
            rounds.append(parse(self.call(self.build / "bench" / "scheduler")))
        progress("scheduler: 10,000 servers and 500,000 sessions through its sockets")
        load = (self.build / "bench" / "sched_load", self.build / "bin" / "gpupool-scheduler")
        # Its threads, and the players, on all cores.
        found = self.collect(rounds) | parse(self.call(*load, core=-1))
        with etcd.members() as urls:
            if urls:
                progress("scheduler: the same with a small pool, on an etcd of three members")
                shared = parse(self.call(*load, 200, 2000, 5, urls, core=-1))
                found["session_etcd_ops_per_s"] = shared["session_ops_per_s"]
                found["session_etcd_op_cpu_us"] = shared["session_op_cpu_us"]
        return found

    def etcd(self):
        """The store's transactions over etcd's two wires; of one member and of three."""
        found = {}
        for count in (1, etcd.MEMBERS):
            with etcd.cluster(count) as (urls, pids):
                if not urls:
                    progress("etcd: not run, it is not installed")
                    return {}
                progress(f"etcd: {count} member(s), JSON and gRPC in turns")
                found |= parse(self.call(self.build / "bench" / "etcd_wire", urls[0],
                                         ",".join(map(str, pids)), self.args.rounds, core=-1))
        print_wires(found)
        return found

    def k8s(self):
        """Pods and claims on a real cluster."""
        return k8s.measure(self.build, progress)

    def sessions(self):
        """A thousand client processes of one server."""
        return sessions.measure(self, progress)

    def adopt(self):
        """A server that is killed, and the next one."""
        return adopt.measure(self, progress)

    def kernels(self):
        """The software GPU's kernels beside gcc -O3, and on two cores beside one."""
        return kernels.measure(str(self.build / "bench" / "softgpu-kernels"),
                               self.build / "lib" / "libsoftgpu-jit.so",
                               self.args.rounds, progress, parse)


def no_cards(driver):
    """Why nothing can be measured on that driver; None when it can."""
    if "/" not in driver:
        return None
    try:
        library = ctypes.CDLL(driver)
        count = ctypes.c_int()
        status = library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count))
    except (OSError, AttributeError) as error:
        return f"it does not load: {error}"
    if status:
        return f"it does not start: error {status}"
    return None if count.value else "it shows no card"


def parse(text):
    """{key: value} of "KEY VALUE" lines, and lists of "SAMPLES KEY VALUE..." lines."""
    found = {}
    for words in map(str.split, text.splitlines()):
        if len(words) == 2:
            found[words[0]] = float(words[1])
        elif len(words) > 2 and words[0] == "SAMPLES":
            found[words[1]] = [float(word) for word in words[2:]]
    return found


def median_of(rounds):
    return {key: stats.of_rounds([values[key] for values in rounds if key in values])
            for key in sorted(set().union(*rounds))}


def rdma_ratios(columns):
    """Medians of what a guest measured, and of the ratios within each round."""
    def ratio(value, raw):
        return statistics.median(value(a, b) for a, b in zip(*raw))

    moved = 5 * 2 * 64 / 1024  # GiB of a round: one warm-up and four repeats, both ways
    found = {key: statistics.median(values) for key, values in columns.items()}
    found["sync_call_ratio_rdma"] = ratio(
        lambda ours, raw: ours / raw, (columns["rdma_sync_call_us"], columns["rdma_raw_us"]))
    for way in ("h2d", "d2h"):
        found[f"{way}_64mib_ratio_rdma"] = ratio(
            lambda ours, raw: ours * 1e9 / (raw * 2 ** 20),
            (columns[f"rdma_{way}_64mib_gbps"], columns["rdma_raw_mib_s"]))
    for link in ("rdma", "tcp"):
        found[f"{link}_cpu_s_per_gib"] = (found[f"{link}_client_cpu_s_per_gib"]
                                          + found[f"{link}_worker_cpu_s"] / moved)
    found["cpu_per_gib_rdma_of_tcp"] = found["rdma_cpu_s_per_gib"] / found["tcp_cpu_s_per_gib"]
    return found


def missing_of(only, values, links):
    """Names that a whole run, or one of `fast`, should leave and has not."""
    if only not in ("", "fast"):
        return []
    names = list(OF_ALL)
    for link in links:
        if link == "veth" and veth.why_not():
            continue
        names += rows.expected(link) if only == "" else rows.expected_of_fast(link)
        if len(os.sched_getaffinity(0)) > 1 and link != "veth":
            names += [f"sync_split_ratio_{link}", f"sync_busy_ratio_{link}"]
    return [name for name in names if name not in values]


def progress(words):
    print(f"bench: {words}", file=sys.stderr, flush=True)


def rows_of(values, samples):
    """(key, words, value, low, high, aim, result) of everything that has words."""
    for key, (words, limit, less) in AIMS.items():
        if key not in values:
            continue
        low, high = stats.interval(samples.get(key, [values[key]]))
        aim = "" if limit is None else f"{'<=' if less else '>='} {limit:g}"
        yield (key, words, values[key], low, high, aim,
               stats.judge(limit, less, values[key], low, high))


def print_table(values, samples):
    """The table; the keys that miss their aims by more than their interval."""
    missed = []
    print(f"\n{'what':58} {'measured':>10} {'95 % interval':>21} {'aim':>9}")
    for key, words, value, low, high, aim, result in rows_of(values, samples):
        within = f"{low:.4g} to {high:.4g}" if key in samples else ""
        print(f"{words:58} {value:10.4g} {within:>21} {aim:>9}  {result}")
        if result == "MISSED":
            missed.append(key)
    for key in sorted(values):
        if key.startswith("step_ms_"):
            print(f"{'training-like step, ' + key[8:] + ' round trip, ms':58} "
                  f"{values[key]:10.4g}")
    return missed


def print_wires(values):
    """Of each kind of transaction what it takes as JSON and over gRPC."""
    print(f"\n{'etcd: JSON / gRPC':36} {'median us':>17} {'a second':>17} {'client us':>17} "
          f"{'members us':>17}")
    for key in values:
        if "_json_" not in key or not key.endswith("_p50_us"):
            continue
        cells = []
        for figure in ("p50_us", "per_s", "client_us", "members_us"):
            name = key.removesuffix("p50_us") + figure
            cells.append(f"{values[name]:.0f} / {values[name.replace('_json_', '_grpc_')]:.0f}")
        print(f"{key.removesuffix('_p50_us').replace('_json', ''):36} "
              + " ".join(f"{cell:>17}" for cell in cells))


def print_sides(values):
    """Of each row beside the raw transport what a call takes on both sides."""
    print(f"\n{'us: ours / raw':36} {'median':>19} {'mean':>19} {'99 %':>19} {'processor time':>19}")
    for key in sorted(values):
        if not key.endswith("_raw_us"):
            continue
        name, cells = key[:-len("_raw_us")], []
        for middle in ("", "_mean", "_p99", "_cpu"):
            ours, raw = values.get(f"{name}{middle}_us"), values.get(f"{name}_raw{middle}_us")
            cells.append("" if ours is None or raw is None else f"{ours:.4g} / {raw:.4g}")
        print(f"{name:36} {' '.join(f'{cell:>19}' for cell in cells)}")


def print_beaten(values, samples):
    """Ratios that are too good; those that nobody has explained."""
    open_keys = []
    for key, why in rows.beaten(values, samples).items():
        print(f"better than the raw transport: {AIMS[key][0]}: {values[key]:.4g}: "
              f"{why or 'NOT EXPLAINED, so the raw side is set badly'}")
        if not why:
            open_keys.append(key)
    return open_keys


def write_page(bench, values, load):
    what = f"make bench{' ONLY=' + bench.args.only if bench.args.only else ''}"
    version = bench.call(bench.gpupool, "--version").split("\n", maxsplit=1)[0]
    page = report.Page(values, bench.samples, AIMS)
    text = page.text(what, version, (load, os.getloadavg()[0]))
    (bench.build / "bench.md").write_text(text, encoding="utf-8")


def draw_parts(values, folder):
    """What has an aim of its own beside the ratios of one link."""
    def rows(*keys):
        return [(AIMS[key][0], values.get(key), *AIMS[key][1:]) for key in keys]

    plot.bars(folder / "bench-async.svg", "One asynchronous call, ns",
              rows("async_call_ns", "async_client_cpu_ns", "async_worker_cpu_ns"),
              unit=" ns", limit_words="one core; dashed: the aim")
    plot.bars(folder / "bench-rate.svg", "Asynchronous calls per second, one attachment",
              rows("async_calls_per_s"), limit_words="one core; dashed: the aim")
    plot.bars(folder / "bench-attach.svg", "Attach to the end of the first kernel",
              [("remote, ms", values.get("attach_remote_ms"), None, True),
               ("the driver itself, ms", values.get("attach_driver_ms"), None, True),
               *rows("attach_ms")], unit=" ms", limit_words="dashed: the aim")
    plot.bars(folder / "bench-trips.svg", "Round trips in a training-like step",
              rows("sync_trips_per_step", "step_part_of_limit_1ms"),
              limit_words="two are the step's own; dashed: the aim")
    plot.bars(folder / "bench-links.svg", "Links that are not loopback: with / without",
              rows(*links.AIMS), limit_words="median of the pairs; dashed: the aim")


def draw(values, folder):
    words = "one core, median of the rounds; dashed: the aim"
    for link in rows.LINKS:
        of_link = [(text, values.get(key), limit, less)
                   for key, (text, limit, less) in rows.AIMS.items()
                   if key.endswith(f"_ratio_{link}")]
        plot.bars(folder / f"bench-latency-{link}.svg",
                  f"Round trips over {link}: ratio to the raw transport",
                  [row for row in of_link if row[3]], limit_words=words)
        plot.bars(folder / f"bench-bulk-{link}.svg",
                  f"Copies over {link}: ratio to the raw transport",
                  [row for row in of_link if not row[3]], limit_words=words)
    plot.bars(folder / "bench-step.svg", "Training-like step by round trip of the link",
              [(name, values.get(f"step_ms_{name}"), None, True) for name in DELAYS],
              unit=" ms", limit_words="the step reads one result and waits once: two round trips are its own")


def draw_all(values, folder):
    draw(values, folder)
    draw_parts(values, folder)


def draw_again(folder):
    path = folder / "bench.json"
    try:
        draw_all(json.loads(path.read_text()), folder)
    except (OSError, ValueError) as error:
        print(f"error: no figures in {path} ({error}); measure first (make bench), then copy "
              "build/bench.json", file=sys.stderr)
        return 2
    return 0


def main():
    # Whoever ends the benchmark ends its pool too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", default="", help="fast (with rate, split, attach, step, journal, "
                        "resume), one of those, real, clients, veth, links, tls, place, shares, "
                        "adopt, sessions, kernels, etcd, k8s, or a row's name or its beginning")
    parser.add_argument("--rounds", type=int, help="processes that a figure is taken in "
                        "(default: 5 beside the raw transport, else 3)")
    parser.add_argument("--links", default="tcp,veth,shm", type=lambda text: text.split(","),
                        help="of tcp, veth (TCP between two network namespaces) and shm "
                        "(default: all)")
    parser.add_argument("--calls", type=int, default=3000000)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--driver", default="softgpu", metavar="PATH",
                        help="driver that shares and attaching are measured on, such as the "
                        "libcuda.so.1 of a real card (default: softgpu)")
    parser.add_argument("--case", default="",
                        help="of the shares: those whose names begin so")
    parser.add_argument("--core", type=int, default=0, help="-1: pin nothing")
    parser.add_argument("--timeout", type=float, default=900)
    parser.add_argument("--draw", type=Path, metavar="FOLDER",
                        help="measure nothing: the plots of the bench.json in this folder, beside it")
    args = parser.parse_args()
    args.row_rounds = args.rounds or rows.ROUNDS
    args.rounds = args.rounds or ROUNDS

    if args.draw:
        return draw_again(args.draw)
    gpupool = Path(args.build) / "bin" / "gpupool"  # says itself what else is not there
    if not gpupool.exists():
        raise SystemExit(f"bench: {gpupool} is not built; `make bench` builds what it needs")
    bench = Bench(args)
    values = {}
    load = os.getloadavg()[0]
    try:
        bench.up()
        parts = {"real": bench.real, "clients": bench.clients, "attach": bench.attach, "rate": bench.rate, "step": bench.step,
                 "journal": bench.journal, "resume": bench.resume,
                 "split": bench.split, "links": bench.links, "tls": bench.tls, "place": bench.place,
                 "scheduler": bench.scheduler, "rdma": bench.rdma,
                 "kernels": bench.kernels, "etcd": bench.etcd, "k8s": bench.k8s,
                 "shares": bench.shares, "adopt": bench.adopt, "sessions": bench.sessions}
        if args.only == "veth":
            args.links = ["veth"]
        if args.only in ("", "veth"):  # one search for all of them
            wanted = [lambda: bench.beside_raw(rows.PROGRAMS)]
        elif args.only in parts:
            wanted = [parts[args.only]]
        elif args.only == "fast":
            wanted = [bench.fast]
        else:
            wanted = [lambda: bench.one_key(args.only)]
        if args.only == "fast":
            wanted += [parts[name] for name in ("rate", "split", "attach", "step", "journal",
                                               "resume")]
        if args.only == "":
            wanted += [part for name, part in parts.items() if name not in rows.PROGRAMS]
        for part in wanted:
            values.update(part())
    finally:
        bench.close()

    missing = missing_of(args.only, values, args.links)
    path = bench.build / "bench.json"
    path.write_text(json.dumps({key: round(value, 6) for key, value in values.items()},
                               indent=1, sort_keys=True) + "\n")
    draw_all(values, bench.build)
    write_page(bench, values, load)
    print_sides(values)
    missed = print_table(values, bench.samples) + print_beaten(values, bench.samples)
    print(f"\nwritten: {path}, {path.with_suffix('.md')}")
    if missed:
        print(f"missed: {', '.join(missed)}")
    if missing:
        print(f"not measured: {', '.join(missing)}")
    return 1 if missing else 2 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
