/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges, and the registry of memory on top of them. */
#include "ut_stub.h"

#include "stub_memory.h"
#include "stub_memory_end.h"

#include <errno.h>
#include <sys/mman.h>

static void
range_is_found_by_every_address_inside(void **state)
{
    static struct stub_ranges set;
    struct stub_range_node a = {.range = {0x1000, 0x100}}, b = {.range = {0x1100, 1}};
    struct stub_range got;

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
    stub_range_remove(&set, &a);
    assert_false(stub_range_find(&set, 0x1000, &got, sizeof(got)));
    stub_range_remove(&set, &b);
    assert_null(set.tree.root);
}

static void
overlapping_empty_and_wrapping_ranges_are_refused(void **state)
{
    static struct stub_ranges set;
    struct stub_range_node a = {.range = {0x1000, 0x1000}},
                           over = {.range = {0x1fff, 2}}, under = {.range = {0xfff, 2}},
                           around = {.range = {0, 0x10000}},
                           empty = {.range = {0x5000, 0}},
                           wraps = {.range = {UINT64_MAX - 1, 4}};

    assert_int_equal(stub_range_add(&set, &a), 0);
    assert_int_equal(stub_range_add(&set, &over), -EEXIST);
    assert_int_equal(stub_range_add(&set, &under), -EEXIST);
    assert_int_equal(stub_range_add(&set, &around), -EEXIST);
    assert_int_equal(stub_range_add(&set, &empty), -EINVAL);
    assert_int_equal(stub_range_add(&set, &wraps), -EINVAL);
}

/* Against a plain array, in an order that chance makes. */
static void
set_agrees_with_an_array(void **state)
{
    enum { N = 500, STEPS = 40000, STRIDE = 0x100 };
    static struct stub_range_node nodes[N];
    static struct stub_ranges set;
    static bool in[N];

    srand(7);
    for (unsigned i = 0; i < N; i++)
        nodes[i].range = (struct stub_range){i * STRIDE, 1 + (uint64_t)rand() % STRIDE};
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned i = (unsigned)rand() % N, next;
        uint64_t at = nodes[i].range.start, off = (uint64_t)rand() % STRIDE;
        struct stub_range where = {at + off, 1};

        assert_ptr_equal(stub_range_touching(&set, &where),
                         in[i] && off < nodes[i].range.size ? &nodes[i] : NULL);
        for (next = i; next < N && !in[next]; next++)
            ;
        assert_ptr_equal(stub_range_from(&set, at), next < N ? &nodes[next] : NULL);
        if (in[i])
            stub_range_remove(&set, &nodes[i]);
        else
            assert_int_equal(stub_range_add(&set, &nodes[i]), 0);
        in[i] = !in[i];
    }
}

static void
attach(void)
{
    static bool done;

    if (!done)
        ut_stub_attach(NULL);
    done = true;
}

static void
enter(uint64_t start, uint64_t size)
{
    assert_int_equal(stub_memory_add(STUB_MEMORY_DEVICE, start, size, 0, 0), 0);
}

static void
enter_and_free(uint64_t start, uint64_t size)
{
    struct stub_memory_end end = {.kind = STUB_MEMORY_HOST};

    enter(start, size);
    assert_true(stub_memory_freeing(start, true, &end));
    assert_int_equal(end.kind, STUB_MEMORY_DEVICE);
    assert_false(stub_memory_freeing(start, true, &end));
}

static void
freed_addresses_are_known_until_they_are_handed_out_again(void **state)
{
    const uint64_t a = 0x310000000000, b = 0x310000010000;
    struct stub_memory m;

    attach();
    enter_and_free(a, 4096);
    assert_true(stub_memory_is_freed(a + 4095));
    assert_false(stub_memory_is_freed(a + 4096));
    assert_false(stub_memory_find(a, &m));
    assert_false(stub_memory_remove(a, STUB_MEMORY_DEVICE, NULL));
    enter_and_free(b, 4096);
    assert_true(stub_memory_is_freed(a));
    assert_true(stub_memory_is_freed(b));
    enter(b + 100, 1); /* whole entries go */
    assert_false(stub_memory_is_freed(b));
    assert_true(stub_memory_find(b + 100, &m));
    assert_true(stub_memory_is_freed(a));
    stub_memory_reserve(a - 1, 2);
    assert_false(stub_memory_is_freed(a));
    enter(a, 4096);
    assert_false(stub_memory_is_freed(a));
    assert_true(stub_memory_find(a + 4095, &m));
    stub_memory_reserve(a, b + 4096 - a); /* what lives stays */
    assert_true(stub_memory_find(a, &m));
    assert_true(stub_memory_remove(a, STUB_MEMORY_DEVICE, NULL));
    assert_true(stub_memory_remove(b + 100, STUB_MEMORY_DEVICE, NULL));
    assert_false(stub_memory_is_freed(a));
}

static void
freeing_tells_whose_memory_it_is(void **state)
{
    const uint64_t at = 0x340000000000;
    struct stub_memory_end end = {.kind = STUB_MEMORY_DEVICE};

    attach();
    assert_int_equal(stub_memory_add(STUB_MEMORY_MANAGED, at, 4096, 0, 0), 0);
    assert_false(stub_memory_freeing(at, false, &end));
    assert_false(stub_memory_freeing(at + 1, true, &end));
    assert_true(stub_memory_freeing(at, true, &end));
    assert_int_equal(end.kind, STUB_MEMORY_MANAGED);
    assert_false(stub_memory_is_freed(at)); /* its pages are the host's again */
    assert_int_equal(stub_memory_add(STUB_MEMORY_HOST, at, 4096, 0, 4096), 0);
    assert_false(stub_memory_freeing(at, true, &end));
    assert_true(stub_memory_remove(at, STUB_MEMORY_HOST, NULL));
}

/* The server's word counts, and an entry's id is never used twice. */
static void
memory_handed_out_takes_the_place_of_what_was_there(void **state)
{
    const uint64_t at = 0x350000000000;
    struct stub_memory m;
    uint64_t id;

    attach();
    assert_int_equal(stub_memory_handed_out(STUB_MEMORY_DEVICE, at, 8192, 0),
                     CUDA_SUCCESS);
    assert_true(stub_memory_find(at, &m));
    id = m.id;
    assert_int_equal(stub_memory_add(STUB_MEMORY_DEVICE, at, 8192, 0, 0), -EEXIST);
    assert_int_equal(stub_memory_handed_out(STUB_MEMORY_DEVICE, at, 8192, 0),
                     CUDA_SUCCESS);
    assert_true(stub_memory_find(at, &m));
    assert_true(m.id > id);
    assert_int_equal(stub_memory_handed_out(STUB_MEMORY_DEVICE, at + 4096, 8192, 0),
                     CUDA_SUCCESS);
    assert_false(stub_memory_find(at, &m));
    assert_int_equal(stub_memory_handed_out(STUB_MEMORY_DEVICE, at, 0, 0),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(stub_memory_handed_out(STUB_MEMORY_DEVICE, at, -at + 1, 0),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_true(stub_memory_remove(at + 4096, STUB_MEMORY_DEVICE, NULL));
}

static void
registry_tells_device_from_host(void **state)
{
    struct stub_memory m;
    int local;

    attach();
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
    assert_true(stub_memory_is_freed(0x330000000000));
    stub_ctx_pop();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(range_is_found_by_every_address_inside),
        cmocka_unit_test(overlapping_empty_and_wrapping_ranges_are_refused),
        cmocka_unit_test(set_agrees_with_an_array),
        cmocka_unit_test(freeing_tells_whose_memory_it_is),
        cmocka_unit_test(memory_handed_out_takes_the_place_of_what_was_there),
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
