/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is: when a launch may go to the card, and what it waits for. */
#include "wrk_gov.h"

#include "gp_time.h"
#include "wrk.h"
#include "wrk_desk.h"
#include "wrk_governor.h"
#include "wrk_wait.h"

#include <time.h>

/* GPU time that is kept in flight while other tenants are on the GPU or a ceiling
 * holds: giving the turn up takes this long, or one kernel more. */
#define TIGHT_NS 2000000
/* Work in flight may wait for this very launch, or for a call after it.  So the launch
 * is submitted when the wait took longer than twice the prediction and this; so are
 * this many after it, fewer while another tenant waits.  If the GPU has made progress
 * meanwhile, the work was only long: the next such wait takes twice as long, until the
 * GPU drains. */
#define STUCK_NS 50000000
/* The same when something in flight has no prediction. */
#define STUCK_UNKNOWN_NS 500000000
#define STUCK_DOUBLINGS 5
#define STUCK_LAUNCHES 16u
#define STUCK_LAUNCHES_CONTENDED 4u
/* Nothing in flight has begun for so long: the card is not what it waits for. */
#define HELD_NS 2000000
/* This much of it is submitted without a wait; it may begin in another tenant's turn.
 * Less while one waits. */
#define HELD_MOST_NS 100000000
#define HELD_MOST_UNKNOWN 64u
#define HELD_CONTENDED_NS 20000000
#define HELD_CONTENDED_UNKNOWN 8u

/* ---- asking ---- */

/* A turn that rests with the session is taken without asking the arbiter (gov_desk.h).
 */
static bool
rests_with_us(struct gov_slice *s)
{
    uint32_t run = atomic_load_explicit(&s->want->run, memory_order_relaxed);

    if (!atomic_load_explicit(&s->turn->rests, memory_order_relaxed))
        return false;
    atomic_store(&s->want->run, GOV_RUN_TURN);
    if (atomic_load(&s->turn->rests))
        return true;
    atomic_store(&s->want->run, run);
    return false;
}

static bool
has_turn(struct gov_slice *s)
{
    s->running = true;
    s->out_of_turn = false;
    return true;
}

bool
wrk_gov_ask(struct wrk *w, struct gov_slice *s)
{
    if (!s->asking) {
        if (rests_with_us(s))
            return has_turn(s);
        s->asked = atomic_load(&s->turn->grant) + 1;
        s->asking = true;
        atomic_store(&s->want->ask, s->asked);
        wrk_desks_ring(w->priv->desks);
    }
    if (atomic_load(&s->turn->grant) != s->asked)
        return false;
    s->asking = false;
    /* A turn that is not done yet implies that the session runs. */
    atomic_store(&s->want->run, GOV_RUN_NOT);
    return has_turn(s);
}

/* The opposite order of the arbiter, which grants and then checks whether the request
 * still stands: one of the two gives the turn back. */
void
wrk_gov_unask(struct wrk *w, struct gov_slice *s)
{
    if (!s->asking)
        return;
    s->asking = false;
    atomic_store(&s->want->ask, s->asked - 1);
    if (atomic_load(&s->turn->grant) == s->asked)
        atomic_store(&s->want->done, s->asked);
    wrk_desks_ring(w->priv->desks);
}

void
wrk_gov_give_up(struct wrk *w, struct gov_slice *s)
{
    wrk_gov_charge_owed(w, s);
    wrk_gov_unask(w, s);
    s->running = s->out_of_turn = false;
    atomic_store(&s->want->run, GOV_RUN_NOT);
    if (atomic_load_explicit(&s->want->done, memory_order_relaxed) != s->asked &&
        atomic_load(&s->turn->grant) == s->asked)
        atomic_store(&s->want->done, s->asked);
    if (!atomic_load(&s->turn->rests))
        wrk_desks_ring(w->priv->desks);
}

/* Sleep until the arbiter has given us the turn, a stop included.  A signal that did
 * not arrive would leave the request unseen, so it is sent again after each sleep. */
static void
arbiter_wait(struct wrk *w, struct gov_slice *s)
{
    wrk_desks_wait((_Atomic uint32_t *)(uintptr_t)&s->turn->grant, s->asked - 1,
                   STUCK_NS);
    if (atomic_load(&s->turn->grant) != s->asked)
        wrk_desks_ring(w->priv->desks);
}

/* Ask until the turn is ours; the lock is let go while waiting.  The governor's thread
 * may have got it meanwhile: who has a turn must not ask for another one, which the
 * arbiter would give behind the first. */
static void
get_turn(struct wrk *w, struct gov_slice *s)
{
    struct wrk_governor *g = w->priv->governor;

    while (!atomic_load(&w->priv->stopping)) {
        if ((s->running && !s->out_of_turn) || wrk_gov_ask(w, s))
            return;
        pthread_mutex_unlock(&g->lock);
        /* Replies that are due are not delayed by this launch. */
        wrk_flush(w);
        wrk_wait_hand_over(w);
        arbiter_wait(w, s);
        pthread_mutex_lock(&g->lock);
    }
    wrk_gov_unask(w, s); /* nobody waits for a turn of ours */
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

bool
wrk_gov_held(struct wrk *w, struct gov_slice *s)
{
    return wrk_meter_held(w, &s->meter) &&
           gp_now_ns() - s->meter.progress_ns >= HELD_NS;
}

/* Whether the launch may join what is held. */
static bool
fits_held(const struct gov_slice *s, uint64_t predicted_ns)
{
    bool others = wrk_gov_contended(s);

    return s->meter.in_flight_ns + predicted_ns <=
               (others ? HELD_CONTENDED_NS : HELD_MOST_NS) &&
           s->meter.n_unknown < (others ? HELD_CONTENDED_UNKNOWN : HELD_MOST_UNKNOWN);
}

/* Whether the launch need not wait: no work in flight would be delayed by it, or a wait
 * would not end that work. */
static bool
may_follow(struct wrk *w, struct gov_slice *s, uint64_t predicted_ns, bool all)
{
    if (all ? wrk_meter_idle(&s->meter) : fits_behind(w, s, predicted_ns))
        return true;
    return wrk_gov_held(w, s) && (all || fits_held(s, predicted_ns));
}

static uint64_t
stuck_ns(struct wrk *w, struct gov_slice *s)
{
    uint64_t least = s->meter.n_unknown ? STUCK_UNKNOWN_NS : STUCK_NS;

    if (wrk_gov_held(w, s))
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
    if (wrk_gov_held(w, s))
        return;
    s->stuck++;
    s->stuck_at = s->meter.tail;
    s->stuck_left = wrk_gov_contended(s) ? STUCK_LAUNCHES_CONTENDED : STUCK_LAUNCHES;
}

/* Wait until the launch may follow the work in flight, or with @all until the GPU is
 * idle; or until so much time has passed that the work in flight may be waiting for us.
 */
static void
wait_in_flight(struct wrk *w, struct gov_slice *s, uint64_t predicted_ns, bool all)
{
    struct wrk_governor *g = w->priv->governor;
    uint64_t until;

    wrk_gov_reap(w, s);
    if (may_follow(w, s, predicted_ns, all) || still_stuck(s))
        return;
    until = gp_now_ns() + stuck_ns(w, s);
    wrk_flush(w);
    wrk_wait_hand_over(w);
    do {
        struct timespec pause = {.tv_nsec = GOV_POLL_NS};

        if (gp_now_ns() >= until || atomic_load(&w->priv->stopping)) {
            note_stuck(w, s);
            return;
        }
        pthread_mutex_unlock(&g->lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&g->lock);
        wrk_gov_reap(w, s);
    } while (!may_follow(w, s, predicted_ns, all));
}

static bool
keep_turn(const struct gov_slice *s)
{
    return !s->out_of_turn && !atomic_load(&s->turn->stop);
}

GP_HOT bool
wrk_gov_turn(struct wrk *w, struct gov_slice *s, const struct wrk_charge *c)
{
    bool slow = c->throttled || !s->running || s->out_of_turn;

    wrk_meter_mark(w, &s->meter);
    wrk_gov_reap(w, s);
    if (c->throttled)
        wait_in_flight(w, s, c->predicted_ns, false);
    if (s->running && c->throttled && !keep_turn(s)) {
        wait_in_flight(w, s, 0, true);
        /* Stuck with work on the card: the launch goes through, once. */
        if (wrk_meter_idle(&s->meter) || wrk_gov_held(w, s))
            wrk_gov_give_up(w, s);
    }
    if (!s->running || s->out_of_turn)
        get_turn(w, s);
    return slow;
}
