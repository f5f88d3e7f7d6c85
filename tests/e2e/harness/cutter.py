# SPDX-License-Identifier: Apache-2.0
"""A relay in front of a server that cuts every connection again and again.

Bytes that it holds, and those in the kernel behind it, are lost with each cut, at
places in the stream that the seed and the machine's speed decide.
"""

import random
import selectors
import socket
import struct
import threading
import time

CHUNK = 1 << 16


class Cutter:
    """Relays 127.0.0.1:.port to @target; cuts all connections every @every seconds."""

    def __init__(self, target, every=0.3, seed=1):
        self.target = target
        self.every = every
        self.random = random.Random(seed)
        self.cuts = 0
        self.refuse = False
        self.pairs = {}
        self.stopping = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.port = self.listener.getsockname()[1]
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def close(self):
        self.stopping = True
        self.thread.join(5)

    def cut(self):
        """Every connection ends now, in the middle of whatever it carries."""
        with self.lock:
            self._cut()

    def _cut(self):
        if self.pairs:
            self.cuts += 1
        for sock in list(self.pairs):
            self._drop(sock)

    def _drop(self, sock):
        peer = self.pairs.pop(sock, None)
        if peer is None:
            return
        self.pairs.pop(peer, None)
        for end in (sock, peer):
            self.selector.unregister(end)
            if self.random.random() < 0.5:  # a reset or an orderly end
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.close()

    def _accept(self):
        near, _ = self.listener.accept()
        if self.refuse:
            near.close()
            return
        try:
            far = socket.create_connection(self.target, timeout=5)
        except OSError:
            near.close()
            return
        for one, other in ((near, far), (far, near)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.settimeout(1)
            self.pairs[one] = other
            self.selector.register(one, selectors.EVENT_READ)

    def _forward(self, sock):
        peer = self.pairs.get(sock)
        if peer is None:
            return
        try:
            data = sock.recv(CHUNK)
            if data:
                peer.sendall(data)
        except OSError:
            data = b""
        if not data:
            self._drop(sock)

    def _run(self):
        next_cut = time.monotonic() + self.every
        while not self.stopping:
            wait = min(0.1, max(0, next_cut - time.monotonic()))
            events = self.selector.select(wait)
            with self.lock:
                if time.monotonic() >= next_cut:
                    next_cut += self.every * (0.5 + self.random.random())
                    self._cut()
                    continue
                for key, _ in events:
                    if key.fileobj is self.listener:
                        self._accept()
                    else:
                        self._forward(key.fileobj)
        with self.lock:
            self.refuse = True
            for sock in list(self.pairs):
                self._drop(sock)
            self.listener.close()
