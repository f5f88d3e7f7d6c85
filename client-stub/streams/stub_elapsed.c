/* SPDX-License-Identifier: Apache-2.0 */
/* See stub_elapsed.h. */
#include "stub_elapsed.h"

#include "cuda_api.h"
#include "stub_call.h"
#include "stub_event.h"
#include "stub_gen.h"
#include "stub_link.h"
#include "stub_manual.h"
#include "stub_tls.h"
#include "wire_api.h"

/* A program has few of them at a time; all are looked through at each wait. */
#define PAIRS_MAX 16u
/* Answers in a row that nobody wanted: the program measures no more. */
#define UNUSED_MAX 8u

struct pair {
    uint64_t start, end;       /* 0: none */
    uint64_t start_at, end_at; /* positions of the records that @ms is between */
    float ms;
    uint32_t unused;
};

/* All under send. */
static struct pair pairs[PAIRS_MAX];
static uint32_t next; /* the place that is used next */
static _Atomic bool any;

/* Is its time known, of the records as they are now? */
static bool
pair_is_fresh(const struct pair *p)
{
    return p->start_at && p->start_at == stub_event_recorded(p->start) && p->end_at &&
           p->end_at == stub_event_recorded(p->end);
}

static struct pair *
pair_find(uint64_t start, uint64_t end)
{
    for (struct pair *p = pairs; p < pairs + PAIRS_MAX; p++)
        if (p->start == start && p->end == end)
            return p;
    return NULL;
}

/* The program has asked for it. */
static void
pair_remember(uint64_t start, uint64_t end)
{
    struct stub_link *link = stub_link_here();

    if (!stub_event_notes_hold() || !stub_link_can(link, "elapsed"))
        return;
    gp_lock_take(&link->send);
    if (!pair_find(start, end)) {
        pairs[next++ % PAIRS_MAX] = (struct pair){.start = start, .end = end};
        atomic_store_explicit(&any, true, memory_order_relaxed);
    }
    gp_lock_release(&link->send);
}

/* ---- with a wait ------------------------------------------------------------ */

static bool
pair_is_covered(const struct pair *p, const struct stub_elapsed_wait *wait)
{
    return p->start && stub_event_recorded(p->start) && stub_event_recorded(p->end) &&
           (wait->what != WIRE_WAIT_EVENT || p->end == wait->event) &&
           !pair_is_fresh(p);
}

/* The pair that ended last.  Under send; NULL: none. */
static const struct pair *
pair_choose(const struct stub_elapsed_wait *wait)
{
    const struct pair *best = NULL;

    for (const struct pair *p = pairs; p < pairs + PAIRS_MAX; p++)
        if (pair_is_covered(p, wait) &&
            (!best || stub_event_recorded(p->end) > stub_event_recorded(best->end)))
            best = p;
    return best;
}

static bool
pair_get(const struct stub_elapsed_wait *wait, struct pair *ret)
{
    struct stub_link *link = stub_link_here();
    const struct pair *p;

    if (likely(!atomic_load_explicit(&any, memory_order_relaxed)) ||
        !stub_event_notes_hold())
        return false;
    gp_lock_take(&link->send);
    p = pair_choose(wait);
    if (p)
        *ret = *p;
    gp_lock_release(&link->send);
    return p != NULL;
}

/* The answer came.  What failed is not asked for any more. */
static void
pair_answered(const struct pair *answer, CUresult elapsed)
{
    struct stub_link *link = stub_link_here();
    struct pair *p;

    gp_lock_take(&link->send);
    p = pair_find(answer->start, answer->end);
    if (p && (elapsed != CUDA_SUCCESS || p->unused >= UNUSED_MAX)) {
        *p = (struct pair){0};
    } else if (p) {
        uint32_t unused = p->unused + 1;

        *p = *answer;
        p->unused = unused;
    }
    gp_lock_release(&link->send);
}

static CUresult
wait_and_ask(struct stub_call *c, struct pair *pair)
{
    struct wire_gp_wait_elapsed_rep_view view = {0};
    CUresult r = stub_call_wait(c), elapsed = CUDA_ERROR_UNKNOWN;

    if (r == CUDA_SUCCESS &&
        !wire_gp_wait_elapsed_rep_open(&view, c->reply, c->reply_size, 0)) {
        stub_call_end(c);
        return stub_call_bad(c->call);
    }
    if (r == CUDA_SUCCESS) {
        pair->ms = view.f->ms;
        elapsed = (CUresult)view.f->elapsed;
    }
    stub_call_end(c);
    if (r == CUDA_SUCCESS)
        pair_answered(pair, elapsed);
    return r == CUDA_SUCCESS ? (CUresult)c->result : r;
}

bool
stub_elapsed_wait(struct stub_elapsed_wait *wait)
{
    struct wire_gp_wait_elapsed_req *req;
    struct stub_call c;
    struct pair pair;

    if (likely(!pair_get(wait, &pair)))
        return false;
    wait->result = stub_call_begin(&c, WIRE_CALL_gp_wait_elapsed, sizeof(*req));
    if (wait->result != CUDA_SUCCESS)
        return true;
    req = c.body;
    *req = (struct wire_gp_wait_elapsed_req){.hStream = wait->stream,
                                             .start = pair.start,
                                             .end = pair.end,
                                             .what = wait->what};
    wait->position = stub_event_position(&c);
    pair.start_at = stub_event_recorded(pair.start);
    pair.end_at = stub_event_recorded(pair.end);
    wait->result = wait_and_ask(&c, &pair);
    return true;
}

/* ---- the calls -------------------------------------------------------------- */

/* The program may learn of errors here, so it is asked for. */
CUresult
stub_impl_cuEventSynchronize(CUevent hEvent)
{
    struct stub_elapsed_wait wait = {.what = WIRE_WAIT_EVENT,
                                     .event = (uintptr_t)hEvent};
    uint64_t recorded;
    CUresult r;

    stub_event_is_done(hEvent, &recorded);
    r = stub_elapsed_wait(&wait) ? wait.result : stub_gen_cuEventSynchronize(hEvent);
    if (r == CUDA_SUCCESS)
        stub_event_mark_done(hEvent, recorded);
    return r;
}

static bool
is_known(float *ret_ms, uint64_t start, uint64_t end)
{
    struct stub_link *link = stub_link_here();
    struct pair *p;
    bool known;

    if (!atomic_load_explicit(&any, memory_order_relaxed) || !stub_tls.ctx_index ||
        !stub_event_notes_hold())
        return false;
    gp_lock_take(&link->send);
    p = pair_find(start, end);
    known = p && pair_is_fresh(p);
    if (known) {
        *ret_ms = p->ms;
        p->unused = 0;
    }
    gp_lock_release(&link->send);
    return known;
}

CUresult
stub_impl_cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    CUresult r;

    if (!pMilliseconds) /* a driver says it of the events */
        return CUDA_ERROR_INVALID_HANDLE;
    if (is_known(pMilliseconds, (uintptr_t)hStart, (uintptr_t)hEnd))
        return CUDA_SUCCESS;
    r = stub_gen_cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
    if (r == CUDA_SUCCESS)
        pair_remember((uintptr_t)hStart, (uintptr_t)hEnd);
    return r;
}
