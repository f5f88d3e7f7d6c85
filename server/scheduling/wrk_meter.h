/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meter: how long the GPU works for this process, measured by timing events.
 *
 * Launches are added; a mark (a timing event after them) shows their end.  A second
 * event before them shows that the GPU has reached them: until then their stream waits
 * for something else (another stream, a host function, a copy), and they occupy
 * nothing.  Completed marks are removed together with the GPU time that passed since
 * the mark before.  A stretch is work without a gap, timed from an event at its begin.
 *
 * Sampling.  A group of launches that starts right after a synchronization found the
 * GPU idle, and is followed by another such synchronization, ran without gaps.  If its
 * kinds have a duration estimate, the estimate is charged and no event is recorded.
 * One in 1 to 32 groups (random, so that no program can foresee it) is measured all the
 * same, and the measured ratio scales the rest.
 *
 * One per slice, owned by the governor and under its lock: the receive thread records
 * events, any thread removes marks.  Launches that have no mark yet may be read by the
 * receive thread without the lock; while there are any, no other thread may take the
 * GPU for idle.
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
    /* The fields that a launch reads, in one cache line: the receive thread's without
     * the lock, except for the tail.  Launches after the last mark: */
    _Alignas(64) atomic_uint unmarked;
    uint32_t ctx_index;
    CUstream stream;                    /* where they are */
    uint64_t unmarked_ns, unmarked_key; /* as in a mark */
    /* What launches that were never marked were predicted to take, so far. */
    _Atomic uint64_t estimated_ns;
    /* The last wait that found nothing to wait for: which context, which frame. */
    uint32_t idle_ctx, idle_seq;
    uint32_t head;         /* marks[tail % WRK_METER_MARKS] is the oldest in flight */
    _Atomic uint32_t tail; /* under the lock; the reader may look without */
    bool unmarked_unknown, unmarked_begun, unmarked_estimated;
    uint8_t estimate_left; /* groups until one is measured */

    uint64_t since_ns; /* when the first unmarked launch was about to be made */
    CUevent unmarked_begin;
    uint32_t chance; /* which groups are measured */

    /* The stretch: from a base event to the last mark done. */
    CUevent base;
    uint32_t base_ctx;
    uint64_t base_ns;  /* our clock, for marks of another context */
    uint64_t busy_ns;  /* of this stretch, taken so far */
    uint64_t quiet_ns; /* since when nothing is in flight */

    struct wrk_meter_mark {
        CUevent begin; /* NULL: the stretch begins with it, or it is not needed */
        CUevent event;
        CUstream stream;
        uint64_t key;          /* of its launches, 0: of several kinds */
        uint64_t predicted_ns; /* all of them together */
        uint64_t since_ns;     /* estimated: when it was made */
        uint32_t ctx_index;
        uint32_t launches; /* that it stands for */
        bool unknown;      /* a launch without a prediction is among them */
        bool begun;        /* it has been seen on the card */
        bool estimated;    /* its launches were not meant to be marked */
    } marks[WRK_METER_MARKS];
    uint64_t in_flight_ns; /* predicted for the marks in flight */
    uint32_t n_unknown;    /* marks in flight with an unknown launch */
    uint64_t progress_ns;  /* when a mark began or ended, last */
    CUevent spare;         /* of marks that are done, for the next; of spare_ctx */
    uint32_t spare_ctx;
};

/* A mark that was taken out. */
struct wrk_meter_done {
    uint64_t ns;  /* card time since the one before */
    uint64_t key; /* 0: of several kinds */
    uint64_t predicted_ns;
    uint32_t launches;
    bool unknown;   /* one of them had no prediction */
    bool estimated; /* @ns was not measured but predicted */
};

/* No mark is in flight. */
static inline bool
wrk_meter_idle(const struct wrk_meter *m)
{
    return m->head == atomic_load_explicit(&m->tail, memory_order_relaxed);
}

/* After frame @seq a wait has found that nothing of the context is left to do.  Reader.
 */
static inline void
wrk_meter_ctx_idle(struct wrk_meter *m, uint32_t ctx_index, uint32_t seq)
{
    m->idle_ctx = ctx_index;
    m->idle_seq = seq;
    if (!m->unmarked_estimated || m->ctx_index != ctx_index ||
        !atomic_load_explicit(&m->unmarked, memory_order_relaxed))
        return;
    atomic_store_explicit(&m->estimated_ns,
                          atomic_load_explicit(&m->estimated_ns, memory_order_relaxed) +
                              m->unmarked_ns,
                          memory_order_relaxed);
    /* Who sees that nothing is unmarked sees what was estimated. */
    atomic_store_explicit(&m->unmarked, 0, memory_order_release);
}

/* May the launch in frame @seq, the first after the last mark, do without events?  Only
 * if nothing precedes it on the GPU and it is not one of the groups that are measured.
 * If so, the state is as wrk_meter_begin() leaves it.  Receive thread, with or without
 * the lock. */
static inline bool
wrk_meter_estimate(struct wrk_meter *m, uint32_t ctx_index, CUstream stream,
                   uint32_t seq)
{
    if (m->idle_seq + 1 != seq || m->idle_ctx != ctx_index || !wrk_meter_idle(m) ||
        !m->estimate_left || atomic_load_explicit(&m->unmarked, memory_order_relaxed))
        return false;
    m->estimate_left--;
    m->stream = stream;
    m->ctx_index = ctx_index;
    m->unmarked_estimated = true;
    return true;
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

/* A launch is about to be made in @stream, the first after the last mark; it begins a
 * new stretch if nothing is in flight.  Without @exact no begin event is recorded where
 * the begin is probably the end of the mark before. */
void wrk_meter_begin(struct wrk *w, struct wrk_meter *m, CUstream stream, bool exact,
                     uint64_t now);

/* Something is in flight, and the card has come to none of it. */
bool wrk_meter_held(struct wrk *w, struct wrk_meter *m);

/* Card time that is probably still in flight: of the oldest mark, only what is left. */
uint64_t wrk_meter_ahead_ns(struct wrk *w, struct wrk_meter *m);

/* The context goes, and its events with it. */
void wrk_meter_forget(struct wrk_meter *m, uint32_t ctx_index);

#endif
