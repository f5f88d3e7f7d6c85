/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Physical memory and its mappings while another thread takes mappings away: memory is
 * counted as long as the driver keeps it.  The driver is here.
 */
#include "ut.h"

#include "drv.h"
#include "wrk.h"
#include "wrk_export.h"
#include "wrk_physmem_quota.h"
#include "wrk_quota.h"

#define AT UINT64_C(0x7000000000)
#define LEN UINT64_C(0x200000)
#define RETAINED 77

static uint64_t given;

static CUresult
retain(CUmemGenericAllocationHandle *ret, void *addr)
{
    *ret = RETAINED;
    return addr == (void *)(uintptr_t)AT ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult
release(CUmemGenericAllocationHandle handle)
{
    return CUDA_SUCCESS;
}

static struct drv drv = {.cuMemRetainAllocationHandle = retain,
                         .cuMemRelease = release};
static struct wrk_priv priv;
static struct wrk worker = {.drv = &drv, .priv = &priv};

/* ---- the worker around it ---- */

void
wrk_quota_give(struct wrk_quota *q, uint32_t slice, uint64_t bytes)
{
    given += bytes;
}

int
wrk_export_offer(struct wrk *w, struct wrk_export *share, int fd)
{
    return 0;
}

void
wrk_export_drop(const struct wrk_export *share)
{
}

/* ---- what is promised ---- */

/* Memory that only its mapping keeps. */
static void
map_only(uint64_t handle, uint64_t bytes)
{
    assert_true(wrk_physmem_add(handle, bytes, 0));
    assert_true(wrk_physmem_map(AT, LEN, handle));
    wrk_physmem_release(&worker, handle);
}

static void
unmap(void)
{
    wrk_physmem_unmap_end(&worker, wrk_physmem_unmap_begin(AT, LEN), true);
}

static void
what_is_mapped_meanwhile_is_not_what_was_taken_away(void **state)
{
    uint64_t begun, before = given;

    map_only(1, 100);
    begun = wrk_physmem_unmap_begin(AT, LEN);
    map_only(2, 50); /* the driver has taken the first one away */
    wrk_physmem_unmap_end(&worker, begun, true);
    assert_int_equal(given - before, 100);
    unmap();
    assert_int_equal(given - before, 150);
    unmap();
    assert_int_equal(given - before, 150);
}

static void
what_the_driver_does_not_take_away_stays(void **state)
{
    uint64_t before = given;

    map_only(1, 100);
    wrk_physmem_unmap_end(&worker, wrk_physmem_unmap_begin(AT, LEN), false);
    assert_int_equal(given, before);
    unmap();
    assert_int_equal(given - before, 100);
}

/* The last mapping goes while the client gets a reference. */
static void
a_reference_that_comes_in_time_keeps_the_memory(void **state)
{
    CUmemGenericAllocationHandle handle = 0;
    uint64_t begun, before = given;

    map_only(1, 100);
    begun = wrk_physmem_unmap_begin(AT, LEN);
    assert_int_equal(wrk_physmem_retain(&worker, (void *)(uintptr_t)AT, &handle), 0);
    assert_int_equal(handle, RETAINED);
    wrk_physmem_unmap_end(&worker, begun, true);
    assert_int_equal(given, before);
    wrk_physmem_release(&worker, handle);
    assert_int_equal(given - before, 100);
    assert_int_equal(
        wrk_physmem_retain(&worker, (void *)(uintptr_t)(AT + LEN), &handle),
        CUDA_ERROR_INVALID_VALUE);
}

/* Of two at one address the one that is not being taken away is there. */
static void
a_reference_is_to_what_is_mapped_now(void **state)
{
    CUmemGenericAllocationHandle handle = 0;
    uint64_t begun, before = given;

    map_only(1, 100);
    begun = wrk_physmem_unmap_begin(AT, LEN);
    map_only(2, 50);
    assert_int_equal(wrk_physmem_retain(&worker, (void *)(uintptr_t)AT, &handle), 0);
    wrk_physmem_unmap_end(&worker, begun, true);
    assert_int_equal(given - before, 100);
    unmap();
    assert_int_equal(given - before, 100);
    wrk_physmem_release(&worker, handle);
    assert_int_equal(given - before, 150);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_mapped_meanwhile_is_not_what_was_taken_away),
        cmocka_unit_test(what_the_driver_does_not_take_away_stays),
        cmocka_unit_test(a_reference_that_comes_in_time_keeps_the_memory),
        cmocka_unit_test(a_reference_is_to_what_is_mapped_now),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
