/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small calls that belong to no object of their own: profiler switches, atomic
 * capabilities.
 */
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"

enum {
    MAX_OPERATIONS = 64,
};

/* There is no profiler to switch; programs bracket regions with these. */
SG_CALL(cuProfilerStart, void)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    return rc == CUDA_SUCCESS ? sg_leave(rc) : rc;
}

SG_CALL(cuProfilerStop, void)
{
    struct sg_ctx *ctx;
    CUresult rc = sg_enter(&ctx);

    return rc == CUDA_SUCCESS ? sg_leave(rc) : rc;
}

/* ------------------------------------------------------------------- atomics */

static CUresult
enter_device(CUdevice dev)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    return sg_dev_get(dev) ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_INVALID_DEVICE);
}

/* Host and devices share one memory and its atomics. */
static CUresult
capabilities(unsigned *caps, const CUatomicOperation *ops, unsigned count)
{
    const unsigned ints = CU_ATOMIC_CAPABILITY_SIGNED | CU_ATOMIC_CAPABILITY_UNSIGNED |
                          CU_ATOMIC_CAPABILITY_REDUCTION |
                          CU_ATOMIC_CAPABILITY_SCALAR_32 |
                          CU_ATOMIC_CAPABILITY_SCALAR_64;

    if (!caps || !ops || !count || count > MAX_OPERATIONS)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        if ((unsigned)ops[i] >= CU_ATOMIC_OPERATION_MAX)
            return CUDA_ERROR_INVALID_VALUE;
        switch ((int)ops[i]) {
        case CU_ATOMIC_OPERATION_FLOAT_ADD:
            caps[i] = CU_ATOMIC_CAPABILITY_REDUCTION | CU_ATOMIC_CAPABILITY_SCALAR_32 |
                      CU_ATOMIC_CAPABILITY_SCALAR_64;
            break;
        case CU_ATOMIC_OPERATION_FLOAT_MIN:
        case CU_ATOMIC_OPERATION_FLOAT_MAX:
            caps[i] = 0;
            break;
        default:
            caps[i] = ints;
            break;
        }
    }
    return CUDA_SUCCESS;
}

SG_CALL(cuDeviceGetHostAtomicCapabilities, unsigned int *caps,
        const CUatomicOperation *operations, unsigned int count, CUdevice dev)
{
    CUresult rc = enter_device(dev);

    return rc == CUDA_SUCCESS ? sg_leave(capabilities(caps, operations, count)) : rc;
}

SG_CALL(cuDeviceGetP2PAtomicCapabilities, unsigned int *caps,
        const CUatomicOperation *operations, unsigned int count, CUdevice srcDevice,
        CUdevice dstDevice)
{
    CUresult rc = enter_device(srcDevice);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!sg_dev_get(dstDevice) || srcDevice == dstDevice)
        return sg_leave(CUDA_ERROR_INVALID_DEVICE);
    return sg_leave(capabilities(caps, operations, count));
}
