/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a client hands over: what is not taken, and how long it stays. */
#include "ut.h"

#include "drv.h"
#include "gp_err.h"
#include "wire_lines.h"
#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_changes.h"
#include "wrk_ctx.h"
#include "wrk_hostfn.h"
#include "wrk_parts.h"
#include "wrk_shared_pinned.h"
#include "wrk_staging.h"
#include "wrk_transfer.h"
#include "wrk_unified.h"
#include "wrk_wait.h"
#include "wrk_waiters.h"
#include "xport.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define SIZE (64u * 1024)
#define LARGE (16u * SIZE) /* the driver is asked what has changed */
#define CONTEXT ((CUcontext)(uintptr_t)0x1000)
#define EVENT ((CUevent)(uintptr_t)0x2000)
#define STREAM(n) ((CUstream)(uintptr_t)(0x3000 + (n)))

static struct drv drv;
static struct wrk_priv priv;
static struct wrk worker = {.drv = &drv, .priv = &priv, .ctx_index = 1};

static int next_fd = -1; /* what the client has handed over */
static bool copying;     /* copies do not end */
static bool others_busy; /* another context has work */
static unsigned registered, marks;
static uint64_t moved;
static unsigned waits, whole_waits; /* for a context: in parts, by the driver's call */
static unsigned dropped;            /* parts without a wait */
static bool no_parts;               /* there are none to be had */
static struct wrk_job *queued;
static uint64_t window; /* of the process: a case may run after another */

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
wrk_copy_account_receive(struct wrk *w, uint64_t bytes)
{
    moved += bytes;
}

bool
wrk_staging_idle(struct wrk *w, struct wrk_staging *slot)
{
    if (slot->event && copying)
        return false;
    slot->event = NULL;
    return true;
}

void
wrk_staging_wait(struct wrk *w, struct wrk_staging *slot)
{
    slot->event = NULL;
}

CUresult
wrk_staging_fence(struct wrk *w, struct wrk_staging *slot, uint32_t ctx_index,
                  CUstream stream)
{
    slot->event = EVENT;
    slot->ctx_index = ctx_index;
    marks++;
    return CUDA_SUCCESS;
}

void
wrk_staging_forget(struct wrk_staging *slot, uint32_t ctx_index)
{
    if (slot->ctx_index == ctx_index)
        slot->event = NULL;
}

CUresult
wrk_wait_idle(struct wrk *w, CUstream stream)
{
    return copying ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

bool
wrk_wait_all_end_alone(struct wrk *w)
{
    return !others_busy && wrk_wait_ends_alone(w);
}

bool
wrk_parts_take(struct wrk *w, uint32_t ctx_index, struct wrk_parts *ret)
{
    static CUevent event = EVENT;

    *ret = (struct wrk_parts){.events = no_parts || priv.capturing ? NULL : &event};
    return ret->events;
}

CUresult
wrk_parts_wait(struct wrk *w, struct wrk_parts *parts)
{
    waits++;
    return CUDA_SUCCESS;
}

void
wrk_parts_drop(struct wrk *w, struct wrk_parts *parts)
{
    dropped++;
}

bool
wrk_capture_relax_thread(struct wrk *w, bool relaxed)
{
    return true;
}

bool
wrk_waiters_background(struct wrk *w, struct wrk_job *job)
{
    queued = job;
    return true;
}

/* The driver's notes: one bit for each page of the piece in the window. */
static bool noted; /* it makes notes */
static uint64_t notes[LARGE / 4096 / 64];

bool
wrk_changes_forget(uint64_t addr, uint64_t len)
{
    if (noted)
        memset(notes, 0, sizeof(notes));
    return noted;
}

int
wrk_changes_take(uint64_t *addr, uint64_t end, struct wrk_change *changes, int max)
{
    uint64_t size = end - window;
    int n = 0;

    if (!noted)
        return -1;
    for (uint64_t at = *addr - window; at < size; at += 4096) {
        uint64_t page = at / 4096, bit = UINT64_C(1) << page % 64;

        if (!(notes[page / 64] & bit))
            continue;
        if (n == max) {
            *addr = window + at;
            return n;
        }
        notes[page / 64] &= ~bit;
        changes[n++] = (struct wrk_change){window + at, 4096};
    }
    *addr = end;
    return n;
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
driver_synchronize(void)
{
    whole_waits++;
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
    drv.cuCtxSynchronize = driver_synchronize;
    registered = marks = waits = whole_waits = dropped = 0;
    no_parts = false;
    priv.capturing = 0;
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
add_what_came(uint32_t id, uint64_t size)
{
    return wrk_pinned_add(
        &worker, &(struct wrk_pinned_request){.id = id, .file = true, .size = size});
}

static bool
add(uint32_t id, uint64_t size)
{
    next_fd = file_new((off_t)size, SEALS);
    return add_what_came(id, size);
}

static bool
add_at(uint32_t id, uint64_t addr, uint64_t size)
{
    return wrk_pinned_add(
        &worker, &(struct wrk_pinned_request){.id = id, .addr = addr, .size = size});
}

static void
run_queued(void)
{
    struct wrk_job *job = queued;

    queued = NULL;
    if (job)
        job->run(&worker, job);
}

/* Dropped, and taken back by the waiter thread where it is one's turn. */
static void
drop(uint32_t id)
{
    wrk_pinned_drop(&worker, id);
    run_queued();
}

bool
wrk_hostfns_none(struct wrk_hostfns *hosts)
{
    (void)hosts;
    return true;
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
    assert_false(add_what_came(0, SIZE)); /* nothing has come */
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
    drop(UINT32_MAX);
    drop(4);
    drop(3);
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
    drop(0);
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
    run_queued();
    assert_int_equal(registered, 1);
    copying = false;
    drop(0);
    assert_int_equal(registered, 0);
}

static void
with_more_streams_than_marks_it_stays_for_good(void **state)
{
    assert_true(add(0, SIZE));
    copying = true;
    for (unsigned i = 0; i <= WRK_PINNED_FENCES; i++)
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
    drop(0);
    assert_int_equal(registered, 1);
}

/* A range that nobody has, where both the test and the worker may map. */
static uint64_t
window_new(uint64_t size)
{
    void *at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(at, MAP_FAILED);
    munmap(at, size);
    return (uintptr_t)at;
}

static void
window_open(void)
{
    struct gp_err err = {0};

    if (window)
        return;
    window = window_new(LARGE);
    assert_int_equal(wrk_unified_reserve(window, LARGE, &err), 0);
}

static void
addresses_are_taken_only_in_the_range_and_once(void **state)
{
    uint64_t end;
    struct gp_err err = {0};
    static uint8_t ours[2 * SIZE];

    assert_false(add_at(0, (uintptr_t)ours & ~UINT64_C(4095), 4096)); /* no range yet */
    assert_true(wrk_unified_reserve((uintptr_t)ours & ~UINT64_C(4095), SIZE, &err) < 0);
    assert_true(wrk_unified_reserve(0, SIZE, &err) < 0);
    assert_true(wrk_unified_reserve(4097, SIZE, &err) < 0);
    assert_true(wrk_unified_reserve(UINT64_MAX - 4095, 8192, &err) < 0);
    assert_true(wrk_unified_reserve(4096, WRK_UNIFIED_SIZE_MAX + 4096, &err) < 0);
    window = window_new(LARGE);
    end = window + LARGE;
    assert_int_equal(wrk_unified_give_back(window, &err), -ENOENT);
    assert_int_equal(wrk_unified_reserve(window, LARGE, &err), 0);
    assert_int_equal(wrk_unified_give_back(window + SIZE, &err), -ENOENT);
    assert_int_equal(wrk_unified_give_back(window, &err), 0);
    assert_false(add_at(0, window, SIZE)); /* as before */
    assert_int_equal(wrk_unified_reserve(window, LARGE, &err), 0);
    assert_true(wrk_unified_reserve(window_new(SIZE), SIZE, &err) < 0); /* once */
    assert_false(add_at(0, (uintptr_t)ours & ~UINT64_C(4095), 4096));
    assert_false(add_at(0, window - 4096, 8192));
    assert_false(add_at(0, end - 4096, 8192));
    assert_false(add_at(0, end, 4096));
    assert_false(add_at(0, window, UINT64_MAX - 4095));
    assert_false(add_at(0, window + 1, 4096));
    assert_false(add_at(0, window, 4095));
    assert_true(add_at(0, window + SIZE, SIZE));
    assert_int_equal(wrk_unified_give_back(window, &err), -EBUSY);
    assert_false(add_at(1, window + SIZE, SIZE));
    assert_false(add_at(1, window, SIZE + 4096));
    assert_false(add_at(1, window + 2 * SIZE - 4096, SIZE));
    assert_true(add_at(1, window + 2 * SIZE, SIZE));
    copying = true; /* a kernel may use it: it stays until that is over */
    wrk_pinned_drop(&worker, 0);
    assert_false(add_at(0, window + SIZE, SIZE));
    assert_non_null(queued);
    copying = false;
    run_queued();
    assert_true(add_at(0, window + SIZE, SIZE));
    others_busy = true; /* as may one of another context */
    wrk_pinned_drop(&worker, 0);
    assert_false(add_at(0, window + SIZE, SIZE));
    others_busy = false;
    run_queued();
    assert_true(add_at(0, window + SIZE, SIZE));
    drop(0);
    drop(1);
    assert_int_equal(registered, 0);
}

/* The driver's call for the whole context would end captures that began meanwhile. */
static void
captures_survive_memory_that_is_given_back(void **state)
{
    window_open();
    assert_true(add_at(0, window, SIZE));
    copying = true;
    wrk_pinned_drop(&worker, 0);
    priv.capturing = 1; /* before the waiter thread comes to it */
    run_queued();
    assert_int_equal(registered, 0);
    assert_int_equal(waits, 1);

    assert_true(add_at(0, window, SIZE));
    drop(0); /* in the middle of one */
    assert_int_equal(registered, 1);
    assert_false(wrk_pinned_pending(&worker));
    priv.capturing = 0;
    assert_true(wrk_pinned_pending(&worker));
    wrk_pinned_poll(&worker);
    priv.capturing = 1; /* the next one */
    run_queued();
    assert_int_equal(registered, 0);
    assert_int_equal(waits, 2);
    assert_false(wrk_pinned_pending(&worker));

    assert_true(add_at(0, window, SIZE));
    drop(0);
    wrk_pinned_forget(1);
    priv.capturing = 0;
    wrk_pinned_poll(&worker);
    assert_null(queued);
    assert_false(wrk_pinned_pending(&worker));
    registered = 0; /* it ended with its context */
    assert_int_equal(whole_waits, 0);

    no_parts = true;
    assert_true(add_at(0, window, SIZE));
    drop(0);
    assert_int_equal(registered, 0);
    assert_int_equal(whole_waits, 1);
}

/* Others may be waiting still, who are in one list with it.  Last: it stays. */
static void
what_is_given_back_at_the_end_leaves_no_parts(void **state)
{
    window_open();
    assert_true(add_at(0, window, SIZE));
    copying = true;
    wrk_pinned_drop(&worker, 0);
    atomic_store(&priv.stopping, true);
    run_queued();
    atomic_store(&priv.stopping, false);
    assert_int_equal(waits, 0);
    assert_int_equal(dropped, 1);
}

static void
changes_travel_byte_by_byte_and_once(void **state)
{
    uint64_t offset = 0;
    static struct wire_line got[WIRE_LINES_MAX];
    struct wire_line line = {.mask = 0x30, .word = {0x665544332211}};
    uint32_t id = 0;
    uint8_t *mem;

    window_open();
    mem = (uint8_t *)(uintptr_t)window;
    line.at = window + 64;
    assert_false(wrk_pinned_lines_put(0, &line, 1));
    assert_true(add_at(0, window, SIZE));
    assert_true(wrk_pinned_lines_put(0, &line, 1));
    assert_int_equal(mem[64 + 3], 0);
    assert_int_equal(mem[64 + 4], 0x55);
    assert_int_equal(mem[64 + 5], 0x66);
    line.at = (uintptr_t)&line; /* not in it: nothing happens */
    assert_true(wrk_pinned_lines_put(0, &line, 1));
    assert_int_equal(line.word[0], 0x665544332211);
    assert_int_equal(wrk_pinned_lines_take(&id, &offset, got), 0);
    assert_int_equal(id, UINT32_MAX);
    mem[64 + 6] = 0x77;
    mem[SIZE - 1] = 1;
    id = 0;
    offset = 0;
    assert_int_equal(wrk_pinned_lines_take(&id, &offset, got), 2);
    assert_true(got[0].at == window + 64 && got[0].mask == 0x40);
    assert_true(got[1].at == window + SIZE - 64 && got[1].mask == UINT64_C(1) << 63);
    id = 0;
    offset = 0;
    assert_int_equal(wrk_pinned_lines_take(&id, &offset, got), 0);
    id = 0;
    offset = UINT64_MAX;
    assert_int_equal(wrk_pinned_lines_take(&id, &offset, got), 0);
    wrk_pinned_drop(&worker, 0);
}

/* Once through all pieces; returns how many lines had changed. */
static size_t
sweep(void)
{
    static struct wire_line got[WIRE_LINES_MAX];
    uint64_t offset = 0;
    uint32_t id = 0;
    size_t n = 0;

    while (id != UINT32_MAX)
        n += wrk_pinned_lines_take(&id, &offset, got);
    return n;
}

/* The card writes to @n whole pages. */
static void
card_writes(unsigned page, unsigned n, int value)
{
    memset((uint8_t *)(uintptr_t)window + page * 4096, value, n * 4096);
    for (unsigned i = page; i < page + n; i++)
        notes[i / 64] |= UINT64_C(1) << i % 64;
}

static void
large_memory_is_compared_where_the_driver_says(void **state)
{
    static struct wire_line got[WIRE_LINES_MAX];
    uint64_t offset = 0;
    uint32_t id = 0;
    uint8_t *mem;

    window_open();
    mem = (uint8_t *)(uintptr_t)window;
    noted = true;
    assert_true(add_at(0, window, LARGE));
    assert_int_equal(sweep(), 0);
    card_writes(7, 1, 1);
    mem[9 * 4096] = 1; /* behind the driver's back: not looked at */
    assert_int_equal(sweep(), 64);
    assert_int_equal(sweep(), 0);
    notes[0] |= 1u << 9;
    assert_int_equal(sweep(), 1);

    /* More than one answer has room for, and changes meanwhile. */
    card_writes(20, 20, 2);
    assert_int_equal(wrk_pinned_lines_take(&id, &offset, got), WIRE_LINES_MAX);
    assert_int_equal(offset, 32 * 4096);
    card_writes(3, 1, 3);
    assert_int_equal(wrk_pinned_lines_take(&id, &offset, got),
                     20 * 64 - WIRE_LINES_MAX);
    assert_int_equal(id, UINT32_MAX);
    assert_int_equal(sweep(), 64);

    /* A question that is not gone on with. */
    card_writes(50, 20, 4);
    memset(mem + 50 * 4096, 0, 64); /* as before, so the answer ends in a page */
    id = 0;
    offset = 0;
    assert_int_equal(wrk_pinned_lines_take(&id, &offset, got), WIRE_LINES_MAX);
    assert_int_equal(sweep(), 20 * 64 - 1 - WIRE_LINES_MAX);

    /* Its context ends, and what the driver noted with it. */
    noted = false;
    mem[100 * 4096] = 5;
    assert_int_equal(sweep(), 1);
    wrk_pinned_forget(1);
    mem[101 * 4096] = 5;
    noted = true;
    assert_true(add_at(0, window, LARGE));
    assert_int_equal(sweep(), 1);
    mem[102 * 4096] = 5;
    assert_int_equal(sweep(), 0);
    wrk_pinned_drop(&worker, 0);
    noted = false;
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
        cmocka_unit_test_setup(addresses_are_taken_only_in_the_range_and_once, set_up),
        cmocka_unit_test_setup(captures_survive_memory_that_is_given_back, set_up),
        cmocka_unit_test_setup(changes_travel_byte_by_byte_and_once, set_up),
        cmocka_unit_test_setup(large_memory_is_compared_where_the_driver_says, set_up),
        cmocka_unit_test_setup(with_more_streams_than_marks_it_stays_for_good, set_up),
        cmocka_unit_test_setup(what_is_given_back_at_the_end_leaves_no_parts, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
