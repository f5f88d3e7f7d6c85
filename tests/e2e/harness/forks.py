# SPDX-License-Identifier: Apache-2.0
"""Processes for end-to-end tests, forked from one that has everything imported already: of a
test that takes a second, starting Python and reading the modules took a quarter.

The runner starts `forks.py FD` and sends the arguments of child.py as JSON, with two descriptors: the
log, and a socket of type SEQPACKET that hears the number of the new process and then its exit
status.  The process that forks ends with the other end of its own socket; tests go on.
"""

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from pathlib import Path

REQUEST_MAX = 65536


class Test:
    """A test in a process of its own; as subprocess.Popen."""

    def __init__(self, forks, args, log):
        self.link, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.returncode = None
        with far:
            socket.send_fds(forks, [json.dumps(args).encode()], [log.fileno(), far.fileno()])
        self.pid = int(self.link.recv(32))

    def wait(self, timeout=None):
        if self.returncode is None:
            self.link.settimeout(timeout)
            try:
                self.returncode = int(self.link.recv(32))
            except TimeoutError:
                raise subprocess.TimeoutExpired("a test", timeout) from None
            self.link.close()
        return self.returncode

    def terminate(self):
        if self.returncode is None:
            os.kill(self.pid, signal.SIGTERM)


def start():
    """The runner's end of a process that forks."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with far:
        subprocess.Popen([sys.executable, __file__, str(far.fileno())], pass_fds=[far.fileno()],
                         stdin=subprocess.DEVNULL, cwd=Path(__file__).parents[3])
    return near


def import_all():
    """What one of them cannot import is its own failure, later."""
    for path in Path(__file__).parents[1].glob("test_*.py"):
        with contextlib.suppress(Exception):
            importlib.import_module(path.stem)
    gc.freeze()


def fork(args, log):
    """The number of the new process, which does not return."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.setsid()
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.closerange(3, 1 << 20)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        status = child.main(args)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def serve(runner):
    with selectors.DefaultSelector() as selector:
        selector.register(runner, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is runner:
                    request, fds, _, _ = socket.recv_fds(runner, REQUEST_MAX, 2)
                    if not request:
                        return
                    pid = fork(json.loads(request), fds[0])
                    os.close(fds[0])
                    link = socket.socket(fileno=fds[1])
                    with contextlib.suppress(OSError):
                        link.send(b"%d" % pid)
                    selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, link))
                else:
                    pid, link = key.data
                    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    selector.unregister(key.fileobj)
                    os.close(key.fd)
                    with link, contextlib.suppress(OSError):
                        link.send(b"%d" % status)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from harness import child

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import_all()
    serve(socket.socket(fileno=int(sys.argv[1])))
