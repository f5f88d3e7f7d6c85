/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_governor.h"

#include "drv.h"
#include "gp_log.h"
#include "gp_time.h"
#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_ctx.h"
#include "wrk_desk.h"
#include "wrk_gov.h"
#include "wrk_spatial.h"
#include "wrk_wait.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* Launches that share one mark while nobody waits for the card. */
#define LOOSE_LAUNCHES 16u
/* Short kernels share a mark for so much card time. */
#define GROUP_NS 200000
/* At the end of an attachment or a context, the last launches are waited for this long
 * before they go uncharged. */
#define LAST_CHARGE_NS 5000000

/* May the launch share the next mark with those before it? */
GP_HOT static inline bool
joins_group(const struct gov_slice *s, const struct wrk_charge *c, uint32_t ctx_index)
{
    unsigned n = atomic_load_explicit(&s->meter.unmarked, memory_order_relaxed);

    if (!n || n >= LOOSE_LAUNCHES || c->stream != s->meter.stream ||
        ctx_index != s->meter.ctx_index)
        return false;
    if (s->meter.unmarked_estimated && (c->throttled || !c->predicted_ns))
        return false;
    return !c->throttled || (c->predicted_ns && !s->meter.unmarked_unknown &&
                             s->meter.unmarked_ns + c->predicted_ns <= GROUP_NS);
}

/* The slice that the context is on. */
GP_HOT static inline struct gov_slice *
slice_of(struct wrk *w, uint32_t ctx_index)
{
    struct wrk_governor *g = w->priv->governor;

    return &g->slices[likely(g->n == 1) ? 0 : wrk_ctx_slice(w, ctx_index)];
}

/* May the launch begin a group that needs no events?  Only while the session is alone,
 * and for kinds with an estimate. */
GP_HOT static inline bool
begins_estimated(struct wrk *w, struct gov_slice *s, const struct wrk_charge *c)
{
    return !c->throttled && c->predicted_ns && s->running && !s->out_of_turn &&
           wrk_meter_estimate(
               &s->meter, w->ctx_index, c->stream,
               atomic_load_explicit(&w->priv->seq, memory_order_relaxed));
}

/* The arbiter may have to be asked, and what the launch takes is to be measured. */
__attribute__((noinline)) static void
acquire_slowly(struct wrk *w, struct gov_slice *s, struct wrk_charge *c)
{
    struct wrk_governor *g = w->priv->governor;
    struct wrk_usage *usage = w->priv->usage;
    uint32_t index = (uint32_t)(s - g->slices);
    uint32_t current = w->ctx_frame;
    uint64_t began, now;

    wrk_capture_relax_own(w);
    pthread_mutex_lock(&g->lock);
    began = now = gp_now_ns();
    if (wrk_gov_turn(w, s, c)) {
        now = gp_now_ns();
        atomic_fetch_add_explicit(&usage->spent[WRK_SPENT_WAIT_NS][index], now - began,
                                  memory_order_relaxed);
    }
    if (w->ctx_frame != current)
        wrk_ctx_use(w, current);
    if (!begins_estimated(w, s, c))
        wrk_meter_begin(w, &s->meter, c->stream, c->throttled, now);
    c->wake = g->asleep;
    pthread_mutex_unlock(&g->lock);
    wrk_capture_relax_client(w);
}

GP_HOT void
wrk_governor_acquire(struct wrk *w, CUstream stream, uint64_t key, struct wrk_charge *c)
{
    struct gov_slice *s;

    c->stream = stream; /* wrk_governor_again() asks with these, skipped or not */
    c->key = key;
    c->skip = unlikely(w->priv->captures) && wrk_capturing(w, stream) != CUDA_SUCCESS;
    if (c->skip)
        return;
    s = slice_of(w, w->ctx_index);
    c->slice = s;
    c->throttled = wrk_gov_capped(s) || wrk_gov_shared(s);
    c->predicted_ns = wrk_predict_ns(&s->predict, key);
    c->wake = false;
    if (unlikely(!joins_group(s, c, w->ctx_index)) && !w->priv->governor->off &&
        !begins_estimated(w, s, c))
        acquire_slowly(w, s, c);
}

/* The duration of one predicts the next of about the same size. */
void
wrk_governor_acquire_copy(struct wrk *w, struct wrk_charge *c, CUstream stream,
                          uint64_t bytes)
{
    uint64_t log = 64 - (uint64_t)__builtin_clzll(bytes | 1);

    wrk_governor_acquire(w, stream, log << 8 | 1, c);
}

GP_HOT unsigned
wrk_governor_again(struct wrk *w, struct wrk_charge *c)
{
    const struct gov_slice *s;

    if (likely(!w->priv->captures)) {
        s = c->slice;
        c->wake = false;
        c->throttled = wrk_gov_capped(s) || wrk_gov_shared(s);
        if (likely(joins_group(s, c, w->ctx_index)))
            return c->throttled
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
    bool full = c->throttled && (s->meter.unmarked_unknown ||
                                 s->meter.unmarked_ns + c->predicted_ns > GROUP_NS);

    if (!full && !c->wake)
        return;
    wrk_capture_relax_own(w);
    pthread_mutex_lock(&g->lock);
    if (full)
        wrk_meter_mark(w, &s->meter);
    pthread_cond_signal(&g->wake);
    pthread_mutex_unlock(&g->lock);
    wrk_capture_relax_client(w);
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
    if (unlikely(c->throttled || (first && c->wake)))
        launched_locked(w, s, c);
}

/* No later launch will record an event after the last ones.  If those were to go
 * without events, their event is recorded now, late: the end of the wait that the
 * receive thread still polls for shows that they have ended. */
static void
mark_idle(struct wrk *w, struct gov_slice *s)
{
    struct wrk_governor *g = w->priv->governor;

    if (s->meter.unmarked_estimated && wrk_wait_pending(w))
        return;
    wrk_capture_relax_own(w);
    pthread_mutex_lock(&g->lock);
    if (s->meter.unmarked_estimated)
        wrk_gov_reap(w, s); /* what is before them has ended */
    wrk_meter_mark(w, &s->meter);
    if (g->asleep)
        pthread_cond_signal(&g->wake);
    pthread_mutex_unlock(&g->lock);
    wrk_capture_relax_client(w);
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
wrk_governor_ctx_idle(struct wrk *w)
{
    wrk_meter_ctx_idle(&slice_of(w, w->ctx_index)->meter, w->ctx_index,
                       atomic_load_explicit(&w->priv->seq, memory_order_relaxed));
}

/* ---- life ---- */

/* What was launched last is marked, and charged if it is done or as good as done. */
static void
take_in(struct wrk *w, struct gov_slice *s)
{
    struct wrk_governor *g = w->priv->governor;
    uint64_t until = gp_now_ns() + LAST_CHARGE_NS;

    wrk_meter_mark(w, &s->meter);
    wrk_gov_reap(w, s);
    while (!wrk_meter_idle(&s->meter) && gp_now_ns() < until) {
        struct timespec pause = {.tv_nsec = GOV_POLL_NS};

        pthread_mutex_unlock(&g->lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&g->lock);
        wrk_gov_reap(w, s);
    }
}

static void
log_spent(struct wrk *w, uint32_t i)
{
    struct wrk_usage *usage = w->priv->usage;

    gp_log_debug("governor",
                 "slice %u: %llu launches, %.3f ms of the card charged, waited %.3f ms",
                 i, (unsigned long long)usage->spent[WRK_SPENT_LAUNCHES][i],
                 (double)usage->spent[WRK_SPENT_GPU_NS][i] / 1e6,
                 (double)usage->spent[WRK_SPENT_WAIT_NS][i] / 1e6);
}

void
wrk_governor_finish(struct wrk *w)
{
    struct wrk_governor *g = w->priv->governor;

    wrk_capture_relax_own(w);
    pthread_mutex_lock(&g->lock);
    for (uint32_t i = 0; i < g->n; i++) {
        take_in(w, &g->slices[i]);
        wrk_gov_charge_owed(w, &g->slices[i]);
        log_spent(w, i);
    }
    pthread_mutex_unlock(&g->lock);
    wrk_capture_relax_client(w);
}

void
wrk_governor_forget(struct wrk *w, uint32_t ctx_index)
{
    struct wrk_governor *g = w->priv->governor;

    wrk_capture_relax_own(w);
    pthread_mutex_lock(&g->lock);
    for (uint32_t i = 0; i < g->n; i++) {
        struct gov_slice *s = &g->slices[i];

        take_in(w, s);
        wrk_meter_forget(&s->meter, ctx_index);
    }
    pthread_mutex_unlock(&g->lock);
    wrk_capture_relax_client(w);
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
wrk_governor_off(const struct wrk *w)
{
    return w->priv->governor->off;
}

static void
slice_init(struct wrk *w, struct gov_slice *s, uint32_t i)
{
    s->turn = &w->priv->desks->notice->turns[i];
    s->want = &w->priv->desks->desk->wants[i];
    s->launches = &w->priv->usage->spent[WRK_SPENT_LAUNCHES][i];
    atomic_store(&s->want->pieces, wrk_spatial_units(w->priv->spatial, i));
}

static int
slices_join(struct wrk *w, struct wrk_governor *g, struct gp_err *err)
{
    int r;

    for (uint32_t i = 0; i < g->n; i++)
        slice_init(w, &g->slices[i], i);
    r = wrk_desks_join(w->priv->desks);
    if (r < 0)
        return gp_err_set(err, r, "the cards have no room for another worker (%s)",
                          strerror(-r));
    for (uint32_t i = 0; r == 0 && i < g->n; i++)
        r = wrk_spatial_confine(w, i, atomic_load(&g->slices[i].turn->units), err);
    return r;
}

int
wrk_governor_new(struct wrk *w, struct wrk_governor **ret, struct gp_err *err)
{
    /* Most of it is for what few programs do: pages that nobody touches are not there.
     */
    struct wrk_governor *g = mmap(NULL, sizeof(*g), PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int r;

    if (g == MAP_FAILED)
        return gp_err_set(err, -ENOMEM, "no memory for the governor");
    g->w = w;
    g->off = getenv("GPUPOOL_GOVERNOR") && !strcmp(getenv("GPUPOOL_GOVERNOR"), "off");
    g->n = w->priv->conf.n_slices;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->wake, NULL);
    r = slices_join(w, g, err);
    if (r < 0) {
        munmap(g, sizeof(*g)); /* the slots go when the supervisor reaps us */
        return r;
    }
    *ret = g;
    r = -pthread_create(&g->thread, NULL, wrk_gov_main, g);
    return r < 0 ? gp_err_set(err, r, "no thread for the governor") : 0;
}
