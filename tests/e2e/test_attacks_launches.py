# SPDX-License-Identifier: Apache-2.0
"""A client by hand that names launch shapes which it never sent, or cuts runs of launches
short: its session ends, with the reason. Launches of a kernel that there is not fail as calls do."""

import struct

from harness.raw import RETAIN, Raw

EVENT_LOST = 0xf004
EVENT_DEFERRED = 0xf00a
SHAPE = 0xe034
RUN = 0xe035


def answer(raw):
    """The next frame's (call, flags, result, body), and in front of it the calls whose errors
    were deferred."""
    deferred = []
    while True:
        size, what, flags, _, result = struct.unpack("<IHHIi", raw.take(16))
        body = raw.take(size - 16)
        if what != EVENT_DEFERRED:
            return (what, flags, result, body), deferred
        deferred.append(struct.unpack("<HHIiI", body)[0:4:3])


def lost(raw):
    """What the worker says at the end of a session."""
    (what, flags, _, body), _ = answer(raw)
    raw.case.equal((what, flags), (EVENT_LOST, 4), "the event")
    return body[8:].decode()


def shape(number, n_params, f=1 << 46 | 4 << 40 | 1 << 4):
    return struct.pack("<QQ10I", f, 0, 1, 1, 1, 1, 1, 1, 0, n_params, number, 0)


def run_of_launches(number, params):
    return struct.pack("<II", number, len(params)) + params


def test_launches_of_a_shape_that_was_never_sent(case):
    """Nor one whose parameters are longer than any: the session ends at the first launch."""
    session = case.pool().session()
    for sent in ([], [shape(3, 8), shape(256, 8)], [shape(4, 0xffffffff)], [shape(4, 32769)]):
        raw = Raw(case, session)
        for body in sent:
            raw.sock.sendall(raw.frame(SHAPE, body, flags=0))
        raw.sock.sendall(raw.frame(RUN, run_of_launches(4, bytes(8)), flags=0))
        case.contains(lost(raw), "launches of a shape that was never sent", "the words")
        raw.ends("launches of no shape")


def test_run_with_a_part_of_a_launch(case):
    session = case.pool().session()
    for n_params, params in ((8, bytes(12)), (12, bytes(24)), (8, b""), (0, bytes(4))):
        raw = Raw(case, session)
        raw.sock.sendall(raw.frame(SHAPE, shape(4, n_params), flags=0))
        pad = bytes(-len(params) % 8)
        raw.sock.sendall(raw.frame(RUN, run_of_launches(4, params) + pad, flags=0))
        case.contains(lost(raw), "a run of launches with a part of one", "the words")
        raw.ends("a part of a launch")


def test_launches_of_a_run_count_as_frames_and_fail_as_calls(case):
    """Without a context, of a kernel that there is not: the next call that waits says so."""
    raw = Raw(case, case.pool().session())
    raw.sock.sendall(raw.frame(SHAPE, shape(4, 12), flags=0))
    raw.sock.sendall(raw.frame(RUN, run_of_launches(4, bytes(16 * 5)), flags=0))
    raw.seq += 4
    raw.sock.sendall(raw.frame(RETAIN, bytes(8)))
    (_, _, result, _), deferred = answer(raw)
    case.equal(result, 400, "the launches' error")
    case.equal(deferred, [(RUN, 400)], "whose error it is, and which")
    raw.ping()
