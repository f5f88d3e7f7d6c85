/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator reads when a driver does not start. */
#include "ut.h"

#include "drv.h"
#include "gp_err.h"
#include "wrk_driver.h"

#include <errno.h>
#include <string.h>

static CUresult
name_of(CUresult result, const char **ret)
{
    *ret = result == CUDA_ERROR_SYSTEM_NOT_READY ? "CUDA_ERROR_SYSTEM_NOT_READY" : NULL;
    return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void
name_number_and_remedy(void **state)
{
    struct drv drv = {.cuGetErrorName = name_of};
    struct gp_err err = {0};

    (void)state;
    assert_int_equal(
        wrk_driver_refused("cuda", &drv, CUDA_ERROR_SYSTEM_NOT_READY, &err), -ENODEV);
    assert_non_null(strstr(err.msg, "driver cuda does not start: "
                                    "CUDA_ERROR_SYSTEM_NOT_READY (802); hosts with "
                                    "NVSwitch need nvidia-fabricmanager"));
}

static void
number_alone_where_the_driver_has_no_name_for_it(void **state)
{
    struct drv drv = {.cuGetErrorName = name_of};
    struct gp_err err = {0};

    (void)state;
    wrk_driver_refused("cuda", &drv, 4711, &err);
    assert_string_equal(err.msg,
                        "driver cuda does not start: an error without a name (4711)");
    drv.cuGetErrorName = NULL;
    wrk_driver_refused("/x/libcuda.so.1", &drv, CUDA_ERROR_NO_DEVICE, &err);
    assert_non_null(
        strstr(err.msg, "without a name (100); no card: is the kernel module"));
}

static void
no_advice_about_modules_for_a_software_card(void **state)
{
    struct drv drv = {.cuGetErrorName = name_of};
    struct gp_err err = {0};

    (void)state;
    wrk_driver_refused("softgpu", &drv, CUDA_ERROR_SYSTEM_NOT_READY, &err);
    assert_string_equal(
        err.msg, "driver softgpu does not start: CUDA_ERROR_SYSTEM_NOT_READY (802)");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(name_number_and_remedy),
        cmocka_unit_test(number_alone_where_the_driver_has_no_name_for_it),
        cmocka_unit_test(no_advice_about_modules_for_a_software_card),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
