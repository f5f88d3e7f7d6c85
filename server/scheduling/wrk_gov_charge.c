/* SPDX-License-Identifier: Apache-2.0 */
/* The governor's accounting: what the GPU did for the session, and how long a launch
 * will take. */
#include "wrk_gov.h"

#include "gp_time.h"
#include "wrk.h"
#include "wrk_desk.h"

/* How much is remembered of how long launches take, beside their predictions. */
#define MEASURED_NS UINT64_C(1000000000)

void
wrk_gov_overrun(struct wrk *w, struct gov_slice *s, uint64_t ns)
{
    atomic_store(&s->want->late_ns, gp_now_ns() - ns);
    atomic_store(&s->want->run, GOV_RUN_LATE);
    s->running = s->out_of_turn = true;
    wrk_desks_ring(w->priv->desks);
}

void
wrk_gov_charge_owed(struct wrk *w, struct gov_slice *s)
{
    uint32_t index = (uint32_t)(s - w->priv->governor->slices);
    uint64_t ns = s->owed_ns;

    if (!ns)
        return;
    s->owed_ns = 0;
    if (!s->running)
        wrk_gov_overrun(w, s, ns);
    /* The arbiter looks when a turn may be over. */
    atomic_fetch_add_explicit(&s->want->busy_ns, ns, memory_order_relaxed);
    /* A part of the card counts as a part, as the arbiter does it. */
    atomic_fetch_add_explicit(&w->priv->usage->spent[WRK_SPENT_GPU_NS][index],
                              ns * atomic_load(&s->turn->part) / 1000,
                              memory_order_relaxed);
}

/* Nobody waits for what a session alone on its card reports: the thread does it. */
static void
charge(struct wrk *w, struct gov_slice *s, uint64_t ns)
{
    s->owed_ns += ns;
    if (!s->running || s->out_of_turn || wrk_gov_capped(s) || wrk_gov_shared(s))
        wrk_gov_charge_owed(w, s);
}

/* Predictions are usually too long; their sum is corrected by those that were measured.
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
    if (done->unknown || done->estimated)
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
reap_estimated(struct wrk *w, struct gov_slice *s)
{
    uint64_t ns = atomic_load_explicit(&s->meter.estimated_ns, memory_order_relaxed);

    if (ns == s->estimated_ns)
        return;
    charge(w, s, put_right(s, ns - s->estimated_ns));
    s->estimated_ns = ns;
    s->meter.quiet_ns = gp_now_ns();
}

GP_HOT void
wrk_gov_reap(struct wrk *w, struct gov_slice *s)
{
    struct wrk_meter_done done;

    reap_estimated(w, s);
    while (wrk_meter_take(w, &s->meter, &done)) {
        if (done.estimated)
            done.ns = put_right(s, done.ns);
        if (done.ns)
            charge(w, s, done.ns);
        note_measured(s, &done);
        if (wrk_meter_idle(&s->meter))
            s->stuck = s->stuck_left = 0;
    }
}
