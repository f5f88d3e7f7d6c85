#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make fuzz-api`: random programs on a software card, and on slices of one over each transport.

Each program (generate.py, replay_program.c) runs on the software card in its own process and through the
client library (sides.py); every result, every byte and the order of callbacks must be the same. A
program that differs, ends otherwise or hangs is shrunk to few lines and printed, also as C.
"""

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from as_c import as_c
from generate import servers_of, program
from sides import LINKS, Sides

# So many programs run, one behind the other in a process of each side, before answers are compared.
BATCH = 96
# What differed is looked for again so often, alone and behind the programs before it.
AGAIN = 3
SHRINK_S = 60


def difference(plain, other):
    """(line number, plain answer, other answer) of the first one."""
    plain, other = (out.decode(errors="replace").splitlines() for out in (plain, other))
    at = next((i for i, (a, b) in enumerate(zip(plain, other)) if a != b),
              min(len(plain), len(other)))
    return at, plain[at:at + 1], other[at:at + 1]


def fewer(items, still, end):
    """The items that are needed, by leaving out halves, quarters and so on while time is left."""
    size = max(1, len(items) // 2)
    while size and time.monotonic() < end:
        at, changed = 0, False
        while at < len(items) and time.monotonic() < end:
            rest = items[:at] + items[at + size:]
            if still(rest):
                items, changed = rest, True
            else:
                at += size
        if size > 1 or not changed:
            size //= 2
    return items


class Batch:
    """Programs that run behind each other, and what they are called."""

    def __init__(self, names, programs, servers):
        self.names, self.programs, self.servers = names, programs, servers

    def behind(self, number, side):
        """The numbers of the programs up to that one which a process of the side has run."""
        return [i for i in range(number + 1) if self.servers[i] >= side.servers]


class Fuzz:
    def __init__(self, sides, folder, brief):
        self.sides, self.folder, self.brief = sides, folder, brief
        self.calls = 0  # of programs, counted once each, not on every side
        self.differing, self.driver = [], []  # names of programs; the second: on the driver itself
        self.stopped = False

    def paths(self, programs):
        paths = [self.folder / f"program-{i}" for i in range(len(programs))]
        for path, lines in zip(paths, programs):
            path.write_text("\n".join(lines) + "\n")
        return paths

    # -- what a program answers ----------------------------------------------------------

    def alone(self, lines, side):
        return side.run(self.paths([lines])[0])

    def last_of(self, programs, side):
        """What the last of some programs answers behind the others, in a new process."""
        side.close()
        return side.run_all(self.paths(programs))[-1]

    def after_others(self, lines, side):
        """What it answers behind whatever the process has run."""
        return side.run_all(self.paths([lines]))[0]

    def differs(self, ask, what, side):
        """None, or (line number, plain answer, other answer) of the first difference."""
        plain, other = ask(what, self.sides.all[0]), ask(what, side)
        return difference(plain, other) if plain != other else None

    def twice(self, ask, what):
        """Whether the driver itself gives the same answer again."""
        first, *more = (ask(what, self.sides.all[0]) for _ in range(AGAIN))
        return all(one == first for one in more)

    # -- what differed -------------------------------------------------------------------

    def told(self, name, side, found, words):
        at, plain, other = found
        print(f"{name}, {side.name}: line {at + 1} answers {other}, the driver {plain}{words}",
              flush=True)

    def shown(self, lines):
        print("\n".join(lines))
        print("\n--- as C\n" + as_c(lines), flush=True)

    def look_alone(self, name, lines, side):
        found = next(filter(None, (self.differs(self.alone, lines, side) for _ in range(AGAIN))),
                     None)
        if not found:
            return None
        if self.brief:
            self.told(name, side, found, "")
            return found
        # Answers of threads that run at the same time come behind those of the whole section.
        if not any(line.endswith("fork") for line in lines):
            lines = lines[:found[0] + 1]
        def still(rest):
            again = rest and self.differs(self.after_others, rest, side)
            return again and again[1:] == found[1:]
        lines = fewer(lines, still, time.monotonic() + SHRINK_S)
        print()
        self.told(name, side, self.differs(self.alone, lines, side) or found, "")
        print(side.said())
        self.shown(lines)
        return found

    def look_behind(self, batch, number, side):
        """It did not differ alone: whether it does behind the programs before it."""
        numbers, mine = batch.behind(number, side)[:-1], batch.programs[number]

        def differs(numbers, lines=mine):
            return self.differs(self.last_of, [batch.programs[i] for i in numbers] + [lines], side)

        found = differs(numbers)
        if not found:
            return None
        end = time.monotonic() + SHRINK_S
        if not self.brief:
            def still(rest):
                again = differs(rest)
                return again and again[1:] == found[1:]
            numbers = fewer(numbers, still, end)
        self.told(batch.names[number], side, found,
                  f" behind {', '.join(batch.names[i] for i in numbers)}, and not alone")
        return found

    def look_at(self, batch, number, sides):
        name, lines = batch.names[number], batch.programs[number]
        if not self.twice(self.alone, lines) or not self.twice(
                self.last_of, batch.programs[:number + 1]):
            self.differs_from_itself(name, *next(iter(sides.values())))
            return
        self.differing.append(name)
        for side, found in sides.items():
            if not self.look_alone(name, lines, side) and \
                    not self.look_behind(batch, number, side):
                self.told(name, side, found, ": once, and not again")

    def differs_from_itself(self, name, at, plain, other):
        self.driver.append(name)
        print(f"{name}: line {at + 1} answered {plain} and {other}: the driver itself does not "
              "answer it twice in the same way, a fault of the generator's or of the driver's",
              flush=True)

    # -- many programs -------------------------------------------------------------------

    def run(self, batch):
        """Run it on all sides and look at what differs."""
        plain, *others = self.sides.run_all(self.paths(batch.programs), batch.servers)
        ends = sum(out.startswith((b"ended", b"HANGS")) for out in plain.values())
        if ends == len(plain):
            sys.exit(f"fuzz-api: no program runs on the driver: {self.sides.all[0].said()}")
        self.calls += sum(out.count(b"\n") for out in plain.values())
        again = others.pop() if self.sides.twice else plain
        found = {}
        for side, answers in zip(self.sides.all[1:], others):
            for number, out in answers.items():
                if out != plain[number]:
                    found.setdefault(number, {})[side] = difference(plain[number], out)
        for number in range(len(plain)):
            if again[number] != plain[number]:
                found.pop(number, None)
                self.differs_from_itself(batch.names[number],
                                         *difference(plain[number], again[number]))
        for number, sides in sorted(found.items()):
            self.look_at(batch, number, sides)

    def random(self, args):
        """The seed up to which programs ran."""
        began = told = time.monotonic()
        seed = args.seed
        while not self.stopped:
            n = min(args.batch, args.programs - seed + args.seed) if args.programs else args.batch
            if n <= 0 or (args.calls and self.calls >= args.calls) or (
                    args.seconds and time.monotonic() - began >= args.seconds):
                break
            seeds = range(seed, seed + n)
            self.sides.turn(seed // args.batch)
            self.run(Batch([f"seed {i}" for i in seeds], [program(i, args.length, args.cards) for i in seeds],
                           [servers_of(i) for i in seeds]))
            seed += n
            if time.monotonic() - told >= 60:
                told = time.monotonic()
                print(f"up to seed {seed - 1}: {self.calls} calls, "
                      f"{self.calls / (told - began):.0f} a second", flush=True)
        return seed

    def files(self, paths):
        """Programs that are kept."""
        programs = [path.read_text().splitlines() for path in paths]
        programs = [[line for line in lines if line and line[0] != "#"] for lines in programs]
        for turn in range(2 if programs else 0):
            self.sides.turn(turn)
            self.run(Batch([path.name for path in paths], programs, [2] * len(programs)))

    def stop(self, *_):
        """What runs is compared first. Another signal ends it at once."""
        self.stopped = True
        for number in signal.SIGINT, signal.SIGTERM:
            signal.signal(number, signal.default_int_handler)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=0, help="stop after so long")
    parser.add_argument("--calls", type=int, default=0, help="stop after so many calls")
    parser.add_argument("--programs", type=int, default=0, help="stop after so many programs")
    parser.add_argument("--seed", type=int, default=1, help="of the first program")
    parser.add_argument("--length", type=int, default=300, help="calls of one program, about")
    parser.add_argument("--program", type=Path, nargs="+", default=[],
                        help="files; random ones besides only with --programs")
    parser.add_argument("--twice", action="store_true",
                        help="run each program twice on the driver itself as well")
    parser.add_argument("--links", default=LINKS,
                        type=lambda text: text.split(",") if text != "none" else [],
                        metavar="LINK[,LINK...]",
                        help="transports between programs and servers, of tcp, shm and rdma "
                             "(tcp,shm); with --driver also none")
    parser.add_argument("--listen", metavar="HOST",
                        help="address of the servers, for rdma that of a port")
    parser.add_argument("--driver", type=Path, metavar="PATH",
                        help="a libcuda.so.1 instead of the software card")
    parser.add_argument("--soft", action="store_true",
                        help="compare that driver with the software card too")
    parser.add_argument("--cards", type=int, default=2, choices=(1, 2),
                        help="how many cards that driver shows to programs (2)")
    parser.add_argument("--batch", type=int, default=BATCH,
                        help="programs that run behind each other before answers are compared")
    parser.add_argument("--no-range", action="store_true",
                        help="programs have no addresses in common with their cards")
    parser.add_argument("--brief", action="store_true", help="name differences, shrink nothing")
    args = parser.parse_args()
    if not (args.seconds or args.calls or args.programs or args.program):
        args.seconds = 60
    return args


def main():
    args = arguments()
    with tempfile.TemporaryDirectory(prefix="gpf-") as name:
        with Sides(args.build.resolve(), Path(name), args.twice, args.links, args.listen,
                   args.driver, args.cards, args.soft, args.no_range) as sides:
            fuzz = Fuzz(sides, Path(name), args.brief)
            for number in signal.SIGINT, signal.SIGTERM:
                signal.signal(number, fuzz.stop)
            began = time.monotonic()
            fuzz.files(args.program)
            what = [f"{len(args.program)} files"] if args.program else []
            if args.seconds or args.calls or args.programs:
                what.append(f"seeds {args.seed} to {fuzz.random(args) - 1}")
            seconds, slow = time.monotonic() - began, sum(side.slow for side in sides.all)
    print(f"fuzz-api: {', '.join(what)}: {fuzz.calls} calls in {seconds:.0f} s, "
          f"{fuzz.calls / seconds:.0f} a second; {slow} programs slow; "
          f"the driver differs from itself at {fuzz.driver or 'none'}; "
          f"differences at {fuzz.differing or 'none'}")
    return 1 if fuzz.differing or fuzz.driver else 0


if __name__ == "__main__":
    sys.exit(main())
