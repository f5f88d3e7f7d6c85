/* SPDX-License-Identifier: Apache-2.0 */
/* The signing threads: every job runs once, and its owner hears of it on the loop. */
#include "ut.h"

#include "gp_loop.h"
#include "gp_time.h"
#include "sched_signer.h"

#include <pthread.h>

#define JOBS 2000

struct task {
    struct sched_signer_job job;
    pthread_t ran_on;
    unsigned runs, ends;
    struct world *world;
};

struct world {
    struct gp_loop *loop;
    struct sched_signer *signer;
    struct gp_loop_timer turn;
    struct task tasks[JOBS];
    unsigned added, ended;
};

static void
task_run(struct sched_signer_job *job)
{
    struct task *task = container_of(job, struct task, job);

    task->runs++;
    task->ran_on = pthread_self();
}

static void
task_done(struct sched_signer_job *job)
{
    struct task *task = container_of(job, struct task, job);

    task->ends++;
    if (++task->world->ended == JOBS && task->world->loop)
        gp_loop_stop(task->world->loop, 0);
}

static void
add(struct world *w, unsigned n)
{
    for (; n && w->added < JOBS; n--, w->added++) {
        struct task *task = &w->tasks[w->added];

        task->world = w;
        task->job = (struct sched_signer_job){.run = task_run, .done = task_done};
        sched_signer_add(w->signer, &task->job);
    }
}

/* A few in each turn of the loop. */
static void
on_turn(struct gp_loop_timer *timer)
{
    struct world *w = container_of(timer, struct world, turn);

    add(w, w->added % 7 + 1);
    if (w->added < JOBS)
        gp_loop_timer_set(w->loop, timer, gp_now_ns() + 1, on_turn);
}

static int
setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    assert_int_equal(gp_loop_new(&w->loop, NULL), 0);
    assert_int_equal(sched_signer_new(w->loop, &w->signer, NULL), 0);
    *state = w;
    return 0;
}

static int
teardown(void **state)
{
    struct world *w = *state;

    sched_signer_free(w->signer);
    gp_loop_free(w->loop);
    free(w);
    return 0;
}

static void
assert_all_ran_once(const struct world *w)
{
    for (unsigned i = 0; i < JOBS; i++) {
        assert_int_equal(w->tasks[i].runs, 1);
        assert_int_equal(w->tasks[i].ends, 1);
        assert_false(pthread_equal(w->tasks[i].ran_on, pthread_self()));
    }
}

static void
jobs_run_elsewhere_and_end_on_the_loop(void **state)
{
    struct world *w = *state;

    on_turn(&w->turn);
    assert_int_equal(gp_loop_run(w->loop), 0);
    assert_all_ran_once(w);
}

static void
waiting_ends_what_was_added(void **state)
{
    struct world *w = *state;

    for (unsigned round = 1; round <= 4; round++) {
        add(w, JOBS / 4);
        sched_signer_wait(w->signer);
        assert_int_equal(w->ended, round * (JOBS / 4));
    }
    assert_all_ran_once(w);
}

static void
nothing_is_left_behind_at_the_end(void **state)
{
    struct world *w = *state;

    add(w, JOBS);
    sched_signer_free(TAKE_PTR(w->signer));
    assert_all_ran_once(w);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(jobs_run_elsewhere_and_end_on_the_loop, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(waiting_ends_what_was_added, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_left_behind_at_the_end, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
