/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator can do about a driver that does not start. */
#include "drv.h"
#include "gp_err.h"
#include "wrk_driver.h"

#include <errno.h>
#include <string.h>

/* What is behind such a result on hosts with NVIDIA's cards, most often. */
static const char *
remedy(int result)
{
    switch (result) {
    case CUDA_ERROR_STUB_LIBRARY:
        return "this is the toolkit's library for linking; the driver's own is needed";
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
        return "another process may have the card for itself (nvidia-smi -c 0 shares "
               "it)";
    case CUDA_ERROR_NO_DEVICE:
        return "no card: is the kernel module loaded (nvidia-smi), are /dev/nvidia0 "
               "and "
               "/dev/nvidiactl here, does CUDA_VISIBLE_DEVICES hide the cards?";
    case CUDA_ERROR_OPERATING_SYSTEM:
    case CUDA_ERROR_UNKNOWN:
        return "is /dev/nvidia-uvm here (nvidia-modprobe -u -c 0)? Otherwise "
               "--worker-sandbox log shows what the driver was denied";
    case CUDA_ERROR_SYSTEM_NOT_READY:
        return "hosts with NVSwitch need nvidia-fabricmanager, of the driver's version";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
        return "library and kernel module are of different versions: load the module "
               "anew, or restart the host";
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
        return "this card is not for the compatibility library (cuda-compat): take "
               "that "
               "out of LD_LIBRARY_PATH, or install a newer driver";
    case CUDA_ERROR_MPS_CONNECTION_FAILED:
    case CUDA_ERROR_MPS_RPC_FAILURE:
    case CUDA_ERROR_MPS_SERVER_NOT_READY:
        return "the multi-process service does not answer: start "
               "nvidia-cuda-mps-control "
               "-d, or unset CUDA_MPS_PIPE_DIRECTORY";
    case CUDA_ERROR_MPS_MAX_CLIENTS_REACHED:
    case CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED:
        return "the multi-process service takes no more clients";
    default:
        return NULL;
    }
}

int
wrk_driver_refused(const char *name, const struct drv *drv, int result,
                   struct gp_err *err)
{
    bool software = !strcmp(name, "softgpu") || !strcmp(name, "null");
    const char *what = NULL, *advice = software ? NULL : remedy(result);

    if (!drv->cuGetErrorName ||
        drv->cuGetErrorName((CUresult)result, &what) != CUDA_SUCCESS || !what)
        what = "an error without a name";
    return gp_err_set(err, -ENODEV, "driver %s does not start: %s (%d)%s%s", name, what,
                      result, advice ? "; " : "", advice ? advice : "");
}
