/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges, and the registry of memory on top of them. */
#include "ut_stub.h"

#include "stub_freed.h"
#include "stub_memory.h"

#include <errno.h>
#include <sys/mman.h>

static void
range_is_found_by_every_address_inside(void **state)
{
    static struct stub_ranges set;
    struct stub_range a = {0x1000, 0x100}, b = {0x1100, 1}, got;

    assert_int_equal(stub_range_add(&set, &a), 0);
    assert_int_equal(stub_range_add(&set, &b), 0);
    assert_true(stub_range_find(&set, 0x1000, &got, sizeof(got)));
    assert_int_equal(got.start, 0x1000);
    assert_true(stub_range_find(&set, 0x10ff, &got, sizeof(got)));
    assert_int_equal(got.start, 0x1000);
    assert_true(stub_range_find(&set, 0x1100, &got, sizeof(got)));
    assert_int_equal(got.start, 0x1100);
    assert_false(stub_range_find(&set, 0xfff, &got, sizeof(got)));
    assert_false(stub_range_find(&set, 0x1101, &got, sizeof(got)));
    assert_ptr_equal(stub_range_remove(&set, 0x1000), &a);
    assert_null(stub_range_remove(&set, 0x1000));
    assert_ptr_equal(stub_range_remove(&set, 0x1100), &b);
}

static void
overlapping_empty_and_wrapping_ranges_are_refused(void **state)
{
    static struct stub_ranges set;
    struct stub_range a = {0x1000, 0x1000}, over = {0x1fff, 2}, empty = {0x5000, 0},
                      wraps = {UINT64_MAX - 1, 4};

    assert_int_equal(stub_range_add(&set, &a), 0);
    assert_int_equal(stub_range_add(&set, &over), -EEXIST);
    assert_int_equal(stub_range_add(&set, &empty), -EINVAL);
    assert_int_equal(stub_range_add(&set, &wraps), -EINVAL);
    assert_null(stub_range_remove(&set, 0x1800));
    assert_ptr_equal(stub_range_remove(&set, 0x1000), &a);
}

static void
freed_addresses_are_known_until_they_are_handed_out_again(void **state)
{
    const struct stub_range a = {0x310000000000, 4096}, b = {0x310000010000, 4096};
    uint32_t before = atomic_load(&stub_freed_count);

    stub_freed_add(&a);
    assert_true(stub_freed_has(a.start + 4095));
    assert_false(stub_freed_has(a.start + 4096));
    stub_freed_add(&b);
    assert_true(stub_freed_has(a.start));
    assert_true(stub_freed_has(b.start));
    stub_freed_forget(b.start + 100, 1);
    assert_false(stub_freed_has(b.start));
    assert_true(stub_freed_has(a.start));
    stub_freed_add(&b);
    stub_freed_forget(a.start - 1, 2);
    assert_false(stub_freed_has(a.start));
    assert_true(stub_freed_has(b.start));
    stub_freed_forget(a.start, b.start + b.size - a.start);
    assert_false(stub_freed_has(b.start));
    assert_int_equal(atomic_load(&stub_freed_count), before);
}

static void
registry_tells_device_from_host(void **state)
{
    struct stub_memory m;
    int local;

    ut_stub_attach(NULL);
    assert_int_equal(stub_memory_add(STUB_MEMORY_DEVICE, 0x300000000000, 4096, 0, 0),
                     0);
    assert_true(stub_memory_is_device(0x300000000fff));
    assert_false(stub_memory_is_device(0x300000001000));
    assert_false(stub_memory_is_device((uintptr_t)&local));
    assert_true(stub_memory_find(0x300000000010, &m));
    assert_int_equal(m.range.size, 4096);
    assert_false(stub_memory_remove(0x300000000010, STUB_MEMORY_DEVICE, NULL));
    assert_false(stub_memory_remove(0x300000000000, STUB_MEMORY_HOST, NULL));
    assert_true(stub_memory_remove(0x300000000000, STUB_MEMORY_DEVICE, NULL));
    assert_false(stub_memory_is_device(0x300000000000));
}

#if !defined(__SANITIZE_THREAD__)
static void
reserved_addresses_are_kept_from_the_application(void **state)
{
    const uint64_t at = 0x310000000000;
    void *p;

    stub_memory_reserve(at + 0x1234, 1 << 20);
    p = mmap((void *)at, 4096, PROT_READ,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_ptr_equal(p, MAP_FAILED);
    assert_int_equal(errno, EEXIST);
    assert_true(stub_memory_is_device(at + 0x1500));
}

static void
reservation_leaves_what_is_mapped_alone(void **state)
{
    const uint64_t at = 0x320000000000;
    char *mine = mmap((void *)(at + (2 << 20)), 4096, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    assert_ptr_not_equal(mine, MAP_FAILED);
    mine[0] = 42;
    stub_memory_reserve(at, 6 << 20);
    assert_int_equal(mine[0], 42);
    assert_false(stub_memory_is_device((uintptr_t)mine));
    assert_true(stub_memory_is_device(at));
    assert_true(stub_memory_is_device(at + (4 << 20)));
    munmap(mine, 4096);
}
#endif

static void
memory_of_a_dead_context_is_forgotten(void **state)
{
    struct stub_ctx *ctx = stub_ctx_primary(0);

    assert_int_equal(stub_ctx_push(ctx), 0);
    assert_int_equal(stub_memory_add(STUB_MEMORY_DEVICE, 0x330000000000, 16, 0, 0), 0);
    assert_int_equal(stub_memory_add(STUB_MEMORY_DEVICE, 0x330000000100, 16, 0, 0), 0);
    stub_memory_drop_ctx(atomic_load(&ctx->unique));
    assert_false(stub_memory_is_device(0x330000000000));
    assert_false(stub_memory_is_device(0x330000000100));
    stub_ctx_pop();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(range_is_found_by_every_address_inside),
        cmocka_unit_test(overlapping_empty_and_wrapping_ranges_are_refused),
        cmocka_unit_test(freed_addresses_are_known_until_they_are_handed_out_again),
        cmocka_unit_test(registry_tells_device_from_host),
#if !defined(__SANITIZE_THREAD__) /* it forbids mapping at such addresses */
        cmocka_unit_test(reserved_addresses_are_kept_from_the_application),
        cmocka_unit_test(reservation_leaves_what_is_mapped_alone),
#endif
        cmocka_unit_test(memory_of_a_dead_context_is_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
