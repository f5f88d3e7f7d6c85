/* SPDX-License-Identifier: Apache-2.0 */
/* Values that only a driver understands: it gets back what it made, and nothing else.
 */
#include "ut.h"

#include "wrk_opaque.h"

#include <stdbool.h>
#include <string.h>

/* As a driver might make it: an address in its own bytes. */
static CUdevResource
drivers(unsigned n)
{
    CUdevResource r = {.type = CU_DEV_RESOURCE_TYPE_SM, .sm = {.smCount = n + 1}};
    uint64_t address = 0x7f0012340000 + n;

    memcpy(r._internal_padding + 8, &address, sizeof(address));
    return r;
}

static bool
holds(const CUdevResource *r, const void *bytes, size_t n)
{
    for (size_t i = 0; i + n <= sizeof(*r); i++)
        if (memcmp((const char *)r + i, bytes, n) == 0)
            return true;
    return false;
}

static void
drivers_bytes_are_not_shown_and_come_back(void **state)
{
    uint64_t address = 0x7f0012340000 + 3;
    CUdevResource was = drivers(3), seen = was, back;

    (void)state;
    assert_int_equal(wrk_opaque_hide(&seen, 1), CUDA_SUCCESS);
    assert_int_equal(seen.type, CU_DEV_RESOURCE_TYPE_SM);
    assert_int_equal(seen.sm.smCount, 4);
    assert_false(holds(&seen, &address, 4));
    assert_int_equal(wrk_opaque_show(&seen, 1, &back), CUDA_SUCCESS);
    assert_memory_equal(&back, &was, sizeof(was));
}

static void
same_resource_is_the_same(void **state)
{
    CUdevResource a = drivers(5), b = drivers(5), c = drivers(6);

    (void)state;
    assert_int_equal(wrk_opaque_hide(&a, 1), CUDA_SUCCESS);
    assert_int_equal(wrk_opaque_hide(&c, 1), CUDA_SUCCESS);
    assert_int_equal(wrk_opaque_hide(&b, 1), CUDA_SUCCESS);
    assert_memory_equal(&a, &b, sizeof(a));
    assert_memory_not_equal(&a, &c, sizeof(a));
}

/* Each bit of it. */
static void
changed_resources_are_refused(void **state)
{
    CUdevResource good = drivers(7), back;

    (void)state;
    assert_int_equal(wrk_opaque_hide(&good, 1), CUDA_SUCCESS);
    for (size_t bit = 0; bit < 8 * sizeof(good); bit++) {
        CUdevResource bad = good;

        ((unsigned char *)&bad)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_int_not_equal(wrk_opaque_show(&bad, 1, &back), CUDA_SUCCESS);
    }
    good.type = CU_DEV_RESOURCE_TYPE_INVALID;
    assert_int_equal(wrk_opaque_show(&good, 1, &back),
                     CUDA_ERROR_INVALID_RESOURCE_TYPE);
}

static void
made_up_resources_are_refused(void **state)
{
    CUdevResource zero = {.type = CU_DEV_RESOURCE_TYPE_SM}, mixed[2], back[2];
    CUdevResource raw = drivers(1);

    (void)state;
    assert_int_equal(wrk_opaque_show(&zero, 1, back),
                     CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    assert_int_equal(wrk_opaque_show(&raw, 1, back),
                     CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    mixed[0] = drivers(8);
    assert_int_equal(wrk_opaque_hide(mixed, 1), CUDA_SUCCESS);
    mixed[1] = raw;
    assert_int_equal(wrk_opaque_show(mixed, 2, back),
                     CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
}

static void
oldest_of_very_many_is_forgotten(void **state)
{
    CUdevResource first = drivers(1000), last = first, back;

    (void)state;
    assert_int_equal(wrk_opaque_hide(&first, 1), CUDA_SUCCESS);
    for (unsigned i = 1; i <= WRK_OPAQUE_RESOURCES; i++) {
        assert_int_equal(wrk_opaque_show(&first, 1, &back), CUDA_SUCCESS);
        last = drivers(1000 + i);
        assert_int_equal(wrk_opaque_hide(&last, 1), CUDA_SUCCESS);
    }
    assert_int_equal(wrk_opaque_show(&first, 1, &back),
                     CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    assert_int_equal(wrk_opaque_show(&last, 1, &back), CUDA_SUCCESS);
    assert_int_equal(back.sm.smCount, 1000 + WRK_OPAQUE_RESOURCES + 1);
}

/* ---- objects, beside a plain list of them ---- */

#define OBJECTS 5000u

static struct {
    bool lives;
    enum wrk_opaque_kind kind;
    uint32_t ctx;
} model[OBJECTS];

/* Numbers that begin with few bits, as a driver's may. */
static uint64_t
value_of(unsigned i)
{
    return i % 3 ? i + 1 : (uint64_t)(i + 1) << 32;
}

static void
compare(void)
{
    for (unsigned i = 0; i < OBJECTS; i++) {
        enum wrk_opaque_kind other = model[i].kind == WRK_OPAQUE_SURFACE
                                         ? WRK_OPAQUE_TEXTURE
                                         : WRK_OPAQUE_SURFACE;

        assert_int_equal(wrk_opaque_find(model[i].kind, value_of(i)),
                         model[i].lives ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(wrk_opaque_find(other, value_of(i)), CUDA_ERROR_INVALID_VALUE);
    }
}

static void
objects_are_known_while_they_live(void **state)
{
    uint32_t seed = 1;

    (void)state;
    for (unsigned i = 0; i < OBJECTS; i++)
        model[i].kind = i & 1 ? WRK_OPAQUE_TEXTURE : WRK_OPAQUE_SURFACE;
    assert_int_equal(wrk_opaque_find(WRK_OPAQUE_TEXTURE, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(wrk_opaque_leave(WRK_OPAQUE_TEXTURE, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(wrk_opaque_leave(WRK_OPAQUE_TEXTURE, 0), CUDA_SUCCESS);
    wrk_opaque_forget(NULL, 1);
    for (unsigned step = 0; step < 20 * OBJECTS; step++) {
        unsigned i = (seed = seed * 1664525 + 1013904223) >> 8;

        i %= OBJECTS;
        if (model[i].lives) {
            assert_int_equal(wrk_opaque_leave(model[i].kind, value_of(i)),
                             CUDA_SUCCESS);
            model[i].lives = false;
        } else {
            model[i].ctx = step % 7;
            assert_int_equal(wrk_opaque_enter(model[i].kind, value_of(i), step % 7),
                             CUDA_SUCCESS);
            model[i].lives = true;
        }
    }
    compare();
    for (uint32_t ctx = 0; ctx < 7; ctx++) {
        wrk_opaque_forget(NULL, ctx);
        for (unsigned i = 0; i < OBJECTS; i++)
            model[i].lives = model[i].lives && model[i].ctx != ctx;
        compare();
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drivers_bytes_are_not_shown_and_come_back),
        cmocka_unit_test(same_resource_is_the_same),
        cmocka_unit_test(changed_resources_are_refused),
        cmocka_unit_test(made_up_resources_are_refused),
        cmocka_unit_test(oldest_of_very_many_is_forgotten),
        cmocka_unit_test(objects_are_known_while_they_live),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
