#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run a program of a session with its links cut again and again:

    cut.py BUILD MILLISECONDS PROGRAM...

Puts a tests/cutter in front of each server of the session, has the program replace broken
links, and prints `cuts N` when it has ended; the exit status is the program's.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path


class Relays:
    """One for each server of the session."""

    def __init__(self, build, every_ms):
        self.args = [f"{build}/tests/cutter/cutter"], [every_ms, "0", "1"]
        self.running = []

    def start(self, server):
        """The address of a relay in front of @server."""
        host, _, port = server.rpartition(":")
        cutter = subprocess.Popen([*self.args[0], host, port, *self.args[1]], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.running.append(cutter)
        return f"127.0.0.1:{int(cutter.stdout.readline())}"

    def end(self):
        """How often they have cut together."""
        cuts = 0
        for cutter in self.running:
            cuts += int(cutter.communicate("count\n")[0])
        return cuts


def session_through(relays):
    """The session file, as text, with the relays instead of the servers."""
    lines = Path(os.environ["GPUPOOL_SESSION_FILE"]).read_text(encoding="utf-8").splitlines()
    text = ""
    for line in lines:
        word, _, value = line.partition(" ")
        if word == "server":
            line = f"server {relays.start(value)}"
        text += "" if word == "local" else f"{line}\n"
    if not relays.running:
        raise SystemExit("the session file names no server")
    return text


def main():
    build, every_ms, *program = sys.argv[1:]
    relays = Relays(build, every_ms)
    with tempfile.NamedTemporaryFile("w", suffix=".session") as file:  # mode 0600
        file.write(session_through(relays))
        file.flush()
        status = subprocess.call(program, env={
            **os.environ, "GPUPOOL_SESSION_FILE": file.name, "GPUPOOL_TRANSPORT": "tcp",
            "GPUPOOL_RESUME": "60"})
        print("cuts", relays.end(), flush=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
