/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the card works for this process: events behind what it was given.
 *
 * Launches are added; a mark behind them (an event) makes their end known, and one in
 * front of them that the card has come to them: until then their stream waits for
 * something else (another stream, a host function, a copy), and they occupy nothing.
 * Marks that are done are taken out with the card time that passed since the one
 * before.  A stretch is work without a gap, timed from an event at its begin.
 *
 * The governor's, one per slice, under its lock: the reader records events, any thread
 * takes marks out.  Only what is not marked yet is the reader's without the lock; while
 * there is any, nobody else may take the card for idle.
 */
#ifndef WRK_METER_H
#define WRK_METER_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct wrk;

/* Marks in flight per slice; with all of them out, launches go unmarked until one
 * is done. */
#define WRK_METER_MARKS 256u

struct wrk_meter {
    /* The stretch: from a base event to the last mark done. */
    CUevent base;
    uint32_t base_ctx;
    uint64_t base_ns;  /* our clock, for marks of another context */
    uint64_t busy_ns;  /* of this stretch, taken so far */
    uint64_t quiet_ns; /* since when nothing is in flight */

    struct wrk_meter_mark {
        CUevent begin; /* NULL: the stretch begins with it, or nobody asks */
        CUevent event;
        CUstream stream;
        uint64_t key;          /* of its launches, 0: of several kinds */
        uint64_t predicted_ns; /* all of them together */
        uint32_t ctx_index;
        uint32_t launches; /* that it stands for */
        bool unknown;      /* a launch without a prediction is among them */
        bool begun;        /* it has been seen on the card */
    } marks[WRK_METER_MARKS];
    uint32_t head, tail;   /* marks[tail % WRK_METER_MARKS] is the oldest in flight */
    uint64_t in_flight_ns; /* predicted for the marks in flight */
    uint32_t n_unknown;    /* marks in flight with an unknown launch */
    uint64_t progress_ns;  /* when a mark began or ended, last */
    CUevent spare;         /* of marks that are done, for the next; of spare_ctx */
    uint32_t spare_ctx;

    atomic_uint unmarked; /* launches behind the last mark; written by the reader */
    uint64_t since_ns;    /* when the first of them was about to be made */
    CUstream stream;      /* where they are */
    uint32_t ctx_index;
    uint64_t unmarked_ns, unmarked_key; /* as in a mark */
    CUevent unmarked_begin;
    bool unmarked_unknown, unmarked_begun;
};

/* A mark that was taken out. */
struct wrk_meter_done {
    uint64_t ns;  /* card time since the one before */
    uint64_t key; /* 0: of several kinds */
    uint32_t launches;
};

/* No mark is in flight. */
static inline bool
wrk_meter_idle(const struct wrk_meter *m)
{
    return m->head == m->tail;
}

/* @more launches of kind @key; false: the first behind the last mark. */
static inline bool
wrk_meter_add(struct wrk_meter *m, uint64_t key, uint64_t predicted_ns, unsigned more)
{
    unsigned n = atomic_load_explicit(&m->unmarked, memory_order_relaxed);

    if (n == 0) {
        m->unmarked_key = key;
        m->unmarked_ns = 0;
        m->unmarked_unknown = false;
    } else if (m->unmarked_key != key) {
        m->unmarked_key = 0;
    }
    m->unmarked_ns += more * predicted_ns;
    m->unmarked_unknown |= !predicted_ns;
    atomic_store_explicit(&m->unmarked, n + more, memory_order_relaxed);
    return n != 0;
}

/* Put a mark behind the launches that have none, if there are any. */
void wrk_meter_mark(struct wrk *w, struct wrk_meter *m);

/* Never mark them: their stream is gone. */
void wrk_meter_drop_unmarked(struct wrk *w, struct wrk_meter *m);

/* Take out a mark that is done: the oldest, or one that overtook what has not begun. */
bool wrk_meter_take(struct wrk *w, struct wrk_meter *m, struct wrk_meter_done *ret);

/* A launch is about to be made in @stream that is the first behind the last mark; in a
 * new stretch if nothing is in flight.  Without @exact its begin is not asked for where
 * it probably is the end of the mark before. */
void wrk_meter_begin(struct wrk *w, struct wrk_meter *m, CUstream stream, bool exact,
                     uint64_t now);

/* Something is in flight, and the card has come to none of it. */
bool wrk_meter_held(struct wrk *w, struct wrk_meter *m);

/* Card time that is probably still in flight: of the oldest mark, only what is left. */
uint64_t wrk_meter_ahead_ns(struct wrk *w, struct wrk_meter *m);

/* The context goes, and its events with it. */
void wrk_meter_forget(struct wrk_meter *m, uint32_t ctx_index);

#endif
