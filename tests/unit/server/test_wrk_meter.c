/* SPDX-License-Identifier: Apache-2.0 */
/* What the meter makes of events, on a card whose clock the test sets. */
#include "ut.h"

#include "drv.h"
#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_ctx.h"
#include "wrk_evpool.h"
#include "wrk_meter.h"

#include <string.h>

#define CTX 3u
#define STREAM ((CUstream)(uintptr_t)0x50)
#define KEY 77u

/* An event is the time at which the card passes it, as the test made it up. */
static uint64_t events[64];
static CUevent spare[64];
static unsigned n_events, n_spare, n_recorded;
static uint64_t card_ns, next_ns;
static struct wrk_meter meter;

static CUresult
event_record(CUevent event, CUstream stream)
{
    (void)stream;
    n_recorded++;
    events[(uintptr_t)event] = next_ns;
    return CUDA_SUCCESS;
}

static CUresult
event_query(CUevent event)
{
    return events[(uintptr_t)event] <= card_ns ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult
event_elapsed(float *ms, CUevent from, CUevent to)
{
    *ms = (float)(events[(uintptr_t)to] - events[(uintptr_t)from]) / 1e6f;
    return CUDA_SUCCESS;
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
    assert_true(n_events + 1 < sizeof(events) / sizeof(*events));
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
static struct wrk worker = {.drv = &drv, .ctx_index = CTX};

static int
setup(void **state)
{
    (void)state;
    memset(&meter, 0, sizeof(meter));
    n_events = n_spare = n_recorded = 0;
    card_ns = next_ns = 0;
    return 0;
}

/* A measured group, of one launch that takes so long; then the wait at frame @seq. */
static void
measured(uint64_t ns, uint32_t seq)
{
    struct wrk_meter_done done;

    wrk_meter_begin(&worker, &meter, STREAM, false, 1);
    wrk_meter_add(&meter, KEY, ns, 1);
    next_ns += ns;
    wrk_meter_mark(&worker, &meter);
    card_ns = next_ns;
    assert_true(wrk_meter_take(&worker, &meter, &done));
    assert_in_range(done.ns, ns - 1, ns + 1);
    assert_false(done.estimated);
    wrk_meter_ctx_idle(&meter, CTX, seq);
}

static void
launches_between_waits_that_find_nothing_to_wait_for_need_no_events(void **state)
{
    unsigned recorded;

    (void)state;
    measured(5000, 10);
    recorded = n_recorded;
    meter.estimate_left = 2;
    assert_true(wrk_meter_estimate(&meter, CTX, STREAM, 11));
    wrk_meter_add(&meter, KEY, 5000, 1);
    wrk_meter_add(&meter, KEY, 5000, 3);
    assert_int_equal(meter.estimated_ns, 0);
    wrk_meter_ctx_idle(&meter, CTX, 15);
    assert_int_equal(meter.estimated_ns, 20000);
    assert_int_equal(meter.unmarked, 0);
    assert_true(wrk_meter_estimate(&meter, CTX, STREAM, 16));
    wrk_meter_add(&meter, KEY, 5000, 1);
    wrk_meter_ctx_idle(&meter, CTX, 17);
    assert_int_equal(meter.estimated_ns, 25000);
    assert_int_equal(n_recorded, recorded);
}

/* Anything but the launch itself may keep it from beginning at once. */
static void
launches_with_something_in_front_of_them_are_measured(void **state)
{
    (void)state;
    measured(5000, 10);
    meter.estimate_left = 9;
    assert_false(wrk_meter_estimate(&meter, CTX, STREAM, 12));
    assert_false(wrk_meter_estimate(&meter, CTX, STREAM, 10));
    assert_false(wrk_meter_estimate(&meter, CTX + 1, STREAM, 11));
    wrk_meter_begin(&worker, &meter, STREAM, false, 1);
    wrk_meter_add(&meter, KEY, 5000, 1);
    assert_false(wrk_meter_estimate(&meter, CTX, STREAM, 11)); /* not marked yet */
    next_ns = card_ns + 5000;
    wrk_meter_mark(&worker, &meter);
    assert_false(wrk_meter_estimate(&meter, CTX, STREAM, 11)); /* in flight */
    /* A wait that ends tells nothing about launches that are to be measured. */
    wrk_meter_ctx_idle(&meter, CTX, 20);
    assert_int_equal(meter.estimated_ns, 0);
}

static void
some_launches_are_measured_all_the_same(void **state)
{
    unsigned n_measured = 0, in_a_row = 0, most = 0;
    uint32_t seq = 10;

    (void)state;
    for (unsigned i = 0; i < 400; i++) {
        if (wrk_meter_estimate(&meter, CTX, STREAM, seq + 1)) {
            wrk_meter_add(&meter, KEY, 5000, 1);
            wrk_meter_ctx_idle(&meter, CTX, ++seq);
            most = gp_max(most, ++in_a_row);
        } else {
            measured(5000, ++seq);
            n_measured++;
            in_a_row = 0;
        }
    }
    assert_in_range(n_measured, 400 / 33, 400 / 4);
    assert_in_range(most, 2, 32);
}

static void
who_does_not_wait_is_marked_late_and_what_follows_is_measured(void **state)
{
    struct wrk_meter_done done;
    unsigned recorded;

    (void)state;
    measured(5000, 10);
    recorded = n_recorded;
    meter.estimate_left = 9;
    assert_true(wrk_meter_estimate(&meter, CTX, STREAM, 11));
    wrk_meter_add(&meter, KEY, 5000, 2);
    next_ns = card_ns + 12000;
    wrk_meter_mark(&worker, &meter);
    assert_int_equal(n_recorded, recorded + 1);
    assert_false(wrk_meter_held(&worker, &meter)); /* nothing stood in front of it */
    wrk_meter_begin(&worker, &meter, STREAM, false, 1);
    wrk_meter_add(&meter, KEY, 5000, 1);
    next_ns += 7000;
    wrk_meter_mark(&worker, &meter);
    assert_int_equal(n_recorded, recorded + 2);
    assert_false(wrk_meter_take(&worker, &meter, &done));
    card_ns = next_ns;
    assert_true(wrk_meter_take(&worker, &meter, &done));
    assert_true(done.estimated);
    assert_int_equal(done.ns, 10000);
    assert_true(wrk_meter_take(&worker, &meter, &done));
    assert_false(done.estimated);
    assert_in_range(done.ns, 6999, 7001);
    assert_true(wrk_meter_idle(&meter));
}

static void
launch_that_took_a_second_is_not_estimated(void **state)
{
    struct wrk_meter_done done;

    (void)state;
    measured(5000, 10);
    meter.estimate_left = 9;
    assert_true(wrk_meter_estimate(&meter, CTX, STREAM, 11));
    wrk_meter_add(&meter, KEY, 5000, 1);
    wrk_meter_mark(&worker, &meter);
    meter.marks[meter.tail % WRK_METER_MARKS].since_ns -= 1000000000;
    assert_true(wrk_meter_take(&worker, &meter, &done));
    assert_false(done.estimated);
    assert_in_range(done.ns, 1000000000, 60000000000);
    assert_int_equal(done.key, 0); /* nobody knows how long, exactly */
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(
            launches_between_waits_that_find_nothing_to_wait_for_need_no_events, setup),
        cmocka_unit_test_setup(launches_with_something_in_front_of_them_are_measured,
                               setup),
        cmocka_unit_test_setup(some_launches_are_measured_all_the_same, setup),
        cmocka_unit_test_setup(
            who_does_not_wait_is_marked_late_and_what_follows_is_measured, setup),
        cmocka_unit_test_setup(launch_that_took_a_second_is_not_estimated, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
