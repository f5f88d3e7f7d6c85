# SPDX-License-Identifier: Apache-2.0
"""Whether the processes behind an answer that does not come are still working.

A machine that is busy with other things makes a program slow; a program that hangs uses no processor
time. Both print nothing.
"""

from pathlib import Path

# Threads that keep a connection or a lease alive use less than this in ten seconds.
IDLE_TICKS = 5


def processes():
    """{pid: (parent, ticks of processor time so far, command line)}."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended
            continue
        found[int(folder.name)] = int(fields[1]), int(fields[11]) + int(fields[12]), words
    return found


def session_of(run_dir, pid):
    """The name of the session that a `gpupool run` of that process keeps, or None."""
    names = [path.name for path in (run_dir / "sessions").glob(f"s*.{pid}")]
    return names[0].split(".")[0] if names else None


def ticks(pid, run_dir):
    """The processor time of a process, of those that it started, and of its session's workers."""
    every, total = processes(), 0
    session = session_of(run_dir, pid)
    for one, (parent, used, words) in every.items():
        above = one
        while above and above != pid:
            above = every.get(above, (0, 0, ""))[0]
        worker = session and words.startswith(f"gpupool-worker {session}.") and \
            str(run_dir) in every.get(parent, (0, 0, ""))[2]
        if above == pid or worker:
            total += used
    return total
