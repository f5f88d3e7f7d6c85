/* SPDX-License-Identifier: Apache-2.0 */
/* Event sets of NVML: a pointer that is no live set is refused and never read. */
#include "ut.h"

#include "nvml_events.c"

static int ut_ready = NVML_SUCCESS;

int
nvml_card_ready(void)
{
    return ut_ready;
}

int
nvml_card_check(struct nvml_device *device)
{
    return device ? ut_ready : NVML_ERROR_INVALID_ARGUMENT;
}

int
nvml_card_query(struct nvml_device *device, const void *out)
{
    return out ? nvml_card_check(device) : NVML_ERROR_INVALID_ARGUMENT;
}

static struct nvml_event_set *
made(void)
{
    struct nvml_event_set *set = NULL;

    assert_int_equal(nvmlEventSetCreate(&set), NVML_SUCCESS);
    assert_non_null(set);
    return set;
}

/* Read after it was freed is what AddressSanitizer sees: make test-unit SAN=address. */
static void
freed_set_is_refused_without_being_read(void **state)
{
    struct nvml_event_set *set = made();
    char data[64];

    assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
    assert_int_equal(nvmlEventSetFree(set), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlEventSetWait_v2(set, data, 1), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlDeviceRegisterEvents((struct nvml_device *)data, 0, set),
                     NVML_ERROR_INVALID_ARGUMENT);
}

/* Neither is memory of the caller's a set, whatever it holds. */
static void
pointer_that_was_never_a_set_is_refused(void **state)
{
    struct nvml_event_set *live_one = made(), *wild = (struct nvml_event_set *)16;
    char data[64] = {0};

    assert_int_equal(nvmlEventSetFree(wild), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlEventSetWait(wild, data, 1), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlEventSetFree((struct nvml_event_set *)data),
                     NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlEventSetFree(NULL), NVML_ERROR_INVALID_ARGUMENT);
    assert_int_equal(nvmlEventSetFree(live_one), NVML_SUCCESS);
}

static void
other_sets_live_on(void **state)
{
    struct nvml_event_set *sets[] = {made(), made(), made()};
    char data[64];

    assert_int_equal(nvmlEventSetFree(sets[1]), NVML_SUCCESS);
    assert_int_equal(nvmlEventSetWait(sets[0], data, 1), NVML_ERROR_TIMEOUT);
    assert_int_equal(nvmlEventSetWait(sets[2], data, 1), NVML_ERROR_TIMEOUT);
    assert_int_equal(nvmlEventSetFree(sets[0]), NVML_SUCCESS);
    assert_int_equal(nvmlEventSetFree(sets[2]), NVML_SUCCESS);
}

static void
nothing_is_made_or_freed_before_init(void **state)
{
    struct nvml_event_set *set = made(), *second = NULL;

    ut_ready = NVML_ERROR_UNINITIALIZED;
    assert_int_equal(nvmlEventSetFree(set), NVML_ERROR_UNINITIALIZED);
    assert_int_equal(nvmlEventSetCreate(&second), NVML_ERROR_UNINITIALIZED);
    assert_null(second);
    ut_ready = NVML_SUCCESS;
    assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(freed_set_is_refused_without_being_read),
        cmocka_unit_test(pointer_that_was_never_a_set_is_refused),
        cmocka_unit_test(other_sets_live_on),
        cmocka_unit_test(nothing_is_made_or_freed_before_init),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
