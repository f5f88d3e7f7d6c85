/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a client hands over: what is not taken, and how long it stays. */
#include "ut.h"

#include "drv.h"
#include "gp_err.h"
#include "wrk.h"
#include "wrk_bulk.h"
#include "wrk_ctx.h"
#include "wrk_pinned.h"
#include "wrk_slot.h"
#include "wrk_wait.h"
#include "xport.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define SIZE (64u * 1024)
#define CONTEXT ((CUcontext)(uintptr_t)0x1000)
#define EVENT ((CUevent)(uintptr_t)0x2000)
#define STREAM(n) ((CUstream)(uintptr_t)(0x3000 + (n)))

static struct drv drv;
static struct wrk_priv priv;
static struct wrk worker = {.drv = &drv, .priv = &priv, .ctx_index = 1};

static int next_fd = -1; /* what the client has handed over */
static bool copying;     /* copies do not end */
static unsigned registered, marks;
static uint64_t moved;
static struct wrk_job *queued;

/* ---- the worker around it ---------------------------------------------------------
 */

int
xport_take_fd(struct xport_conn *conn)
{
    int fd = next_fd;

    next_fd = -1;
    return fd < 0 ? -EAGAIN : fd;
}

CUcontext
wrk_ctx_current(struct wrk *w)
{
    return CONTEXT;
}

void
wrk_bulk_moves(struct wrk *w, uint64_t bytes)
{
    moved += bytes;
}

bool
wrk_slot_idle(struct wrk *w, struct wrk_slot *slot)
{
    if (slot->event && copying)
        return false;
    slot->event = NULL;
    return true;
}

void
wrk_slot_wait(struct wrk *w, struct wrk_slot *slot)
{
    slot->event = NULL;
}

CUresult
wrk_slot_mark(struct wrk *w, struct wrk_slot *slot, uint32_t ctx_index, CUstream stream)
{
    slot->event = EVENT;
    slot->ctx_index = ctx_index;
    marks++;
    return CUDA_SUCCESS;
}

void
wrk_slot_forget(struct wrk_slot *slot, uint32_t ctx_index)
{
    if (slot->ctx_index == ctx_index)
        slot->event = NULL;
}

bool
wrk_wait_background(struct wrk *w, struct wrk_job *job)
{
    queued = job;
    return true;
}

static CUresult
driver_register(void *p, size_t size, unsigned int flags)
{
    registered++;
    return CUDA_SUCCESS;
}

static CUresult
driver_unregister(void *p)
{
    registered--;
    return CUDA_SUCCESS;
}

static CUresult
driver_record(CUevent event, CUstream stream)
{
    return CUDA_SUCCESS;
}

static CUresult
driver_up(CUdeviceptr dst, const void *src, size_t n, CUstream stream)
{
    memcpy((void *)(uintptr_t)dst, src, n);
    return CUDA_SUCCESS;
}

static int
set_up(void **state)
{
    drv.cuMemHostRegister_v2 = driver_register;
    drv.cuMemHostUnregister = driver_unregister;
    drv.cuMemcpyHtoDAsync_v2 = driver_up;
    drv.cuEventRecord = driver_record;
    registered = marks = 0;
    moved = 0;
    copying = false;
    queued = NULL;
    return 0;
}

static int
file_new(off_t size, int seals)
{
    int fd = memfd_create("pinned", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, size), 0);
    if (seals)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static bool
add(uint32_t id, uint64_t size)
{
    next_fd = file_new((off_t)size, SEALS);
    return wrk_pinned_add(&worker, id, size);
}

static CUresult
up(uint32_t id, uint64_t offset, uint64_t n, CUstream stream)
{
    static uint8_t card[SIZE];
    struct wrk_pinned_place place = {id, offset, n};

    return wrk_pinned_start(&worker, &place, (uintptr_t)card, false, stream);
}

/* ---- promises ---------------------------------------------------------------------
 */

static void
refused(int fd, uint64_t size, const char *words)
{
    struct gp_err err = {0};
    void *mem;

    assert_true(wrk_pinned_map(fd, size, &mem, &err) < 0);
    assert_non_null(strstr(gp_err_msg(&err, -1), words));
    close(fd);
}

static void
files_that_could_lose_pages_are_refused(void **state)
{
    int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);

    refused(file_new(SIZE, 0), SIZE, "keeps its size");
    refused(file_new(SIZE, F_SEAL_GROW), SIZE, "keeps its size");
    refused(file_new(SIZE, F_SEAL_SHRINK), SIZE, "keeps its size");
    refused(file_new(SIZE, SEALS | F_SEAL_WRITE), SIZE, "keeps its size");
    refused(zero, SIZE, "keeps its size");
}

static void
files_of_another_length_are_refused(void **state)
{
    refused(file_new(SIZE, SEALS), SIZE + 4096, "as long as");
    refused(file_new(SIZE, SEALS), SIZE - 4096, "as long as");
    refused(file_new(SIZE, SEALS), 0, "as long as");
    refused(file_new(SIZE + 1, SEALS), SIZE + 1, "as long as");
    refused(file_new(0, SEALS), 0, "as long as");
}

static void
only_what_was_handed_over_can_be_named(void **state)
{
    assert_false(wrk_pinned_add(&worker, 0, SIZE)); /* nothing has come */
    assert_false(add(WRK_PINNED_MAX, SIZE));
    assert_true(add(3, SIZE));
    assert_false(add(3, SIZE));
    assert_int_equal(registered, 1);
    assert_int_equal(up(3, 0, SIZE, STREAM(0)), CUDA_SUCCESS);
    assert_int_equal(moved, SIZE);
    assert_int_equal(up(3, 1, SIZE, STREAM(0)), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(up(3, SIZE, 1, STREAM(0)), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(up(3, UINT64_MAX, 2, STREAM(0)), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(up(3, 2, UINT64_MAX, STREAM(0)), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(up(4, 0, 1, STREAM(0)), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(up(UINT32_MAX, 0, 1, STREAM(0)), CUDA_ERROR_INVALID_VALUE);
    wrk_pinned_drop(&worker, UINT32_MAX);
    wrk_pinned_drop(&worker, 4);
    wrk_pinned_drop(&worker, 3);
    assert_int_equal(registered, 0);
    assert_int_equal(up(3, 0, 1, STREAM(0)), CUDA_ERROR_INVALID_VALUE);
}

static void
a_client_gets_no_more_than_the_bound(void **state)
{
    uint64_t most = WRK_PINNED_BYTES_MAX;
    int fd = file_new((off_t)(most + 4096), SEALS);

    refused(fd, most + 4096, "as long as");
    assert_true(add(0, SIZE));
    /* Refused before the file is looked at: nothing of that size is mapped here. */
    assert_false(add(1, most - SIZE + 4096));
    wrk_pinned_drop(&worker, 0);
    assert_int_equal(registered, 0);
}

static void
it_stays_until_the_last_copy_is_over(void **state)
{
    assert_true(add(0, SIZE));
    copying = true;
    assert_int_equal(up(0, 0, 4096, STREAM(1)), CUDA_SUCCESS);
    assert_int_equal(up(0, 0, 4096, STREAM(2)), CUDA_SUCCESS);
    assert_int_equal(up(0, 0, 4096, STREAM(1)), CUDA_SUCCESS);
    assert_int_equal(marks, 2); /* one for a stream */
    wrk_pinned_drop(&worker, 0);
    assert_int_equal(registered, 1);
    assert_non_null(queued);
    assert_true(add(0, SIZE)); /* the number is free at once */
    queued->run(&worker, queued);
    assert_int_equal(registered, 1);
    copying = false;
    wrk_pinned_drop(&worker, 0);
    assert_int_equal(registered, 0);
}

static void
with_more_streams_than_marks_it_stays_for_good(void **state)
{
    assert_true(add(0, SIZE));
    copying = true;
    for (unsigned i = 0; i <= WRK_PINNED_MARKS; i++)
        assert_int_equal(up(0, 0, 4096, STREAM(i)), CUDA_SUCCESS);
    wrk_pinned_drop(&worker, 0);
    assert_null(queued);
    assert_int_equal(registered, 1);
    assert_int_equal(up(0, 0, 1, STREAM(0)), CUDA_ERROR_INVALID_VALUE);
}

static void
a_context_takes_its_registration_along(void **state)
{
    assert_true(add(0, SIZE));
    copying = true;
    assert_int_equal(up(0, 0, 4096, STREAM(0)), CUDA_SUCCESS);
    wrk_pinned_forget(2);
    assert_int_equal(up(0, 0, 4096, STREAM(0)), CUDA_SUCCESS);
    assert_int_equal(registered, 1);
    wrk_pinned_forget(1);
    assert_int_equal(up(0, 0, 4096, STREAM(0)), CUDA_SUCCESS);
    assert_int_equal(registered, 2);
    copying = false;
    wrk_pinned_drop(&worker, 0);
    assert_int_equal(registered, 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(files_that_could_lose_pages_are_refused, set_up),
        cmocka_unit_test_setup(files_of_another_length_are_refused, set_up),
        cmocka_unit_test_setup(only_what_was_handed_over_can_be_named, set_up),
        cmocka_unit_test_setup(a_client_gets_no_more_than_the_bound, set_up),
        cmocka_unit_test_setup(it_stays_until_the_last_copy_is_over, set_up),
        cmocka_unit_test_setup(a_context_takes_its_registration_along, set_up),
        cmocka_unit_test_setup(with_more_streams_than_marks_it_stays_for_good, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
