/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_governor.h"

#include "drv.h"
#include "gov_wake.h"
#include "gp_log.h"
#include "gp_time.h"
#include "wrk.h"
#include "wrk_bulk.h"
#include "wrk_ctx.h"
#include "wrk_evpool.h"
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

/* Marks in flight per slice; with all of them out, launches go unmarked until one
 * is done. */
#define MARKS 256u
/* Launches that share one mark while nobody waits for the card. */
#define LOOSE_LAUNCHES 16u
/* Card time kept in flight while others are on the card or a ceiling holds: giving the
 * turn up takes this long, or one kernel more. */
#define TIGHT_NS 2000000
/* Short kernels share a mark for so much card time. */
#define GROUP_NS 200000
/* A launch may be what the work in flight waits for: it is let through when that took
 * longer than twice the prediction and this, the latter doubled each time until the
 * card drains, so that long kernels cannot keep a turn that is over. */
#define STUCK_NS 50000000
/* The same when something in flight has no prediction. */
#define STUCK_UNKNOWN_NS 500000000
#define STUCK_DOUBLINGS 8
/* At the end of an attachment or a context, what was launched last is waited for so
 * long before it goes uncharged. */
#define LAST_CHARGE_NS 5000000
/* The last words of an attachment that is ended have so long to leave. */
#define LINGER_NS 100000000
#define OVERDUE_STATUS 4
/* How often a waiting reader looks. */
#define WAIT_POLL_NS 20000
/* The card has been idle for this long: the turn is given up. */
#define IDLE_NS 100000
/* How often the governor's thread looks. */
#define TICK_TIGHT_NS 200000
#define TICK_LOOSE_NS 1000000

struct mark {
    CUevent event;
    uint64_t key;          /* of its launches, 0: of several kinds */
    uint64_t predicted_ns; /* all of them together */
    uint32_t ctx_index;
    uint32_t launches; /* that it stands for */
    bool unknown;      /* a launch without a prediction is among them */
};

struct gov_slice {
    struct gov_card *card;
    const struct gov_tenant *tenant; /* the session, as the card knows it */
    int seat;
    bool running;

    /* A stretch of work without a gap: from a base event to the last mark done. */
    CUevent base;
    uint32_t base_ctx;
    uint64_t base_ns;  /* our clock, for marks of another context */
    uint64_t busy_ns;  /* of this stretch, reported so far */
    uint64_t quiet_ns; /* since when nothing is in flight */

    struct mark marks[MARKS];
    uint32_t head, tail;   /* marks[tail % MARKS] is the oldest in flight */
    uint64_t in_flight_ns; /* predicted for the marks in flight */
    uint32_t n_unknown;    /* marks in flight with an unknown launch */
    unsigned stuck;        /* launches let through since the card last drained */
    uint64_t progress_ns;  /* when the oldest mark became the oldest */
    uint64_t calm_ns;      /* when nobody else wanted the card, last */
    struct wrk_predict predict;

    /* Reader: launches behind the last mark.  While there are any, the thread does
     * not give the turn up, so the reader's short way needs no lock. */
    atomic_uint unmarked;
    CUstream stream; /* where they are */
    uint32_t ctx_index;
    uint64_t unmarked_ns, unmarked_key; /* as in struct mark */
    bool unmarked_unknown;
};

struct wrk_governor {
    struct wrk *w;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    uint32_t n;
    bool off; /* GPUPOOL_GOVERNOR=off in the server's environment: for measuring */
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

/* --- marks ---------------------------------------------------------------------- */

/* Card time from the base to this event, which is done. */
static uint64_t
mark_elapsed(struct wrk *w, const struct gov_slice *s, const struct mark *m)
{
    float ms = 0;

    if (s->base && m->ctx_index == s->base_ctx && w->drv->cuEventElapsedTime_v2 &&
        w->drv->cuEventElapsedTime_v2(&ms, s->base, m->event) == CUDA_SUCCESS &&
        ms >= 0)
        return (uint64_t)((double)ms * 1e6);
    return gp_now_ns() - s->base_ns;
}

static void
charge(struct wrk *w, struct gov_slice *s, uint64_t ns)
{
    uint32_t index = (uint32_t)(s - w->priv->governor->slices);
    struct wrk_seat *seat = &w->priv->segment->seats[w->priv->conf.seat];
    uint32_t seq;

    seq = gov_wake_lock(s->card);
    gov_card_report(s->card, s->seat, ns, gp_now_ns());
    gov_wake_unlock(s->card, seq);
    /* A part of the card counts as a part, as the arbiter does it. */
    atomic_fetch_add_explicit(&seat->spent[WRK_SPENT_GPU_NS][index],
                              ns * s->tenant->part / 1000, memory_order_relaxed);
}

static void
drop_oldest(struct gov_slice *s)
{
    const struct mark *m = &s->marks[s->tail++ % MARKS];

    s->in_flight_ns -= m->predicted_ns;
    s->n_unknown -= m->unknown;
    s->progress_ns = gp_now_ns();
    if (s->head != s->tail)
        return;
    s->quiet_ns = s->progress_ns;
    s->stuck = 0;
}

/* Take in the oldest mark if it is done. */
static bool
reap_one(struct wrk *w, struct gov_slice *s)
{
    struct mark *m = &s->marks[s->tail % MARKS];
    uint64_t elapsed, add;

    if (s->head == s->tail ||
        WRK_CALL(w, cuEventQuery, m->event) == CUDA_ERROR_NOT_READY)
        return false;
    elapsed = mark_elapsed(w, s, m);
    add = elapsed > s->busy_ns ? elapsed - s->busy_ns : 0;
    s->busy_ns = gp_max(s->busy_ns, elapsed);
    if (add)
        charge(w, s, add);
    if (m->key)
        wrk_predict_learn(&s->predict, m->key, add / m->launches);
    drop_oldest(s);
    wrk_evpool_put_timed(w, m->ctx_index, m->event);
    return true;
}

static void
reap(struct wrk *w, struct gov_slice *s)
{
    while (reap_one(w, s))
        ;
}

/* A mark behind the unmarked launches; lock held, reader thread. */
static void
put_mark(struct wrk *w, struct gov_slice *s)
{
    unsigned n = atomic_load_explicit(&s->unmarked, memory_order_relaxed);
    CUevent event;

    if (!n || s->head - s->tail == MARKS)
        return;
    if (w->ctx_index != s->ctx_index && wrk_ctx_use(w, s->ctx_index) != CUDA_SUCCESS)
        return;
    event = wrk_evpool_get_timed(w, s->ctx_index);
    if (!event)
        return;
    if (WRK_CALL(w, cuEventRecord, event, s->stream) != CUDA_SUCCESS) {
        wrk_evpool_put_timed(w, s->ctx_index, event);
        atomic_store(&s->unmarked, 0);
        return;
    }
    if (s->head == s->tail)
        s->progress_ns = gp_now_ns();
    s->marks[s->head++ % MARKS] = (struct mark){.event = event,
                                                .key = s->unmarked_key,
                                                .predicted_ns = s->unmarked_ns,
                                                .ctx_index = s->ctx_index,
                                                .launches = n,
                                                .unknown = s->unmarked_unknown};
    s->in_flight_ns += s->unmarked_ns;
    s->n_unknown += s->unmarked_unknown;
    atomic_store(&s->unmarked, 0);
}

/* A new stretch begins with the launch that is about to be made in @stream. */
static void
begin_stretch(struct wrk *w, struct gov_slice *s, CUstream stream)
{
    if (s->base)
        wrk_evpool_put_timed(w, s->base_ctx, s->base);
    s->base_ctx = w->ctx_index;
    s->base = wrk_evpool_get_timed(w, w->ctx_index);
    s->base_ns = gp_now_ns();
    s->busy_ns = 0;
    if (s->base && WRK_CALL(w, cuEventRecord, s->base, stream) != CUDA_SUCCESS) {
        wrk_evpool_put_timed(w, s->base_ctx, s->base);
        s->base = NULL;
    }
}

/* --- the turn --------------------------------------------------------------------- */

static void
give_up_turn(struct gov_slice *s)
{
    uint32_t seq = gov_wake_lock(s->card);

    gov_card_drained(s->card, s->seat, gp_now_ns());
    gov_wake_unlock(s->card, seq);
    s->running = false;
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
        uint32_t seq;

        s->running = gov_card_ask(s->card, s->seat, gp_now_ns(), &until);
        seq = s->card->seq; /* what the answer was given at */
        gov_wake_unlock(s->card, before);
        if (s->running)
            return;
        pthread_mutex_unlock(&g->lock);
        /* Nobody's answer waits with this launch. */
        wrk_flush(w);
        wrk_wait_hand_over(w);
        arbiter_wait(s, seq, until);
        pthread_mutex_lock(&g->lock);
    }
}

/* Card time that is probably still in flight: of the oldest mark, only what is left. */
static uint64_t
ahead_ns(const struct gov_slice *s)
{
    uint64_t passed = gp_now_ns() - s->progress_ns;

    if (s->head == s->tail)
        return 0;
    return s->in_flight_ns - gp_min(passed, s->marks[s->tail % MARKS].predicted_ns);
}

/* Whether the launch may follow what is in flight at once. */
static bool
fits_behind(const struct gov_slice *s, uint64_t predicted_ns)
{
    if (s->head == s->tail)
        return true;
    return predicted_ns && !s->n_unknown && ahead_ns(s) < TIGHT_NS;
}

static uint64_t
stuck_ns(const struct gov_slice *s)
{
    uint64_t least = s->n_unknown ? STUCK_UNKNOWN_NS : STUCK_NS;

    return (least << gp_min(s->stuck, (unsigned)STUCK_DOUBLINGS)) + 2 * s->in_flight_ns;
}

/* Wait until the launch fits behind what is in flight, or with @all until nothing is,
 * or for so long that the work in flight may be waiting for us. */
static void
wait_in_flight(struct wrk *w, struct gov_slice *s, uint64_t predicted_ns, bool all)
{
    struct wrk_governor *g = w->priv->governor;
    uint64_t until = gp_now_ns() + stuck_ns(s);

    reap(w, s);
    if (s->head == s->tail || (!all && fits_behind(s, predicted_ns)))
        return;
    wrk_flush(w);
    wrk_wait_hand_over(w);
    do {
        struct timespec pause = {.tv_nsec = WAIT_POLL_NS};

        if (gp_now_ns() >= until || atomic_load(&w->priv->stopping)) {
            s->stuck++;
            return;
        }
        pthread_mutex_unlock(&g->lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&g->lock);
        reap(w, s);
    } while (s->head != s->tail && (all || !fits_behind(s, predicted_ns)));
}

static bool
keep_turn(struct gov_slice *s)
{
    uint32_t seq = gov_wake_lock(s->card);
    bool keep = gov_card_keep(s->card, s->seat, gp_now_ns());

    gov_wake_unlock(s->card, seq);
    return keep;
}

/* The long way to a launch: bring the books up to date, make sure of the turn. */
static void
acquire_locked(struct wrk *w, struct gov_slice *s, const struct wrk_charge *c)
{
    put_mark(w, s);
    reap(w, s);
    if (s->running && c->tight) {
        wait_in_flight(w, s, c->predicted_ns, false);
        if (!keep_turn(s)) {
            wait_in_flight(w, s, 0, true);
            /* Stuck with work in flight: the launch goes through, once. */
            if (s->head == s->tail)
                give_up_turn(s);
        }
    }
    if (!s->running)
        get_turn(w, s);
    if (s->head == s->tail)
        begin_stretch(w, s, c->stream);
}

/* May the launch share the next mark with those before it? */
static bool
joins_group(const struct gov_slice *s, const struct wrk_charge *c, uint32_t ctx_index)
{
    unsigned n = atomic_load_explicit(&s->unmarked, memory_order_relaxed);

    if (!n || n >= LOOSE_LAUNCHES || c->stream != s->stream ||
        ctx_index != s->ctx_index)
        return false;
    return !c->tight || (c->predicted_ns && !s->unmarked_unknown &&
                         s->unmarked_ns + c->predicted_ns <= GROUP_NS);
}

void
wrk_governor_acquire(struct wrk *w, CUstream stream, uint64_t key, struct wrk_charge *c)
{
    struct wrk_governor *g = w->priv->governor;
    struct wrk_seat *seat = &w->priv->segment->seats[w->priv->conf.seat];
    struct gov_slice *s;
    uint32_t ctx_index = w->ctx_index;
    uint64_t began;

    c->skip =
        unlikely(w->priv->captures) && wrk_bulk_capturing(w, stream) != CUDA_SUCCESS;
    if (c->skip)
        return;
    c->stream = stream;
    c->key = key;
    c->slice = wrk_ctx_slice(w, ctx_index);
    s = &g->slices[c->slice];
    c->tight = capped(s) || shared(s);
    c->predicted_ns = wrk_predict_ns(&s->predict, key);
    if (likely(joins_group(s, c, ctx_index)) || unlikely(g->off))
        return;
    pthread_mutex_lock(&g->lock);
    began = gp_now_ns();
    acquire_locked(w, s, c);
    atomic_fetch_add_explicit(&seat->spent[WRK_SPENT_WAIT_NS][c->slice],
                              gp_now_ns() - began, memory_order_relaxed);
    if (w->ctx_index != ctx_index)
        wrk_ctx_use(w, ctx_index);
    s->stream = stream;
    s->ctx_index = ctx_index;
    pthread_mutex_unlock(&g->lock);
}

/* Add the launch to those without a mark; false: there were none. */
static bool
add_unmarked(struct gov_slice *s, const struct wrk_charge *c)
{
    if (atomic_load_explicit(&s->unmarked, memory_order_relaxed) == 0) {
        s->unmarked_key = c->key;
        s->unmarked_ns = 0;
        s->unmarked_unknown = false;
    } else if (s->unmarked_key != c->key) {
        s->unmarked_key = 0;
    }
    s->unmarked_ns += c->predicted_ns;
    s->unmarked_unknown |= !c->predicted_ns;
    return atomic_fetch_add_explicit(&s->unmarked, 1, memory_order_relaxed) != 0;
}

void
wrk_governor_launched(struct wrk *w, const struct wrk_charge *c)
{
    struct wrk_governor *g = w->priv->governor;
    struct wrk_seat *seat = &w->priv->segment->seats[w->priv->conf.seat];
    struct gov_slice *s;
    bool first, full;

    if (unlikely(c->skip))
        return;
    s = &g->slices[c->slice];
    first = !g->off && !add_unmarked(s, c);
    full = !g->off && c->tight &&
           (s->unmarked_unknown || s->unmarked_ns + c->predicted_ns > GROUP_NS);
    atomic_fetch_add_explicit(&seat->spent[WRK_SPENT_LAUNCHES][c->slice], 1,
                              memory_order_relaxed);
    if (likely(!first && !full))
        return;
    pthread_mutex_lock(&g->lock);
    if (full)
        put_mark(w, s);
    pthread_cond_signal(&g->wake);
    pthread_mutex_unlock(&g->lock);
}

void
wrk_governor_idle(struct wrk *w)
{
    struct wrk_governor *g = w->priv->governor;

    for (uint32_t i = 0; i < g->n; i++) {
        struct gov_slice *s = &g->slices[i];

        if (likely(!atomic_load_explicit(&s->unmarked, memory_order_relaxed)))
            continue;
        pthread_mutex_lock(&g->lock);
        put_mark(w, s);
        pthread_mutex_unlock(&g->lock);
    }
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
    if (pthread_mutex_trylock(&w->priv->send_lock) == 0) {
        pthread_mutex_unlock(&w->priv->send_lock);
        wrk_event(w, WIRE_EVENT_LOST, &lost, sizeof(lost), words, lost.len);
    }
    nanosleep(&linger, NULL);
    _exit(OVERDUE_STATUS);
}

/* How long the turn could be claimed by another and the oldest work has not ended. */
static bool
overdue(const struct gov_slice *s, uint32_t limit_s)
{
    uint64_t now = gp_now_ns();

    return s->head != s->tail && contended(s) && limit_s &&
           now - gp_max(s->progress_ns, s->calm_ns) >= limit_s * GP_NS_PER_S;
}

/* One look at a slice; returns after how long to look again, 0: nothing to see. */
static uint64_t
tick(struct wrk *w, struct gov_slice *s)
{
    if (!s->running)
        return 0;
    reap(w, s);
    if (!contended(s))
        s->calm_ns = gp_now_ns();
    if (overdue(s, w->priv->conf.work_limit_s))
        end_overdue(w);
    if (s->head == s->tail && !atomic_load(&s->unmarked) &&
        gp_now_ns() - s->quiet_ns >= IDLE_NS) {
        give_up_turn(s);
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
            pthread_cond_wait(&g->wake, &g->lock);
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

    put_mark(w, s);
    reap(w, s);
    while (s->head != s->tail && gp_now_ns() < until) {
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
        uint32_t kept;

        take_in(w, s);
        kept = s->tail;
        for (uint32_t at = s->tail; at != s->head; at++) {
            const struct mark *m = &s->marks[at % MARKS];

            if (m->ctx_index == ctx_index) {
                s->in_flight_ns -= m->predicted_ns;
                s->n_unknown -= m->unknown;
            } else {
                s->marks[kept++ % MARKS] = *m;
            }
        }
        s->head = kept;
        if (s->head == s->tail)
            s->quiet_ns = gp_now_ns();
        if (s->base && s->base_ctx == ctx_index)
            s->base = NULL;
        if (s->ctx_index == ctx_index)
            atomic_store(&s->unmarked, 0);
    }
    pthread_mutex_unlock(&g->lock);
}

void
wrk_governor_stream_gone(struct wrk *w, const void *stream)
{
    struct wrk_governor *g = w->priv->governor;

    for (uint32_t i = 0; i < g->n; i++) {
        struct gov_slice *s = &g->slices[i];

        if (s->stream != stream || !atomic_load(&s->unmarked))
            continue;
        pthread_mutex_lock(&g->lock);
        atomic_store(&s->unmarked, 0);
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
    return wrk_spatial_confine(w, i, s->tenant->units, err);
}

int
wrk_governor_new(struct wrk *w, struct wrk_governor **ret, struct gp_err *err)
{
    struct wrk_governor *g = calloc(1, sizeof(*g));
    int r = 0;

    if (!g)
        return gp_err_set(err, -ENOMEM, "no memory for the governor");
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
