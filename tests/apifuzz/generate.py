# SPDX-License-Identifier: Apache-2.0
"""Random programs of driver calls, the same for the same seed.

The generator keeps a model of what the program has: which objects live in which context, which
stream last used which memory. It orders what CUDA does not order by itself, so that two runs of a
program have to give the same bytes; what a call answers is not modelled, and calls that must fail
are among them.

Between "fork" and "join" threads make their calls at the same time. They share contexts, and
nothing else: in a section a thread has those objects whose number, divided by the number of
threads, leaves its own.
"""

import random

from generate_more import More

SIZES = [4, 64, 256, 1000, 4096, 16388, 65536, 70000, 262144, 1 << 20, 3 << 20]
STREAMS, EVENTS, DEVS, HOSTS, GRAPHS, NODES = 10, 8, 14, 9, 7, 12
CONTEXTS, PRIMARY = 4, 8  # numbers of those that are created, and of the first card's primary one
GRAPH_LOGS = 12           # the log of a stream has its number, that of a graph so much more
BAD = 20
RELAXED = 2               # a mode of captures
IDLE = None


def of_pool(size, number):
    """Between a half of @size and all of it, in words: a block that was freed may then be
    handed out for less than it has."""
    return size - size // 64 * 4 * (number % 8)


class Thing:
    """An object: the number of its context, and what is known of it."""

    records = None  # of a graph: the event that its last node records
    nothing = False  # of a graph: a copy of no bytes was captured, of which drivers make what they want

    def __init__(self, ctx, size=0, kind="", uses=None):
        self.ctx, self.size, self.kind, self.uses = ctx, size, kind, uses


def legacy(ctx):
    """The default stream of a context, which streams of flag 1 do not wait for. Fills, copies up
    and copies on the card that have no stream may return before they are done: what they wrote
    belongs to it."""
    return -1 - ctx


def written(stream):
    return max(stream, -1)


class Model(More):
    DEVS, SIZES, thing, of_pool = DEVS, SIZES, Thing, staticmethod(of_pool)

    def __init__(self, seed, calls, cards):
        self.r = random.Random(seed)
        self.lines = []
        self.calls, self.cards = calls, cards
        # Captures are broken on purpose, and every error is asked for at once; or neither.
        self.hostile = seed % 4 == 0
        self.thread = 0
        self.ctxs = {}      # number -> card
        self.stacks = {t: [] for t in range(4)}
        self.streams, self.events, self.devs, self.hosts = {}, {}, {}, {}
        self.arrays, self.execs = {}, {}
        self.graphs = {}    # uses: a set of memory and logs; None: must not be launched
        self.nodes = {}     # number -> graph
        self.node_kinds = {}  # number -> which of those that More adds
        self.recorded = {}    # event -> (stream, uses) of the graph that recorded it last
        self.pools = {}     # number -> card
        self.unclear = set()  # those whose largest use is not compared
        self.tails = {}     # graph -> its last node
        self.last = {}      # memory or log -> stream whose work uses it
        self.captured = None  # (stream, uses)
        self.nothing = False  # it has a copy of no bytes
        self.begun = {}       # stream that captures -> the thread that has to end it
        self.share = None     # (which, of how many) threads, in a section
        self.captures = True  # not in a section whose threads wait for contexts

    # -- lines ---------------------------------------------------------------------------

    def line(self, *words):
        self.lines.append(" ".join(str(word) for word in (self.thread, *words)))

    @property
    def ctx(self):
        return self.stacks[self.thread][-1]

    def in_ctx(self, ctx, *words):
        """A call in that context, whatever the current one is."""
        if ctx == self.ctx:
            self.line(*words)
        else:
            self.line("push", ctx)
            self.line(*words)
            self.line("pop")

    def ctx_of(self, stream):
        return self.streams[stream].ctx if stream >= 0 else -1 - stream

    def card_of(self, stream):
        return self.ctxs[self.ctx_of(stream)]

    def sync_stream(self, stream):
        if stream >= 0:
            self.line("sts", stream)
        else:
            self.in_ctx(self.ctx_of(stream), "sts", -1)
        if not self.captured:  # else it may be refused
            self.last = {w: s for w, s in self.last.items() if s != stream}

    def sync_ctx(self, ctx):
        """Wait for a context; in a section, for all of it but what other threads have there."""
        self.in_ctx(ctx, "csync")
        if self.captured:  # it is refused
            return
        self.last = {w: s for w, s in self.last.items()
                     if not (self.mine(w[1]) and self.ctx_of(s) == ctx)}

    def order(self, stream, *uses):
        """Everything that @uses has before @stream, or (IDLE) is over."""
        if self.captured and stream == self.captured[0]:
            self.captured[1].update(uses)
            return
        for what in uses:
            before = self.last.get(what, IDLE)
            if before is IDLE or before == stream:
                continue
            event = self.pick(self.events, self.ctx_of(before))
            if stream is not IDLE and event is not None and self.r.random() < 0.5:
                self.recorded.pop(event, None)
                self.in_ctx(self.ctx_of(before), "evr", event, written(before))
                self.line("evw", written(stream), event)
            else:
                self.sync_stream(before)
        for what in uses:
            if stream is IDLE:
                self.last.pop(what, None)
            else:
                self.last[what] = stream
            for _, of_graph in self.recorded.values():
                of_graph.discard(what)  # there is later work with it

    def order_copy(self, stream, dev, host, down, letter="d"):
        """A copy without a stream is over for the host, and on the card if it goes down. Pageable
        memory is read or written during the call, whatever its stream still has to do: a graph
        that copies to such memory must have ended."""
        if not self.captured and self.hosts[host].kind == "hm":
            self.order(IDLE, ("h", host))
        if stream >= 0:
            self.order(stream, (letter, dev), ("h", host))
        else:
            self.order(IDLE, ("h", host), *[(letter, dev)] if down else [])
            if not down:
                self.order(stream, (letter, dev))

    def forget(self, what):
        """@what is gone: graphs that use it are not launched any more."""
        self.last.pop(what, None)
        for table in self.graphs, self.execs:
            for thing in table.values():
                if thing.uses is not None and what in thing.uses:
                    thing.uses = None
        if self.captured and what in self.captured[1]:
            self.captured[1].add("dead")

    # -- choices -------------------------------------------------------------------------

    def mine(self, number):
        return not self.share or number % self.share[1] == self.share[0]

    def pick(self, table, ctx=-1):
        """One of the current context, or of @ctx, or (None) of any."""
        ctx = self.ctx if ctx == -1 else ctx
        return self.one([n for n, thing in table.items()
                         if self.mine(n) and ctx in (None, thing.ctx)])

    def one(self, numbers):
        return self.r.choice(sorted(numbers)) if numbers else None

    def free_slot(self, table, n):
        return self.one([i for i in range(n) if i not in table and self.mine(i)])

    def stream(self):
        return self.captured[0] if self.captured else self.pick(self.streams)

    def stream_or_none(self, odds):
        """A stream, or now and then the call without one."""
        if self.captured or self.r.random() < odds:
            return self.stream()
        return legacy(self.ctx)

    def sub(self, size, step=1):
        """An offset and a length inside @size."""
        off = self.r.randrange(0, size // step) * step if self.r.random() < 0.4 else 0
        n = self.r.randrange(0, size - off + 1) if self.r.random() < 0.4 else size - off
        return off, max(step, n // step * step)

    # -- contexts ------------------------------------------------------------------------

    def enter_ctx(self, number):
        """The current context is another one."""
        stack = self.stacks[self.thread]
        what = self.r.random()
        if what < 0.5 or len(stack) > 3:
            self.line("cur", number)
            stack[-1] = number
        else:
            self.line("push", number)
            stack.append(number)

    def new_ctx(self):
        card = self.r.randrange(self.cards)
        number = self.one([i for i in range(CONTEXTS) if i not in self.ctxs])
        if self.r.random() < 0.3 and PRIMARY + card not in self.ctxs:
            number = PRIMARY + card
            self.line("pret", number, card)
            self.ctxs[number] = card
            self.enter_ctx(number)
        elif number is not None and len(self.stacks[self.thread]) < 4:
            self.line("ctx", number, self.r.choice([0, 0, 1, 4, 8]), card)
            self.ctxs[number] = card
            self.stacks[self.thread].append(number)
        else:
            return
        self.new_stream()
        self.new_dev()

    def end_ctx(self):
        number = self.one([c for c in self.ctxs if c != 0])
        if number is None or any(c == number for c in self.stacks[self.thread][:-1]):
            return
        # Its memory may be in use by streams of other contexts, which its end does not wait for.
        self.order(IDLE, *sorted(w for w, s in self.last.items() if self.ctx_of(s) != number and
                                 self.ctx_of_memory(w) == number))
        others = [w for w, s in self.last.items() if self.ctx_of(s) == number and
                  not (w[0] == "d" and self.devs[w[1]].ctx == number)]
        if others or self.r.random() < 0.6:
            self.sync_ctx(number)
        card = self.ctxs.pop(number)
        if number < PRIMARY:
            self.line("ctxd", number)
        elif self.r.random() < 0.3:
            self.line("prst", number, card)
            self.line("prel", number, card)
        else:
            self.line("prel", number, card)
        self.drop_ctx(number)
        self.leave_dead(popped=number < PRIMARY)

    def ctx_of_memory(self, what):
        table = {"d": self.devs, "h": self.hosts, "a": self.arrays}.get(what[0], {})
        return table[what[1]].ctx if what[1] in table else None

    def drop_ctx(self, ctx):
        for letter, table in ("d", self.devs), ("", self.streams), ("e", self.events), \
                ("a", self.arrays), ("", self.execs):
            for number in [n for n, thing in table.items() if thing.ctx == ctx]:
                del table[number]
                if letter:
                    self.forget((letter, number))
        for number in [n for n, thing in self.hosts.items() if thing.ctx == ctx]:
            if self.hosts[number].kind == "ha":
                del self.hosts[number]
                self.forget(("h", number))
            else:  # its registration went, not the memory
                self.hosts[number].kind, self.hosts[number].ctx = "hm", None
        for number in [n for n, thing in self.graphs.items() if thing.ctx == ctx]:
            del self.graphs[number]
            self.drop_nodes(number)
        self.last = {w: s for w, s in self.last.items()
                     if s >= 0 and s in self.streams or s < 0 and -1 - s != ctx}
        for thread, stack in self.stacks.items():
            if thread != self.thread:  # they have it still, and set another before they go on
                self.stacks[thread] = [c if c != ctx else -1 for c in stack]

    def without_ctx(self):
        for word in self.r.sample([("csync",), ("da", 30, 64), ("st", 30, 0), ("ev", 30, 0),
                                   ("ha", 30, 64, 0)], 2):
            self.line(*word)

    def leave_dead(self, popped):
        """The current context of the thread may be gone: asked, and another one set."""
        stack = self.stacks[self.thread]
        if stack[-1] in self.ctxs:
            return
        if popped:
            stack.pop()
        if not stack or stack[-1] not in self.ctxs:
            self.without_ctx()
            number = self.one(list(self.ctxs))
            self.line("cur", number)
            stack[-1:] = [number]

    def switch_ctx(self):
        number = self.one(list(self.ctxs))
        what = self.r.random()
        if what < 0.2:
            self.line("cask")
        elif what < 0.4 and len(self.stacks[self.thread]) > 1:
            self.line("pop")
            self.stacks[self.thread].pop()
            if self.ctx not in self.ctxs:
                self.leave_dead(popped=False)
        elif what < 0.45:
            self.line("pask", self.r.randrange(self.cards))
        else:
            self.enter_ctx(number)

    def contexts(self):
        if self.captured or self.share:
            return
        what = self.r.random()
        if what < 0.25:
            self.new_ctx()
        elif what < 0.4:
            self.end_ctx()
        else:
            self.switch_ctx()

    def other_thread(self):
        if self.share:
            return
        self.go_to(self.r.randrange(3))

    def go_to(self, thread, ctx=None):
        """Work in a capture is of one card: a graph is of one server, and cards may be of several."""
        self.thread = thread
        stack = self.stacks[thread]
        ctx = self.one([c for c, card in self.ctxs.items()
                        if not self.captured or card == self.card_of(self.captured[0])]) \
            if ctx is None else ctx
        if stack and stack[-1] not in self.ctxs:  # another thread destroyed it
            self.without_ctx()
        self.line("cur", ctx)
        stack[-1:] = [ctx]

    # -- streams and events --------------------------------------------------------------

    def new_stream(self):
        number = self.free_slot(self.streams, STREAMS)
        if number is not None:
            kind = self.r.choice([1, 1, 1, 0])
            self.line("st", number, kind)
            self.begun.pop(number, None)
            self.streams[number] = Thing(self.ctx, kind=kind)

    def end_stream(self):
        number = self.pick(self.streams)
        if number is None or (self.captured and number == self.captured[0]):
            return
        if len([s for s in self.streams.values() if s.ctx == self.ctx]) < 2:
            return
        if self.r.random() < 0.5 or not self.may_wait():
            self.sync_stream(number)
            self.line("std", number)
        else:  # with work in it: the context's end of work is awaited before the memory is used
            self.line("std", number)
            self.sync_ctx(self.ctx)
        del self.streams[number]

    def may_wait(self):
        """Whether cuCtxSynchronize meets no capture of a thread that runs at the same time."""
        return not (self.share and self.captures)

    def event(self):
        number = self.free_slot(self.events, EVENTS)
        stream = self.stream()
        if number is not None and self.r.random() < 0.5:
            self.line("ev", number, self.r.choice([0, 1, 2, 3]))
            self.events[number] = Thing(self.ctx)
            return
        number = self.pick(self.events)
        if number is not None and stream is not None:
            what = self.r.choice(["evr", "evs", "evq", "evw", "evd"])
            if what == "evr":
                self.recorded.pop(number, None)
                self.line("evr", number, stream)
            elif what == "evw":
                self.line("evw", stream, number)
            else:
                self.line(what, number)
                if what == "evd":
                    del self.events[number]
                    self.forget(("e", number))
                elif what == "evs":
                    self.waited(number)

    # -- memory --------------------------------------------------------------------------

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
            size = of_pool(size, number)
            self.line("daa", number, size, stream)
        else:
            self.line(kind, number, size)
            stream = legacy(self.ctx)
        self.line("set8", number, 0, size, self.r.randrange(256), written(stream))
        self.last[("d", number)] = stream
        self.devs[number] = Thing(self.ctx, size, kind)

    def end_dev(self):
        number = self.pick(self.devs)
        if number is None or self.captured:
            return
        kind, stream = self.devs[number].kind, self.pick(self.streams)
        if kind == "vm":
            self.order(IDLE, ("d", number))
            self.line("vmd", number)
            del self.devs[number]
            self.forget(("d", number))
            return
        if kind == "daa" and stream is not None and self.r.random() < 0.7:
            self.order(stream, ("d", number))
            self.line("dfa", number, stream)
        else:
            # Work of other contexts is not waited for, and frees of a pool wait for nothing.
            before = self.last.get(("d", number), IDLE)
            if kind == "daa" or (before is not IDLE and self.ctx_of(before) != self.ctx):
                self.order(IDLE, ("d", number))
            self.line("df", number)
            if kind == "daa":
                self.unclear.update(self.pools)
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
        self.hosts[number] = Thing(self.ctx, size, kind)
        self.line("hfill", number, self.r.randrange(1000))

    def end_host(self):
        number = self.pick(self.hosts, None)
        if number is None or self.captured:
            return
        kind = self.hosts[number].kind
        if self.r.random() < 0.7 or self.hosts[number].ctx != self.ctx:
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
        number = self.pick(self.hosts, None)
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

    # -- copies, fills, kernels ----------------------------------------------------------

    def copy(self):
        dev, host, stream = self.pick(self.devs), self.pick(self.hosts, None), \
            self.stream_or_none(0.7)
        if None in (dev, host, stream):
            return
        limit = min(self.devs[dev].size, self.hosts[host].size)
        off, n = self.sub(limit)
        # More than the memory has. Beside a capture, which something else may have made invalid or
        # which may forbid the copy, CUDA does not say which of the two errors comes. Behind mapped
        # memory may be other that is mapped, until another thread unmaps it.
        if self.r.random() < 0.04 and not self.captured and not self.begun and \
                not (self.share and self.devs[dev].kind == "vm"):
            off, n = self.devs[dev].size - limit // 2, limit
        if self.r.random() < 0.04:
            off, n = off if off < limit else 0, 0
            self.nothing = True
        what = self.r.choice(["h2d", "h2d", "d2h", "d2h", "uni"])
        self.order_copy(stream, dev, host, what == "d2h")
        self.line(what, dev, off, host,
                  self.hosts[host].size - limit if n <= limit and off + n <= limit
                  and self.r.random() < 0.3 else 0, n, written(stream))

    def rect(self):
        dev, host, stream = self.pick(self.devs), self.pick(self.hosts, None), \
            self.stream_or_none(0.6)
        if None in (dev, host, stream):
            return
        width = self.r.choice([1, 7, 64, 100, 1024])
        pitch = width + self.r.choice([0, 0, 1, 28])
        height = min(self.hosts[host].size // width, self.devs[dev].size // pitch, 300)
        if not height:  # drivers differ about copies of nothing
            return
        what = self.r.choice(["rect", "tcer"])
        self.order_copy(stream, dev, host, what == "tcer")
        self.line(what, dev, host, width, height, pitch, written(stream))

    def on_card(self):
        a, b = self.pick(self.devs), self.pick(self.devs)
        stream = self.stream()
        if a is None or stream is None:
            return
        size = min(self.devs[a].size, self.devs[b].size)
        what = self.r.random()
        if what < 0.45 and not self.captured and self.r.random() < 0.3:
            stream = legacy(self.ctx)
        if what < 0.25 and a != b:
            self.order(stream, ("d", a), ("d", b))
            off, n = self.sub(size)
            self.line("d2d", a, off, b, off, n if self.r.random() < 0.96 else 0, written(stream))
        elif what < 0.45:
            off, n = self.sub(self.devs[a].size, 4)
            self.order(stream, ("d", a))
            if self.r.random() < 0.5:
                self.line("set8", a, off, n, self.r.randrange(256), written(stream))
            else:
                self.line("set32", a, off, n // 4, self.r.randrange(1 << 31), written(stream))
        elif what < 0.5:
            self.line("idles", stream, self.r.randrange(1, 40),
                      self.r.choice([1, 1, 1, 3, 0, 65535, 65536]) if self.r.random() < 0.3 else 1,
                      self.r.choice([1, 2, 64, 65]), self.r.choice([0, 0, 0, 100, 49152, 49153]))
        elif what < 0.6:
            self.order(stream, ("d", a))
            self.line("steps", a, min(self.devs[a].size // 4, self.r.choice([1, 64, 1000])),
                      self.r.randrange(1 << 16), stream, self.r.randrange(2, 40))
        elif what < 0.8 or a == b:
            self.order(stream, ("d", a))
            block = self.r.choice([32, 128, 1024, 1, 77, 1025 if self.r.random() < 0.2 else 256])
            # All of a large memory is a second's work for a busy software card.
            n = min(self.devs[a].size // 4, self.r.choice([64, 1000, 4096, 1 << 14, 1 << 14])
                    if self.r.random() < 0.97 else 1 << 18)
            self.line("step", a, n if block > 1 else min(64, n), self.r.randrange(1 << 16), stream,
                      block)
        else:
            self.order(stream, ("d", a), ("d", b))
            self.line("mix", a, b, min(size // 4, self.r.choice([100, 4096, 1 << 14])), stream)

    def peer(self):
        """Between contexts, and cards."""
        a, b, stream = self.pick(self.devs, None), self.pick(self.devs, None), \
            self.stream_or_none(0.7)
        if None in (a, b, stream) or a == b or self.captured:
            return
        if stream < 0:  # what either context does is waited for by neither default stream
            self.order(IDLE, ("d", a), ("d", b))
        self.order(stream, ("d", a), ("d", b))
        if self.r.random() < 0.3 and self.peer_box(a, b, stream):
            return
        off, n = self.sub(min(self.devs[a].size, self.devs[b].size))
        self.line("peer", a, off, b, off, n, written(stream))

    def ask(self):
        dev, stream = self.pick(self.devs), self.stream()
        what = self.r.random()
        if what < 0.3 and dev is not None and not self.captured:
            self.order(IDLE, ("d", dev))
            self.line("dhash", dev)
        elif what < 0.5 and dev is not None:
            self.line("dasks", dev, self.r.randrange(self.devs[dev].size))
        elif what < 0.7 and stream is not None:
            self.line("sti", stream)
        elif stream is not None and not self.captured:
            self.line("stq", stream)

    def function(self):
        """Mostly into the log of its stream. Another stream's is ordered like memory, so that the order
        of functions that events put behind each other is compared, too."""
        stream, host = self.stream(), self.pick(self.hosts, None)
        if stream is None:
            return
        if host is not None and self.r.random() < 0.3:  # what copies behind it read
            self.order(stream, ("h", host))
            self.line("hwr", stream, host, self.r.randrange(1000))
            return
        log = stream if self.r.random() < 0.7 else self.pick(self.streams, None)
        self.order(stream, ("l", log))
        self.line("cb" if not self.captured and self.r.random() < 0.3 else "hfn", stream, log,
                  self.r.randrange(1000))

    def read_log(self):
        stream = self.pick(self.streams)
        if stream is not None and not self.captured:
            self.order(IDLE, ("l", stream))
            self.line("log", stream)

    def sync(self):
        if self.captured and (self.share or self.r.random() < 0.9):
            return
        stream = self.pick(self.streams)
        if stream is not None and (self.r.random() < 0.7 or not self.may_wait()):
            self.sync_stream(stream)
        elif self.captured:
            self.line("csync")
        elif self.may_wait():
            self.sync_ctx(self.ctx)

    # -- graphs --------------------------------------------------------------------------

    def capture(self):
        if self.captured:
            stream, uses = self.captured
            number = self.one([i for i in range(GRAPHS) if self.mine(i)])
            if number in self.graphs:
                self.line("gd", number)
                self.drop_nodes(number)
            self.captured = None
            self.line("cape", stream, number)
            if self.begun.get(stream) == self.thread:
                del self.begun[stream]
            elif stream in self.begun:
                self.still_captured(stream)
            self.graphs[number] = Thing(self.ctx, uses=None if "dead" in uses else uses)
            self.graphs[number].nothing = self.nothing
            return
        stream = self.pick(self.streams)
        if stream is None or not self.captures:
            return
        # The others' calls must not be forbidden, nor their default streams meet the capture.
        if self.share and self.streams[stream].kind != 1:
            return
        if self.hostile:  # waits in it are refused, and would leave work behind
            self.all_idle()
        mode = self.r.choice([1, 2] if self.share else [0, 1, 2])
        self.line("cap", stream, mode)
        self.captured = (stream, set())
        self.nothing = False
        if mode != RELAXED:
            self.begun.setdefault(stream, self.thread)

    def still_captured(self, stream):
        """The capture is another thread's to end. Waits that it refuses would leave work behind
        that the model takes for done, so it does not last."""
        for _ in range(self.r.randrange(4)):
            self.line(*self.r.choice([("csync",), ("sti", stream), ("sts", stream), ("da", 30, 64),
                                      ("cape", stream, 30), ("ha", 30, 64, 0), ("sti", -1)]))
        self.end_captures()

    def drop_nodes(self, graph):
        """The graph is gone. Numbers that another thread would give anew stay taken meanwhile."""
        for number, node in list(self.nodes.items()):
            if node.kind == graph:
                if self.mine(number):
                    del self.nodes[number]
                else:
                    node.kind = None
        self.tails.pop(graph, None)

    def build(self):
        number = self.pick(self.graphs)
        if number is None or (number not in self.tails and self.r.random() < 0.5):
            number = self.free_slot(self.graphs, GRAPHS)
            if number is None:
                return
            self.line("gnew", number, 0)
            self.graphs[number] = Thing(self.ctx, uses=set())
            self.tails[number] = -1
        node = self.free_slot(self.nodes, NODES)
        if node is None or number not in self.tails:
            return
        if self.tails[number] >= 0 and not self.mine(self.tails[number]):
            return
        uses, dev = self.graphs[number].uses, self.pick(self.devs)
        log, what = ("l", GRAPH_LOGS + number), self.r.random()
        self.node_kinds.pop(node, None)
        if what < 0.4 and dev is not None:
            more = self.node(node, number, dev)
            if not more and more is not None:
                return
            self.graphs[number].uses = None if uses is None or more is None else uses | more
        elif what < 0.48 and self.event_node(node, number):
            pass
        elif what < 0.7 or dev is None:
            self.line("ghost", node, number, self.tails[number], log[1], self.r.randrange(1000))
            if uses is not None:
                uses.add(log)
        else:
            self.line("gset", node, number, self.tails[number], dev, self.devs[dev].size,
                      self.r.randrange(256), self.ctx)
            if uses is not None:
                uses.add(("d", dev))
        self.nodes[node] = Thing(self.ctx, kind=number)
        self.graphs[number].records = self.node_kinds.get(node, ("", None))[1]
        self.tails[number] = node

    def may_be_unsafe(self):
        """Whether no capture of the thread forbids what is unsafe, or programs want to see it."""
        return self.hostile or not self.captured or self.captured[0] not in self.begun

    def instantiate(self, number):
        if not self.may_be_unsafe():
            return
        slot = self.free_slot(self.execs, GRAPHS)
        if slot is None:
            slot = self.pick(self.execs)
            if slot is None:
                return
            self.line("xd", slot)
        self.line("inst", slot, number)
        uses = self.graphs[number].uses
        self.execs[slot] = Thing(self.ctx, uses=set(uses) if uses is not None else None)
        self.execs[slot].records = self.graphs[number].records
        self.execs[slot].nothing = self.graphs[number].nothing

    def graph(self):
        number, what = self.pick(self.graphs), self.r.random()
        exec_, stream = self.pick(self.execs), self.stream()
        if number is None:
            return
        if what < 0.25:
            self.instantiate(number)
        elif what < 0.6 and exec_ is not None and stream is not None and not self.captured:
            uses = self.execs[exec_].uses
            if uses is not None and all(self.mine(what[1]) for what in uses):
                self.order(stream, *sorted(uses))
                self.line("gl", exec_, stream)
                self.launched(self.execs[exec_], stream)
        elif what < 0.66:
            self.line("gasks", number)
        elif what < 0.72:
            self.line("gd", number)
            del self.graphs[number]
            self.drop_nodes(number)
        elif what < 0.76 and exec_ is not None and self.may_be_unsafe():
            self.line("xd", exec_)
            del self.execs[exec_]
        elif what < 0.82 and exec_ is not None:
            if self.graphs[number].nothing or self.execs[exec_].nothing:
                return
            self.line("upd", exec_, number)
            self.execs[exec_].records = None
            # Updated or not: it may use what either did.
            uses, old = self.graphs[number].uses, self.execs[exec_].uses
            self.execs[exec_].uses = None if uses is None or old is None else uses | old
        elif what < 0.86:
            slot = self.free_slot(self.graphs, GRAPHS)
            if slot is not None:
                self.line("gcl", slot, number)
                uses = self.graphs[number].uses
                self.graphs[slot] = Thing(self.ctx, uses=set(uses) if uses is not None else None)
                self.graphs[slot].nothing = self.graphs[number].nothing
        else:
            self.change_node(exec_)

    def change_node(self, exec_):
        node = self.pick(self.nodes)
        if node is None or self.nodes[node].kind is None or not self.mine(self.nodes[node].kind):
            return
        log = ("l", GRAPH_LOGS + self.nodes[node].kind)
        if node in self.node_kinds and self.r.random() < 0.8:
            self.change_added(node, exec_)
        elif self.r.random() < 0.5:
            self.line("nset", node, log[1], self.r.randrange(1000))
        elif exec_ is not None:
            self.line("xset", exec_, node, log[1], self.r.randrange(1000))
            if self.execs[exec_].uses is not None:
                self.execs[exec_].uses.add(log)

    # -- the rest ------------------------------------------------------------------------

    def wrong(self):
        what = self.r.randrange(BAD)
        if self.share and what in (5, 19):
            return  # what others have may be among them
        number = PRIMARY if what == 16 else self.r.randrange(EVENTS)
        if what == 19:
            self.recorded.pop(number, None)
        self.line("bad", what, number, self.r.randrange(STREAMS))

    # -- threads at the same time --------------------------------------------------------

    def all_idle(self):
        for ctx in sorted(self.ctxs):
            self.sync_ctx(ctx)
        self.last.clear()

    def end_captures(self):
        """Those that a thread was not allowed to end. They would forbid the threads of a section
        calls until one of them destroys the stream."""
        begun = sorted(stream for stream in self.begun if stream in self.streams)
        self.begun.clear()
        for stream in begun:
            self.in_ctx(self.streams[stream].ctx, "std", stream)
        for stream in begun:
            self.sync_ctx(self.streams[stream].ctx)
            del self.streams[stream]

    def section(self):
        if self.captured or self.share:
            return
        threads = self.r.sample(range(4), self.r.choice([2, 3, 4]))
        self.end_captures()
        self.all_idle()
        for thread in threads:
            self.go_to(thread)
        self.captures = not self.hostile and self.r.random() < 0.5
        self.line("fork")
        for i, self.thread in enumerate(threads):
            self.share = i, len(threads)
            end = len(self.lines) + self.r.randrange(10, 40)
            while len(self.lines) < end:
                self.step()
            if self.captured:
                self.capture()
        self.share, self.captures = None, True
        self.unclear.update(self.pools)
        self.nodes = {n: node for n, node in self.nodes.items() if node.kind is not None}
        self.line("join")
        self.all_idle()

    # -- programs ------------------------------------------------------------------------

    STEPS = [("copy", 22), ("on_card", 18), ("function", 6), ("read_log", 3), ("event", 8),
             ("new_dev", 5), ("end_dev", 3), ("new_host", 4), ("end_host", 2), ("touch_host", 4),
             ("rect", 5), ("ask", 6), ("sync", 5), ("new_stream", 2), ("end_stream", 1),
             ("capture", 4), ("build", 5), ("graph", 14), ("wrong", 2), ("other_thread", 3),
             ("array", 7), ("contexts", 6), ("peer", 4), ("section", 1), ("mapped", 2), ("pool", 6),
             ("hint", 2), ("host_managed", 2), ("host_step", 4), ("box", 4)]
    # What keeps a capture whole.
    QUIET = {"copy", "on_card", "function", "build", "graph", "capture", "rect",
             "host_step", "box", "array"}
    NAMES, WEIGHTS = [name for name, _ in STEPS], [weight for _, weight in STEPS]

    def step(self):
        name = self.r.choices(self.NAMES, self.WEIGHTS)[0]
        if self.captured and name == "wrong":
            return
        if self.hostile or not self.captured or name in self.QUIET:
            getattr(self, name)()

    def end(self):
        if self.captured:
            self.capture()
        self.end_captures()
        self.all_idle()
        for number in sorted(self.devs):
            self.in_ctx(self.devs[number].ctx, "dhash", number)
        for number in sorted(self.arrays):
            self.in_ctx(self.arrays[number].ctx, "ahash", number)
        for number in sorted(self.hosts):
            self.line("hhash", number)
        for number in range(GRAPH_LOGS + GRAPHS):
            self.line("log", number)

    def run(self):
        self.line("ctx", 0, 0, 0)
        self.ctxs[0] = 0
        self.stacks[0].append(0)
        if self.hostile:
            self.line("settle", 1)
        for _ in range(2):
            self.new_stream()
            self.new_dev()
            self.new_host()
        while len(self.lines) < self.calls:
            self.step()
        self.end()
        return self.lines


def cards_of(seed):
    """How many cards the program of a seed uses."""
    return 1 + seed // 4 % 2


def servers_of(seed):
    """How many servers they can be on."""
    return cards_of(seed)


def program(seed, calls=300, cards=2):
    """The lines of a seed's program, for a machine of so many cards."""
    return Model(seed, calls, min(cards, cards_of(seed))).run()
