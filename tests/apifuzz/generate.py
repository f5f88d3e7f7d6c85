# SPDX-License-Identifier: Apache-2.0
"""Random programs of driver calls, the same for the same seed.

The generator keeps a model of what the program has: which objects live, which stream last used
which memory. It orders what CUDA does not order by itself, so that two runs of a program have to
give the same bytes; what a call answers is not modelled, and calls that must fail are among them.
"""

import random

SIZES = [4, 64, 256, 1000, 4096, 16388, 65536, 70000, 262144, 1 << 20]
STREAMS, EVENTS, DEVS, HOSTS, GRAPHS, NODES = 5, 4, 8, 6, 4, 8
IDLE = None
# The default stream, which streams of flag 1 do not wait for. Fills, copies up and copies on the card
# that have no stream may return before they are done: what they wrote belongs to it.
LEGACY = -1
BAD = 16


class Model:
    def __init__(self, seed, calls):
        self.r = random.Random(seed)
        self.lines = []
        self.calls = calls
        # Captures are broken on purpose, and every error is asked for at once; or neither.
        self.hostile = seed % 4 == 0
        self.thread = 0
        self.streams = {}   # number -> True; of the context that was current
        self.events = set()
        self.devs = {}      # number -> (size, kind)
        self.hosts = {}     # number -> [size, kind]
        self.arrays = {}
        self.graphs = {}    # number -> uses (set of memory and logs), None: must not be launched
        self.execs = {}
        self.nodes = {}     # number -> graph
        self.tails = {}     # graph -> its last node
        self.last = {}      # memory or log -> stream whose work uses it
        self.captured = None  # (stream, uses)

    # -- lines ---------------------------------------------------------------------------

    def line(self, *words):
        self.lines.append(" ".join(str(word) for word in (self.thread, *words)))

    def sync_stream(self, stream):
        self.line("sts", stream)
        for what in [w for w, s in self.last.items() if s == stream]:
            del self.last[what]

    def order(self, stream, *uses):
        """Everything that @uses has before @stream, or (IDLE) is over."""
        if self.captured and stream == self.captured[0]:
            self.captured[1].update(uses)
            return
        for what in uses:
            before = self.last.get(what, IDLE)
            if before is IDLE or before == stream:
                continue
            if stream is not IDLE and self.events and self.r.random() < 0.5:
                event = self.r.choice(sorted(self.events))
                self.line("evr", event, before)
                self.line("evw", stream, event)
            else:
                self.sync_stream(before)
        for what in uses:
            if stream is IDLE:
                self.last.pop(what, None)
            else:
                self.last[what] = stream

    def order_copy(self, stream, dev, host, down):
        """A copy without a stream is over for the host, and on the card if it goes down."""
        if stream != LEGACY:
            self.order(stream, ("d", dev), ("h", host))
        else:
            self.order(IDLE, ("h", host), *[("d", dev)] if down else [])
            if not down:
                self.order(LEGACY, ("d", dev))

    def forget(self, what):
        """@what is gone: graphs that use it are not launched any more."""
        self.last.pop(what, None)
        for table in self.graphs, self.execs:
            for number, uses in table.items():
                if uses is not None and what in uses:
                    table[number] = None
        if self.captured and what in self.captured[1]:
            self.captured[1].add("dead")

    # -- choices -------------------------------------------------------------------------

    def pick(self, table):
        return self.r.choice(sorted(table)) if table else None

    def free_slot(self, table, n):
        free = [i for i in range(n) if i not in table]
        return self.r.choice(free) if free else None

    def stream(self):
        if self.captured:
            return self.captured[0]
        return self.pick(self.streams)

    def sub(self, size, step=1):
        """An offset and a length inside @size."""
        off = self.r.randrange(0, size // step) * step if self.r.random() < 0.4 else 0
        n = self.r.randrange(0, size - off + 1) if self.r.random() < 0.4 else size - off
        return off, max(step, n // step * step)  # of nothing: whether there is a node is not said

    # -- steps ---------------------------------------------------------------------------

    def new_stream(self):
        number = self.free_slot(self.streams, STREAMS)
        if number is not None:
            self.line("st", number, self.r.choice([1, 1, 1, 0]))
            self.streams[number] = True

    def end_stream(self):
        number = self.pick(self.streams)
        if number is None or len(self.streams) < 2 or (self.captured and number == self.captured[0]):
            return
        if self.r.random() < 0.5:
            self.sync_stream(number)
            self.line("std", number)
        else:  # with work in it: the context's end of work is awaited before the memory is used
            self.line("std", number)
            self.line("csync")
            self.last.clear()
        del self.streams[number]

    def event(self):
        number = self.free_slot(self.events, EVENTS)
        stream = self.stream()
        if number is not None and self.r.random() < 0.5:
            self.line("ev", number, self.r.choice([0, 1, 2, 3]))
            self.events.add(number)
        elif self.events and stream is not None:
            number = self.pick(self.events)
            what = self.r.choice(["evr", "evs", "evq", "evw", "evd"])
            if what == "evr":
                self.line("evr", number, stream)
            elif what == "evw":
                self.line("evw", stream, number)
            else:
                self.line(what, number)
                if what == "evd":
                    self.events.discard(number)

    def new_dev(self):
        number = self.free_slot(self.devs, DEVS)
        stream = self.stream()
        if number is None or stream is None:
            return
        size, kind = self.r.choice(SIZES), self.r.choice(["da", "da", "daa", "dm"])
        if self.captured and kind == "dm":
            kind = "da"
        if kind == "daa":
            if self.captured:
                return
            self.line("daa", number, size, stream)
            self.line("set8", number, 0, size, self.r.randrange(256), stream)
            self.last[("d", number)] = stream
        else:
            self.line(kind, number, size)
            self.line("set8", number, 0, size, self.r.randrange(256), LEGACY)
            self.last[("d", number)] = LEGACY
        self.devs[number] = (size, kind)

    def end_dev(self):
        number = self.pick(self.devs)
        if number is None or self.captured:
            return
        size, kind = self.devs[number]
        if kind == "daa" and self.streams and self.r.random() < 0.7:
            stream = self.pick(self.streams)
            self.order(stream, ("d", number))
            self.line("dfa", number, stream)
        else:
            if kind == "daa":
                self.order(IDLE, ("d", number))
            self.line("df", number)
        del self.devs[number]
        self.forget(("d", number))

    def new_host(self):
        number = self.free_slot(self.hosts, HOSTS)
        if number is None or self.captured:
            return
        size, kind = self.r.choice(SIZES), self.r.choice(["ha", "hm", "hm", "hr"])
        if kind == "ha":
            self.line("ha", number, size, self.r.choice([0, 1, 2, 3, 4]))
        else:
            self.line("hm", number, size)
            if kind == "hr":
                self.line("hr", number, self.r.choice([0, 1, 2]))
        self.hosts[number] = [size, kind]
        self.line("hfill", number, self.r.randrange(1000))

    def end_host(self):
        number = self.pick(self.hosts)
        if number is None or self.captured:
            return
        kind = self.hosts[number][1]
        if self.r.random() < 0.7:
            self.order(IDLE, ("h", number))
        if kind == "ha":
            self.line("hf", number)
        elif kind == "hr":
            self.line("hu", number)
        elif self.r.random() < 0.3:
            self.line("hu", number)  # was never registered
        if kind != "ha":
            self.order(IDLE, ("h", number))
        del self.hosts[number]
        self.forget(("h", number))

    def touch_host(self):
        number = self.pick(self.hosts)
        if number is None:
            return
        self.order(IDLE, ("h", number))
        if self.captured:
            return
        if self.r.random() < 0.3:
            self.line("hasks", number)
        elif self.r.random() < 0.5:
            self.line("hhash", number)
        else:
            self.line("hfill", number, self.r.randrange(1000))

    def copy(self):
        dev, host = self.pick(self.devs), self.pick(self.hosts)
        if dev is None or host is None:
            return
        stream = self.stream() if self.captured or self.r.random() < 0.7 else -1
        if stream is None:
            return
        limit = min(self.devs[dev][0], self.hosts[host][0])
        off, n = self.sub(limit)
        if self.r.random() < 0.04:  # more than the memory has
            off, n = self.devs[dev][0] - limit // 2, limit
        what = self.r.choice(["h2d", "h2d", "d2h", "d2h", "uni"])
        self.order_copy(stream, dev, host, what == "d2h")
        self.line(what, dev, off, host, self.hosts[host][0] - limit if n <= limit and off + n <= limit
                  and self.r.random() < 0.3 else 0, n, stream)

    def rect(self):
        dev, host = self.pick(self.devs), self.pick(self.hosts)
        if dev is None or host is None:
            return
        stream = self.stream() if self.captured or self.r.random() < 0.6 else -1
        if stream is None:
            return
        width = self.r.choice([1, 7, 64, 100, 1024])
        pitch = width + self.r.choice([0, 0, 1, 28])
        height = min(self.hosts[host][0] // width, self.devs[dev][0] // pitch, 300)
        if not height:  # drivers differ about copies of nothing
            return
        what = self.r.choice(["rect", "tcer"])
        self.order_copy(stream, dev, host, what == "tcer")
        self.line(what, dev, host, width, height, pitch, stream)

    def on_card(self):
        a, b = self.pick(self.devs), self.pick(self.devs)
        stream = self.stream()
        if a is None or stream is None:
            return
        size = min(self.devs[a][0], self.devs[b][0])
        what = self.r.random()
        if what < 0.25 and a != b:
            sync = not self.captured and self.r.random() < 0.3
            self.order(LEGACY if sync else stream, ("d", a), ("d", b))
            off, n = self.sub(size)
            self.line("d2d", a, off, b, off, n, -1 if sync else stream)
        elif what < 0.45:
            off, n = self.sub(self.devs[a][0], 4)
            sync = not self.captured and self.r.random() < 0.3
            self.order(LEGACY if sync else stream, ("d", a))
            if self.r.random() < 0.5:
                self.line("set8", a, off, n, self.r.randrange(256), -1 if sync else stream)
            else:
                self.line("set32", a, off, n // 4, self.r.randrange(1 << 31), -1 if sync else stream)
        elif what < 0.8 or a == b:
            self.order(stream, ("d", a))
            block = self.r.choice([32, 128, 1024, 1, 77, 1025 if self.r.random() < 0.2 else 256])
            n = self.devs[a][0] // 4 if block > 1 else min(64, self.devs[a][0] // 4)
            self.line("step", a, n, self.r.randrange(1 << 16), stream, block)
        else:
            self.order(stream, ("d", a), ("d", b))
            self.line("mix", a, b, size // 4, stream)

    def ask(self):
        dev, stream = self.pick(self.devs), self.stream()
        what = self.r.random()
        if what < 0.3 and dev is not None and not self.captured:
            self.order(IDLE, ("d", dev))
            self.line("dhash", dev)
        elif what < 0.5 and dev is not None:
            self.line("dasks", dev, self.r.randrange(self.devs[dev][0]))
        elif what < 0.7 and stream is not None:
            self.line("sti", stream)
        elif stream is not None and not self.captured:
            self.line("stq", stream)

    def function(self):
        stream = self.stream()
        if stream is None:
            return
        self.order(stream, ("l", stream))
        self.line("cb" if not self.captured and self.r.random() < 0.3 else "hfn", stream, stream,
                  self.r.randrange(1000))

    def read_log(self):
        stream = self.pick(self.streams)
        if stream is not None and not self.captured:
            self.order(IDLE, ("l", stream))
            self.line("log", stream)

    def sync(self):
        if self.captured and self.r.random() < 0.9:
            return
        stream = self.pick(self.streams)
        if stream is not None and self.r.random() < 0.7:
            self.sync_stream(stream)
        else:
            self.line("csync")
            if not self.captured:
                self.last.clear()

    def capture(self):
        stream = self.pick(self.streams)
        if self.captured:
            stream, uses = self.captured
            number = self.r.randrange(GRAPHS)
            if number in self.graphs:
                self.line("gd", number)
                self.drop_nodes(number)
            self.captured = None
            self.line("cape", stream, number)
            self.graphs[number] = None if "dead" in uses else uses
        elif stream is not None:
            self.line("cap", stream, self.r.choice([0, 1, 2]))
            self.captured = (stream, set())

    def drop_nodes(self, graph):
        self.nodes = {n: g for n, g in self.nodes.items() if g != graph}
        self.tails.pop(graph, None)

    def build(self):
        number = self.pick(self.graphs)
        if number is None or (number not in self.tails and self.r.random() < 0.5):
            number = self.free_slot(self.graphs, GRAPHS)
            if number is None:
                return
            self.line("gnew", number, 0)
            self.graphs[number] = set()
            self.tails[number] = -1
        node = self.free_slot(self.nodes, NODES)
        if node is None or number not in self.tails:
            return
        uses, dev = self.graphs[number], self.pick(self.devs)
        if self.r.random() < 0.6 or dev is None:
            self.line("ghost", node, number, self.tails[number], 8 + number, self.r.randrange(1000))
            if uses is not None:
                uses.add(("l", 8 + number))
        else:
            self.line("gset", node, number, self.tails[number], dev, self.devs[dev][0],
                      self.r.randrange(256), 0)
            if uses is not None:
                uses.add(("d", dev))
        self.nodes[node] = number
        self.tails[number] = node

    def graph(self):
        number, what = self.pick(self.graphs), self.r.random()
        exec_, stream = self.pick(self.execs), self.stream()
        if number is None:
            return
        if what < 0.25:
            slot = self.free_slot(self.execs, GRAPHS)
            if slot is None:
                slot = self.r.randrange(GRAPHS)
                self.line("xd", slot)
            self.line("inst", slot, number)
            uses = self.graphs[number]
            self.execs[slot] = set(uses) if uses is not None else None
        elif what < 0.6 and exec_ is not None and stream is not None and not self.captured:
            uses = self.execs[exec_]
            if uses is not None:
                self.order(stream, *sorted(uses))
                self.line("gl", exec_, stream)
        elif what < 0.66:
            self.line("gasks", number)
        elif what < 0.72:
            self.line("gd", number)
            del self.graphs[number]
            self.drop_nodes(number)
        elif what < 0.76 and exec_ is not None:
            self.line("xd", exec_)
            del self.execs[exec_]
        elif what < 0.82 and exec_ is not None:
            self.line("upd", exec_, number)
            # Updated or not: it may use what either did.
            uses, old = self.graphs[number], self.execs[exec_]
            self.execs[exec_] = None if uses is None or old is None else uses | old
        elif what < 0.86:
            slot = self.free_slot(self.graphs, GRAPHS)
            if slot is not None:
                self.line("gcl", slot, number)
                uses = self.graphs[number]
                self.graphs[slot] = set(uses) if uses is not None else None
        elif self.nodes and self.r.random() < 0.5:
            node = self.pick(self.nodes)
            self.line("nset", node, 8 + self.nodes[node], self.r.randrange(1000))
        elif self.nodes and exec_ is not None:
            node = self.pick(self.nodes)
            log = ("l", 8 + self.nodes[node])
            self.line("xset", exec_, node, log[1], self.r.randrange(1000))
            if self.execs[exec_] is not None:
                self.execs[exec_].add(log)

    def wrong(self):
        self.line("bad", self.r.randrange(BAD), 15)

    def other_thread(self):
        self.thread = self.r.randrange(3)
        self.line("cur", 0)

    def array(self):
        if self.captured:
            return
        number, host = self.free_slot(self.arrays, 4), self.pick(self.hosts)
        if number is not None and self.r.random() < 0.4:
            width = self.r.choice([64, 1000, 30000])
            self.line("ar", number, width)
            self.arrays[number] = width
            if host is None:
                return
        number = self.pick(self.arrays)
        if number is None or host is None:
            return
        n = min(self.arrays[number], self.hosts[host][0])
        self.order(IDLE, ("h", host))
        if self.r.random() < 0.1:
            self.line("ard", number)
            del self.arrays[number]
        else:
            self.line("h2a", number, 0, host, 0, n)
            self.line("a2h", number, 0, host, 0, n)

    def end(self):
        if self.captured:
            self.capture()
        self.line("csync")
        self.last.clear()
        for number in sorted(self.devs):
            self.line("dhash", number)
        for number in sorted(self.hosts):
            self.line("hhash", number)
        for number in range(16):
            self.line("log", number)

    def run(self):
        self.line("ctx", 0, 0, 0)
        if self.hostile:
            self.line("settle", 1)
        for _ in range(2):
            self.new_stream()
            self.new_dev()
            self.new_host()
        steps = [(self.copy, 22), (self.on_card, 18), (self.function, 6), (self.read_log, 3),
                 (self.event, 8), (self.new_dev, 5), (self.end_dev, 3), (self.new_host, 4),
                 (self.end_host, 2), (self.touch_host, 4), (self.rect, 5), (self.ask, 6),
                 (self.sync, 5), (self.new_stream, 2), (self.end_stream, 1), (self.capture, 4),
                 (self.build, 5), (self.graph, 14), (self.wrong, 2), (self.other_thread, 3),
                 (self.array, 3)]
        choices, weights = [s for s, _ in steps], [w for _, w in steps]
        quiet = {self.copy, self.on_card, self.function, self.build, self.graph, self.capture,
                 self.rect}
        while len(self.lines) < self.calls:
            step = self.r.choices(choices, weights)[0]
            if self.captured and step == self.wrong:
                continue
            if self.hostile or not self.captured or step in quiet:
                step()
        self.end()
        return self.lines


def program(seed, calls=300):
    return Model(seed, calls).run()
