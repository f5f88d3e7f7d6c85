# SPDX-License-Identifier: Apache-2.0
"""A pool for one test: `gpupool up` in the test's private folder.

The real binaries on free loopback ports.  Processes are found as descendants of
the test, so a test can kill or restart any of them without asking the pool.

E2E_LISTEN=address and E2E_TRANSPORT=rdma run every test elsewhere: tests/rdma does.
"""

import json
import os
import signal
import subprocess
import time

from . import proc
from .cudash import Cudash

SCHEDULER = "gpupool-scheduler"
SERVER = "gpupool-server"
WORKER = "gpupool-worker"


class Pool:
    def __init__(self, case, servers=1, cards=1, driver="softgpu", options=(), env=None):
        self.case = case
        self.env = dict(env or {})
        self.stopped = False
        if "E2E_TRANSPORT" in os.environ:
            self.env.setdefault("GPUPOOL_TRANSPORT", os.environ["E2E_TRANSPORT"])
            self.env.setdefault("GPUPOOL_ATTACH_SECONDS", "60")  # an emulated machine
        if "E2E_LISTEN" in os.environ:
            address = os.environ["E2E_LISTEN"]
            options = ["--listen", address, "--rdma", address, *options]
        self.gpupool = case.build / "bin" / "gpupool"
        case.run([self.gpupool, "up", "--servers", servers, "--cards", cards,
                  "--driver", driver, *options], env=self.env)
        self.descriptors = {pid: len(self.lasting(pid)) for pid in self.daemons()
                            if proc.shows_files(pid)}

    # ------------------------------------------------------------ commands --

    def cli(self, *args, env=None, **kwargs):
        """Run a `gpupool` subcommand to its end."""
        return self.case.run([self.gpupool, *args], env={**self.env, **(env or {})}, **kwargs)

    def run(self, *program, core=30, memory="256MiB", options=(), **kwargs):
        """Run a program on a slice, to its end; @memory None asks for whole cards."""
        return self.cli(*self._run_words(program, core, memory, options), **kwargs)

    def spawn(self, *program, core=30, memory="256MiB", options=(), env=None, **kwargs):
        """Start a program on a slice in the background."""
        return self.case.spawn([self.gpupool,
                                *self._run_words(program, core, memory, options)],
                               env={**self.env, **(env or {})}, **kwargs)

    @staticmethod
    def _run_words(program, core, memory, options):
        if isinstance(memory, int):
            memory = f"{memory}B"
        memory_words = ["--memory", memory] if memory else []
        return ["run", "--core", core, *memory_words, *options, "--", *program]

    def session(self, **options):
        """An open session that programs can join; see Session."""
        return Session(self, **options)

    def status(self):
        """`gpupool status --json`, parsed."""
        result = self.cli("status", "--json")
        try:
            return json.loads(result.out)
        except ValueError as error:
            self.case.fail(f"status --json is no JSON ({error}):\n{result}")

    def sessions(self):
        return self.status()["sessions"]

    # ----------------------------------------------------------- processes --

    def pids(self, program):
        """The pool's processes of that binary name, oldest first."""
        return sorted(pid for pid in proc.descendants() if proc.program_of(pid) == program)

    def pid(self, program):
        found = self.pids(program)
        self.case.equal(len(found), 1, f"number of {program} processes")
        return found[0]

    def workers(self):
        return self.pids(WORKER)

    def daemons(self):
        return self.pids(SCHEDULER) + self.pids(SERVER)

    def kill(self, pid, sig=signal.SIGKILL):
        """Send @sig; for SIGKILL wait until the process is gone."""
        os.kill(pid, sig)
        if sig == signal.SIGKILL:
            self.case.wait_for(lambda: self._gone(pid), f"{pid} survives SIGKILL")

    def environment(self, pid):
        """Its variables; for who is not root, who cannot see them, those it was given."""
        try:
            return proc.environment(pid)
        except PermissionError:
            return self.case.environment(self.env)

    def starter(self, pid, *more, without=()):
        """A function that starts the command line of @pid, which may be gone by then, with
        @more and @without some options, and returns the process.

        It listens where it listened before, as a service with a fixed port does.
        """
        args = [*self._with_fixed_port(proc.command_line(pid)), *map(str, more)]
        for option in without:
            at = args.index(option)
            del args[at:at + 2]
        env = self.environment(pid)
        ready = self._ready_file(args)

        def start():
            if ready and os.path.exists(ready):
                os.unlink(ready)
            with open(self.case.folder / f"restarted-{pid}.log", "ab") as log:
                process = subprocess.Popen(args, env=env, cwd=self.case.folder, stdin=subprocess.DEVNULL,
                                           stdout=log, stderr=log, start_new_session=True)
            self.case._processes.append(process)
            return process
        return start

    def restart(self, pid, *more, without=()):
        """Kill -9 and start the same command line again, with @more and @without some
        options; the new process id."""
        args, start = proc.command_line(pid), self.starter(pid, *more, without=without)
        ready = self._ready_file(args)
        self.kill(pid)
        process = start()
        if ready:
            self.case.wait_for(lambda: os.path.exists(ready), "the restarted daemon listens")
        elif "--scheduler" in args:
            self.case.wait_for(lambda: self._is_alive(process.pid),
                               "the restarted server is back in the pool")
        return process.pid

    def _is_alive(self, pid):
        """Does the scheduler know this very process?  The one before it looks alive for a
        moment after its end."""
        return any(server["pid"] == pid and server["state"] == "alive"
                   for server in self.status()["servers"])

    @staticmethod
    def _ready_file(args):
        return args[args.index("--ready-file") + 1] if "--ready-file" in args else None

    @staticmethod
    def _with_fixed_port(args):
        if "--listen" in args and "--ready-file" in args:
            ready = args[args.index("--ready-file") + 1]
            with open(ready, encoding="utf-8") as file:
                args[args.index("--listen") + 1] = file.read().strip()
        return args

    @staticmethod
    def _gone(pid):
        proc.reap()
        if proc.is_alive(pid):
            return False
        proc.reap()  # it may have ended in between, and to others a zombie is a process
        return True

    def files(self, pid):
        """What it holds open; cached code images, which are meant to stay, left out."""
        if not proc.shows_files(pid):
            self.case.skip("only root sees what a daemon or a worker holds open")
        return {fd: name for fd, name in proc.open_files(pid).items()
                if "memfd:gpupool-image" not in name}

    def lasting(self, pid):
        """The same without the memory of sessions, which a server keeps for a minute where
        no scheduler is left that could say that they are over."""
        return {fd: name for fd, name in self.files(pid).items()
                if "gpupool-session" not in name and "gpupool-kept" not in name}

    def log(self):
        """Everything the pool's daemons wrote so far."""
        return "".join(path.read_text(errors="replace")
                       for path in sorted(self.case.folder.rglob("*.log")))

    def stop(self):
        if not self.stopped:
            self.stopped = True
            done = self.cli("down", "--force", status=None)
            if "unrecognized option" in done.err:  # of a version that does not ask
                self.cli("down", status=None)

    def leaked_descriptors(self):
        """Words for each daemon that holds more than after its start, now that all
        clients are gone.  Sessions that still run out of their lease are waited for."""
        watched = {pid: count for pid, count in self.descriptors.items()
                   if proc.is_alive(pid)}

        def leaks():
            return {pid: count for pid, count in watched.items()
                    if proc.is_alive(pid) and len(self.lasting(pid)) > count}

        end = time.monotonic() + self.case.patience
        while leaks() and time.monotonic() < end:
            time.sleep(0.02)
        return [f"{proc.program_of(pid)} holds {len(self.lasting(pid))} descriptors, "
                f"{count} after its start: {sorted(self.lasting(pid).values())}"
                for pid, count in leaks().items()]


class Session:
    """A session held open by an idle `gpupool run`, for several programs.

    .env is what a program needs to join it: the session file and the library path.
    """

    def __init__(self, pool, **options):
        self.pool = pool
        self.process = pool.spawn(
            "sh", "-c", 'echo "$GPUPOOL_SESSION_FILE"; echo "$LD_LIBRARY_PATH"; exec cat',
            **options)
        self.file = self.process.stdout.readline().strip()
        library_path = self.process.stdout.readline().strip()
        pool.case.check(self.file and library_path, "gpupool run opened no session: " +
                        (pool.case.folder / "spawned.err").read_text())
        self.env = {**pool.env, "GPUPOOL_SESSION_FILE": self.file,
                    "LD_LIBRARY_PATH": library_path}

    def field(self, name):
        """The first line `NAME VALUE` of the session file: server, ticket, session."""
        for line in open(self.file, encoding="utf-8"):
            word, _, value = line.rstrip("\n").partition(" ")
            if word == name:
                return value
        return self.pool.case.fail(f"no {name} in {self.file}")

    def cudash(self, env=None):
        """A Cudash in this session."""
        case = self.pool.case
        return Cudash(case, case.spawn([case.programs / "cudash"],
                                       env={**self.env, **(env or {})}))

    def run(self, *program, env=None, **kwargs):
        """Run a program in this session to its end."""
        return self.pool.case.run(program, env={**self.env, **(env or {})}, **kwargs)

    def close(self):
        self.process.stdin.close()
        return self.process.wait(self.pool.case.patience)
