/* SPDX-License-Identifier: Apache-2.0 */
/* Waiter threads: which jobs run while a context is closed for its end. */
#include "ut.h"

#include "gp_time.h"
#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_ctx.h"
#include "wrk_waiters.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#define DYING ((CUcontext)(uintptr_t)0x1000)
#define OTHER ((CUcontext)(uintptr_t)0x2000)

static struct wrk_priv priv;
static struct wrk worker = {.priv = &priv, .ctx_index = 1};

/* A job that says that it runs, and ends when it may. */
struct held {
    struct wrk_job job;
    sem_t runs, may_end, has_ended;
    _Atomic(CUcontext) in; /* where it ran */
};

/* ---- the worker around it ---- */

CUcontext
wrk_ctx_current(struct wrk *w)
{
    return OTHER;
}

void
wrk_ctx_enter(struct wrk *w, CUcontext ctx)
{
}

bool
wrk_capture_allows(const struct wrk *w)
{
    return false;
}

bool
wrk_capture_relax_thread(struct wrk *w, bool relaxed)
{
    return true;
}

bool
wrk_frame_bad(struct wrk *w, const struct wire_req *req, const char *why)
{
    fail_msg("%s", why);
    return false;
}

/* ---- tests ---- */

static void
held_run(struct wrk *w, struct wrk_job *job)
{
    struct held *h = container_of(job, struct held, job);

    atomic_store(&h->in, job->ctx);
    sem_post(&h->runs);
    sem_wait(&h->may_end);
    sem_post(&h->has_ended);
}

static void
held_start(struct held *h, CUcontext ctx, bool keeps)
{
    h->job = (struct wrk_job){.run = held_run, .ctx = ctx, .keeps_ctx = keeps};
    sem_init(&h->runs, 0, 0);
    sem_init(&h->may_end, 0, 0);
    sem_init(&h->has_ended, 0, 0);
    assert_true(wrk_waiters_background(&worker, &h->job));
}

static void
held_end(struct held *h)
{
    sem_post(&h->may_end);
    sem_wait(&h->has_ended);
}

static bool
soon(sem_t *sem)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 50 * 1000 * 1000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return sem_timedwait(sem, &until) == 0;
}

struct closer {
    struct wrk_closed_ctx closed;
    sem_t has_closed;
};

static void *
close_it(void *arg)
{
    struct closer *c = arg;

    wrk_waiters_close(&worker, &c->closed);
    sem_post(&c->has_closed);
    return NULL;
}

static void
closer_start(struct closer *c, pthread_t *ret)
{
    c->closed.ctx = DYING;
    sem_init(&c->has_closed, 0, 0);
    assert_int_equal(pthread_create(ret, NULL, close_it, c), 0);
}

static void
context_is_closed_when_no_job_keeps_it(void **state)
{
    struct held keeps = {0}, does_not = {0}, elsewhere = {0};
    struct closer c = {0};
    pthread_t thread;

    assert_false(wrk_waiters_keep(&worker, DYING));
    held_start(&keeps, DYING, true);
    held_start(&does_not, DYING, false);
    held_start(&elsewhere, OTHER, true);
    assert_true(wrk_waiters_keep(&worker, DYING)); /* queued, or at work */
    sem_wait(&keeps.runs);
    sem_wait(&does_not.runs);
    sem_wait(&elsewhere.runs);
    assert_true(wrk_waiters_keep(&worker, DYING));
    closer_start(&c, &thread);
    assert_false(soon(&c.has_closed));
    held_end(&keeps);
    sem_wait(&c.has_closed); /* whatever the two others do */
    pthread_join(thread, NULL);
    assert_false(wrk_waiters_keep(&worker, DYING));
    wrk_waiters_open(&worker, &c.closed, false);
    held_end(&does_not);
    held_end(&elsewhere);
}

/* Those behind them go on meanwhile. */
static void
jobs_that_keep_a_closed_context_wait(bool gone)
{
    struct held keeps = {0}, does_not = {0}, elsewhere = {0};
    struct closer c = {0};
    pthread_t thread;

    closer_start(&c, &thread);
    pthread_join(thread, NULL);
    held_start(&keeps, DYING, true);
    held_start(&does_not, DYING, false);
    held_start(&elsewhere, OTHER, true);
    sem_wait(&does_not.runs);
    sem_wait(&elsewhere.runs);
    assert_false(soon(&keeps.runs));
    wrk_waiters_open(&worker, &c.closed, gone);
    sem_wait(&keeps.runs);
    assert_ptr_equal(atomic_load(&keeps.in), gone ? NULL : DYING);
    assert_ptr_equal(atomic_load(&does_not.in), DYING);
    assert_ptr_equal(atomic_load(&elsewhere.in), OTHER);
    held_end(&keeps);
    held_end(&does_not);
    held_end(&elsewhere);
}

static void
jobs_of_a_context_that_stays_go_on_in_it(void **state)
{
    jobs_that_keep_a_closed_context_wait(false);
}

static void
jobs_of_a_context_that_is_gone_run_in_none(void **state)
{
    jobs_that_keep_a_closed_context_wait(true);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(context_is_closed_when_no_job_keeps_it),
        cmocka_unit_test(jobs_of_a_context_that_stays_go_on_in_it),
        cmocka_unit_test(jobs_of_a_context_that_is_gone_run_in_none),
    };

    assert_int_equal(wrk_waiters_new(&worker, &priv.waiters), 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
