/* SPDX-License-Identifier: Apache-2.0 */
/* Staging buffers, their pool and the buffers of frames, in front of a driver that
 * completes copies on command. */
#include "ut.h"

#include "drv.h"
#include "wrk.h"
#include "wrk_copy.h"
#include "wrk_evpool.h"
#include "wrk_frame_buffers.h"
#include "wrk_staging.h"
#include "wrk_staging_pool.h"
#include "wrk_wait.h"
#include "xport.h"

#include <stdlib.h>
#include <string.h>

#define STREAM ((CUstream)(uintptr_t)0x3000)

/* ---- the driver: an event is complete when its copy is -------------------------- */

struct event {
    bool pending;
};

static struct {
    CUresult registration; /* of memory */
    unsigned registered, synchronized;
    size_t bytes; /* registered last */
} driver;

static CUresult
host_register(void *p, size_t size, unsigned flags)
{
    assert_non_null(p);
    assert_int_not_equal(size, 0);
    (void)flags;
    driver.registered += driver.registration == CUDA_SUCCESS;
    driver.bytes = size;
    return driver.registration;
}

static CUresult
event_create(CUevent *ret, unsigned flags)
{
    static struct event events[1024]; /* the pool keeps them, over all tests */
    static unsigned n;

    (void)flags;
    assert_true(n < ARRAY_SIZE(events));
    *ret = (CUevent)&events[n++];
    return CUDA_SUCCESS;
}

static CUresult
event_record(CUevent event, CUstream stream)
{
    assert_ptr_equal(stream, STREAM);
    ((struct event *)event)->pending = true;
    return CUDA_SUCCESS;
}

static CUresult
event_query(CUevent event)
{
    return ((struct event *)event)->pending ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult
event_synchronize(CUevent event)
{
    driver.synchronized++;
    ((struct event *)event)->pending = false;
    return CUDA_SUCCESS;
}

static struct drv drv = {.cuMemHostRegister_v2 = host_register,
                         .cuEventCreate = event_create,
                         .cuEventRecord = event_record,
                         .cuEventQuery = event_query,
                         .cuEventSynchronize = event_synchronize};
static struct wrk_priv priv;
static struct wrk worker = {.drv = &drv, .priv = &priv, .ctx_index = 1};

/* ---- the worker around it -------------------------------------------------------- */

static unsigned flushed, handed_over;

void
xport_pin(struct xport_conn *conn, const void *addr, size_t len)
{
    (void)conn;
    (void)addr;
    (void)len;
}

void
wrk_flush(struct wrk *w)
{
    (void)w;
    flushed++;
}

void
wrk_wait_hand_over(struct wrk *w)
{
    (void)w;
    handed_over++;
}

/* A connection whose buffers have one frame each. */
#define FRAME (64u << 10)
#define BUFFER (2 * FRAME)
static struct xport_ops ops;
static struct xport_conn connection = {.ops = &ops};
static uint8_t memory[WRK_FRAME_BUFFERS + 1][BUFFER], *received_into;
static unsigned n_memory;

void *
xport_exchange_new(const struct xport_conn *conn, size_t *ret_size)
{
    assert_ptr_equal(conn, &connection);
    assert_true(n_memory < ARRAY_SIZE(memory));
    *ret_size = BUFFER;
    return memory[n_memory++];
}

void *
xport_exchange(struct xport_conn *conn, void *buffer)
{
    uint8_t *full = received_into;

    assert_ptr_equal(conn, &connection);
    assert_ptr_not_equal(buffer, full);
    received_into = buffer;
    return full;
}

static int
setup(void **state)
{
    (void)state;
    memset(&driver, 0, sizeof(driver));
    flushed = handed_over = 0;
    ops.can = XPORT_CAN_EXCHANGE;
    connection.rx.pos = connection.rx.end = memory[0];
    received_into = memory[0];
    n_memory = 1;
    priv.conn = &connection;
    return wrk_frame_buffers_new(&priv.frame_buffers) ||
           wrk_staging_pool_new(&priv.staging);
}

static int
teardown(void **state)
{
    (void)state;
    wrk_staging_pool_free(priv.staging);
    wrk_frame_buffers_free(priv.frame_buffers);
    return 0;
}

static struct wrk_staging *
get_for(uint64_t len)
{
    struct wrk_staging *buffer = NULL;

    assert_int_equal(wrk_staging_pool_get(&worker, len, &buffer), CUDA_SUCCESS);
    assert_non_null(buffer);
    return buffer;
}

static struct wrk_staging *
get(void)
{
    return get_for(WRK_STAGING_SIZE);
}

static struct wrk_staging *
get_for_a_copy(void)
{
    struct wrk_staging *buffer = get();

    assert_int_equal(wrk_staging_fence(&worker, buffer, 1, STREAM), CUDA_SUCCESS);
    return buffer;
}

static void
complete(struct wrk_staging *buffer)
{
    ((struct event *)buffer->event)->pending = false;
}

/* ---- cases ----------------------------------------------------------------------- */

static void
buffer_used_last_is_used_first(void **state)
{
    struct wrk_staging *first = get_for_a_copy(), *second = get_for_a_copy();

    (void)state;
    assert_ptr_not_equal(first, second);
    complete(first);
    complete(second);
    assert_ptr_equal(get(), second);
    assert_int_equal(driver.registered, 2);
}

static void
buffer_in_flight_is_not_given_out(void **state)
{
    struct wrk_staging *busy = get_for_a_copy(), *receiving = get();

    (void)state;
    receiving->taken = true; /* bytes of the connection are on their way into it */
    for (unsigned i = 2; i < WRK_STAGING_H2D_MAX; i++) {
        struct wrk_staging *next = get_for_a_copy();

        assert_ptr_not_equal(next, busy);
        assert_ptr_not_equal(next, receiving);
    }
    assert_int_equal(driver.synchronized, 0);
}

static void
with_all_in_flight_what_is_due_leaves_and_the_oldest_is_waited_for(void **state)
{
    struct wrk_staging *oldest = get_for_a_copy();

    (void)state;
    for (unsigned i = 1; i < WRK_STAGING_H2D_MAX; i++)
        get_for_a_copy();
    assert_int_equal(flushed, 0);
    assert_ptr_equal(get(), oldest);
    assert_int_equal(flushed, 1);
    assert_int_equal(handed_over, 1);
    assert_int_equal(driver.synchronized, 1);
    assert_null(oldest->event);
}

static void
refused_registration_is_the_error_and_is_tried_again(void **state)
{
    struct wrk_staging *buffer = NULL;

    (void)state;
    driver.registration = CUDA_ERROR_OPERATING_SYSTEM;
    assert_int_equal(wrk_staging_pool_get(&worker, WRK_STAGING_SIZE, &buffer),
                     CUDA_ERROR_OPERATING_SYSTEM);
    assert_null(buffer);
    driver.registration = CUDA_SUCCESS;
    assert_true(get()->pinned);
}

static void
registration_is_renewed_after_its_context_has_ended(void **state)
{
    struct wrk_staging *buffer = get();

    (void)state;
    wrk_staging_pool_forget(&worker, 1);
    assert_false(buffer->pinned);
    assert_ptr_equal(get(), buffer);
    assert_int_equal(driver.registered, 2);
}

static void
small_copy_takes_little_memory_until_a_large_one_needs_more(void **state)
{
    struct wrk_staging *buffer = get_for(4096);
    const uint8_t *small = buffer->mem;

    (void)state;
    assert_int_equal(driver.bytes, WRK_COPY_ONE_PIECE);
    assert_ptr_equal(get_for(WRK_COPY_ONE_PIECE), buffer);
    assert_int_equal(driver.registered, 1);
    assert_ptr_equal(get_for(WRK_COPY_ONE_PIECE + 1), buffer);
    assert_ptr_not_equal(buffer->mem, small);
    assert_int_equal(driver.registered, 2);
    assert_int_equal(driver.bytes, WRK_STAGING_SIZE);
    memset(buffer->mem, 1, WRK_STAGING_SIZE);
    assert_ptr_equal(get_for(4096), buffer);
    assert_int_equal(driver.registered, 2);
}

static void
many_buffers_are_large_at_once(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(wrk_staging_fence(&worker, get_for(4096), 1, STREAM),
                         CUDA_SUCCESS);
    assert_int_equal(driver.bytes, WRK_STAGING_SIZE);
}

/* The bytes of a frame in the connection's buffer, and a copy from there. */
static struct wrk_staging *
take_for_a_copy(void)
{
    uint8_t *bytes = received_into + 40;
    struct wrk_staging *buffer = wrk_frame_buffers_take(&worker, bytes, FRAME);

    if (!buffer)
        return NULL;
    assert_ptr_equal(buffer->mem + 40, bytes);
    assert_true(buffer->pinned);
    assert_ptr_not_equal(received_into, buffer->mem);
    assert_int_equal(wrk_staging_fence(&worker, buffer, 1, STREAM), CUDA_SUCCESS);
    return buffer;
}

static void
no_frame_is_received_into_a_buffer_that_a_copy_reads(void **state)
{
    struct wrk_staging *busy[WRK_FRAME_BUFFERS - 1];

    (void)state;
    for (unsigned i = 0; i < ARRAY_SIZE(busy); i++) {
        busy[i] = take_for_a_copy();
        assert_non_null(busy[i]);
    }
    for (unsigned i = 0; i < ARRAY_SIZE(busy); i++)
        assert_ptr_not_equal(received_into, busy[i]->mem);
    assert_null(take_for_a_copy()); /* then it is copied */
    complete(busy[1]);
    assert_non_null(take_for_a_copy());
    assert_ptr_equal(received_into, busy[1]->mem);
    assert_int_equal(n_memory, WRK_FRAME_BUFFERS);
    assert_int_equal(driver.registered, WRK_FRAME_BUFFERS);
    assert_int_equal(driver.synchronized, 0);
}

static void
two_buffers_are_enough_where_copies_are_done_at_once(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 10; i++)
        complete(take_for_a_copy());
    assert_int_equal(n_memory, 2);
    assert_int_equal(driver.registered, 2);
    wrk_frame_buffers_forget(&worker, 1);
    complete(take_for_a_copy());
    assert_int_equal(driver.registered, 3);
}

static void
bytes_are_copied_where_no_buffer_can_be_exchanged(void **state)
{
    (void)state;
    assert_null(wrk_frame_buffers_take(&worker, received_into, 4096));
    connection.rx.end = connection.rx.pos + FRAME; /* much is behind it */
    assert_null(take_for_a_copy());
    connection.rx.end = connection.rx.pos;
    ops.can = 0;
    assert_null(take_for_a_copy());
    ops.can = XPORT_CAN_EXCHANGE;
    assert_int_equal(n_memory, 1);
    driver.registration = CUDA_ERROR_OPERATING_SYSTEM;
    assert_null(take_for_a_copy());
    driver.registration = CUDA_SUCCESS;
    assert_non_null(take_for_a_copy());
    assert_null(wrk_frame_buffers_take(&worker, memory[WRK_FRAME_BUFFERS], FRAME));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            no_frame_is_received_into_a_buffer_that_a_copy_reads, setup, teardown),
        cmocka_unit_test_setup_teardown(
            two_buffers_are_enough_where_copies_are_done_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(
            bytes_are_copied_where_no_buffer_can_be_exchanged, setup, teardown),
        cmocka_unit_test_setup_teardown(buffer_used_last_is_used_first, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(buffer_in_flight_is_not_given_out, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            with_all_in_flight_what_is_due_leaves_and_the_oldest_is_waited_for, setup,
            teardown),
        cmocka_unit_test_setup_teardown(
            refused_registration_is_the_error_and_is_tried_again, setup, teardown),
        cmocka_unit_test_setup_teardown(
            registration_is_renewed_after_its_context_has_ended, setup, teardown),
        cmocka_unit_test_setup_teardown(
            small_copy_takes_little_memory_until_a_large_one_needs_more, setup,
            teardown),
        cmocka_unit_test_setup_teardown(many_buffers_are_large_at_once, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
