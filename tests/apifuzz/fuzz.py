#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make fuzz-api`: random programs on a software card, and on slices of one over each transport.

Each program (generate.py, replay_main.c) runs on the software card in its own process and through the
client library (sides.py); every result, every byte and the order of callbacks must be the same. A
program that differs, ends otherwise or hangs is shrunk to few lines and printed, also as C.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from as_c import as_c
from generate import cards_of, program
from sides import Sides

# So many programs run before their answers are compared.
BATCH = 24


def difference(plain, other):
    """(line number, plain answer, other answer) of the first one."""
    at = next((i for i, (a, b) in enumerate(zip(plain, other)) if a != b),
              min(len(plain), len(other)))
    return at, plain[at:at + 1], other[at:at + 1]


class Fuzz:
    def __init__(self, sides, folder, brief):
        self.sides, self.folder, self.brief = sides, folder, brief
        self.calls = 0

    def paths(self, programs):
        paths = [self.folder / f"program-{i}" for i in range(len(programs))]
        for path, lines in zip(paths, programs):
            path.write_text("\n".join(lines) + "\n")
        return paths

    def suspects(self, programs, cards):
        """{number of a program: {a side that answers it differently: where}}."""
        plain, *others = self.sides.run_all(self.paths(programs), cards)
        self.calls += sum(map(len, plain.values()))
        found = {}
        for side, answers in zip(self.sides.all[1:], others):
            for number, lines in answers.items():
                if lines != plain[number]:
                    found.setdefault(number, {})[side] = difference(plain[number], lines)
        return found

    def run(self, lines, side, alone=True):
        path = self.paths([lines])[0]
        return side.run(path) if alone else side.run_all([path])[0]

    def differs(self, lines, side, alone=True):
        """None, or (line number, plain answer, other answer) of the first difference."""
        plain, other = self.run(lines, self.sides.all[0], alone), self.run(lines, side, alone)
        self.calls += len(plain) - 1
        return difference(plain, other) if plain != other else None

    def shrink(self, lines, side, what, seconds=60):
        """Fewer lines that still differ by the same answers, by halves, quarters and so on."""
        end, size = time.monotonic() + seconds, max(1, len(lines) // 2)
        while size and time.monotonic() < end:
            at, changed = 0, False
            while at < len(lines) and time.monotonic() < end:
                fewer = lines[:at] + lines[at + size:]
                found = self.differs(fewer, side, alone=False) if fewer else None
                if found and found[1:] == what:
                    lines, changed = fewer, True
                else:
                    at += size
            if size > 1 or not changed:
                size //= 2
        return lines

    def look(self, name, lines, side):
        """Whether it answers as the driver does, when it runs alone."""
        found = self.differs(lines, side)
        if not found:
            return True
        again = self.run(lines, self.sides.all[0]), self.run(lines, self.sides.all[0])
        if again[0] != again[1]:
            print(f"{name}: two runs on the driver itself differ: a fault of the generator's")
        if self.brief:
            print(f"{name}, {side.name}: line {found[0] + 1}: {found[2]}, the driver {found[1]}",
                  flush=True)
            return False
        # Answers of threads that run at the same time come behind those of the whole section.
        whole = any(line.endswith("fork") for line in lines)
        lines = self.shrink(lines if whole else lines[:found[0] + 1], side, found[1:])
        at, plain, other = self.differs(lines, side) or found
        print(f"\n{name}, {side.name}: line {at + 1} answers {other}, the driver {plain}")
        print(side.said())
        print("\n".join(lines))
        print("\n--- as C\n" + as_c(lines), flush=True)
        return False

    def look_at(self, name, lines, sides):
        for side, (at, plain, other) in sides.items():
            if self.look(name, lines, side):
                print(f"{name}, {side.name}: line {at + 1} answered {other}, the driver {plain}: "
                      "once, and not when it ran alone", flush=True)

    def random(self, args):
        """The seeds up to which programs ran, and those of programs that differed."""
        end, seed, failed = time.monotonic() + args.seconds, args.seed, []
        while seed - args.seed < args.programs if args.programs else time.monotonic() < end:
            n = min(BATCH, args.programs - seed + args.seed) if args.programs else BATCH
            programs = [program(seed + i, args.calls) for i in range(n)]
            found = self.suspects(programs, [cards_of(seed + i) for i in range(n)])
            for i, sides in sorted(found.items()):
                failed.append(seed + i)
                self.look_at(f"seed {seed + i}", programs[i], sides)
            seed += n
        return seed, failed

    def files(self, paths):
        """Programs that are kept; those that differ."""
        programs = [path.read_text().splitlines() for path in paths]
        programs = [[line for line in lines if line and line[0] != "#"] for lines in programs]
        found = self.suspects(programs, [2] * len(programs))
        for i, sides in sorted(found.items()):
            self.look_at(paths[i].name, programs[i], sides)
        return [paths[i].name for i in sorted(found)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--programs", type=int, default=0, help="so many, whatever the time")
    parser.add_argument("--calls", type=int, default=300, help="of one program")
    parser.add_argument("--program", type=Path, nargs="+", default=[],
                        help="files; random ones besides only with --programs")
    parser.add_argument("--brief", action="store_true", help="name differences, shrink nothing")
    args = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpf-") as name:
        with Sides(args.build.resolve(), Path(name)) as sides:
            fuzz = Fuzz(sides, Path(name), args.brief)
            failed, what = fuzz.files(args.program), [f"{len(args.program)} files"]
            if args.programs or not args.program:
                seed, more = fuzz.random(args)
                failed += more
                what.append(f"seeds {args.seed} to {seed - 1}")
            seconds = time.monotonic() - began
    print(f"fuzz-api: {', '.join(what)}, {fuzz.calls} calls, {fuzz.calls / seconds:.0f} a second, "
          f"differences at {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
