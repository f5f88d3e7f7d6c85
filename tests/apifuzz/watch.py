# SPDX-License-Identifier: Apache-2.0
"""Whether the processes behind an answer that does not come are still working.

A machine that is busy with other things makes a program slow; a program that hangs gets no further.
Both print nothing. Work is done by threads that sleep while there is none, so their processor time
counts progress; a thread that asks again and again for what does not come uses time and makes none.
"""

import time
from pathlib import Path

# Threads that run whether anything gets on or not: the software card's, which asks for what streams
# wait for in memory, and the client's, which keep memory and connections up to date.
ASK_AGAIN = {"softgpu-poll", "gpupool-live", "gpupool-flush"}
# All others of a session use less than this in ten seconds while nothing gets on. So does a program that
# works beside many others of higher priority; but it is ready to run nearly always.
IDLE_TICKS = 10
LOOKS, LOOK_EVERY_S = 20, 0.1


def stat(folder):
    """(name, parent, ticks of processor time, state) of a process or thread."""
    head, _, rest = (folder / "stat").read_text().rpartition(")")
    fields = rest.split()
    return head.partition("(")[2], int(fields[1]), int(fields[11]) + int(fields[12]), fields[0]


def processes():
    """{pid: (parent, command line)}."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found[int(folder.name)] = stat(folder)[1], words
        except OSError:  # it has ended
            continue
    return found


def work_of(pid):
    """The ticks of a process, without those of threads that ask again and again, and whether one of
    the others is ready to run."""
    ready = False
    try:
        total = stat(Path(f"/proc/{pid}"))[2]
        for folder in Path(f"/proc/{pid}/task").iterdir():
            name, _, used, state = stat(folder)
            if name in ASK_AGAIN:
                total -= used
            else:
                ready = ready or state in "RD"
    except OSError:  # it, or a thread, has ended
        return 0, True
    return total, ready


def session_of(run_dir, pid):
    """The name of the session that a `gpupool run` of that process keeps, or None."""
    names = [path.name for path in (run_dir / "sessions").glob(f"s*.{pid}")]
    return names[0].split(".")[0] if names else None


def behind(pid, run_dir):
    """A process, those that it started, and its session's workers."""
    every, found = processes(), []
    session = session_of(run_dir, pid)
    for one, (parent, words) in every.items():
        above = one
        while above and above != pid:
            above = every.get(above, (0, ""))[0]
        worker = session and words.startswith(f"gpupool-worker {session}.") and \
            str(run_dir) in every.get(parent, (0, ""))[1]
        if above == pid or worker:
            found.append(one)
    return found


def progress(pid, run_dir):
    """What a process has done so far, with all behind it, in ticks: it grows while something gets on."""
    return sum(work_of(one)[0] for one in behind(pid, run_dir))


def is_starved(pid, run_dir):
    """Whether something of it would get on if the machine had time for it."""
    every, ready = behind(pid, run_dir), 0
    for _ in range(LOOKS):
        ready += any(work_of(one)[1] for one in every)
        time.sleep(LOOK_EVERY_S)
    return ready > LOOKS / 2
