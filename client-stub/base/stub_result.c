/* SPDX-License-Identifier: Apache-2.0 */
/*
 * errno values and refusals of the server as CUresult.
 *
 * Runtimes show CUDA_ERROR_NO_DEVICE as "no CUDA-capable device is detected", which
 * programs with a path for the CPU understand; so it is the result wherever the pool
 * has no device for us.  What the user can only repair outside CUDA (no memory, no
 * descriptors) is CUDA_ERROR_OPERATING_SYSTEM.
 */
#include "stub_result.h"

#include "attach.pb-c.h"

#include <errno.h>
#include <stdatomic.h>

static atomic_int lost_result = CUDA_ERROR_DEVICE_UNAVAILABLE;

CUresult
stub_result_attach(int err)
{
    switch (err) {
    case -ENOMEM:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case -EMFILE:
    case -ENFILE:
    case -EACCES:
    case -EPERM:
        return CUDA_ERROR_OPERATING_SYSTEM;
    default:
        return CUDA_ERROR_NO_DEVICE;
    }
}

CUresult
stub_result_refused(int status)
{
    switch (status) {
    case GPUPOOL__ATTACH_STATUS__ATTACH_WRONG_VERSION:
        return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    case GPUPOOL__ATTACH_STATUS__ATTACH_BAD_TICKET:
    case GPUPOOL__ATTACH_STATUS__ATTACH_EXPIRED:
        return CUDA_ERROR_NOT_PERMITTED;
    case GPUPOOL__ATTACH_STATUS__ATTACH_LIMIT:
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    default:
        return CUDA_ERROR_NO_DEVICE;
    }
}

CUresult
stub_result_lost(void)
{
    return (CUresult)atomic_load(&lost_result);
}

/* Only results that concern the program's own work are passed on. */
void
stub_result_lost_as(CUresult result)
{
    if (result == CUDA_ERROR_LAUNCH_TIMEOUT)
        atomic_store(&lost_result, (int)result);
}

CUresult
stub_result_errno(int err)
{
    switch (err) {
    case 0:
        return CUDA_SUCCESS;
    case -ENOMEM:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case -EINVAL:
        return CUDA_ERROR_INVALID_VALUE;
    case -ENOENT:
        return CUDA_ERROR_FILE_NOT_FOUND;
    default:
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
}
