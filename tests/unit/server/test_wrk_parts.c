/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits for a context that are made late: which calls of the driver they make, beside
 * captures and behind streams that were destroyed.  The driver is here.
 */
#include "ut.h"

#include "drv.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_ctx.h"
#include "wrk_evpool.h"
#include "wrk_left.h"
#include "wrk_parts.h"

#define CTX 3u
#define STREAM(n) ((CUstream)(uintptr_t)(0x1000 + 16 * (n)))
#define EVENT(n) ((CUevent)(uintptr_t)(0x2000 + 16 * (n)))
#define OWN STREAM(100) /* the worker's */
#define STREAMS 40

static struct drv drv;
static struct wrk_priv priv;
static struct wrk worker = {
    .drv = &drv, .priv = &priv, .ctx_index = CTX, .ctx_frame = CTX};
static struct wrk_handle_slot slots[STREAMS];

static bool busy[STREAMS], own_is_busy, default_is_busy;
static CUstream captured; /* NULL: none */
static unsigned epoch;
static unsigned taken, given_back; /* events */
static unsigned recorded_default, recorded_own, joined;
static unsigned event_waits, whole_waits, default_waits;

/* ---- the worker around it ---- */

CUresult
wrk_ctx_use(struct wrk *w, uint32_t index)
{
    w->ctx_index = w->ctx_frame = index;
    return CUDA_SUCCESS;
}

uint32_t
wrk_ctx_of_stream(const struct wrk *w, const void *stream)
{
    return CTX;
}

unsigned
wrk_ctx_epoch(void)
{
    return epoch;
}

CUevent
wrk_evpool_get(struct wrk *w, uint32_t ctx_index)
{
    return EVENT(++taken);
}

void
wrk_evpool_put(struct wrk *w, uint32_t ctx_index, CUevent event)
{
    given_back++;
}

CUresult
wrk_capturing(struct wrk *w, CUstream stream)
{
    return stream && stream == captured ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                                        : CUDA_SUCCESS;
}

bool
wrk_capture_take(struct wrk *w, CUstream stream, struct wrk_capture *ret)
{
    return false;
}

void
wrk_capture_relax_own(struct wrk *w)
{
}

void
wrk_capture_relax_client(struct wrk *w)
{
}

bool
wrk_capture_relax_thread(struct wrk *w, bool relaxed)
{
    return true;
}

/* ---- the driver ---- */

static CUresult
stream_query(CUstream stream)
{
    bool is = stream == OWN ? own_is_busy : !stream && default_is_busy;

    for (unsigned i = 0; i < STREAMS; i++)
        is = is || (stream == STREAM(i) && busy[i]);
    return is ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult
stream_create(CUstream *ret, unsigned flags)
{
    assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
    *ret = OWN;
    return CUDA_SUCCESS;
}

static CUresult
stream_wait_event(CUstream stream, CUevent event, unsigned flags)
{
    assert_ptr_equal(stream, OWN);
    joined++;
    own_is_busy = true;
    return CUDA_SUCCESS;
}

static CUresult
event_record(CUevent event, CUstream stream)
{
    recorded_default += !stream;
    recorded_own += stream == OWN;
    return CUDA_SUCCESS;
}

static CUresult
event_synchronize(CUevent event)
{
    event_waits++;
    return CUDA_SUCCESS;
}

static CUresult
ctx_synchronize(void)
{
    whole_waits++;
    return CUDA_SUCCESS;
}

static CUresult
stream_synchronize(CUstream stream)
{
    assert_null(stream);
    default_waits++;
    return CUDA_SUCCESS;
}

static int
set_up(void **state)
{
    drv.cuStreamQuery = stream_query;
    drv.cuStreamCreate = stream_create;
    drv.cuStreamWaitEvent = stream_wait_event;
    drv.cuEventRecord = event_record;
    drv.cuEventSynchronize = event_synchronize;
    drv.cuCtxSynchronize = ctx_synchronize;
    drv.cuStreamSynchronize = stream_synchronize;
    for (uint32_t i = 0; i < STREAMS; i++)
        slots[i] = (struct wrk_handle_slot){.obj = STREAM(i), .user = CTX};
    worker.handles.client[WIRE_KIND_STREAM].slots = slots;
    worker.handles.client[WIRE_KIND_STREAM].cap = 4;
    memset(busy, 0, sizeof(busy));
    own_is_busy = default_is_busy = false;
    captured = NULL;
    worker.ctx_index = worker.ctx_frame = CTX;
    taken = given_back = recorded_default = recorded_own = joined = 0;
    event_waits = whole_waits = default_waits = 0;
    wrk_left_forget(&worker, CTX);
    return 0;
}

static void
take_and_wait(unsigned events)
{
    struct wrk_parts parts;

    assert_true(wrk_parts_take(&worker, CTX, &parts));
    assert_int_equal(parts.n, events);
    assert_int_equal(wrk_parts_wait(&worker, &parts), CUDA_SUCCESS);
    assert_null(parts.events);
    assert_int_equal(event_waits, events);
    assert_int_equal(given_back, taken);
}

/* ---- promises: the first cases are of a program that has captured nothing yet ---- */

static void
without_captures_the_drivers_call_comes_last(void **state)
{
    busy[1] = busy[3] = default_is_busy = true;
    take_and_wait(2);
    assert_int_equal(recorded_default, 0); /* it would be a barrier */
    assert_int_equal(whole_waits, 1);
}

static void
with_many_streams_it_is_all_that_there_is(void **state)
{
    struct wrk_parts parts;

    worker.handles.client[WIRE_KIND_STREAM].cap = STREAMS;
    busy[0] = true;
    assert_false(wrk_parts_take(&worker, CTX, &parts));
    assert_null(parts.events);
    assert_int_equal(given_back, taken);
}

static void
what_destroyed_streams_leave_is_waited_for(void **state)
{
    CUstream stream;

    assert_true(wrk_left_stream(CTX, &stream));
    assert_null(stream);
    wrk_left_note(&worker, STREAM(0)); /* idle: it leaves nothing */
    assert_int_equal(joined, 0);
    for (unsigned i = 0; i < 200; i++) { /* as many as there are */
        busy[0] = true;
        wrk_left_note(&worker, STREAM(0));
        busy[0] = false;
    }
    assert_int_equal(joined, 200);
    assert_int_equal(wrk_left_query(&worker, CTX), CUDA_ERROR_NOT_READY);
    take_and_wait(1);
    assert_int_equal(recorded_own, 1);
    own_is_busy = false;
    assert_int_equal(wrk_left_query(&worker, CTX), CUDA_SUCCESS);
    captured = STREAM(2); /* joined a capture: what it had before nobody knows */
    wrk_left_note(&worker, STREAM(2));
    assert_false(wrk_left_stream(CTX, &stream));
    assert_int_equal(wrk_left_query(&worker, CTX), CUDA_ERROR_NOT_READY);
    wrk_left_forget(&worker, CTX);
    assert_true(wrk_left_stream(CTX, &stream));
}

/* The default stream's part is taken before the capture begins: a use of that stream
 * during the capture would end it. */
static void
waits_from_before_the_first_capture_end_none(void **state)
{
    struct wrk_parts parts, another, dropped;

    busy[1] = default_is_busy = true;
    assert_true(wrk_parts_take(&worker, CTX, &parts));
    assert_true(wrk_parts_take(&worker, CTX, &dropped));
    assert_true(wrk_parts_take(&worker, CTX, &another));
    wrk_parts_drop(&worker, &dropped);
    worker.ctx_index = worker.ctx_frame = CTX + 1;
    wrk_parts_captures(&worker);
    assert_int_equal(worker.ctx_index, CTX + 1);
    assert_int_equal(recorded_default, 2);
    assert_int_equal(wrk_parts_wait(&worker, &parts), CUDA_SUCCESS);
    assert_int_equal(wrk_parts_wait(&worker, &another), CUDA_SUCCESS);
    assert_int_equal(event_waits, 4);
    assert_int_equal(whole_waits, 0);
    assert_int_equal(default_waits, 0);
    assert_int_equal(given_back, taken);
}

/* ---- and from here on of one that has ---- */

static void
with_captures_the_default_stream_has_an_event_too(void **state)
{
    wrk_parts_captures(&worker);
    worker.handles.client[WIRE_KIND_STREAM].cap = STREAMS;
    for (unsigned i = 0; i < STREAMS; i++)
        busy[i] = true;
    default_is_busy = true;
    take_and_wait(STREAMS + 1);
    assert_int_equal(recorded_default, 1);
    assert_int_equal(whole_waits, 0);
    assert_int_equal(default_waits, 0);
}

static void
a_stream_that_is_captured_has_no_part(void **state)
{
    struct wrk_parts parts;

    wrk_parts_captures(&worker);
    busy[0] = true;
    captured = STREAM(2);
    assert_false(wrk_parts_take(&worker, CTX, &parts));
    assert_int_equal(given_back, taken);
}

static void
events_of_a_context_that_ended_are_not_given_back(void **state)
{
    struct wrk_parts parts;

    wrk_parts_captures(&worker);
    busy[0] = true;
    assert_true(wrk_parts_take(&worker, CTX, &parts));
    epoch++; /* another one may have its index */
    wrk_parts_drop(&worker, &parts);
    assert_int_equal(taken, 1);
    assert_int_equal(given_back, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_captures_the_drivers_call_comes_last, set_up),
        cmocka_unit_test_setup(with_many_streams_it_is_all_that_there_is, set_up),
        cmocka_unit_test_setup(what_destroyed_streams_leave_is_waited_for, set_up),
        cmocka_unit_test_setup(waits_from_before_the_first_capture_end_none, set_up),
        cmocka_unit_test_setup(with_captures_the_default_stream_has_an_event_too,
                               set_up),
        cmocka_unit_test_setup(a_stream_that_is_captured_has_no_part, set_up),
        cmocka_unit_test_setup(events_of_a_context_that_ended_are_not_given_back,
                               set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
