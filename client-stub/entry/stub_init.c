/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuInit, the driver's version, the loading mode.
 */
#include "attach.pb-c.h"
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_device.h"
#include "stub_flush.h"
#include "stub_func.h"
#include "stub_link.h"
#include "stub_manual.h"
#include "stub_open.h"

#include <stdlib.h>
#include <string.h>

static struct gp_lock init_lock;

/* What the snapshot allows once there is one.  Under init_lock. */
static CUresult
init_from_snapshot(void)
{
    const char *order = getenv("CUDA_DEVICE_ORDER");

    stub_device_init(getenv("CUDA_VISIBLE_DEVICES"),
                     order && strcmp(order, "PCI_BUS_ID") == 0);
    if (stub_device_count == 0)
        return CUDA_ERROR_NO_DEVICE;
    if (stub_ctx_init() < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stub_func_init();
    for (uint32_t i = 0; i < stub_links_n; i++)
        stub_flush_start(&stub_links[i]); /* without it every frame leaves at once */
    stub_open_ready();
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuInit(unsigned int Flags)
{
    static CUresult outcome;
    static bool done;
    CUresult r;

    if (Flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (stub_link_enter_any() == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    r = stub_open();
    if (r != CUDA_SUCCESS)
        return r;
    gp_lock_take(&init_lock);
    if (!done)
        outcome = init_from_snapshot();
    done = true;
    r = outcome;
    gp_lock_release(&init_lock);
    return r;
}

/* Runtimes call this before cuInit and give up when the version is below their own,
 * so this attaches.  Where there is no server, cuInit returns the error; here the
 * result is the version that this library implements. */
CUresult
stub_impl_cuDriverGetVersion(int *driverVersion)
{
    uint32_t phase = atomic_load(&stub_links[0].phase);

    if (!driverVersion)
        return CUDA_ERROR_INVALID_VALUE;
    *driverVersion = CUDA_VERSION;
    if (phase == STUB_COLD && stub_open() != CUDA_SUCCESS)
        return CUDA_SUCCESS;
    if (phase != STUB_FORKED && phase != STUB_GONE && stub_links[0].attach)
        *driverVersion = stub_link_driver_version();
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    const char *env = getenv("CUDA_MODULE_LOADING");
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = env && strcmp(env, "EAGER") == 0 ? CU_MODULE_EAGER_LOADING
                                             : CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}
