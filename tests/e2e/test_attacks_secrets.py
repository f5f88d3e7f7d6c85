# SPDX-License-Identifier: Apache-2.0
"""Secrets are in files of mode 0600 and nowhere else: the secret that a session's ticket is
bound to, and the tokens of a pool."""

import base64
import os
import resource
from pathlib import Path

from harness import Cudash
from harness.pool import SCHEDULER
from test_adopt import KEEPER, Kept

NOBODY = 65534


def hits(data, secret):
    raw = base64.urlsafe_b64decode(secret + "=" * (-len(secret) % 4))
    return [what for what, needle in (("as text", secret.encode()), ("as bytes", raw))
            if needle in data]


def tokens(case):
    """Of the pool, by the name of their files."""
    found = {path.name: path.read_text().strip()
             for path in (case.folder / "gpupool").rglob("*token*") if path.is_file()}
    case.check(len(found) >= 3, f"tokens of the pool: {sorted(found)}")
    return found


def core_limit(pid):
    """(soft, hard) of core files."""
    for line in Path(f"/proc/{pid}/limits").read_text().splitlines():
        if line.startswith("Max core file size"):
            return tuple(line.split()[4:6])
    return None


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
        for name, token in tokens(case).items():
            case.check(token.encode() not in data, f"the token of {name} in {where}")

    sizes = 0
    for where, data in dumped_memory(victim.process.pid):
        sizes += len(data)
        case.equal(hits(data, secret), [], f"the secret in the program's memory at {where}")
    case.check(sizes > 1 << 20, f"only {sizes} bytes of memory looked at")


def is_private(case, kept, who, pid, limits):
    """No core file of it, and nobody of its own user reads its memory: the kernel shows
    such a process in /proc as root's."""
    case.equal(core_limit(pid), limits, f"limit of core files of the {who}")
    if not case.sanitizer:
        case.equal(os.stat(f"/proc/{pid}/mem").st_uid, 0, f"owner of the {who} in /proc")
    if os.geteuid() != 0 and not case.sanitizer:
        try:
            with open(f"/proc/{pid}/mem", "rb"):
                case.fail(f"the memory of the {who} can be opened")
        except PermissionError:
            pass


def test_memory_of_daemons_is_in_no_core_file_and_closed_to_their_own_user(case):
    """As somebody who is not root, because root reads everything. After a server has started
    its program again too, since execve() makes a process readable."""
    if os.geteuid() == 0:
        os.chown(case.folder, NOBODY, NOBODY)
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    if not os.access(case.build / "bin" / "gpupool", os.X_OK):
        case.skip("the build folder is closed to others than root")
    kept = Kept(case)
    run = kept.pool.spawn("sh", "-c", "ulimit -Sc; ulimit -Hc; exec cat", core=20, memory="64MiB")
    own = resource.getrlimit(resource.RLIMIT_CORE)
    words = ["unlimited" if limit == resource.RLIM_INFINITY else str(limit // 512)
             for limit in own]
    case.equal([run.stdout.readline().strip() for _ in range(2)], words,
               "limits of core files of the user's program")
    for way in ("started", "started its program again"):
        for who, pid in ((SCHEDULER, kept.pool.pid(SCHEDULER)), (f"server that has {way}", kept.server),
                         (KEEPER, kept.keepers()[0])):
            is_private(case, kept, who, pid, ("0", "0"))
        kept.start_again()
    hard = "unlimited" if own[1] == resource.RLIM_INFINITY else str(own[1])
    is_private(case, kept, "gpupool run", run.pid, ("0", hard))
