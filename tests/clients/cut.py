#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run a program of a session with its link cut again and again:

    cut.py BUILD MILLISECONDS PROGRAM...

Puts tests/cutter in front of the session's server, has the program replace broken links,
and prints `cuts N` when it has ended; the exit status is the program's.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path


def session_through(port):
    """The session file, as text, with the relay instead of the server."""
    lines = Path(os.environ["GPUPOOL_SESSION_FILE"]).read_text(encoding="utf-8").splitlines()
    return "".join(f"server 127.0.0.1:{port}\n" if line.startswith("server ") else f"{line}\n"
                   for line in lines if not line.startswith("local "))


def server():
    for line in Path(os.environ["GPUPOOL_SESSION_FILE"]).read_text(encoding="utf-8").splitlines():
        word, _, value = line.partition(" ")
        if word == "server":
            host, _, port = value.rpartition(":")
            return host, port
    raise SystemExit("the session file names no server")


def main():
    build, every_ms, *program = sys.argv[1:]
    host, port = server()
    with subprocess.Popen([f"{build}/tests/cutter/cutter", host, port, every_ms, "0", "1"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as cutter, \
            tempfile.NamedTemporaryFile("w", suffix=".session") as file:  # mode 0600
        file.write(session_through(int(cutter.stdout.readline())))
        file.flush()
        status = subprocess.call(program, env={
            **os.environ, "GPUPOOL_SESSION_FILE": file.name, "GPUPOOL_TRANSPORT": "tcp",
            "GPUPOOL_RESUME": "60"})
        cutter.stdin.write("count\n")
        cutter.stdin.flush()
        print("cuts", cutter.stdout.readline().strip(), flush=True)
        cutter.stdin.close()
    sys.exit(status)


if __name__ == "__main__":
    main()
