/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State shared by the files of the governor (wrk_governor.h): wrk_gov_charge.c does the
 * accounting, wrk_gov_turn.c takes and gives up the turn, wrk_gov_thread.c is the
 * thread that checks between calls, wrk_governor.c is what a launch calls.
 *
 * All under the governor's lock, except where a comment says otherwise.
 */
#ifndef WRK_GOV_H
#define WRK_GOV_H

#include "gov_desk.h"
#include "wrk_conf.h"
#include "wrk_meter.h"
#include "wrk_predict.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct wrk;
struct wrk_charge;

/* How often a waiting receive thread polls. */
#define GOV_POLL_NS 20000

struct gov_slice {
    /* A launch looks at this line and the meter's first; the flags are written under
     * the lock. */
    const struct gov_turn *turn; /* written by the arbiter only */
    struct gov_want *want;       /* what the arbiter reads of us */
    _Atomic uint64_t *launches;  /* where they are counted; written by the reader */
    uint32_t asked;              /* the grant that was asked for last */
    bool asking;                 /* the grant has not come yet */
    atomic_bool running;
    atomic_bool out_of_turn; /* running since something began out of turn */

    struct wrk_meter meter;
    uint64_t owed_ns;      /* measured, not reported yet */
    uint64_t estimated_ns; /* of the meter's, charged already */
    /* What was measured of launches, and what they had been predicted to take. */
    uint64_t measured_ns, predicted_ns;
    unsigned stuck;      /* how often since the card last drained */
    unsigned stuck_left; /* launches let through with it, still */
    uint32_t stuck_at;   /* the oldest mark then */
    uint64_t idle_ns;    /* when nobody else wanted the card, last */
    struct wrk_predict predict;
};

struct wrk_governor {
    struct wrk *w;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    uint32_t n;
    bool asleep; /* the thread, until it is woken; under the lock */
    bool off;    /* GPUPOOL_GOVERNOR=off in the server's environment: for measuring */
    struct gov_slice slices[TICKET_SLICES_MAX];
};

static inline bool
wrk_gov_contended(const struct gov_slice *s)
{
    return atomic_load_explicit(&s->turn->contended, memory_order_acquire) != 0;
}

/* Other sessions have a worker on the same multiprocessors, if only an idle one: when
 * it wakes up it must not find a long queue. */
static inline bool
wrk_gov_shared(const struct gov_slice *s)
{
    return atomic_load_explicit(&s->turn->rivals, memory_order_relaxed) != 0;
}

static inline bool
wrk_gov_capped(const struct gov_slice *s)
{
    return atomic_load_explicit(&s->turn->ceiling, memory_order_relaxed) < 100;
}

/* It has begun @ns ago, and the turn was given up or lost meanwhile. */
void wrk_gov_overrun(struct wrk *w, struct gov_slice *s, uint64_t ns);

/* Report what was measured. */
void wrk_gov_charge_owed(struct wrk *w, struct gov_slice *s);

/* Take in the marks that are done. */
void wrk_gov_reap(struct wrk *w, struct gov_slice *s);

/* What is in flight waits for something that is not the card. */
bool wrk_gov_held(struct wrk *w, struct gov_slice *s);

/* Give the turn back, or take the request for it back, after charging what is owed. */
void wrk_gov_give_up(struct wrk *w, struct gov_slice *s);

/* Ask for the turn, unless it has been asked for; whether it is ours.  Never waits. */
bool wrk_gov_ask(struct wrk *w, struct gov_slice *s);
/* It is not asked for any more. */
void wrk_gov_unask(struct wrk *w, struct gov_slice *s);

/* The slow path of a launch: bring the accounting up to date and take the turn; the
 * lock is released while waiting.  True: it may have taken long.  Receive thread. */
bool wrk_gov_turn(struct wrk *w, struct gov_slice *s, const struct wrk_charge *c);

/* The governor's thread; takes the lock. */
void *wrk_gov_main(void *governor);

#endif
