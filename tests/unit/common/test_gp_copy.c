/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_copy.h"

#include "gp_base.h"
#include "ut.h"

#include <stdlib.h>

#define PAGE 4096u
#define AROUND 64u

static const size_t lengths[] = {0,
                                 1,
                                 63,
                                 GP_COPY_STEP - 1,
                                 GP_COPY_STEP,
                                 GP_COPY_STEP + 1,
                                 2 * GP_COPY_STEP,
                                 3 * GP_COPY_STEP + 5,
                                 40000};
#define LENGTH_MAX 40000u

static void
fill(uint8_t *bytes, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        bytes[i] = (uint8_t)(seed >> 24);
    }
}

static bool
are(const uint8_t *bytes, size_t n, uint8_t value)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

/* Every byte arrives, and none around the target changes, however the two lie. */
static void
test_every_address_gets_the_bytes(void **state)
{
    size_t size = GP_ALIGN_UP(LENGTH_MAX + 2 * PAGE, (size_t)PAGE);
    uint8_t *from = aligned_alloc(PAGE, size), *to = aligned_alloc(PAGE, size);

    (void)state;
    assert_non_null(from);
    assert_non_null(to);
    fill(from, size, 7);
    for (unsigned i = 0; i < ARRAY_SIZE(lengths); i++) {
        for (unsigned ahead = 0; ahead <= 2 * AROUND; ahead++) {
            const uint8_t *source = from + AROUND + (ahead % 3);
            uint8_t *target = to + AROUND + (ahead % 3) + ahead;
            size_t n = lengths[i];

            memset(to, 0xa5, n + ahead + 3 * AROUND);
            gp_copy(target, source, n);
            assert_memory_equal(target, source, n);
            assert_true(are(target - AROUND, AROUND, 0xa5));
            assert_true(are(target + n, AROUND, 0xa5));
        }
    }
    free(from);
    free(to);
}

static void
test_addresses_modulo_a_page_decide(void **state)
{
    const uint8_t *page = (const uint8_t *)(uintptr_t)(64u * PAGE);

    (void)state;
    assert_false(gp_copy_is_slow(page, page));
    assert_true(gp_copy_is_slow(page + 1, page));
    assert_true(gp_copy_is_slow(page + 9 * PAGE + 16, page));
    assert_true(gp_copy_is_slow(page, page + PAGE - 63));
    assert_false(gp_copy_is_slow(page + GP_COPY_AHEAD, page));
    assert_false(gp_copy_is_slow(page, page + 1));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_address_gets_the_bytes),
        cmocka_unit_test(test_addresses_modulo_a_page_decide),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
