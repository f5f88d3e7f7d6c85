# SPDX-License-Identifier: Apache-2.0
"""The checker of harness/history.py finds what it is for, and nothing else."""

import random

from harness.history import FULL, Op, Wrong, check

LEASE = 10.0


def opened(inv, resp, session, core, card="a", result="ok"):
    return Op("open", inv, resp, result, session, card, core)


def closed(inv, resp, session, result="ok"):
    return Op("close", inv, resp, result, session)


def renewed(inv, resp, session, result="ok"):
    return Op("renew", inv, resp, result, session)


def refused(inv, resp, core):
    return Op("open", inv, resp, "refused", core=core)


def unheard(inv, core):
    return Op("open", inv, core=core)


def wrong(case, words, *history, cards=("a",)):
    try:
        check(history, cards, LEASE)
    except Wrong as found:
        case.contains(str(found), words, "what is wrong")
        return
    case.fail(f"it was not found: {words}")


def test_order_is_found_for_answers_that_overlap(case):
    check([opened(0, 1, 1, 60), refused(2, 3, 60), closed(4, 7, 1), opened(5, 6, 2, 60)],
          "a", LEASE)
    # Refused while the close is under way, although another was granted in that time.
    check([opened(0, 1, 1, 60), closed(2, 9, 1), opened(3, 8, 2, 60), refused(4, 5, 60)],
          "a", LEASE)
    check([opened(0, 1, 1, 60), opened(0, 2, 2, 60, card="b"), refused(3, 4, 50)],
          "ab", LEASE)


def test_slice_that_is_given_twice_is_found(case):
    wrong(case, "no order explains", opened(0, 1, 1, 60), opened(2, 3, 2, 60))
    # However the two overlap, one has to come first.
    wrong(case, "no order explains", opened(0, 9, 1, 60), opened(1, 8, 2, 60))
    # The close comes too late for the second grant.
    wrong(case, "no order explains", opened(0, 1, 1, 60), opened(2, 3, 2, 60), closed(4, 5, 1))
    wrong(case, "one id for two", opened(0, 1, 1, 10), opened(2, 3, 1, 10))


def test_refusal_with_room_is_found(case):
    wrong(case, "refused", refused(0, 1, 60))
    wrong(case, "refused", opened(0, 1, 1, 60), refused(2, 3, 40))
    wrong(case, "refused", opened(0, 1, 1, 60), refused(2, 3, 60), cards="ab")
    wrong(case, "refused", opened(0, 1, 1, 60), closed(2, 3, 1), refused(4, 5, 60))


def test_lost_session_is_found(case):
    wrong(case, "was lost", opened(0, 1, 1, 60), renewed(2, 3, 1, "gone"))
    wrong(case, "was lost", opened(0, 1, 1, 60), renewed(8, 9, 1), renewed(16, 17, 1, "gone"))
    check([opened(0, 1, 1, 60), renewed(8, 9, 1), renewed(18, 19, 1, "gone")], "a", LEASE)
    wrong(case, "after", opened(0, 1, 1, 60), renewed(11, 12, 1, "gone"), renewed(13, 14, 1))
    wrong(case, "after", opened(0, 1, 1, 60), closed(2, 3, 1), renewed(4, 5, 1))
    wrong(case, "is not shown", opened(0, 1, 1, 60), Op("settled", 2, 3, "ok"))


def test_what_was_not_answered_explains_until_the_pool_has_settled(case):
    maybe = [unheard(0, 60), refused(1, 2, 60), opened(3, 4, 1, 60)]
    check(maybe, "a", LEASE)
    wrong(case, "refused", unheard(0, 60), refused(1, 2, 60), cards="ab")
    wrong(case, "refused", unheard(0, 60), Op("settled", 1, 2, "ok"), refused(3, 4, 60))
    # A lease that may have ended makes room, and need not have.
    check([opened(0, 1, 1, 60), opened(11, 12, 2, 60)], "a", LEASE)
    check([opened(0, 1, 1, 60), refused(11, 12, 60)], "a", LEASE)
    check([opened(0, 1, 1, 60), closed(2, 3, 1, "unknown"), opened(4, 5, 2, 60)], "a", LEASE)


def simulated(rng, steps, clients=5, cards=("a", "b")):
    """A history of a pool that is right: each operation takes effect at a moment of its
    own between its invocation and its answer."""
    used, history, time = dict.fromkeys(cards, 0), [], 0.0
    holds, free_at, last = [None] * clients, [0.0] * clients, 0
    for _ in range(steps):
        time += rng.random()
        ready = [i for i in range(clients) if free_at[i] < time]
        if not ready:
            continue
        who = rng.choice(ready)
        inv, resp = rng.uniform(free_at[who], time), time + rng.random() * 3
        free_at[who] = resp
        if holds[who]:
            op = holds[who]
            kind = rng.choice(["renew", "close"])
            history.append(Op(kind, inv, resp, "ok", op.session))
            if kind == "close":
                used[op.card] -= op.core
                holds[who] = None
            continue
        core = rng.choice([30, 60, 80])
        card = next((c for c in cards if used[c] + core <= FULL), None)
        if card is None:
            history.append(refused(inv, resp, core))
            continue
        last += 1
        used[card] += core
        holds[who] = opened(inv, resp, last, core, card)
        history.append(holds[who])
    return history


def test_right_histories_pass_and_changed_ones_do_not(case):
    rng, found = random.Random(7), 0
    for _ in range(30):
        history = simulated(rng, 150)
        check(history, "ab", 1e9)
        lies = [op for op in history if op.result == "refused"]
        if not lies:
            continue
        # Whoever was refused is granted instead, for ever.
        lie = rng.choice(lies)
        lie.result, lie.session, lie.card = "ok", 10**6, rng.choice("ab")
        try:
            check(history, "ab", 1e9)
        except Wrong:
            found += 1
    case.check(found > 20, f"only {found} of 30 lies were found")
