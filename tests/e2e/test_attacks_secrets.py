# SPDX-License-Identifier: Apache-2.0
"""The secret that a session's ticket is bound to is in one file and nowhere else."""

import base64
import os
from pathlib import Path

from harness import Cudash


def hits(data, secret):
    raw = base64.urlsafe_b64decode(secret + "=" * (-len(secret) % 4))
    return [what for what, needle in (("as text", secret.encode()), ("as bytes", raw))
            if needle in data]


def dumped_memory(pid):
    """(where, bytes) of what a core dump of the process would hold: its readable private
    mappings but those that are marked otherwise."""
    blocks, lines = [], Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8").splitlines()
    for line in lines:
        words = line.split()
        if "-" in words[0] and ":" not in words[0]:
            first, last = (int(part, 16) for part in words[0].split("-"))
            blocks.append([first, last, words[1], " ".join(words[5:]), False])
        elif words[0] == "VmFlags:":
            blocks[-1][4] = "dd" in words
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for first, last, access, name, left_out in blocks:
            if "r" not in access or left_out or name.startswith("[v"):
                continue
            try:
                memory.seek(first)
                yield f"{first:x} {access} {name}", memory.read(last - first)
            except OSError:
                continue  # reserved addresses that nothing lies behind


def test_secret_of_a_session_is_in_no_log_process_or_core_dump(case):
    pool = case.pool(servers=1, cards=1)
    session = pool.session(core=20, memory="128MiB")
    secret = next(line.split()[1] for line in Path(session.file).read_text().splitlines()
                  if line.startswith("secret"))
    case.equal(os.stat(session.file).st_mode & 0o777, 0o600, "the mode of the session's file")
    client_log = case.folder / "client.log"
    env = {**session.env, "GPUPOOL_LOG": "*:debug", "GPUPOOL_TRACE": "1",
           "GPUPOOL_LOG_FILE": str(client_log)}
    victim = Cudash(case, case.spawn([case.programs / "cudash"], env=env)).begin()
    victim.ok("alloc", 1 << 20)

    seen = {"the daemons' logs": pool.log().encode(), "the client's log": client_log.read_bytes()}
    case.check(seen["the client's log"], "the client has a log")
    pids = [*pool.daemons(), *pool.workers(), victim.process.pid]
    for pid in pids:
        for what in ("cmdline", "environ"):
            seen[f"{what} of {pid}"] = Path(f"/proc/{pid}/{what}").read_bytes()
    for where, data in seen.items():
        case.equal(hits(data, secret), [], f"the secret in {where}")

    sizes = 0
    for where, data in dumped_memory(victim.process.pid):
        sizes += len(data)
        case.equal(hits(data, secret), [], f"the secret in the program's memory at {where}")
    case.check(sizes > 1 << 20, f"only {sizes} bytes of memory looked at")
