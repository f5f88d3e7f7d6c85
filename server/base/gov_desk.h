/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared memory between a worker and the arbiter of a GPU, about one slice.
 *
 * A worker writes struct gov_want, in a memory file that only it and the supervisor
 * map; the arbiter, a thread of the supervisor (srv_arbiter.c), writes struct gov_turn,
 * in a file that the worker can only read.  The arbiter keeps its own accounting in
 * memory of its own (gov_card.h) and trusts no word of a worker: it reads each one
 * once, bounds it, and uses none as an index, a length or an address.  A worker that
 * writes false values harms its own session only.
 *
 * The protocol uses counters that only grow, so that nothing is lost between two reads:
 *   the worker requests  ask = grant + 1, and signals its wake-up descriptor
 *   the arbiter grants   grant = ask, and wakes the worker that waits on it (a futex)
 *   the worker drained   run = 0, done = grant, and signals unless @rests
 *
 * While no other tenant wants the GPU the turn @rests with the session that had it
 * last: its workers begin and end without the arbiter.  Each side is a store followed
 * by a load of the other side's word, sequentially consistent, so at least one of the
 * two sees the other's store: the worker stores @run and then reads @rests, the arbiter
 * clears @rests and then reads @run.
 */
#ifndef GOV_DESK_H
#define GOV_DESK_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

/* Values of gov_want.run. */
enum gov_run {
    GOV_RUN_NOT,
    GOV_RUN_TURN, /* in the session's turn */
    GOV_RUN_LATE, /* began after the turn was given up; since @late_ns */
};

struct gov_want {
    _Alignas(64) _Atomic uint32_t ask;
    _Atomic uint32_t done;
    _Atomic uint32_t run; /* enum gov_run: work on the card beside that of @grant */
    _Atomic uint32_t
        pieces; /* that this card can be cut into; before the worker joins */
    _Atomic uint64_t late_ns;
    _Atomic uint64_t busy_ns; /* card time measured, ever */
    _Atomic uint64_t copied;  /* bytes to and from the client, ever */
};

struct gov_turn {
    _Alignas(64) _Atomic uint32_t grant; /* futex */
    _Atomic uint32_t rests;     /* 1: the turn is the session's until this is cleared */
    _Atomic uint32_t stop;      /* 1: submit nothing, let the card drain */
    _Atomic uint32_t contended; /* another session waits for the card */
    _Atomic uint32_t rivals;    /* sessions that cannot run beside this one */
    _Atomic uint32_t ceiling;   /* percent of the card's time; 100: none */
    _Atomic uint32_t part;      /* thousandths of the card that the session can fill */
    _Atomic uint32_t others;    /* another session has a turn */
    _Atomic uint32_t watched;   /* copies are being looked at: no wake-up is needed */
    _Atomic uint64_t units;     /* pieces of the card that are the session's own */
    _Atomic uint64_t pause_ns;  /* copy nothing before then; 0: no pause */
};

static_assert(sizeof(struct gov_want) == 64, "shared memory");
static_assert(sizeof(struct gov_turn) == 64, "shared memory");

#endif
