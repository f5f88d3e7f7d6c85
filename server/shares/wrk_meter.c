/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_meter.h"

#include "drv.h"
#include "gp_time.h"
#include "wrk.h"
#include "wrk_ctx.h"
#include "wrk_evpool.h"

bool
wrk_meter_add(struct wrk_meter *m, uint64_t key, uint64_t predicted_ns)
{
    if (atomic_load_explicit(&m->unmarked, memory_order_relaxed) == 0) {
        m->unmarked_key = key;
        m->unmarked_ns = 0;
        m->unmarked_unknown = false;
    } else if (m->unmarked_key != key) {
        m->unmarked_key = 0;
    }
    m->unmarked_ns += predicted_ns;
    m->unmarked_unknown |= !predicted_ns;
    return atomic_fetch_add_explicit(&m->unmarked, 1, memory_order_relaxed) != 0;
}

void
wrk_meter_mark(struct wrk *w, struct wrk_meter *m)
{
    unsigned n = atomic_load_explicit(&m->unmarked, memory_order_relaxed);
    CUevent event;

    if (!n || m->head - m->tail == WRK_METER_MARKS)
        return;
    if (w->ctx_index != m->ctx_index && wrk_ctx_use(w, m->ctx_index) != CUDA_SUCCESS)
        return;
    event = wrk_evpool_get_timed(w, m->ctx_index);
    if (!event)
        return;
    if (WRK_CALL(w, cuEventRecord, event, m->stream) != CUDA_SUCCESS) {
        wrk_evpool_put_timed(w, m->ctx_index, event);
        atomic_store(&m->unmarked, 0);
        return;
    }
    if (wrk_meter_idle(m))
        m->progress_ns = gp_now_ns();
    m->marks[m->head++ % WRK_METER_MARKS] =
        (struct wrk_meter_mark){.event = event,
                                .key = m->unmarked_key,
                                .predicted_ns = m->unmarked_ns,
                                .ctx_index = m->ctx_index,
                                .launches = n,
                                .unknown = m->unmarked_unknown};
    m->in_flight_ns += m->unmarked_ns;
    m->n_unknown += m->unmarked_unknown;
    atomic_store(&m->unmarked, 0);
}

/* Card time from the base to this event, which is done. */
static uint64_t
mark_elapsed(struct wrk *w, const struct wrk_meter *m,
             const struct wrk_meter_mark *mark)
{
    float ms = 0;

    if (m->base && mark->ctx_index == m->base_ctx && w->drv->cuEventElapsedTime_v2 &&
        w->drv->cuEventElapsedTime_v2(&ms, m->base, mark->event) == CUDA_SUCCESS &&
        ms >= 0)
        return (uint64_t)((double)ms * 1e6);
    return gp_now_ns() - m->base_ns;
}

static void
drop_oldest(struct wrk_meter *m)
{
    const struct wrk_meter_mark *mark = &m->marks[m->tail++ % WRK_METER_MARKS];

    m->in_flight_ns -= mark->predicted_ns;
    m->n_unknown -= mark->unknown;
    m->progress_ns = gp_now_ns();
    if (wrk_meter_idle(m))
        m->quiet_ns = m->progress_ns;
}

bool
wrk_meter_take(struct wrk *w, struct wrk_meter *m, struct wrk_meter_done *ret)
{
    struct wrk_meter_mark *mark = &m->marks[m->tail % WRK_METER_MARKS];
    uint64_t elapsed;

    if (wrk_meter_idle(m) ||
        WRK_CALL(w, cuEventQuery, mark->event) == CUDA_ERROR_NOT_READY)
        return false;
    elapsed = mark_elapsed(w, m, mark);
    *ret = (struct wrk_meter_done){.ns = elapsed - gp_min(elapsed, m->busy_ns),
                                   .key = mark->key,
                                   .launches = mark->launches};
    m->busy_ns = gp_max(m->busy_ns, elapsed);
    drop_oldest(m);
    wrk_evpool_put_timed(w, mark->ctx_index, mark->event);
    return true;
}

void
wrk_meter_begin(struct wrk *w, struct wrk_meter *m, CUstream stream)
{
    if (m->base)
        wrk_evpool_put_timed(w, m->base_ctx, m->base);
    m->base_ctx = w->ctx_index;
    m->base = wrk_evpool_get_timed(w, w->ctx_index);
    m->base_ns = gp_now_ns();
    m->busy_ns = 0;
    if (m->base && WRK_CALL(w, cuEventRecord, m->base, stream) != CUDA_SUCCESS) {
        wrk_evpool_put_timed(w, m->base_ctx, m->base);
        m->base = NULL;
    }
}

uint64_t
wrk_meter_ahead_ns(const struct wrk_meter *m)
{
    uint64_t passed = gp_now_ns() - m->progress_ns;

    if (wrk_meter_idle(m))
        return 0;
    return m->in_flight_ns -
           gp_min(passed, m->marks[m->tail % WRK_METER_MARKS].predicted_ns);
}

void
wrk_meter_forget(struct wrk_meter *m, uint32_t ctx_index)
{
    uint32_t kept = m->tail;

    for (uint32_t at = m->tail; at != m->head; at++) {
        const struct wrk_meter_mark *mark = &m->marks[at % WRK_METER_MARKS];

        if (mark->ctx_index == ctx_index) {
            m->in_flight_ns -= mark->predicted_ns;
            m->n_unknown -= mark->unknown;
        } else {
            m->marks[kept++ % WRK_METER_MARKS] = *mark;
        }
    }
    m->head = kept;
    if (wrk_meter_idle(m))
        m->quiet_ns = gp_now_ns();
    if (m->base && m->base_ctx == ctx_index)
        m->base = NULL;
    if (m->ctx_index == ctx_index)
        atomic_store(&m->unmarked, 0);
}
