# SPDX-License-Identifier: Apache-2.0
"""What a link that can be replaced costs: clients with and without one, in turns.

A round is three fresh clients, each with a card and a worker of its own: one whose link
can be replaced and two whose links cannot.  They take slices in turns, of milliseconds
each, so that what else the machine does hits all of them, and who begins changes.  A
slice gives one ratio, of the first to the second, and one of the third to the second:
the noise floor, which is what the same measurement says of no difference at all.  Rounds
are many, because each process keeps the pages that it got.
"""

import os
import subprocess

import stats

ROWS = {"sync": ["sync"], "burst": ["burst"], "async": ["async", "rate"],
        "up_64k": ["up_64k"], "down_64k": ["down_64k"], "up_1m": ["up_1m"], "down_1m": ["down_1m"],
        "up_1m_answered": ["up_1m_answered"],
        "up": ["up"], "down": ["down"]}  # of each slice its figures
WORDS = {"sync": "a synchronous call", "burst": "an asynchronous call of a burst that fits the buffer",
         "async": "an asynchronous call, processor time",
         "rate": "an asynchronous call, both ends on one core",
         "up_64k": "64 KiB up", "down_64k": "64 KiB down",
         "up_1m": "1 MiB up", "down_1m": "1 MiB down",
         "up_1m_answered": "1 MiB up, of a program that has a stream",
         "up": "64 MiB up", "down": "64 MiB down"}
LIMIT = 0.02
AIMS = {"journal_overhead": ("what a link that can be replaced costs, the worst of:", LIMIT, True)}
for _name, _words in WORDS.items():
    AIMS[f"journal_overhead_{_name}"] = (f"  {_words}", LIMIT, True)
    AIMS[f"journal_floor_{_name}"] = ("    the same without against without", None, True)

ROUNDS = 4  # for each of the bench's
SLICES = 20
CLIENTS = {"with": "60", "without": "0", "again": "0"}


class Client:
    """A process that takes a slice when it is asked to."""

    def __init__(self, bench, seconds):
        def pin():
            if bench.args.core >= 0:
                os.sched_setaffinity(0, {bench.args.core})

        self.process = subprocess.Popen(
            [str(bench.gpupool), "run", "--core", "100", "--memory", "2GiB", "--",
             str(bench.build / "bench" / "turns")], text=True,
            env={**bench.env, "GPUPOOL_TRANSPORT": "tcp", "GPUPOOL_TLS": "off",
                 "GPUPOOL_COMPRESS": "off", "GPUPOOL_RESUME": seconds},
            preexec_fn=pin, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.answer("ready")  # before the next one starts: the link is judged meanwhile

    def answer(self, name):
        words = self.process.stdout.readline().split()
        if not words or words[0] != name:
            raise SystemExit(f"bench: a client said {words}, not {name}")
        return [float(word) for word in words[1:]]

    def slice(self, name):
        self.process.stdin.write(f"{name}\n")
        self.process.stdin.flush()
        return self.answer(name)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def orders(n):
    """Who goes first, second and third in each of @n turns."""
    names = list(CLIENTS)
    turns = [names[i:] + names[:i] for i in range(len(names))]
    turns += [turn[::-1] for turn in turns]
    return [turns[i % len(turns)] for i in range(n)]


def one_round(clients, rows, slices):
    """{row: {client: its slices}}."""
    took = {}
    for order in orders(slices):
        for row in rows:
            for name in order:
                for figure, value in zip(ROWS[row], clients[name].slice(row)):
                    took.setdefault(figure, {}).setdefault(name, []).append(value)
    return took


def ratios(took, name):
    """Of each slice of @name what it took more than the slice without."""
    return [mine / without - 1 for mine, without in zip(took[name], took["without"])]


def measure(bench, progress, rows=tuple(ROWS)):
    rounds = ROUNDS * bench.args.rounds
    samples = {}
    bench.down()
    bench.up(cards=len(CLIENTS))
    for number in range(rounds):
        progress(f"journal: round {number + 1} of {rounds}")
        clients = {name: Client(bench, seconds) for name, seconds in CLIENTS.items()}
        took = one_round(clients, rows, SLICES)
        for client in clients.values():
            client.close()
        for figure, of_it in took.items():
            samples.setdefault(f"journal_overhead_{figure}", []).append(ratios(of_it, "with"))
            samples.setdefault(f"journal_floor_{figure}", []).append(ratios(of_it, "again"))
    bench.down()
    bench.up()
    found = {key: stats.of_rounds(of_it) for key, of_it in samples.items()}
    worst = max((key for key in found if "overhead" in key), key=found.get)
    samples["journal_overhead"], found["journal_overhead"] = samples[worst], found[worst]
    bench.samples.update(samples)
    return found
