#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make fuzz-api`: random programs on a software card, and on slices of one over each transport.

Each program (generate.py, replay.c) runs on the software card in its own process and through the
client library; every result, every byte and the order of callbacks must be the same. A program
that differs, ends otherwise or hangs is shrunk to few lines and printed, also as C.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from as_c import as_c
from generate import program

# So many programs are run by one session of the pool before their answers are compared.
BATCH = 12
# Each of the programs $1 ... in turn; how it ended is its last line.
RUN_ALL = """replay=$0
for program; do
    timeout -k 1 {patience} "$replay" "$program" >"$program.out" 2>"$program.err"
    echo "status $?" >>"$program.out"
done"""
# A program takes a second at most; a machine that is busy gets thirty times that.
PATIENCE_S = 40
LINKS = ("tcp", "shm")


class Side:
    """Where programs run: one command line in front of the program, one environment."""

    def __init__(self, name, front, env):
        self.name, self.front, self.env = name, front, {**os.environ, **env}

    def run(self, replay, path):
        """What it printed, line by line, with how it ended."""
        try:
            done = subprocess.run([*self.front, replay, path], env=self.env, text=True,
                                  capture_output=True, timeout=PATIENCE_S, check=False)
        except subprocess.TimeoutExpired as hung:
            out = hung.stdout or b""
            text = out.decode() if isinstance(out, bytes) else out
            return text.splitlines() + [f"HANGS after {PATIENCE_S} s"], ""
        return done.stdout.splitlines() + [f"status {done.returncode}"], done.stderr

    def run_all(self, replay, paths):
        """What each of them printed and how it ended, by one process tree on this side."""
        subprocess.run([*self.front, "sh", "-c", RUN_ALL.format(patience=PATIENCE_S), replay, *paths],
                       env=self.env, capture_output=True, check=False)
        outs = [Path(f"{path}.out") for path in paths]
        return [out.read_text().splitlines() if out.exists() else [] for out in outs]


class Pool:
    def __init__(self, build, folder):
        self.command = str(build / "bin" / "gpupool")
        self.env = {**os.environ, "GPUPOOL_RUN_DIR": str(folder / "run")}

    def __enter__(self):
        subprocess.run([self.command, "up", "--driver", "softgpu"], env=self.env, check=True,
                       stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        subprocess.run([self.command, "down", "--force"], env=self.env, check=False,
                       stdout=subprocess.DEVNULL)

    def side(self, link):
        return Side(link, [self.command, "run", "--"],
                    {"GPUPOOL_RUN_DIR": self.env["GPUPOOL_RUN_DIR"], "GPUPOOL_TRANSPORT": link})


class Fuzz:
    def __init__(self, build, folder, sides):
        self.replay, self.folder, self.sides = build / "tests/apifuzz/replay", folder, sides
        self.calls, self.brief = 0, False

    def run(self, lines, side):
        path = self.folder / "program"
        path.write_text("\n".join(lines) + "\n")
        return side.run(self.replay, path)

    def suspects(self, programs):
        """The numbers of those of @programs that some side answers differently."""
        paths = [self.folder / f"program-{i}" for i in range(len(programs))]
        for path, lines in zip(paths, programs):
            path.write_text("\n".join(lines) + "\n")
        plain, *others = [side.run_all(self.replay, paths) for side in self.sides]
        self.calls += sum(len(answers) - 1 for answers in plain)
        return [i for i, answers in enumerate(plain)
                if not answers or any(other[i] != answers for other in others)]

    def differs(self, lines, side):
        """None, or (line number, plain answer, other answer, stderr) of the first difference."""
        plain, _ = self.run(lines, self.sides[0])
        other, err = self.run(lines, side)
        self.calls += len(plain) - 1
        if plain == other:
            return None
        at = next((i for i, (a, b) in enumerate(zip(plain, other)) if a != b),
                  min(len(plain), len(other)))
        return at, plain[at:at + 1], other[at:at + 1], err

    def shrink(self, lines, side, what, seconds=30):
        """Fewer lines that still differ by the same answers, by halves, quarters and so on."""
        end, size = time.monotonic() + seconds, max(1, len(lines) // 2)
        while size and time.monotonic() < end:
            at, changed = 0, False
            while at < len(lines) and time.monotonic() < end:
                fewer = lines[:at] + lines[at + size:]
                found = self.differs(fewer, side) if fewer else None
                if found and (found[1], found[2]) == what:
                    lines, changed = fewer, True
                else:
                    at += size
            if size > 1 or not changed:
                size //= 2
        return lines

    def look(self, seed, lines, side):
        found = self.differs(lines, side)
        if not found:
            return True
        if self.brief:
            print(f"seed {seed}, {side.name}: line {found[0] + 1}: {found[2]}, the driver {found[1]}")
            return False
        lines = self.shrink(lines[:found[0] + 1], side, (found[1], found[2]))
        at, plain, other, err = self.differs(lines, side) or found
        print(f"\nseed {seed}, {side.name}: line {at + 1} answers {other}, the driver {plain}")
        print(err.strip()[-500:])
        print("\n".join(lines))
        print("\n--- as C\n" + as_c(lines))
        return False


def local(build, folder):
    (folder / "local").mkdir()
    (folder / "local" / "libcuda.so.1").symlink_to((build / "lib" / "libsoftgpu.so").resolve())
    return Side("plain", [], {"LD_LIBRARY_PATH": str(folder / "local")})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--programs", type=int, default=0, help="so many, whatever the time")
    parser.add_argument("--calls", type=int, default=300, help="of one program")
    parser.add_argument("--program", type=Path, help="a file instead of random ones")
    parser.add_argument("--brief", action="store_true", help="name differences, shrink nothing")
    args = parser.parse_args()
    build = args.build.resolve()
    with tempfile.TemporaryDirectory(prefix="gpf-") as name:
        folder = Path(name)
        with Pool(build, folder) as pool:
            fuzz = Fuzz(build, folder, [local(build, folder), *map(pool.side, LINKS)])
            fuzz.brief = args.brief
            if args.program:
                lines = args.program.read_text().splitlines()
                return 0 if all([fuzz.look("-", lines, s) for s in fuzz.sides[1:]]) else 1
            end, seed, failed = time.monotonic() + args.seconds, args.seed, []
            while (seed - args.seed < args.programs if args.programs else
                   time.monotonic() < end):
                n = min(BATCH, args.programs - seed + args.seed) if args.programs else BATCH
                programs = [program(seed + i, args.calls) for i in range(n)]
                for i in fuzz.suspects(programs):
                    failed.append(seed + i)
                    if all([fuzz.look(seed + i, programs[i], side) for side in fuzz.sides[1:]]):
                        print(f"seed {seed + i}: differed once, and not again")
                seed += n
    print(f"fuzz-api: seeds {args.seed} to {seed - 1}, {fuzz.calls} calls, "
          f"differences at seeds {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
