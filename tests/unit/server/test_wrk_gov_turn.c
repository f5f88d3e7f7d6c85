/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's side of turns on a GPU: when a launch takes the turn, waits, gives it
 * back, and what is charged.
 *
 * The clock is the test's, and so is the GPU behind the driver: work takes as long as
 * the test says.  The test also plays the arbiter, by the words that the two exchange
 * (gov_desk.h); who of several sessions is chosen, and the classes of sessions, are the
 * arbiter's own (test_gov_card, test_srv_arbiter).
 */
#include "ut.h"

#include "drv.h"
#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_ctx.h"
#include "wrk_desk.h"
#include "wrk_end_reason.h"
#include "wrk_evpool.h"
#include "wrk_governor.h"
#include "wrk_wait.h"

/* With its insides: one look of the governor's thread. */
#include "wrk_gov_thread.c"

#include <string.h>
#include <sys/wait.h>

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define CTX 3u
#define STREAM ((CUstream)(uintptr_t)0x50)
#define KEY 77u

/* ---- the clock, the GPU and the arbiter ------------------------------------- */

static uint64_t now_ns, gpu_until_ns;
static uint64_t events[256];
static CUevent spare[256];
static unsigned n_events, n_spare;
static unsigned n_rings, n_waits;
static void (*while_waiting)(void); /* what others do meanwhile */

static struct gov_turn turn;
static struct gov_want want;
static struct wrk_desks desks;
static struct wrk_usage usage;
static struct wrk_governor governor;
static struct gov_slice *const slice = &governor.slices[0];

uint64_t __wrap_gp_now_ns(void);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *left);

uint64_t
__wrap_gp_now_ns(void)
{
    return now_ns;
}

/* Nothing that a test makes wait needs as many waits. */
static void
wait_ns(uint64_t ns)
{
    assert_true(n_waits++ < 1000000);
    now_ns += ns;
    if (while_waiting)
        while_waiting();
}

int
__wrap_nanosleep(const struct timespec *pause, struct timespec *left)
{
    (void)left;
    wait_ns((uint64_t)pause->tv_nsec);
    return 0;
}

void
wrk_desks_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
    (void)word;
    (void)value;
    (void)ns;
    wait_ns(10 * US);
}

void
wrk_desks_ring(struct wrk_desks *d)
{
    assert_ptr_equal(d, &desks);
    n_rings++;
}

void
wrk_flush(struct wrk *w)
{
    (void)w;
}

void
wrk_wait_hand_over(struct wrk *w)
{
    (void)w;
}

void
wrk_end_reason_send(struct wrk *w, CUresult result, const char *words)
{
    (void)w;
    assert_int_equal(result, CUDA_ERROR_LAUNCH_TIMEOUT);
    assert_non_null(strstr(words, "another session waited"));
}

static CUresult
event_record(CUevent event, CUstream stream)
{
    (void)stream;
    events[(uintptr_t)event] = gp_max(gpu_until_ns, now_ns);
    return CUDA_SUCCESS;
}

static CUresult
event_query(CUevent event)
{
    return events[(uintptr_t)event] <= now_ns ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult
event_elapsed(float *ms, CUevent from, CUevent to)
{
    *ms = (float)(events[(uintptr_t)to] - events[(uintptr_t)from]) / 1e6f;
    return CUDA_SUCCESS;
}

bool
wrk_capture_relax_thread(struct wrk *w, bool relaxed)
{
    (void)w;
    (void)relaxed;
    return true;
}

CUresult
wrk_capturing(struct wrk *w, CUstream stream)
{
    (void)w;
    (void)stream;
    return CUDA_SUCCESS;
}

CUevent
wrk_evpool_get_timed(struct wrk *w, uint32_t ctx_index)
{
    (void)w;
    (void)ctx_index;
    if (n_spare)
        return spare[--n_spare];
    assert_true(n_events + 1 < ARRAY_SIZE(events));
    return (CUevent)(uintptr_t)++n_events;
}

void
wrk_evpool_put_timed(struct wrk *w, uint32_t ctx_index, CUevent event)
{
    (void)w;
    (void)ctx_index;
    spare[n_spare++] = event;
}

CUresult
wrk_ctx_use(struct wrk *w, uint32_t index)
{
    w->ctx_index = index;
    return CUDA_SUCCESS;
}

static const struct drv drv = {.cuEventRecord = event_record,
                               .cuEventQuery = event_query,
                               .cuEventElapsedTime_v2 = event_elapsed};
static struct wrk_priv priv = {.governor = &governor, .desks = &desks, .usage = &usage};
static struct wrk worker = {.drv = &drv, .ctx_index = CTX, .priv = &priv};

static int
setup(void **state)
{
    (void)state;
    n_events = n_spare = n_rings = n_waits = 0;
    now_ns = gpu_until_ns = 3600 * GP_NS_PER_S;
    while_waiting = NULL;
    memset(&usage, 0, sizeof(usage));
    memset(&want, 0, sizeof(want));
    memset(&turn, 0, sizeof(turn));
    memset(&governor, 0, sizeof(governor));
    turn.ceiling = 100;
    turn.part = 1000;
    governor.w = &worker;
    governor.n = 1;
    pthread_mutex_init(&governor.lock, NULL);
    slice->turn = &turn;
    slice->want = &want;
    return 0;
}

static void
grant(void)
{
    if (atomic_load(&want.ask) == atomic_load(&turn.grant) + 1)
        atomic_fetch_add(&turn.grant, 1);
}

/* The same for who waits until the turn has been given up: a stop is over then. */
static void
grant_again(void)
{
    if (atomic_load(&want.done) == atomic_load(&turn.grant)) {
        atomic_store(&turn.stop, 0);
        grant();
    }
}

static bool
has_turn_now(void)
{
    return slice->running && atomic_load(&want.done) != atomic_load(&turn.grant);
}

/* Other sessions may want the card: every launch is looked at. */
static void
launch(uint64_t ns, uint64_t predicted_ns)
{
    struct wrk_charge c = {.stream = STREAM,
                           .key = KEY,
                           .predicted_ns = predicted_ns,
                           .slice = slice,
                           .throttled = true};

    pthread_mutex_lock(&governor.lock);
    wrk_gov_turn(&worker, slice, &c);
    wrk_meter_begin(&worker, &slice->meter, STREAM, true, now_ns);
    pthread_mutex_unlock(&governor.lock);
    gpu_until_ns = gp_max(gpu_until_ns, now_ns) + ns;
    wrk_meter_add(&slice->meter, KEY, predicted_ns, 1);
    wrk_meter_mark(&worker, &slice->meter);
}

static void
take_turn(void)
{
    while_waiting = grant;
    launch(0, 1);
    while_waiting = NULL;
    assert_true(has_turn_now());
}

/* One look of the governor's thread after @ns. */
static uint64_t
look_after(uint64_t ns)
{
    now_ns += ns;
    return tick(&worker, slice);
}

/* ---- taking it -------------------------------------------------------------- */

static void
launch_asks_once_and_waits_until_the_turn_is_granted(void **state)
{
    uint64_t began = now_ns;

    (void)state;
    turn.grant = 41;
    want.done = 41;
    while_waiting = grant;
    launch(MS, MS);
    assert_int_equal(want.ask, 42);
    assert_int_equal(n_rings, 1);
    assert_true(now_ns > began);
    assert_true(has_turn_now());
    n_waits = 0;
    launch(100 * US, 100 * US); /* in the same turn */
    assert_int_equal(want.ask, 42);
    assert_int_equal(n_waits, 0);
}

static void
turn_that_rests_with_the_session_is_taken_without_a_question(void **state)
{
    (void)state;
    turn.rests = 1;
    launch(MS, MS);
    assert_int_equal(n_rings, 0);
    assert_int_equal(n_waits, 0);
    assert_int_equal(want.ask, 0);
    assert_int_equal(want.run, GOV_RUN_TURN);
}

/* The client goes while the turn is waited for. */
static void
stop_of_the_worker(void)
{
    if (n_waits == 3)
        atomic_store(&priv.stopping, true);
}

static void
question_is_taken_back_when_the_worker_stops(void **state)
{
    (void)state;
    while_waiting = stop_of_the_worker;
    launch(MS, MS);
    atomic_store(&priv.stopping, false);
    assert_int_equal(want.ask, 0); /* as before: nothing is asked for */
    assert_false(slice->running);
}

/* The grant and the withdrawal cross: the arbiter has given what nobody wants. */
static void
turn_that_crosses_its_withdrawal_is_given_back(void **state)
{
    (void)state;
    assert_false(wrk_gov_ask(&worker, slice));
    grant();
    wrk_gov_unask(&worker, slice);
    assert_int_equal(want.done, 1);
}

/* The governor's thread asks for work that has begun out of turn as well. */
static void
governor_gets_the_turn(void)
{
    if (!slice->asking)
        return;
    grant();
    assert_true(wrk_gov_ask(&worker, slice));
}

/* Who asked once more would wait for a turn behind its own for ever. */
static void
turn_that_the_governor_got_meanwhile_is_not_asked_for_again(void **state)
{
    (void)state;
    take_turn();
    launch(GP_NS_PER_S, MS);
    wrk_gov_give_up(&worker, slice);
    wrk_gov_overrun(&worker, slice, 0);
    while_waiting = governor_gets_the_turn;
    launch(MS, MS); /* what is in flight takes longer than it may be waited for */
    while_waiting = NULL;
    assert_int_equal(want.ask, 2);
    assert_true(has_turn_now());
    look_after(2 * GP_NS_PER_S);
    look_after(10 * MS);
    assert_int_equal(want.done, turn.grant);
}

/* ---- what is charged -------------------------------------------------------- */

static void
gpu_time_is_charged_as_measured_whatever_was_predicted(void **state)
{
    (void)state;
    take_turn();
    turn.rivals = 1;
    launch(5 * MS, MS);
    look_after(6 * MS);
    assert_in_range(want.busy_ns, 5 * MS - US, 5 * MS + US);
    assert_in_range(usage.spent[WRK_SPENT_GPU_NS][0], 5 * MS - US, 5 * MS + US);
}

/* A session on a quarter of the multiprocessors pays a quarter. */
static void
part_of_the_gpu_is_charged_as_that_part(void **state)
{
    (void)state;
    take_turn();
    turn.rivals = 1;
    turn.part = 250;
    launch(4 * MS, MS);
    look_after(5 * MS);
    assert_in_range(want.busy_ns, 4 * MS - US, 4 * MS + US);
    assert_in_range(usage.spent[WRK_SPENT_GPU_NS][0], MS - US, MS + US);
}

/* Time in which nothing ran is nobody's, however far the clock steps: a machine that
 * was suspended, or a worker that was not scheduled. */
static void
clock_that_steps_ahead_charges_nothing(void **state)
{
    (void)state;
    take_turn();
    turn.rivals = 1;
    launch(2 * MS, MS);
    look_after(3600 * GP_NS_PER_S);
    assert_in_range(want.busy_ns, 2 * MS - US, 2 * MS + US);
    look_after(2 * IDLE_NS);
    assert_false(slice->running);
    while_waiting = grant;
    launch(3 * MS, MS);
    look_after(4 * MS);
    assert_in_range(want.busy_ns, 5 * MS - 2 * US, 5 * MS + 2 * US);
}

/* It was asked for in the session's turn and could not begin: the turn was given up
 * meanwhile. */
static void
work_that_begins_out_of_turn_is_reported_late_and_charged(void **state)
{
    (void)state;
    take_turn();
    turn.rivals = 1;
    gpu_until_ns = now_ns + 20 * MS; /* its stream waits for something else */
    launch(5 * MS, MS);
    assert_int_equal(look_after(5 * MS), TICK_TIGHT_NS);
    assert_false(slice->running);
    assert_int_equal(want.done, 1);
    look_after(16 * MS); /* it has begun */
    assert_true(slice->out_of_turn);
    assert_int_equal(want.run, GOV_RUN_LATE);
    assert_in_range(want.late_ns, now_ns - MS, now_ns);
    look_after(5 * MS);
    assert_in_range(want.busy_ns, 5 * MS - US, 5 * MS + US);
}

/* It began and ended between two looks of the governor's thread. */
static void
short_work_out_of_turn_is_charged_from_when_it_began(void **state)
{
    (void)state;
    take_turn();
    turn.rivals = 1;
    gpu_until_ns = now_ns + 20 * MS;
    launch(2 * MS, MS);
    look_after(5 * MS);
    assert_false(slice->running);
    look_after(30 * MS);
    assert_int_equal(want.run, GOV_RUN_LATE);
    assert_in_range(now_ns - want.late_ns, 2 * MS - US, 2 * MS + US);
    assert_in_range(want.busy_ns, 2 * MS - US, 2 * MS + US);
}

/* ---- giving it back --------------------------------------------------------- */

static void
session_that_is_told_to_stop_drains_and_asks_again(void **state)
{
    uint64_t began;

    (void)state;
    take_turn();
    turn.rivals = turn.contended = 1;
    launch(MS, MS);
    began = now_ns;
    turn.stop = 1;
    while_waiting = grant_again;
    launch(MS, MS);
    assert_true(now_ns >= began + MS); /* what was in flight has ended first */
    assert_int_equal(want.done, 1);
    assert_int_equal(want.ask, 2);
    assert_true(has_turn_now());
    assert_in_range(want.busy_ns, MS - US, MS + US);
}

static void
no_more_is_in_flight_than_a_turn_can_be_given_up_behind(void **state)
{
    uint64_t most = 0;

    (void)state;
    take_turn();
    turn.rivals = 1;
    for (int i = 0; i < 100; i++) {
        launch(MS, MS);
        most = gp_max(most, gpu_until_ns - now_ns);
    }
    assert_in_range(most, MS, 3 * MS + 50 * US);
}

static void
turn_is_given_back_when_the_gpu_has_been_idle(void **state)
{
    (void)state;
    take_turn();
    turn.rivals = 1;
    launch(MS, MS);
    assert_int_not_equal(look_after(MS / 2), 0);
    assert_true(has_turn_now());
    look_after(MS / 2 + US); /* it ended just now: another launch may come */
    assert_true(has_turn_now());
    n_rings = 0;
    assert_int_equal(look_after(2 * IDLE_NS), 0);
    assert_int_equal(want.done, 1);
    assert_int_equal(want.run, GOV_RUN_NOT);
    assert_true(n_rings > 0);
    assert_int_equal(look_after(MS), 0); /* nothing more to see */
}

/* The arbiter takes it when somebody asks, and hears of nothing until then. */
static void
turn_that_rests_is_given_back_without_a_wake_up(void **state)
{
    (void)state;
    turn.rests = 1;
    launch(MS, MS);
    look_after(MS + US);
    look_after(2 * IDLE_NS);
    assert_false(slice->running);
    assert_int_equal(want.run, GOV_RUN_NOT);
    assert_int_equal(n_rings, 0);
}

/* ---- work that does not end ------------------------------------------------- */

/* How many launches go through behind a kernel that spins until a later launch has done
 * something, once it has been waited for in vain. */
static unsigned
launches_behind_a_spinning_kernel(uint32_t contended)
{
    unsigned through = 0, before;

    setup(NULL);
    take_turn();
    turn.rivals = 1;
    turn.contended = contended;
    launch(3600 * GP_NS_PER_S, MS);
    launch(MS, 10 * MS); /* as little is in flight before it as always */
    before = n_waits;
    launch(MS, 10 * MS);
    assert_true(n_waits > before);
    for (before = n_waits; n_waits == before; through++)
        launch(MS, 10 * MS);
    return through - 1;
}

static void
launches_behind_work_that_does_not_end_go_through_fewer_while_others_wait(void **state)
{
    (void)state;
    assert_int_equal(launches_behind_a_spinning_kernel(0), 16);
    assert_int_equal(launches_behind_a_spinning_kernel(1), 4);
}

static void
work_that_others_wait_for_too_long_ends_the_attachment(void **state)
{
    int status = 0;
    pid_t child;

    (void)state;
    take_turn();
    turn.rivals = turn.contended = 1;
    priv.conf.work_limit_s = 10;
    launch(3600 * GP_NS_PER_S, MS);
    look_after(MS);
    look_after(9 * GP_NS_PER_S);
    child = fork();
    if (child == 0) {
        look_after(2 * GP_NS_PER_S);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    priv.conf.work_limit_s = 0;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), OVERDUE_STATUS);
}

#define CASE(f) cmocka_unit_test_setup(f, setup)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(launch_asks_once_and_waits_until_the_turn_is_granted),
        CASE(turn_that_rests_with_the_session_is_taken_without_a_question),
        CASE(question_is_taken_back_when_the_worker_stops),
        CASE(turn_that_crosses_its_withdrawal_is_given_back),
        CASE(turn_that_the_governor_got_meanwhile_is_not_asked_for_again),
        CASE(gpu_time_is_charged_as_measured_whatever_was_predicted),
        CASE(part_of_the_gpu_is_charged_as_that_part),
        CASE(clock_that_steps_ahead_charges_nothing),
        CASE(work_that_begins_out_of_turn_is_reported_late_and_charged),
        CASE(short_work_out_of_turn_is_charged_from_when_it_began),
        CASE(session_that_is_told_to_stop_drains_and_asks_again),
        CASE(no_more_is_in_flight_than_a_turn_can_be_given_up_behind),
        CASE(turn_is_given_back_when_the_gpu_has_been_idle),
        CASE(turn_that_rests_is_given_back_without_a_wake_up),
        CASE(launches_behind_work_that_does_not_end_go_through_fewer_while_others_wait),
        CASE(work_that_others_wait_for_too_long_ends_the_attachment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
