/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a context and the releases in it that the client made before: what waits
 * for what.  The driver and the rest of the worker are here.
 */
#include "ut.h"

#include "drv.h"
#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_ctx.h"
#include "wrk_ctx_end.h"
#include "wrk_hooks.h"
#include "wrk_parts.h"
#include "wrk_quota.h"
#include "wrk_release.h"
#include "wrk_reply.h"
#include "wrk_wait.h"
#include "wrk_waiters.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define CONTEXT ((CUcontext)(uintptr_t)0x1000)

static struct wrk_priv priv;
static CUresult driver_synchronize(void);
static const struct drv driver = {.cuCtxSynchronize = driver_synchronize};
static struct wrk worker = {.priv = &priv, .drv = &driver, .ctx_index = 1};
static struct wire_req request;
static CUresult idle;    /* what the context's streams say */
static bool others_busy; /* another context has work */
static bool hosts;       /* a function of the host is registered */
static uint64_t ended;   /* the handle that was given up last */

static bool kept;      /* a job of another kind keeps the context */
static bool looking;   /* our own kernels read memory that goes with it */
static char order[64]; /* what was done: a letter each */

static struct wrk_job *jobs[2]; /* that a waiter thread is to run */
static unsigned n_jobs;
static atomic_bool freed, destroyed, freed_first;

/* ---- the worker around it ---------------------------------------------------------
 */

CUresult
wrk_ctx_use(struct wrk *w, uint32_t index)
{
    w->ctx_index = index;
    return CUDA_SUCCESS;
}

CUcontext
wrk_ctx_current(struct wrk *w)
{
    return w->ctx_index ? CONTEXT : NULL;
}

CUresult
wrk_wait_idle(struct wrk *w, CUstream stream)
{
    return idle;
}

bool
wrk_hostfns_none(struct wrk_hostfns *fns)
{
    return !hosts;
}

bool
wrk_waiters_background(struct wrk *w, struct wrk_job *job)
{
    jobs[n_jobs++] = job;
    return true;
}

bool
wrk_waiters_job(struct wrk *w, struct wrk_reply *rep, struct wrk_job *job)
{
    rep->taken = true;
    return wrk_waiters_background(w, job);
}

static void
note(char what)
{
    order[strlen(order)] = what;
}

bool
wrk_waiters_keep(struct wrk *w, CUcontext ctx)
{
    return kept;
}

void
wrk_waiters_close(struct wrk *w, struct wrk_closed_ctx *closed)
{
    assert_ptr_equal(closed->ctx, CONTEXT);
    note('c');
}

void
wrk_waiters_open(struct wrk *w, struct wrk_closed_ctx *closed, bool gone)
{
    note(gone ? 'O' : 'o');
}

bool
wrk_parts_take(struct wrk *w, uint32_t ctx_index, struct wrk_parts *ret)
{
    return true;
}

void
wrk_parts_drop(struct wrk *w, struct wrk_parts *parts)
{
}

CUresult
wrk_parts_wait(struct wrk *w, struct wrk_parts *parts)
{
    fail_msg("nothing was taken");
    return CUDA_SUCCESS;
}

void
wrk_ctx_dies(void)
{
    note('!');
}

static bool
hold(struct wrk *w, bool may_wait)
{
    if (!may_wait && looking)
        return false;
    note('h');
    return true;
}

static void
let_go(void)
{
    note('l');
}

const struct wrk_hooks wrk_hooks = {.ctx_end = {hold, let_go}};

unsigned
wrk_ctx_epoch(void)
{
    return 0;
}

bool
wrk_wait_all_end_alone(struct wrk *w)
{
    return !others_busy && wrk_wait_ends_alone(w);
}

bool
wrk_capture_allows(const struct wrk *w)
{
    return false;
}

void
wrk_ctx_enter(struct wrk *w, CUcontext ctx)
{
}

bool
wrk_capture_relax_thread(struct wrk *w, bool relaxed)
{
    return true;
}

void
wrk_quota_share_release(struct wrk_quota *quota)
{
}

void
wrk_quota_unshare_release(struct wrk_quota *quota)
{
}

bool
wrk_quota_drop(struct wrk_quota *quota, uint64_t key)
{
    return true;
}

uint64_t
wrk_quota_end_begins(struct wrk_quota *quota, uint64_t key)
{
    return key;
}

void
wrk_quota_end_refused(struct wrk_quota *quota, uint64_t held_by, uint64_t key)
{
}

void
wrk_handle_del(struct wrk *w, unsigned kind, uint64_t id)
{
    ended = id;
}

bool
wrk_frame_bad(struct wrk *w, const struct wire_req *req, const char *why)
{
    fail_msg("%s", why);
    return false;
}

void
wrk_reply_whole(struct wrk *w, const struct wire_req *req, CUresult result,
                const void *body, uint32_t size)
{
    assert_int_equal(result, CUDA_SUCCESS);
}

void
wrk_defer(struct wrk *w, const struct wire_req *req, CUresult result)
{
    fail_msg("a release failed with %d", (int)result);
}

/* ---- the driver -------------------------------------------------------------------
 */

static CUresult
driver_synchronize(void)
{
    note('s');
    return CUDA_SUCCESS;
}

static CUresult
driver_free(struct wrk *w, uint64_t obj, uint64_t size)
{
    atomic_store(&freed, true);
    return CUDA_SUCCESS;
}

static CUresult
driver_destroy(struct wrk *w, const struct wrk_ctx_end *end)
{
    note('d');
    atomic_store(&freed_first, atomic_load(&freed));
    atomic_store(&destroyed, true);
    return CUDA_SUCCESS;
}

static void
context_gone(struct wrk *w, const struct wrk_ctx_end *end)
{
    note('g');
}

/* ---- tests ------------------------------------------------------------------------
 */

static void *
run_job(void *arg)
{
    struct wrk_job *job = arg;

    job->run(&worker, job);
    return NULL;
}

static void
end_context(struct wrk_reply *rep)
{
    const struct wrk_ctx_end end = {.destroy = driver_destroy,
                                    .gone = context_gone,
                                    .id = wire_handle_make(WIRE_KIND_CTX, 0, 1),
                                    .ctx = CONTEXT};

    assert_int_equal(wrk_ctx_end(&worker, rep, &end), CUDA_SUCCESS);
}

static void
release(struct wrk_reply *rep)
{
    atomic_store(&freed, false);
    assert_int_equal(
        wrk_release(&worker, rep, &(struct wrk_release_what){.fn = driver_free}),
        CUDA_SUCCESS);
}

static void
context_ends_behind_the_releases_that_are_queued_in_it(void **state)
{
    struct wrk_reply rep = {.req = &request};
    pthread_t ends;

    idle = CUDA_ERROR_NOT_READY;
    release(&rep);
    assert_int_equal(n_jobs, 1);
    idle = CUDA_SUCCESS; /* all that is left to do there is the release */
    end_context(&rep);
    assert_false(atomic_load(&destroyed));
    assert_int_equal(n_jobs, 2);
    assert_int_equal(pthread_create(&ends, NULL, run_job, jobs[1]), 0);
    run_job(jobs[0]);
    pthread_join(ends, NULL);
    assert_true(atomic_load(&destroyed));
    assert_true(atomic_load(&freed_first));
    wrk_ctx_ends_poll(&worker);
    assert_false(wrk_ctx_ends_pending());
}

/* It may be of another context than the current one. */
static void
release_waits_for_the_other_contexts(void **state)
{
    struct wrk_reply rep = {.req = &request};

    n_jobs = 0;
    worker.ctx_index = 1;
    idle = CUDA_SUCCESS;
    hosts = false;
    others_busy = true;
    release(&rep);
    assert_false(atomic_load(&freed));
    assert_int_equal(n_jobs, 1);
    others_busy = false;
    run_job(jobs[0]);
    assert_true(atomic_load(&freed));
    release(&rep);
    assert_true(atomic_load(&freed));
    assert_int_equal(n_jobs, 1);
}

static CUresult
driver_refuse(struct wrk *w, uint64_t obj, uint64_t size)
{
    return CUDA_ERROR_NOT_PERMITTED;
}

/* A part of another object is asked for at once, and its handle stays. */
static void
release_that_is_refused_keeps_the_handle(void **state)
{
    const uint64_t part = wire_handle_make(WIRE_KIND_ARRAY, 0, WIRE_INDEX_SERVER + 1);
    const uint64_t whole = wire_handle_make(WIRE_KIND_ARRAY, 0, 1);
    struct wrk_reply rep = {.req = &request};

    n_jobs = 0;
    worker.ctx_index = 1;
    ended = 0;
    others_busy = true;
    assert_int_equal(
        wrk_release(&worker, &rep,
                    &(struct wrk_release_what){.fn = driver_refuse, .id = part}),
        CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(ended, 0);
    assert_int_equal(n_jobs, 0);
    others_busy = false;
    assert_int_equal(
        wrk_release(&worker, &rep,
                    &(struct wrk_release_what){.fn = driver_refuse, .id = whole}),
        CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(ended, 0);
    assert_int_equal(
        wrk_release(&worker, &rep,
                    &(struct wrk_release_what){.fn = driver_free, .id = whole}),
        CUDA_SUCCESS);
    assert_int_equal(ended, whole);
}

static void
context_with_nothing_to_do_ends_at_once(void **state)
{
    struct wrk_reply rep = {.req = &request};

    worker.ctx_index = 1;
    atomic_store(&destroyed, false);
    memset(order, 0, sizeof(order));
    end_context(&rep);
    assert_true(atomic_load(&destroyed));
    assert_false(wrk_ctx_ends_pending());
    assert_string_equal(order, "h!dgl");
}

/* What the context's streams do not show may wait for the client: then another thread
 * than the reader ends it, and releases what is in it. */
static void
waits_for_the_client(CUresult answer, bool registered)
{
    struct wrk_reply rep = {.req = &request};

    n_jobs = 0;
    worker.ctx_index = 1;
    idle = answer;
    hosts = registered;
    atomic_store(&destroyed, false);
    end_context(&rep);
    assert_false(atomic_load(&destroyed));
    assert_int_equal(n_jobs, 1);
    run_job(jobs[0]);
    assert_true(atomic_load(&destroyed));
    wrk_ctx_ends_poll(&worker);
    worker.ctx_index = 1;
    release(&rep);
    assert_false(atomic_load(&freed));
    assert_int_equal(n_jobs, 2);
    run_job(jobs[1]);
    assert_true(atomic_load(&freed));
    idle = CUDA_SUCCESS;
    hosts = false;
}

/* Copies in it, and kernels of ours that read its memory, are not the driver's to wait
 * for: none is left when the driver destroys it, and none begins before its end is
 * known. */
static void
ends_behind_what_is_ours(bool keep, bool look)
{
    struct wrk_reply rep = {.req = &request};

    n_jobs = 0;
    worker.ctx_index = 1;
    kept = keep;
    looking = look;
    memset(order, 0, sizeof(order));
    end_context(&rep);
    assert_int_equal(n_jobs, 1);
    assert_string_equal(order, "");
    run_job(jobs[0]);
    assert_string_equal(order, "shc!d");
    wrk_ctx_ends_poll(&worker);
    assert_string_equal(order, "shc!dgOl");
    kept = looking = false;
}

static void
context_ends_behind_copies_in_it(void **state)
{
    ends_behind_what_is_ours(true, false);
}

static void
context_ends_behind_kernels_of_ours_in_other_ones(void **state)
{
    ends_behind_what_is_ours(false, true);
}

static void
context_with_functions_of_the_host_ends_apart(void **state)
{
    waits_for_the_client(CUDA_SUCCESS, true);
}

static void
context_that_cannot_be_asked_ends_apart(void **state)
{
    waits_for_the_client(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, false);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(context_ends_behind_the_releases_that_are_queued_in_it),
        cmocka_unit_test(context_with_nothing_to_do_ends_at_once),
        cmocka_unit_test(context_ends_behind_copies_in_it),
        cmocka_unit_test(context_ends_behind_kernels_of_ours_in_other_ones),
        cmocka_unit_test(context_with_functions_of_the_host_ends_apart),
        cmocka_unit_test(context_that_cannot_be_asked_ends_apart),
        cmocka_unit_test(release_waits_for_the_other_contexts),
        cmocka_unit_test(release_that_is_refused_keeps_the_handle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
