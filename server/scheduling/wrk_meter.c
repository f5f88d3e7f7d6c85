/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_meter.h"

#include "drv.h"
#include "gp_time.h"
#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_ctx.h"
#include "wrk_evpool.h"

/* A mark that was not polled for so long says nothing about its launches' duration. */
#define ESTIMATED_LATE_NS 2000000

/* Timing events are mostly used one at a time: one is kept here, so that the pool that
 * all threads share is not touched. */
GP_HOT static CUevent
event_get(struct wrk *w, struct wrk_meter *m, uint32_t ctx_index)
{
    CUevent event = m->spare;

    if (!event || m->spare_ctx != ctx_index)
        return wrk_evpool_get_timed(w, ctx_index);
    m->spare = NULL;
    return event;
}

GP_HOT static void
event_put(struct wrk *w, struct wrk_meter *m, uint32_t ctx_index, CUevent event)
{
    if (m->spare) {
        wrk_evpool_put_timed(w, ctx_index, event);
        return;
    }
    m->spare = event;
    m->spare_ctx = ctx_index;
}

static void
drop_begin(struct wrk *w, struct wrk_meter *m)
{
    if (m->unmarked_begin)
        event_put(w, m, m->ctx_index, m->unmarked_begin);
    m->unmarked_begin = NULL;
    m->unmarked_begun = true;
}

void
wrk_meter_drop_unmarked(struct wrk *w, struct wrk_meter *m)
{
    drop_begin(w, m);
    atomic_store(&m->unmarked, 0);
}

/* Launches without a timing event: their begin is unknown, except that nothing preceded
 * them, so later work is timed from their end. */
static void
mark_estimated(struct wrk *w, struct wrk_meter *m, struct wrk_meter_mark *mark)
{
    mark->begin = NULL;
    mark->estimated = mark->begun = true;
    mark->since_ns = gp_now_ns();
    m->since_ns = mark->since_ns;
    if (!wrk_meter_idle(m))
        return;
    if (m->base)
        event_put(w, m, m->base_ctx, m->base);
    m->base = mark->event;
    m->base_ctx = mark->ctx_index;
    m->base_ns = mark->since_ns;
    m->busy_ns = 0;
}

GP_HOT void
wrk_meter_mark(struct wrk *w, struct wrk_meter *m)
{
    unsigned n = atomic_load_explicit(&m->unmarked, memory_order_relaxed);
    struct wrk_meter_mark *mark;
    CUevent event;

    if (!n || m->head - m->tail == WRK_METER_MARKS)
        return;
    /* An event would become one of the capture, and asking for it would end that. */
    if (unlikely(atomic_load(&w->capturing)) &&
        wrk_capturing(w, m->stream) != CUDA_SUCCESS) {
        wrk_meter_drop_unmarked(w, m);
        return;
    }
    if (w->ctx_index != m->ctx_index && wrk_ctx_use(w, m->ctx_index) != CUDA_SUCCESS)
        return;
    event = event_get(w, m, m->ctx_index);
    if (!event)
        return;
    if (WRK_CALL(w, cuEventRecord, event, m->stream) != CUDA_SUCCESS) {
        event_put(w, m, m->ctx_index, event);
        wrk_meter_drop_unmarked(w, m);
        return;
    }
    mark = &m->marks[m->head % WRK_METER_MARKS];
    *mark = (struct wrk_meter_mark){.begin = m->unmarked_begin,
                                    .event = event,
                                    .stream = m->stream,
                                    .key = m->unmarked_key,
                                    .predicted_ns = m->unmarked_ns,
                                    .ctx_index = m->ctx_index,
                                    .launches = n,
                                    .unknown = m->unmarked_unknown,
                                    .begun = m->unmarked_begun};
    if (m->unmarked_estimated)
        mark_estimated(w, m, mark);
    else
        m->unmarked_begin = NULL;
    if (wrk_meter_idle(m))
        m->progress_ns = m->since_ns;
    m->head++;
    m->in_flight_ns += m->unmarked_ns;
    m->n_unknown += m->unmarked_unknown;
    atomic_store_explicit(&m->unmarked, 0, memory_order_release);
}

#define UNKNOWN_NS UINT64_MAX

/* GPU time from the base to the event @event of @mark, which is complete; @unknown if
 * the two cannot be compared. */
GP_HOT static uint64_t
elapsed_ns(struct wrk *w, const struct wrk_meter *m, const struct wrk_meter_mark *mark,
           CUevent event, uint64_t unknown)
{
    float ms = 0;

    if (m->base && mark->ctx_index == m->base_ctx && w->drv->cuEventElapsedTime_v2 &&
        w->drv->cuEventElapsedTime_v2(&ms, m->base, event) == CUDA_SUCCESS && ms >= 0)
        return (uint64_t)((double)ms * 1e6);
    return unknown;
}

static struct wrk_meter_mark *
mark_at(struct wrk_meter *m, uint32_t at)
{
    return &m->marks[at % WRK_METER_MARKS];
}

static bool
passed(struct wrk *w, CUevent event)
{
    return WRK_CALL(w, cuEventQuery, event) != CUDA_ERROR_NOT_READY;
}

static bool
mark_begun(struct wrk *w, struct wrk_meter *m, struct wrk_meter_mark *mark)
{
    CUevent begin = mark->begin ? mark->begin : m->base;

    if (likely(mark->begun))
        return true;
    mark->begun = !begin || passed(w, begin);
    if (mark->begun)
        m->progress_ns = gp_now_ns();
    return mark->begun;
}

/* The oldest timing event that is complete.  One whose work has begun delays all after
 * it, as far as can be told; others delay their stream only.  False: there is none. */
GP_HOT static bool
find_done(struct wrk *w, struct wrk_meter *m, uint32_t *ret_at)
{
    for (uint32_t at = m->tail; at != m->head; at++) {
        struct wrk_meter_mark *mark = mark_at(m, at);

        if (at != m->tail && mark->stream == mark_at(m, at - 1)->stream)
            continue;
        if (passed(w, mark->event)) {
            *ret_at = at;
            return true;
        }
        if (mark_begun(w, m, mark))
            return false;
    }
    return false;
}

/* The marks before @at move up into its place. */
GP_HOT static void
drop_mark(struct wrk_meter *m, uint32_t at)
{
    uint32_t tail = atomic_load_explicit(&m->tail, memory_order_relaxed);

    m->in_flight_ns -= mark_at(m, at)->predicted_ns;
    m->n_unknown -= mark_at(m, at)->unknown;
    for (; at != tail; at--)
        *mark_at(m, at) = *mark_at(m, at - 1);
    atomic_store_explicit(&m->tail, tail + 1, memory_order_relaxed);
    m->progress_ns = gp_now_ns();
    if (wrk_meter_idle(m))
        m->quiet_ns = m->progress_ns;
}

static void
put_events(struct wrk *w, struct wrk_meter *m, const struct wrk_meter_mark *mark)
{
    if (mark->begin)
        event_put(w, m, mark->ctx_index, mark->begin);
    if (mark->event != m->base)
        event_put(w, m, mark->ctx_index, mark->event);
}

/* A launch that took a second although its kind takes a microsecond is seen even at a
 * late poll. */
static uint64_t
estimated_ns(const struct wrk_meter_mark *mark)
{
    uint64_t passed = gp_now_ns() - mark->since_ns;

    return passed > ESTIMATED_LATE_NS + 4 * mark->predicted_ns ? passed
                                                               : mark->predicted_ns;
}

GP_HOT bool
wrk_meter_take(struct wrk *w, struct wrk_meter *m, struct wrk_meter_done *ret)
{
    struct wrk_meter_mark mark;
    uint64_t from, to;
    uint32_t at;

    if (wrk_meter_idle(m) || !find_done(w, m, &at))
        return false;
    mark = *mark_at(m, at);
    *ret = (struct wrk_meter_done){.key = mark.key,
                                   .predicted_ns = mark.predicted_ns,
                                   .launches = mark.launches,
                                   .unknown = mark.unknown,
                                   .estimated = mark.estimated};
    if (mark.estimated) {
        ret->ns = estimated_ns(&mark);
        ret->estimated = ret->ns == mark.predicted_ns;
        ret->key = 0;
        drop_mark(m, at);
        put_events(w, m, &mark);
        return true;
    }
    to = elapsed_ns(w, m, &mark, mark.event, UNKNOWN_NS);
    if (unlikely(to == UNKNOWN_NS))
        to = gp_now_ns() - m->base_ns;
    from = mark.begin ? elapsed_ns(w, m, &mark, mark.begin, 0) : 0;
    from = gp_max(from, m->busy_ns);
    ret->ns = to - gp_min(to, from);
    m->busy_ns = gp_max(m->busy_ns, to);
    drop_mark(m, at);
    put_events(w, m, &mark);
    return true;
}

/* An event in front of what comes next in @stream; NULL when there is none. */
GP_HOT static CUevent
record(struct wrk *w, struct wrk_meter *m, CUstream stream)
{
    CUevent event = event_get(w, m, w->ctx_index);

    if (!event || WRK_CALL(w, cuEventRecord, event, stream) == CUDA_SUCCESS)
        return event;
    event_put(w, m, w->ctx_index, event);
    return NULL;
}

GP_HOT static void
new_stretch(struct wrk *w, struct wrk_meter *m, CUstream stream)
{
    /* Nobody compares with the last one any more. */
    if (m->base)
        event_put(w, m, m->base_ctx, m->base);
    m->base_ctx = w->ctx_index;
    m->base_ns = m->since_ns;
    m->busy_ns = 0;
    m->base = record(w, m, stream);
    m->quiet_ns = m->since_ns; /* the turn is not given up before the launch */
}

/* After how many groups one is measured again: 1 to 32, so that no program can have its
 * short launches measured and make long ones of the same kind. */
static uint8_t
estimate_next(struct wrk_meter *m)
{
    m->chance = (m->chance ^ (uint32_t)m->since_ns) * 1664525u + 1013904223u;
    return (uint8_t)(1 + (m->chance >> 27));
}

GP_HOT void
wrk_meter_begin(struct wrk *w, struct wrk_meter *m, CUstream stream, bool exact,
                uint64_t now)
{
    bool new = wrk_meter_idle(m);

    m->since_ns = now;
    m->unmarked_estimated = false;
    if (!m->estimate_left)
        m->estimate_left = estimate_next(m);
    drop_begin(w, m);
    if (new)
        new_stretch(w, m, stream);
    else if (exact || mark_at(m, m->head - 1)->stream != stream)
        m->unmarked_begin = record(w, m, stream);
    /* With all marks out there may be launches before this one. */
    m->unmarked_begun =
        atomic_load(&m->unmarked) || !(new ? m->base : m->unmarked_begin);
    m->stream = stream;
    m->ctx_index = w->ctx_index;
}

bool
wrk_meter_held(struct wrk *w, struct wrk_meter *m)
{
    for (uint32_t at = m->tail; at != m->head; at++)
        if (mark_begun(w, m, mark_at(m, at)))
            return false;
    return !wrk_meter_idle(m);
}

uint64_t
wrk_meter_ahead_ns(struct wrk *w, struct wrk_meter *m)
{
    struct wrk_meter_mark *oldest = mark_at(m, m->tail);
    uint64_t since;

    if (wrk_meter_idle(m))
        return 0;
    since = mark_begun(w, m, oldest) ? gp_now_ns() - m->progress_ns : 0;
    return m->in_flight_ns - gp_min(since, oldest->predicted_ns);
}

void
wrk_meter_forget(struct wrk_meter *m, uint32_t ctx_index)
{
    uint32_t kept = m->tail;

    for (uint32_t at = m->tail; at != m->head; at++) {
        const struct wrk_meter_mark *mark = mark_at(m, at);

        if (mark->ctx_index == ctx_index) {
            m->in_flight_ns -= mark->predicted_ns;
            m->n_unknown -= mark->unknown;
        } else {
            *mark_at(m, kept++) = *mark;
        }
    }
    m->head = kept;
    if (wrk_meter_idle(m))
        m->quiet_ns = gp_now_ns();
    if (m->base && m->base_ctx == ctx_index)
        m->base = NULL;
    if (m->spare_ctx == ctx_index)
        m->spare = NULL;
    if (m->ctx_index == ctx_index) {
        m->unmarked_begin = NULL;
        atomic_store(&m->unmarked, 0);
    }
}
