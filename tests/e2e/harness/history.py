# SPDX-License-Identifier: Apache-2.0
"""What clients of a scheduler asked and were answered, and whether one order of it all
explains every answer.

A history is a list of Op.  The model is that of the pool: cards of 100 percent, sessions
that hold a part of one card from their grant to their end.  An operation takes effect
at one moment between its invocation and its answer (linearisability: Herlihy and Wing;
the search is that of Lowe, "Testing for linearizability", just in time).

Where an answer is missing, nothing is known but bounds.  A session that may exist, or
may have ended, counts neither as room nor as taken: a grant needs room beside what is
certainly held, a refusal needs that what may be held leaves none.  So every fault that
is found is one, and a fault that only unanswered requests could prove is not found.
Settled times (Op "settled": the pool showed exactly these sessions) end that doubt.
"""

from dataclasses import dataclass, field
from math import inf

FULL = 100


@dataclass(eq=False)
class Op:
    kind: str                 # open, renew, close, settled
    inv: float                # when it was sent
    resp: float = inf         # when it was answered; inf: never
    result: str = "unknown"   # ok, refused (no room), gone (no such session), unknown
    session: int = 0
    card: str = ""
    core: int = 0
    sessions: frozenset = field(default_factory=frozenset)  # settled

    def __str__(self):
        what = f"{self.core} %" if self.kind == "open" else f"{self.session:#x}"
        where = f" on {self.card}" if self.card else ""
        return f"[{self.inv:.6f} {self.resp:.6f}] {self.kind} {what}: {self.result}{where}"


class Wrong(Exception):
    """No order explains the history."""


@dataclass(eq=False)
class Life:
    """A session that was granted, or may have been."""
    open: Op
    close: Op = None          # the one that was answered with success
    unsure: float = inf       # from then on it may have ended without an answer
    over: float = inf         # by then it certainly had

    @property
    def known(self):
        return self.open.result == "ok"


def lives_of(history, lease_s):
    """{session: Life}, and those whose grant nobody heard of; checks what concerns one
    session alone."""
    lives, unheard = {}, []
    for op in (op for op in history if op.kind == "open"):
        if op.result == "unknown":
            unheard.append(Life(op, unsure=op.inv))
        elif op.result == "ok":
            if op.session in lives:
                raise Wrong(f"one id for two sessions: {lives[op.session].open} and {op}")
            lives[op.session] = Life(op)
    for session, life in lives.items():
        own = sorted((op for op in history if op.session == session and
                      op.kind in ("renew", "close")), key=lambda op: op.inv)
        follow(life, own, lease_s)
    for op in (op for op in history if op.kind == "settled"):
        settle(op, [*lives.values(), *unheard])
    return lives, unheard


def follow(life, own, lease_s):
    """Renewals and closes of one session, which one client sends one after the other."""
    safe_until, ended = life.open.inv + lease_s, None
    for op in own:
        if op.result == "ok" and ended:
            raise Wrong(f"{op} after {ended}")
        if op.kind == "close" and op.result == "ok":
            life.close = ended = op
        elif op.kind == "close" and op.result == "unknown":
            life.unsure = min(life.unsure, op.inv)
        elif op.result == "ok":
            safe_until = op.inv + lease_s
        elif op.result == "gone" and not ended:
            if op.resp < min(life.unsure, safe_until):
                raise Wrong(f"a session was lost: {op}, its lease held until "
                            f"{safe_until:.6f} ({life.open})")
            life.unsure = min(life.unsure, op.resp)
            ended = op
    if not life.close:
        life.unsure = min(life.unsure, safe_until)


def settle(op, lives):
    """What the pool did not show is over; what it showed exists."""
    for life in lives:
        session = life.open.session
        if life.open.inv > op.resp:
            continue
        if not life.known or session not in op.sessions:
            certain = life.known and life.open.resp < op.inv and not (
                life.close and life.close.inv < op.resp) and life.unsure > op.resp
            if certain:
                raise Wrong(f"a session is not shown: {life.open}, {op}")
            if life.open.resp < op.inv or not life.known:
                life.over = min(life.over, op.resp)
        elif life.close and life.close.resp < op.inv:
            raise Wrong(f"an ended session is shown: {life.close}")


class Model:
    """What may be given at a time."""

    def __init__(self, cards, lives, unheard):
        self.cards, self.lives, self.unheard = cards, lives, unheard

    def held(self, sessions, card, until):
        """Percent of @card that is certainly held by some of @sessions at @until."""
        return sum(self.lives[s].open.core for s in sessions
                   if self.lives[s].open.card == card and self.lives[s].unsure > until)

    def may_be_held(self, sessions, card, op):
        """The most that may be, at some moment of @op."""
        return sum(self.lives[s].open.core for s in sessions
                   if self.lives[s].open.card == card and self.lives[s].over > op.inv)

    def floating(self, op):
        """Cores of sessions that nobody heard of, which may be on any card."""
        return [life.open.core for life in self.unheard
                if life.open.inv < op.resp and life.over > op.inv]

    def grant_fits(self, sessions, op):
        return self.held(sessions, op.card, op.resp) + op.core <= FULL

    def refusal_fits(self, sessions, op):
        need = [self.may_be_held(sessions, card, op) for card in self.cards]
        # Each card must be too full; those of unknown place fill the gaps, largest first.
        gaps = sorted((max(0, FULL - op.core + 1 - taken) for taken in need), reverse=True)
        return sum(gaps) <= sum(self.floating(op))


def apply(model, held, op):
    """The sessions held after @op, or None: it cannot have this answer then."""
    if op.kind == "close":
        return held - {op.session} if op.session in held else None
    if op.result == "refused":
        return held if model.refusal_fits(held, op) else None
    return held | {op.session} if model.grant_fits(held, op) else None


def completions(model, config, pending, target):
    """All configurations in which @target has taken effect, just in time."""
    seen, found, todo = {config}, set(), [config]
    while todo:
        held, done = todo.pop()
        for op in pending:
            if op in done:
                continue
            after = apply(model, held, op)
            if after is None:
                continue
            new = (after, done | {op})
            if op is target:
                found.add((after, done))
            elif new not in seen:
                seen.add(new)
                todo.append(new)
    return found


def check(history, cards, lease_s):
    """Raise Wrong unless some order of @history is one of a pool with these @cards.
    Returns how many answers were explained."""
    lives, unheard = lives_of(history, lease_s)
    model = Model(cards, lives, unheard)
    ops = [op for op in history if (op.kind, op.result) in
           {("open", "ok"), ("open", "refused"), ("close", "ok")}]
    for op in ops:
        if op.kind == "close" and op.session not in lives:
            raise Wrong(f"{op}: it was never granted")
    events = sorted([(op.inv, 0, id(op), op) for op in ops] +
                    [(op.resp, 1, id(op), op) for op in ops])
    configs, pending = {(frozenset(), frozenset())}, []
    for _, answered, _, op in events:
        if not answered:
            pending.append(op)
            continue
        after = set()
        for held, done in configs:
            if op in done:
                after.add((held, done - {op}))
            else:
                after |= completions(model, (held, done), pending, op)
        if not after:
            held = sorted(min((held for held, _ in configs), key=len))
            raise Wrong(f"no order explains {op}\n  held before: " + "\n  ".join(
                str(lives[s].open) for s in held))
        pending.remove(op)
        configs = after
    return len(ops) + sum(op.kind == "renew" and op.result == "ok" for op in history)
