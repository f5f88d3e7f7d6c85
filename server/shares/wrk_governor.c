/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_governor.h"

#include "drv.h"
#include "gov_wake.h"
#include "gp_log.h"
#include "gp_time.h"
#include "wrk.h"
#include "wrk_bulk.h"
#include "wrk_ctx.h"
#include "wrk_meter.h"
#include "wrk_predict.h"
#include "wrk_segment.h"
#include "wrk_spatial.h"
#include "wrk_wait.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* Launches that share one mark while nobody waits for the card. */
#define LOOSE_LAUNCHES 16u
/* Card time kept in flight while others are on the card or a ceiling holds: giving the
 * turn up takes this long, or one kernel more. */
#define TIGHT_NS 2000000
/* Short kernels share a mark for so much card time. */
#define GROUP_NS 200000
/* A launch may be what the work in flight waits for, or come before a call that is: it
 * is let through when that took longer than twice the prediction and this, and so many
 * after it, fewer while another waits.  When the card has gone on meanwhile it was only
 * long: the next time takes twice as long, until the card drains. */
#define STUCK_NS 50000000
/* The same when something in flight has no prediction. */
#define STUCK_UNKNOWN_NS 500000000
#define STUCK_DOUBLINGS 5
#define STUCK_LAUNCHES 16u
#define STUCK_LAUNCHES_CONTENDED 4u
/* Nothing in flight has begun for so long: the card is not what it waits for. */
#define HELD_NS 2000000
/* So much of it is submitted without a wait; it may begin in another's turn.  Less
 * while one waits. */
#define HELD_MOST_NS 100000000
#define HELD_MOST_UNKNOWN 64u
#define HELD_CONTENDED_NS 20000000
#define HELD_CONTENDED_UNKNOWN 8u
/* At the end of an attachment or a context, what was launched last is waited for so
 * long before it goes uncharged. */
#define LAST_CHARGE_NS 5000000
/* The last words of an attachment that is ended have so long to leave. */
#define LINGER_NS 100000000
#define OVERDUE_STATUS 4
/* How much is remembered of how long launches take, beside their predictions. */
#define MEASURED_NS UINT64_C(1000000000)
/* How often a waiting reader looks. */
#define WAIT_POLL_NS 20000
/* The card has been idle for this long: the turn is given up. */
#define IDLE_NS 100000
/* How often the governor's thread looks. */
#define TICK_TIGHT_NS 200000
#define TICK_LOOSE_NS 1000000

struct gov_slice {
    /* A launch looks at this line and the meter's first; the flags are written under
     * the lock. */
    struct gov_card *card;
    const struct gov_tenant *tenant; /* the session, as the card knows it */
    _Atomic uint64_t *launches;      /* where they are counted; written by the reader */
    int seat;
    atomic_bool running;
    atomic_bool intruding; /* running since something began out of turn */

    struct wrk_meter meter;
    uint64_t owed_ns;     /* measured, not reported yet */
    uint64_t believed_ns; /* of the meter's, charged already */
    /* What was measured of launches, and what they had been predicted to take. */
    uint64_t measured_ns, predicted_ns;
    unsigned stuck;      /* how often since the card last drained */
    unsigned stuck_left; /* launches let through with it, still */
    uint32_t stuck_at;   /* the oldest mark then */
    uint64_t calm_ns;    /* when nobody else wanted the card, last */
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

static bool
contended(const struct gov_slice *s)
{
    return __atomic_load_n(&s->tenant->contended, __ATOMIC_ACQUIRE) != 0;
}

/* Others have a seat at the same multiprocessors, if only to sleep: when one wakes up
 * it shall not find a long queue. */
static bool
shared(const struct gov_slice *s)
{
    return __atomic_load_n(&s->tenant->rivals, __ATOMIC_RELAXED) != 0;
}

static bool
capped(const struct gov_slice *s)
{
    return __atomic_load_n(&s->tenant->ceiling, __ATOMIC_RELAXED) < 100;
}

/* --- charging ------------------------------------------------------------------- */

/* It has begun, and the turn was given up or lost meanwhile. */
static void
intrude(struct gov_slice *s, uint64_t ns)
{
    uint64_t now = gp_now_ns();

    gov_card_intrude(s->card, s->seat, now - ns, now);
    s->running = s->intruding = true;
}

static void
charge_owed(struct wrk *w, struct gov_slice *s)
{
    uint32_t index = (uint32_t)(s - w->priv->governor->slices);
    struct wrk_seat *seat = &w->priv->segment->seats[w->priv->conf.seat];
    uint64_t ns = s->owed_ns;
    uint32_t seq;

    if (!ns)
        return;
    s->owed_ns = 0;
    seq = gov_wake_lock(s->card);
    if (!s->running)
        intrude(s, ns);
    gov_card_report(s->card, s->seat, ns, gp_now_ns());
    gov_wake_unlock(s->card, seq);
    /* A part of the card counts as a part, as the arbiter does it. */
    atomic_fetch_add_explicit(&seat->spent[WRK_SPENT_GPU_NS][index],
                              ns * s->tenant->part / 1000, memory_order_relaxed);
}

/* Nobody waits for what a session alone on its card reports: the thread does it. */
static void
charge(struct wrk *w, struct gov_slice *s, uint64_t ns)
{
    s->owed_ns += ns;
    if (!s->running || s->intruding || capped(s) || shared(s))
        charge_owed(w, s);
}

/* Predictions are rather too long; their sum is put right by those that were measured.
 */
static uint64_t
put_right(const struct gov_slice *s, uint64_t predicted_ns)
{
    if (!s->predicted_ns)
        return predicted_ns;
    return (uint64_t)((double)predicted_ns * (double)s->measured_ns /
                      (double)s->predicted_ns);
}

static void
note_measured(struct gov_slice *s, const struct wrk_meter_done *done)
{
    if (done->key)
        wrk_predict_learn(&s->predict, done->key, done->ns / done->launches);
    if (done->unknown || done->believed)
        return;
    s->measured_ns += done->ns;
    s->predicted_ns += done->predicted_ns;
    if (s->predicted_ns > MEASURED_NS) {
        s->measured_ns /= 2;
        s->predicted_ns /= 2;
    }
}

/* Charge what ended without a mark. */
static void
reap_believed(struct wrk *w, struct gov_slice *s)
{
    uint64_t ns = atomic_load_explicit(&s->meter.believed_ns, memory_order_relaxed);

    if (ns == s->believed_ns)
        return;
    charge(w, s, put_right(s, ns - s->believed_ns));
    s->believed_ns = ns;
    s->meter.quiet_ns = gp_now_ns();
}

/* Take in the marks that are done. */
GP_HOT static void
reap(struct wrk *w, struct gov_slice *s)
{
    struct wrk_meter_done done;

    reap_believed(w, s);
    while (wrk_meter_take(w, &s->meter, &done)) {
        if (done.believed)
            done.ns = put_right(s, done.ns);
        if (done.ns)
            charge(w, s, done.ns);
        note_measured(s, &done);
        if (wrk_meter_idle(&s->meter))
            s->stuck = s->stuck_left = 0;
    }
}

/* --- the turn --------------------------------------------------------------------- */

static void
give_up_turn(struct wrk *w, struct gov_slice *s)
{
    uint32_t seq;

    charge_owed(w, s);
    seq = gov_wake_lock(s->card);
    if (s->intruding)
        gov_card_unask(s->card, s->seat, gp_now_ns());
    gov_card_drained(s->card, s->seat, gp_now_ns());
    gov_wake_unlock(s->card, seq);
    s->running = s->intruding = false;
}

/* Sleep until the arbiter's word changes or @until passes, a stop included. */
static void
arbiter_wait(struct gov_slice *s, uint32_t seq, uint64_t until)
{
    uint64_t now = gp_now_ns();

    gov_wake_wait(s->card, seq,
                  until > now ? gp_min(until - now, (uint64_t)STUCK_NS) : 0);
}

/* Ask until the turn is ours; the lock is let go while waiting. */
static void
get_turn(struct wrk *w, struct gov_slice *s)
{
    struct wrk_governor *g = w->priv->governor;

    while (!atomic_load(&w->priv->stopping)) {
        uint32_t before = gov_wake_lock(s->card);
        uint64_t until = 0;
        bool got = gov_card_ask(s->card, s->seat, gp_now_ns(), &until);
        uint32_t seq = s->card->seq; /* what the answer was given at */

        gov_wake_unlock(s->card, before);
        if (got) {
            s->running = true;
            s->intruding = false;
            return;
        }
        pthread_mutex_unlock(&g->lock);
        /* Nobody's answer waits with this launch. */
        wrk_flush(w);
        wrk_wait_hand_over(w);
        arbiter_wait(s, seq, until);
        pthread_mutex_lock(&g->lock);
    }
}

/* Whether the launch may follow what is in flight at once. */
static bool
fits_behind(struct wrk *w, struct gov_slice *s, uint64_t predicted_ns)
{
    if (wrk_meter_idle(&s->meter))
        return true;
    return predicted_ns && !s->meter.n_unknown &&
           wrk_meter_ahead_ns(w, &s->meter) < TIGHT_NS;
}

/* What is in flight waits for something that is not the card. */
static bool
held(struct wrk *w, struct gov_slice *s)
{
    return wrk_meter_held(w, &s->meter) &&
           gp_now_ns() - s->meter.progress_ns >= HELD_NS;
}

/* Whether the launch may join what is held. */
static bool
fits_held(const struct gov_slice *s, uint64_t predicted_ns)
{
    bool others = contended(s);

    return s->meter.in_flight_ns + predicted_ns <=
               (others ? HELD_CONTENDED_NS : HELD_MOST_NS) &&
           s->meter.n_unknown < (others ? HELD_CONTENDED_UNKNOWN : HELD_MOST_UNKNOWN);
}

/* Whether the launch need not wait: nothing is in flight that it could delay, or
 * nothing that a wait would end. */
static bool
may_follow(struct wrk *w, struct gov_slice *s, uint64_t predicted_ns, bool all)
{
    if (all ? wrk_meter_idle(&s->meter) : fits_behind(w, s, predicted_ns))
        return true;
    return held(w, s) && (all || fits_held(s, predicted_ns));
}

static uint64_t
stuck_ns(struct wrk *w, struct gov_slice *s)
{
    uint64_t least = s->meter.n_unknown ? STUCK_UNKNOWN_NS : STUCK_NS;

    if (held(w, s))
        return STUCK_NS;
    return (least << gp_min(s->stuck, (unsigned)STUCK_DOUBLINGS)) +
           2 * s->meter.in_flight_ns;
}

/* It was found to be stuck, and nothing has ended since. */
static bool
still_stuck(struct gov_slice *s)
{
    if (!s->stuck_left || s->stuck_at != s->meter.tail)
        return false;
    s->stuck_left--;
    return true;
}

static void
note_stuck(struct wrk *w, struct gov_slice *s)
{
    if (held(w, s))
        return;
    s->stuck++;
    s->stuck_at = s->meter.tail;
    s->stuck_left = contended(s) ? STUCK_LAUNCHES_CONTENDED : STUCK_LAUNCHES;
}

/* Wait until the launch may follow what is in flight, or with @all until nothing is on
 * the card, or for so long that the work in flight may be waiting for us. */
static void
wait_in_flight(struct wrk *w, struct gov_slice *s, uint64_t predicted_ns, bool all)
{
    struct wrk_governor *g = w->priv->governor;
    uint64_t until;

    reap(w, s);
    if (may_follow(w, s, predicted_ns, all) || still_stuck(s))
        return;
    until = gp_now_ns() + stuck_ns(w, s);
    wrk_flush(w);
    wrk_wait_hand_over(w);
    do {
        struct timespec pause = {.tv_nsec = WAIT_POLL_NS};

        if (gp_now_ns() >= until || atomic_load(&w->priv->stopping)) {
            note_stuck(w, s);
            return;
        }
        pthread_mutex_unlock(&g->lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&g->lock);
        reap(w, s);
    } while (!may_follow(w, s, predicted_ns, all));
}

static bool
keep_turn(struct gov_slice *s)
{
    uint32_t seq = gov_wake_lock(s->card);
    bool keep = gov_card_keep(s->card, s->seat, gp_now_ns());

    gov_wake_unlock(s->card, seq);
    return keep;
}

/* The long way to a launch: bring the books up to date, make sure of the turn.  True:
 * it may have taken long. */
GP_HOT static bool
acquire_locked(struct wrk *w, struct gov_slice *s, const struct wrk_charge *c)
{
    bool slow = c->tight || !s->running || s->intruding;

    wrk_meter_mark(w, &s->meter);
    reap(w, s);
    if (c->tight)
        wait_in_flight(w, s, c->predicted_ns, false);
    if (s->running && c->tight && !keep_turn(s)) {
        wait_in_flight(w, s, 0, true);
        /* Stuck with work on the card: the launch goes through, once. */
        if (wrk_meter_idle(&s->meter) || held(w, s))
            give_up_turn(w, s);
    }
    if (!s->running || s->intruding)
        get_turn(w, s);
    return slow;
}

/* May the launch share the next mark with those before it? */
GP_HOT static inline bool
joins_group(const struct gov_slice *s, const struct wrk_charge *c, uint32_t ctx_index)
{
    unsigned n = atomic_load_explicit(&s->meter.unmarked, memory_order_relaxed);

    if (!n || n >= LOOSE_LAUNCHES || c->stream != s->meter.stream ||
        ctx_index != s->meter.ctx_index)
        return false;
    if (s->meter.unmarked_believed && (c->tight || !c->predicted_ns))
        return false;
    return !c->tight || (c->predicted_ns && !s->meter.unmarked_unknown &&
                         s->meter.unmarked_ns + c->predicted_ns <= GROUP_NS);
}

/* The slice that the context is on. */
GP_HOT static inline struct gov_slice *
slice_of(struct wrk *w, uint32_t ctx_index)
{
    struct wrk_governor *g = w->priv->governor;

    return &g->slices[likely(g->n == 1) ? 0 : wrk_ctx_slice(w, ctx_index)];
}

/* May the launch begin a group that needs no events?  While the session is alone, and
 * for what is known. */
GP_HOT static inline bool
begins_believed(struct wrk *w, struct gov_slice *s, const struct wrk_charge *c)
{
    return !c->tight && c->predicted_ns && s->running && !s->intruding &&
           wrk_meter_believe(&s->meter, w->ctx_index, c->stream,
                             atomic_load_explicit(&w->priv->seq, memory_order_relaxed));
}

/* The arbiter may have to be asked, and what the launch takes is to be measured. */
__attribute__((noinline)) static void
acquire_slowly(struct wrk *w, struct gov_slice *s, struct wrk_charge *c)
{
    struct wrk_governor *g = w->priv->governor;
    struct wrk_seat *seat = &w->priv->segment->seats[w->priv->conf.seat];
    uint32_t index = (uint32_t)(s - g->slices);
    uint32_t ctx_index = w->ctx_index;
    uint64_t began, now;

    pthread_mutex_lock(&g->lock);
    began = now = gp_now_ns();
    if (acquire_locked(w, s, c)) {
        now = gp_now_ns();
        atomic_fetch_add_explicit(&seat->spent[WRK_SPENT_WAIT_NS][index], now - began,
                                  memory_order_relaxed);
    }
    if (w->ctx_index != ctx_index)
        wrk_ctx_use(w, ctx_index);
    if (!begins_believed(w, s, c))
        wrk_meter_begin(w, &s->meter, c->stream, c->tight, now);
    c->wake = g->asleep;
    pthread_mutex_unlock(&g->lock);
}

GP_HOT void
wrk_governor_acquire(struct wrk *w, CUstream stream, uint64_t key, struct wrk_charge *c)
{
    struct gov_slice *s;

    c->skip =
        unlikely(w->priv->captures) && wrk_bulk_capturing(w, stream) != CUDA_SUCCESS;
    if (c->skip)
        return;
    s = slice_of(w, w->ctx_index);
    c->stream = stream;
    c->key = key;
    c->slice = s;
    c->tight = capped(s) || shared(s);
    c->predicted_ns = wrk_predict_ns(&s->predict, key);
    c->wake = false;
    if (unlikely(!joins_group(s, c, w->ctx_index)) && !w->priv->governor->off &&
        !begins_believed(w, s, c))
        acquire_slowly(w, s, c);
}

GP_HOT unsigned
wrk_governor_again(struct wrk *w, struct wrk_charge *c)
{
    const struct gov_slice *s;

    if (likely(!w->priv->captures)) {
        s = c->slice;
        c->wake = false;
        c->tight = capped(s) || shared(s);
        if (likely(joins_group(s, c, w->ctx_index)))
            return c->tight
                       ? 1
                       : LOOSE_LAUNCHES - atomic_load_explicit(&s->meter.unmarked,
                                                               memory_order_relaxed);
    }
    wrk_governor_acquire(w, c->stream, c->key, c);
    return 1;
}

/* A mark, or the governor's thread, may be due behind the launch. */
GP_HOT static void
launched_locked(struct wrk *w, struct gov_slice *s, const struct wrk_charge *c)
{
    struct wrk_governor *g = w->priv->governor;
    bool full = c->tight && (s->meter.unmarked_unknown ||
                             s->meter.unmarked_ns + c->predicted_ns > GROUP_NS);

    if (!full && !c->wake)
        return;
    pthread_mutex_lock(&g->lock);
    if (full)
        wrk_meter_mark(w, &s->meter);
    pthread_cond_signal(&g->wake);
    pthread_mutex_unlock(&g->lock);
}

GP_HOT void
wrk_governor_launched_n(struct wrk *w, const struct wrk_charge *c, unsigned n)
{
    struct gov_slice *s = c->slice;
    bool first;

    if (unlikely(c->skip || !n))
        return;
    /* Nobody else adds to it. */
    atomic_store_explicit(s->launches,
                          atomic_load_explicit(s->launches, memory_order_relaxed) + n,
                          memory_order_relaxed);
    if (unlikely(w->priv->governor->off))
        return;
    first = !wrk_meter_add(&s->meter, c->key, c->predicted_ns, n);
    /* If the thread slept, acquire() has seen it under the lock. */
    if (unlikely(c->tight || (first && c->wake)))
        launched_locked(w, s, c);
}

/* Nothing else will mark what the last launches are behind.  If they were to go without
 * events, they are late: who ends the wait that the reader still looks after itself
 * tells that they have ended. */
static void
mark_idle(struct wrk *w, struct gov_slice *s)
{
    struct wrk_governor *g = w->priv->governor;

    if (s->meter.unmarked_believed && wrk_wait_pending(w))
        return;
    pthread_mutex_lock(&g->lock);
    if (s->meter.unmarked_believed)
        reap(w, s); /* what is before them has ended */
    wrk_meter_mark(w, &s->meter);
    if (g->asleep)
        pthread_cond_signal(&g->wake);
    pthread_mutex_unlock(&g->lock);
}

GP_HOT void
wrk_governor_idle(struct wrk *w)
{
    struct wrk_governor *g = w->priv->governor;

    for (uint32_t i = 0; i < g->n; i++) {
        struct gov_slice *s = &g->slices[i];

        if (unlikely(atomic_load_explicit(&s->meter.unmarked, memory_order_relaxed)))
            mark_idle(w, s);
    }
}

GP_HOT void
wrk_governor_calm(struct wrk *w)
{
    wrk_meter_calm(&slice_of(w, w->ctx_index)->meter, w->ctx_index,
                   atomic_load_explicit(&w->priv->seq, memory_order_relaxed));
}

/* --- the thread ----------------------------------------------------------------------
 */

/* No call of the driver ends a kernel: it goes on until the process is gone, so the
 * process goes.  The supervisor gives the turn back when it has reaped us. */
static _Noreturn void
end_overdue(struct wrk *w)
{
    char words[160];
    int len = snprintf(words, sizeof(words),
                       "work did not end within %u s while another session waited for "
                       "the card",
                       w->priv->conf.work_limit_s);
    struct wire_event_lost lost = {.result = CUDA_ERROR_LAUNCH_TIMEOUT,
                                   .len = (uint32_t)len};
    struct timespec linger = {.tv_nsec = LINGER_NS};

    gp_log_warn("governor", "%s: the attachment ends", words);
    /* Whoever holds this lock may be stuck behind a client that reads nothing. */
    if (gp_lock_try(&w->priv->send_lock)) {
        gp_lock_release(&w->priv->send_lock);
        wrk_event(w, WIRE_EVENT_LOST, &lost, sizeof(lost), words, lost.len);
    }
    nanosleep(&linger, NULL);
    _exit(OVERDUE_STATUS);
}

/* Somebody else wants the card, or has it while we are on it. */
static bool
claimed(const struct gov_slice *s)
{
    return contended(s) ||
           (s->intruding && __atomic_load_n(&s->card->holders, __ATOMIC_RELAXED));
}

/* How long that has been so and the work on the card has not ended. */
static bool
overdue(const struct gov_slice *s, uint32_t limit_s)
{
    uint64_t now = gp_now_ns();

    return !wrk_meter_idle(&s->meter) && claimed(s) && limit_s &&
           now - gp_max(s->meter.progress_ns, s->calm_ns) >= limit_s * GP_NS_PER_S;
}

/* What is in flight had not begun when the turn was given up. */
static uint64_t
tick_held(struct wrk *w, struct gov_slice *s)
{
    uint32_t seq;

    if (!wrk_meter_idle(&s->meter) && !wrk_meter_held(w, &s->meter)) {
        seq = gov_wake_lock(s->card);
        intrude(s, 0);
        gov_wake_unlock(s->card, seq);
    }
    return TICK_TIGHT_NS;
}

/* What began out of turn shall have one: others give way to it as to who waits. */
static void
ask_late(struct gov_slice *s)
{
    uint32_t seq = gov_wake_lock(s->card);
    uint64_t until;

    s->intruding = !gov_card_ask(s->card, s->seat, gp_now_ns(), &until);
    gov_wake_unlock(s->card, seq);
}

/* One look at a slice; returns after how long to look again, 0: nothing to see. */
static uint64_t
tick(struct wrk *w, struct gov_slice *s)
{
    if (!s->running && wrk_meter_idle(&s->meter))
        return 0;
    reap(w, s);
    charge_owed(w, s);
    if (!s->running)
        return tick_held(w, s);
    if (s->intruding)
        ask_late(s);
    if (!claimed(s))
        s->calm_ns = gp_now_ns();
    if (!atomic_load(&s->meter.unmarked) && held(w, s)) {
        give_up_turn(w, s);
        return TICK_TIGHT_NS;
    }
    if (overdue(s, w->priv->conf.work_limit_s))
        end_overdue(w);
    if (wrk_meter_idle(&s->meter) && !atomic_load(&s->meter.unmarked) &&
        gp_now_ns() - s->meter.quiet_ns >= IDLE_NS) {
        give_up_turn(w, s);
        return 0;
    }
    return capped(s) || contended(s) ? TICK_TIGHT_NS : TICK_LOOSE_NS;
}

static void *
governor_main(void *arg)
{
    struct wrk_governor *g = arg;

    pthread_mutex_lock(&g->lock);
    while (!atomic_load(&g->w->priv->stopping)) {
        uint64_t next = 0;

        for (uint32_t i = 0; i < g->n; i++) {
            uint64_t ns = tick(g->w, &g->slices[i]);

            next = next && ns ? gp_min(next, ns) : gp_max(next, ns);
        }
        if (next) {
            struct timespec pause = {.tv_nsec = (long)next};

            pthread_mutex_unlock(&g->lock);
            nanosleep(&pause, NULL);
            pthread_mutex_lock(&g->lock);
        } else {
            g->asleep = true;
            pthread_cond_wait(&g->wake, &g->lock);
            g->asleep = false;
        }
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

/* --- life
 * ------------------------------------------------------------------------------ */

/* What was launched last is marked, and charged if it is done or as good as done. */
static void
take_in(struct wrk *w, struct gov_slice *s)
{
    struct wrk_governor *g = w->priv->governor;
    uint64_t until = gp_now_ns() + LAST_CHARGE_NS;

    wrk_meter_mark(w, &s->meter);
    reap(w, s);
    while (!wrk_meter_idle(&s->meter) && gp_now_ns() < until) {
        struct timespec pause = {.tv_nsec = WAIT_POLL_NS};

        pthread_mutex_unlock(&g->lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&g->lock);
        reap(w, s);
    }
}

static void
log_spent(struct wrk *w, uint32_t i)
{
    struct wrk_seat *seat = &w->priv->segment->seats[w->priv->conf.seat];

    gp_log_debug("governor",
                 "slice %u: %llu launches, %.3f ms of the card charged, waited %.3f ms",
                 i, (unsigned long long)seat->spent[WRK_SPENT_LAUNCHES][i],
                 (double)seat->spent[WRK_SPENT_GPU_NS][i] / 1e6,
                 (double)seat->spent[WRK_SPENT_WAIT_NS][i] / 1e6);
}

void
wrk_governor_finish(struct wrk *w)
{
    struct wrk_governor *g = w->priv->governor;

    pthread_mutex_lock(&g->lock);
    for (uint32_t i = 0; i < g->n; i++) {
        take_in(w, &g->slices[i]);
        charge_owed(w, &g->slices[i]);
        log_spent(w, i);
    }
    pthread_mutex_unlock(&g->lock);
}

void
wrk_governor_forget(struct wrk *w, uint32_t ctx_index)
{
    struct wrk_governor *g = w->priv->governor;

    pthread_mutex_lock(&g->lock);
    for (uint32_t i = 0; i < g->n; i++) {
        struct gov_slice *s = &g->slices[i];

        take_in(w, s);
        wrk_meter_forget(&s->meter, ctx_index);
    }
    pthread_mutex_unlock(&g->lock);
}

void
wrk_governor_stream_gone(struct wrk *w, const void *stream)
{
    struct wrk_governor *g = w->priv->governor;

    for (uint32_t i = 0; i < g->n; i++) {
        struct gov_slice *s = &g->slices[i];

        if (s->meter.stream != stream || !atomic_load(&s->meter.unmarked))
            continue;
        pthread_mutex_lock(&g->lock);
        wrk_meter_drop_unmarked(w, &s->meter);
        pthread_mutex_unlock(&g->lock);
    }
}

bool
wrk_governor_seat(struct wrk *w, uint32_t slice, struct gov_card **ret_card,
                  int *ret_seat)
{
    struct wrk_governor *g = w->priv->governor;

    *ret_card = g->slices[slice].card;
    *ret_seat = g->slices[slice].seat;
    return !g->off;
}

static int
slice_map(struct gov_slice *s, uint32_t i, struct gp_err *err)
{
    int fd = WRK_FD_CARDS + (int)i;

    s->card = mmap(NULL, sizeof(*s->card), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (s->card == MAP_FAILED)
        return gp_err_set(err, -errno, "memory of the arbiter: %s", strerror(errno));
    close(fd);
    if (s->card->magic != GOV_MAGIC)
        return gp_err_set(err, -EINVAL, "memory of the arbiter: another build's");
    return 0;
}

static int
slice_join(struct wrk *w, struct gov_slice *s, uint32_t i, struct gp_err *err)
{
    const struct wrk_conf *conf = &w->priv->conf;
    struct gov_share share = {.policy = (enum gov_policy)conf->policy,
                              .core = conf->slices[i].core,
                              .core_limit = conf->slices[i].core_limit,
                              .offline = conf->offline != 0,
                              .in_space = conf->spatial != TICKET_SPATIAL_OFF,
                              .units = wrk_spatial_units(w->priv->spatial, i)};
    int r = slice_map(s, i, err);

    if (r < 0)
        return r;
    gov_card_lock(s->card);
    s->seat = gov_card_join(s->card, conf->session_id, getpid(), &share, gp_now_ns());
    gov_card_unlock(s->card);
    if (s->seat < 0)
        return gp_err_set(err, s->seat, "card %u has no room for another worker", i);
    s->tenant = gov_card_tenant(s->card, s->seat);
    s->launches = &w->priv->segment->seats[conf->seat].spent[WRK_SPENT_LAUNCHES][i];
    return wrk_spatial_confine(w, i, s->tenant->units, err);
}

int
wrk_governor_new(struct wrk *w, struct wrk_governor **ret, struct gp_err *err)
{
    struct wrk_governor *g = aligned_alloc(_Alignof(struct wrk_governor), sizeof(*g));
    int r = 0;

    if (!g)
        return gp_err_set(err, -ENOMEM, "no memory for the governor");
    memset(g, 0, sizeof(*g));
    g->w = w;
    g->off = getenv("GPUPOOL_GOVERNOR") && !strcmp(getenv("GPUPOOL_GOVERNOR"), "off");
    g->n = w->priv->conf.n_slices;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->wake, NULL);
    for (uint32_t i = 0; r == 0 && i < g->n; i++)
        r = slice_join(w, &g->slices[i], i, err);
    if (r < 0) {
        free(g); /* the seats go when the supervisor reaps us */
        return r;
    }
    *ret = g;
    r = -pthread_create(&g->thread, NULL, governor_main, g);
    return r < 0 ? gp_err_set(err, r, "no thread for the governor") : 0;
}
