# SPDX-License-Identifier: Apache-2.0
"""Steps of programs (generate.py): mapped memory, pools, hints, managed memory that the host touches,
kernels on host memory, boxes, arrays, and nodes that are added to graphs by hand."""

IDLE = None
POOLS, MAPPED, ARRAYS = 3, 4, 6
WIDTHS = [1, 7, 64, 100, 300001]  # of rows; the last one is more than is moved at a time
ADVICE = [1, 2, 3, 4, 5, 6]


class More:
    """What Model has besides; it keeps the objects."""

    def card(self):
        return self.ctxs[self.ctx]

    def filled(self, number, size, kind, stream):
        """Memory is as the driver leaves it, which is anything."""
        self.line("set8", number, 0, size, self.r.randrange(256), max(stream, -1))
        self.last[("d", number)] = stream
        self.devs[number] = self.thing(self.ctx, size, kind)

    def mapped(self):
        number = self.free_slot(self.devs, self.DEVS)
        if self.captured or number is None or \
                sum(dev.kind == "vm" for dev in self.devs.values()) >= MAPPED:
            return
        size = self.r.choice(self.SIZES)
        self.line("vm", number, size, self.card())
        self.filled(number, size, "vm", -1 - self.ctx)

    def pool(self):
        if self.captured or self.share:
            return
        free = self.one([i for i in range(POOLS) if i not in self.pools])
        mine = self.one([i for i, card in self.pools.items() if card == self.card()])
        what = self.r.random()
        if what > 0.5:
            self.laps(mine)
        elif free is not None and (mine is None or what < 0.2):
            self.line("pl", free, self.card())
            self.pools[free] = self.card()
            self.unclear.discard(free)
        elif mine is not None and what < 0.3:
            self.line("pld", mine)  # what is allocated from it stays
            del self.pools[mine]
        elif mine is not None and what < 0.4:
            self.line("pltrim", mine, self.r.choice([0, 1 << 20]))
        elif mine is not None and what < 0.43:
            if self.r.random() < 0.75:
                self.use_of(mine)
            else:
                self.line("plhigh", mine)
                self.unclear.discard(mine)
        elif mine is not None and what < 0.45:
            self.line("plset", self.r.choice([-1, mine]), self.card())
        elif mine is not None:
            number, stream = self.free_slot(self.devs, self.DEVS), self.stream()
            if number is None or stream is None:
                return
            size = self.of_pool(self.r.choice(self.SIZES), number)
            self.line("pla", number, size, mine, stream)
            self.filled(number, size, "daa", stream)

    def use_of(self, pool):
        """What cuMemFree frees in a busy context stays in use at the server until the context is idle,
        so the largest use may be larger there; threads reach theirs in any order."""
        self.line("pluse", pool, int(pool not in self.unclear))

    def laps(self, pool):
        """Blocks of two sizes, or of some between two and their halves, are freed and allocated again, some in another stream."""
        number, stream = self.free_slot(self.devs, self.DEVS), self.stream()
        sizes = self.r.choices(self.SIZES, k=2)
        parts = self.r.random() < 0.5
        for _ in range(self.r.randrange(2, 12)):
            if number is None or stream is None:
                return
            size = self.r.choice(sizes)
            if parts:
                size = self.of_pool(size, self.r.randrange(8))
            if pool is not None and self.r.random() < 0.6:
                self.line("pla", number, size, pool, stream)
            else:
                self.line("daa", number, size, stream)
            self.filled(number, size, "daa", stream)
            if pool is not None and self.r.random() < 0.1:
                self.use_of(pool)
            if parts and self.r.random() < 0.3:
                self.line("past", number)
            if self.r.random() < 0.1:
                return  # it stays
            to = self.stream() if self.r.random() < 0.2 else stream
            self.order(to, ("d", number))
            self.line("dfa", number, to)
            del self.devs[number]
            self.forget(("d", number))
            if self.r.random() < 0.3:
                self.line("sts", stream)

    def managed(self):
        return self.one([n for n, dev in self.devs.items()
                         if dev.kind == "dm" and dev.ctx == self.ctx and self.mine(n)])

    def hint(self):
        number, stream = self.managed(), self.stream()
        if number is None or stream is None or self.captured:
            return
        off, n = self.sub(self.devs[number].size)
        where = self.r.choice([-1, *range(self.cards)])
        if self.r.random() < 0.5:
            self.line("adv", number, off, n, self.r.choice(ADVICE), where)
        else:
            self.order(stream, ("d", number))
            self.line("pre", number, off, n, where, stream)

    def host_managed(self):
        """The host may touch managed memory while no card works."""
        number = self.managed()
        if number is None or self.captured or self.share or self.begun:
            return
        self.all_idle()
        self.line("mhash", number)
        if self.r.random() < 0.7:
            self.line("mfill", number, self.r.randrange(1000))

    def host_step(self):
        stream = self.stream()
        host = self.one([n for n, host in self.hosts.items() if self.mine(n) and
                         host.kind in ("ha", "hr") and host.ctx == self.ctx])
        if host is None or stream is None:
            return
        self.order(stream, ("h", host))
        self.line("hstep", host, min(self.hosts[host].size // 4, 1000), self.r.randrange(1000),
                  stream)

    def box(self):
        dev, host, stream = self.pick(self.devs), self.pick(self.hosts, None), \
            self.stream_or_none(0.6)
        if None in (dev, host, stream):
            return
        width, height, depth = self.r.choice(WIDTHS), self.r.choice([1, 3, 10]), \
            self.r.choice([1, 2, 4])
        if width * height * depth > self.hosts[host].size or \
                (width + 1) * (height + 1) * depth > self.devs[dev].size:
            return
        up = self.r.randrange(2)
        self.order_copy(stream, dev, host, not up)
        self.line("box", dev, host, width, height, depth, up, max(stream, -1))

    # -- arrays --------------------------------------------------------------------------

    def array(self):
        what = self.r.random()
        number = self.free_slot(self.arrays, ARRAYS)
        if not self.captured and number is not None and what < 0.3:
            # A height and a depth of 0 are none; the larger ones, and rows of some of them, are more
            # than what is moved at a time.
            shape = self.r.choice([(64, 0, 0), (1000, 0, 0), (30000, 0, 0), (100000, 0, 0),
                                   (100, 7, 0), (64, 10, 0), (20000, 3, 0), (64, 3, 4), (7, 5, 2)])
            element = self.r.choice([1, 1, 2, 4, 8, 16])
            self.line("ar", number, *shape, self.r.randrange(1, 256), element)
            self.arrays[number] = self.thing(
                self.ctx, (shape[0] * element, max(1, shape[1]), max(1, shape[2])), element)
            self.last[("a", number)] = -1 - self.ctx  # filled without a stream
            return
        number = self.pick(self.arrays)
        if number is None:
            return
        if not self.captured and what < 0.36:
            self.order(IDLE, ("a", number))
            self.line("ard", number)
            del self.arrays[number]
            self.forget(("a", number))
        elif what < 0.8:
            self.array_and_host(number)
        else:
            self.array_and_device(number)

    def array_and_host(self, number):
        host, stream = self.pick(self.hosts, None), self.stream_or_none(0.7)
        if None in (host, stream):
            return
        width, height, depth = self.arrays[number].size
        up = self.r.randrange(2)
        if height > 1 or self.r.random() < 0.3:
            width, height, depth = self.part(number)
            if width * height * depth > self.hosts[host].size:
                return
            self.order_copy(stream, number, host, not up, "a")
            self.line("abox", number, host, width, height, depth, up, max(stream, -1))
            return
        element = self.arrays[number].kind
        if self.hosts[host].size < element:
            return
        off, n = (element * places for places in
                  self.sub(min(width, self.hosts[host].size) // element))
        # Too long, perhaps; in a stream it may be refused with a later call.
        if self.r.random() < 0.03 and stream < 0 and not self.captured and not self.begun:
            n = min(n + self.r.choice([1, element, width]), self.hosts[host].size)
        at = self.r.randrange(self.hosts[host].size - n + 1) if self.r.random() < 0.3 else 0
        self.order_copy(stream, number, host, not up, "a")
        if stream < 0:
            self.line("h2a" if up else "a2h", number, off, host, at, n)
        else:
            self.line("h2aa" if up else "a2ha", number, off, host, at, n, stream)

    def array_and_device(self, number):
        dev, stream = self.pick(self.devs), self.stream_or_none(0.7)
        width, height, depth = self.part(number)
        if None in (dev, stream) or (width + 1) * height * depth > self.devs[dev].size:
            return
        self.order(stream, ("a", number), ("d", dev))
        self.line("adev", number, dev, width, height, depth, self.r.randrange(2), max(stream, -1))

    def part(self, number):
        """Of an array, whole elements."""
        (width, *rest), element = self.arrays[number].size, self.arrays[number].kind
        places, *rest = (self.r.randrange(1, n + 1) if self.r.random() < 0.3 else n
                         for n in (width // element, *rest))
        return [places * element, *rest]

    # -- nodes ---------------------------------------------------------------------------

    def node(self, node, number, dev):
        """Adds one of those that are more than a function or a fill: what it uses."""
        after, what = self.tails[number], self.r.random()
        host = self.pick(self.hosts, None)
        child = self.one([g for g, graph in self.graphs.items() if g != number and
                          self.mine(g) and graph.ctx == self.ctx])
        if what < 0.4:
            self.line("gkern", node, number, after, dev, min(self.devs[dev].size // 4, 1000),
                      self.r.randrange(1000))
            self.node_kinds[node] = "kernel", None
            return {("d", dev)}
        if what < 0.8 and host is not None:
            up = self.r.randrange(2)
            self.line("gcopy", node, number, after, *self.node_copy(dev, host, up))
            self.node_kinds[node] = ("up" if up else "down"), None
            return {("d", dev), ("h", host)}
        if child is not None:
            self.line("gchild", node, number, after, child)
            self.node_kinds[node] = "child", None
            return self.graphs[child].uses
        return set()

    def node_copy(self, dev, host, up):
        n = min(self.devs[dev].size, self.hosts[host].size)
        return dev, host, self.r.randrange(1, n + 1), up, self.ctx

    def event_node(self, node, number):
        """Adds one that records an event, or waits for one; whether there is an event."""
        event = self.pick(self.events)
        if event is None:
            return False
        records = self.r.randrange(2)
        self.line("gev", node, number, self.tails[number], event, records)
        self.node_kinds[node] = ("record", event) if records else ("wait", None)
        if self.graphs[number].uses is not None:
            self.graphs[number].uses.add(("e", event))
        return True

    def launched(self, exec_, stream):
        if exec_.records is not None:
            self.recorded[exec_.records] = stream, set(exec_.uses)

    def waited(self, event):
        """A graph's last node recorded it: what the graph used is over, if nothing came behind it."""
        stream, uses = self.recorded.pop(event, (IDLE, set()))
        for what in uses:
            if self.last.get(what, IDLE) == stream:
                self.last.pop(what)

    def change_added(self, node, exec_):
        kind, _ = self.node_kinds[node]
        dev, host = self.pick(self.devs), self.pick(self.hosts, None)
        event, child = self.pick(self.events), self.pick(self.graphs)
        to = self.r.choice([-1, exec_]) if exec_ is not None else -1
        graph = self.graphs[self.nodes[node].kind]
        if kind == "kernel" and dev is not None:
            self.line("nkern", to, node, dev, min(self.devs[dev].size // 4, 500),
                      self.r.randrange(1000))
            more = {("d", dev)}
        elif kind in ("up", "down") and None not in (dev, host):
            self.line("ncopy", to, node, *self.node_copy(dev, host, int(kind == "up")))
            more = {("d", dev), ("h", host)}
        elif kind in ("record", "wait") and event is not None:
            self.line("nev", to, node, event, int(kind == "record"))
            more = {("e", event)}
        elif kind == "child" and None not in (child, exec_) and \
                self.graphs[child] is not graph:
            to = exec_
            self.line("nchild", to, node, child)
            more = self.graphs[child].uses
        else:
            return
        changed = graph if to < 0 else self.execs[to]
        changed.records = None
        changed.uses = None if changed.uses is None or more is None else changed.uses | more

    def peer_box(self, a, b, stream):
        width, height, depth = self.r.choice(WIDTHS), self.r.choice([1, 3, 10]), \
            self.r.choice([1, 2, 4])
        if width * height * depth > self.devs[b].size or \
                (width + 1) * (height + 1) * depth > self.devs[a].size:
            return False
        self.line("pbox", a, b, width, height, depth, max(stream, -1))
        return True
