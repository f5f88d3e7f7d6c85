# SPDX-License-Identifier: Apache-2.0
"""Medians with their confidence intervals, and what is made of an aim.

A figure is measured in rounds (a fresh process each), and many of them several times
within a round.  Rounds differ by more than slices of one round do, because a process
keeps the pages and the moment that it got, so the interval is made by drawing rounds
first and values within each of them second (a hierarchical bootstrap).
"""

import random
import statistics

DRAWS = 1000
PART = 0.95  # of the draws lie within the interval


def as_list(value):
    return value if isinstance(value, list) else [value]


def median(value):
    return statistics.median(as_list(value))


def of_rounds(rounds):
    """The median of the rounds' medians."""
    return statistics.median(median(values) for values in rounds)


def interval(rounds):
    """(low, high) of the median; both are the value itself where there is only one."""
    rounds = [as_list(values) for values in rounds]
    draw = random.Random(1)  # the same figures give the same interval
    found = sorted(
        of_rounds([draw.choices(values, k=len(values))
                   for values in draw.choices(rounds, k=len(rounds))])
        for _ in range(DRAWS))
    cut = int(DRAWS * (1 - PART) / 2)
    return found[cut], found[-1 - cut]


def judge(limit, less, value, low, high):
    """"ok", "open" (on the wrong side by less than its interval) or "MISSED"; "" without
    an aim."""
    if limit is None:
        return ""
    if (value <= limit) if less else (value >= limit):
        return "ok"
    return "open" if low <= limit <= high else "MISSED"


def beats(limit_ratio, less, low, high):
    """Whether a ratio to the raw transport is better than it by more than @limit_ratio,
    beyond the interval: then the raw side is set badly, or there is an explanation."""
    return high < 1 / limit_ratio if less else low > limit_ratio
