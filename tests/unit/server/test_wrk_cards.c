/* SPDX-License-Identifier: Apache-2.0 */
/* Which cards a worker serves: those of its session that do not reach its own memory.
 */
#include "ut.h"

#include "drv.h"
#include "gp_err.h"
#include "wrk_cards.h"
#include "wrk_conf.h"

#include <errno.h>
#include <string.h>

static int pageable;

static CUresult
count(int *n)
{
    *n = 1;
    return CUDA_SUCCESS;
}

static CUresult
get(CUdevice *dev, int ordinal)
{
    *dev = ordinal;
    return CUDA_SUCCESS;
}

static CUresult
name(char *to, int len, CUdevice dev)
{
    (void)dev;
    memset(to, 0, (size_t)len);
    return CUDA_SUCCESS;
}

static CUresult
memory(size_t *bytes, CUdevice dev)
{
    (void)dev;
    *bytes = 1 << 30;
    return CUDA_SUCCESS;
}

static CUresult
attribute(int *value, CUdevice_attribute attrib, CUdevice dev)
{
    (void)dev;
    *value = attrib == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS ? pageable : 0;
    return CUDA_SUCCESS;
}

static const struct drv driver = {
    .cuDeviceGetCount = count,
    .cuDeviceGet = get,
    .cuDeviceGetName = name,
    .cuDeviceTotalMem_v2 = memory,
    .cuDeviceGetAttribute = attribute,
};

static void
a_card_that_reaches_the_worker_is_served_only_when_allowed(void **state)
{
    static struct wrk_cards cards;
    static struct wrk_conf conf = {.n_slices = 1};
    struct gp_err err = {0};

    (void)state;
    assert_int_equal(wrk_cards_read(&driver, &conf, &cards, &err), 0);
    pageable = 1;
    assert_int_equal(wrk_cards_read(&driver, &conf, &cards, &err), -EPERM);
    assert_non_null(strstr(err.msg, "--pageable-access allow"));
    conf.pageable = 1;
    assert_int_equal(wrk_cards_read(&driver, &conf, &cards, &err), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_card_that_reaches_the_worker_is_served_only_when_allowed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
