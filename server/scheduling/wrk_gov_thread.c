/* SPDX-License-Identifier: Apache-2.0 */
/* What the governor sees while nobody calls: ends, idle cards, overdue work. */
#include "wrk_gov.h"

#include "drv.h"
#include "gp_log.h"
#include "gp_time.h"
#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_end_reason.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define OVERDUE_STATUS 4
/* The card has been idle for this long: the turn is given up. */
#define IDLE_NS 100000
/* How often the governor's thread looks. */
#define TICK_TIGHT_NS 200000
#define TICK_LOOSE_NS 1000000

/* No call of the driver ends a running kernel; only the end of the process does, so the
 * process exits.  The supervisor gives the turn back when it has reaped it. */
static _Noreturn void
end_overdue(struct wrk *w)
{
    char words[160];

    snprintf(words, sizeof(words),
             "work did not end within %u s while another session waited for the card",
             w->priv->conf.work_limit_s);
    gp_log_warn("governor", "%s: the attachment ends", words);
    wrk_end_reason_send(w, CUDA_ERROR_LAUNCH_TIMEOUT, words);
    _exit(OVERDUE_STATUS);
}

/* Somebody else wants the card, or has it while we are on it. */
static bool
claimed(const struct gov_slice *s)
{
    return wrk_gov_contended(s) ||
           (s->out_of_turn &&
            atomic_load_explicit(&s->turn->others, memory_order_relaxed));
}

/* How long that has been so and the work on the card has not ended. */
static bool
overdue(const struct gov_slice *s, uint32_t limit_s)
{
    uint64_t now = gp_now_ns();

    return !wrk_meter_idle(&s->meter) && claimed(s) && limit_s &&
           now - gp_max(s->meter.progress_ns, s->idle_ns) >= limit_s * GP_NS_PER_S;
}

/* What is in flight had not begun when the turn was given up. */
static uint64_t
tick_held(struct wrk *w, struct gov_slice *s)
{
    if (!wrk_meter_idle(&s->meter) && !wrk_meter_held(w, &s->meter))
        wrk_gov_overrun(w, s, 0);
    return TICK_TIGHT_NS;
}

/* One look at a slice; returns after how long to look again, 0: nothing to see. */
static uint64_t
tick(struct wrk *w, struct gov_slice *s)
{
    if (!s->running && wrk_meter_idle(&s->meter))
        return 0;
    wrk_gov_reap(w, s);
    wrk_gov_charge_owed(w, s);
    if (!s->running)
        return tick_held(w, s);
    /* What began out of turn shall have one: others give way to it as to who waits. */
    if (s->out_of_turn)
        wrk_gov_ask(w, s);
    if (!claimed(s))
        s->idle_ns = gp_now_ns();
    if (!atomic_load(&s->meter.unmarked) && wrk_gov_held(w, s)) {
        wrk_gov_give_up(w, s);
        return TICK_TIGHT_NS;
    }
    if (overdue(s, w->priv->conf.work_limit_s))
        end_overdue(w);
    if (wrk_meter_idle(&s->meter) && !atomic_load(&s->meter.unmarked) &&
        gp_now_ns() - s->meter.quiet_ns >= IDLE_NS) {
        wrk_gov_give_up(w, s);
        return 0;
    }
    return wrk_gov_capped(s) || wrk_gov_contended(s) ? TICK_TIGHT_NS : TICK_LOOSE_NS;
}

void *
wrk_gov_main(void *governor)
{
    struct wrk_governor *g = governor;

    pthread_mutex_lock(&g->lock);
    while (!atomic_load(&g->w->priv->stopping)) {
        uint64_t next = 0;

        /* The thread's queries are no client's: a capture of the client would forbid
         * them else, and they would end it. */
        wrk_capture_relax_thread(g->w, true);

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
