/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is: when a launch may go to the card, and what it waits for. */
#include "wrk_gov.h"

#include "gov_wake.h"
#include "gp_time.h"
#include "wrk.h"
#include "wrk_governor.h"
#include "wrk_wait.h"

#include <time.h>

/* Card time kept in flight while others are on the card or a ceiling holds: giving the
 * turn up takes this long, or one kernel more. */
#define TIGHT_NS 2000000
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

void
wrk_gov_give_up(struct wrk *w, struct gov_slice *s)
{
    uint32_t seq;

    wrk_gov_charge_owed(w, s);
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

/* Whether the launch need not wait: nothing is in flight that it could delay, or
 * nothing that a wait would end. */
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

/* Wait until the launch may follow what is in flight, or with @all until nothing is on
 * the card, or for so long that the work in flight may be waiting for us. */
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
keep_turn(struct gov_slice *s)
{
    uint32_t seq = gov_wake_lock(s->card);
    bool keep = gov_card_keep(s->card, s->seat, gp_now_ns());

    gov_wake_unlock(s->card, seq);
    return keep;
}

GP_HOT bool
wrk_gov_turn(struct wrk *w, struct gov_slice *s, const struct wrk_charge *c)
{
    bool slow = c->tight || !s->running || s->intruding;

    wrk_meter_mark(w, &s->meter);
    wrk_gov_reap(w, s);
    if (c->tight)
        wait_in_flight(w, s, c->predicted_ns, false);
    if (s->running && c->tight && !keep_turn(s)) {
        wait_in_flight(w, s, 0, true);
        /* Stuck with work on the card: the launch goes through, once. */
        if (wrk_meter_idle(&s->meter) || wrk_gov_held(w, s))
            wrk_gov_give_up(w, s);
    }
    if (!s->running || s->intruding)
        get_turn(w, s);
    return slow;
}
