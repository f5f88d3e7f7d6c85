# SPDX-License-Identifier: Apache-2.0
"""Whether the processes behind an answer that does not come are still working.

A machine that is busy with other things makes a program slow; a program that hangs gets no further.
Both print nothing. Work is done by threads that sleep while there is none, so their processor time
counts progress; a thread that asks again and again for what does not come uses time and makes none.
"""

from pathlib import Path

# Threads that run whether anything gets on or not: the software card's, which asks for what streams
# wait for in memory, and the client's, which keep memory and connections up to date.
ASK_AGAIN = {"softgpu-poll", "gpupool-live", "gpupool-flush"}
# All others of a session use less than this in ten seconds while nothing gets on; a program that works
# has ten times as much on a machine with twenty others.
IDLE_TICKS = 10


def stat(folder):
    """(name, parent, ticks of processor time) of a process or thread."""
    head, _, rest = (folder / "stat").read_text().rpartition(")")
    fields = rest.split()
    return head.partition("(")[2], int(fields[1]), int(fields[11]) + int(fields[12])


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
    """The ticks of a process, without those of threads that ask again and again."""
    try:
        total = stat(Path(f"/proc/{pid}"))[2]
        for folder in Path(f"/proc/{pid}/task").iterdir():
            name, _, used = stat(folder)
            if name in ASK_AGAIN:
                total -= used
    except OSError:  # it, or a thread, has ended
        return 0
    return total


def session_of(run_dir, pid):
    """The name of the session that a `gpupool run` of that process keeps, or None."""
    names = [path.name for path in (run_dir / "sessions").glob(f"s*.{pid}")]
    return names[0].split(".")[0] if names else None


def progress(pid, run_dir):
    """What a process has done so far, with those that it started and its session's workers, in ticks:
    it grows while something gets on."""
    every, total = processes(), 0
    session = session_of(run_dir, pid)
    for one, (parent, words) in every.items():
        above = one
        while above and above != pid:
            above = every.get(above, (0, ""))[0]
        worker = session and words.startswith(f"gpupool-worker {session}.") and \
            str(run_dir) in every.get(parent, (0, ""))[1]
        if above == pid or worker:
            total += work_of(one)
    return total
