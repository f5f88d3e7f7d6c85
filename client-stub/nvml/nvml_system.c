/* SPDX-License-Identifier: Apache-2.0 */
/* The library itself: beginning and end, versions, words for errors, processes' names.
 */
#include "nvml_card.h"
#include "nvml_exports.h"
#include "nvml_text.h"

#include "cuda_abi.h"
#include "gp_base.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

NVML_EXPORT
nvmlInitWithFlags(unsigned int flags)
{
    return nvml_card_open();
}

NVML_EXPORT
nvmlInit_v2(void)
{
    return nvml_card_open();
}

NVML_EXPORT
nvmlInit(void)
{
    return nvml_card_open();
}

/* One too many is no error for NVIDIA's library, whatever its documentation says. */
NVML_EXPORT
nvmlShutdown(void)
{
    nvml_card_close();
    return NVML_SUCCESS;
}

GP_EXPORT const char *
nvmlErrorString(int result)
{
    static const char *const words[] = {
        [NVML_SUCCESS] = "Success",
        [NVML_ERROR_UNINITIALIZED] = "Uninitialized",
        [NVML_ERROR_INVALID_ARGUMENT] = "Invalid Argument",
        [NVML_ERROR_NOT_SUPPORTED] = "Not Supported",
        [NVML_ERROR_NO_PERMISSION] = "Insufficient Permissions",
        [NVML_ERROR_ALREADY_INITIALIZED] = "Initialized Already",
        [NVML_ERROR_NOT_FOUND] = "Not Found",
        [NVML_ERROR_INSUFFICIENT_SIZE] = "Insufficient Size",
        [NVML_ERROR_INSUFFICIENT_POWER] = "Power Cable Not Attached",
        [NVML_ERROR_DRIVER_NOT_LOADED] = "Driver Not Loaded",
        [NVML_ERROR_TIMEOUT] = "Timeout",
        [NVML_ERROR_IRQ_ISSUE] = "Interrupt Problem",
        [NVML_ERROR_LIBRARY_NOT_FOUND] = "Library Not Found",
        [NVML_ERROR_FUNCTION_NOT_FOUND] = "Function Not Found",
        [NVML_ERROR_CORRUPTED_INFOROM] = "Corrupted infoROM",
        [NVML_ERROR_GPU_IS_LOST] = "GPU is lost",
        [NVML_ERROR_RESET_REQUIRED] = "GPU must be reset",
        [NVML_ERROR_OPERATING_SYSTEM] = "Blocked by the Operating System",
        [NVML_ERROR_LIB_RM_VERSION_MISMATCH] = "Versions of driver and library differ",
        [NVML_ERROR_IN_USE] = "In use",
        [NVML_ERROR_MEMORY] = "Insufficient Memory",
        [NVML_ERROR_NO_DATA] = "No data",
        [NVML_ERROR_VGPU_ECC_NOT_SUPPORTED] = "ECC not supported by the vGPU",
        [NVML_ERROR_INSUFFICIENT_RESOURCES] = "Insufficient Resources",
        [NVML_ERROR_FREQ_NOT_SUPPORTED] = "Frequency Not Supported",
        [NVML_ERROR_ARGUMENT_VERSION_MISMATCH] = "Argument version mismatch",
        [NVML_ERROR_DEPRECATED] = "Deprecated",
        [NVML_ERROR_NOT_READY] = "Not ready",
        [NVML_ERROR_GPU_NOT_FOUND] = "GPU Not Found",
        [NVML_ERROR_INVALID_STATE] = "Invalid State",
    };

    return (unsigned)result < ARRAY_SIZE(words) ? words[result] : "Unknown Error";
}

NVML_EXPORT
nvmlSystemGetCudaDriverVersion(int *version)
{
    int r = nvml_card_ready();

    if (r == NVML_SUCCESS && !version)
        r = NVML_ERROR_INVALID_ARGUMENT;
    if (r == NVML_SUCCESS)
        *version = nvml_card_driver_version();
    return r;
}

NVML_EXPORT
nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    return nvmlSystemGetCudaDriverVersion(version);
}

/* Programs take a driver's version apart, so ours has numbers too: first the branch of
 * NVIDIA's drivers that brought @cuda, as CUDA's release notes have it.  With 00.00
 * behind it is no driver that was ever released, so nobody looks for the faults of one.
 */
static int
driver_branch(int cuda)
{
    static const struct {
        int cuda, branch;
    } known[] = {
        {13000, 580}, {12090, 575}, {12080, 570}, {12070, 565}, {12060, 560},
        {12050, 555}, {12040, 550}, {12030, 545}, {12020, 535}, {12010, 530},
        {12000, 525}, {11080, 520}, {11070, 515}, {11060, 510}, {11050, 495},
        {11040, 470}, {11030, 465}, {11020, 460}, {11010, 455},
    };

    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (cuda >= known[i].cuda)
            return known[i].branch;
    return 450;
}

NVML_EXPORT
nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    int r = nvml_card_ready();
    char text[64];

    if (r != NVML_SUCCESS)
        return r;
    snprintf(text, sizeof(text), "%d.00.00", driver_branch(nvml_card_driver_version()));
    return nvml_text(version, length, text);
}

/* CUDA's, and the driver's behind it; before nvmlInit, which NVIDIA's library does not
 * ask for here either, the version that this library implements. */
NVML_EXPORT
nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    int v =
        nvml_card_ready() == NVML_SUCCESS ? nvml_card_driver_version() : CUDA_VERSION;
    char text[64];

    snprintf(text, sizeof(text), "%d.%d.00.00", v / 1000, driver_branch(v));
    return nvml_text(version, length, text);
}

/* The program of a process of this host, as it was called. */
NVML_EXPORT
nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    char path[64], words[1024];
    CLEANUP_FD int fd = -1;
    ssize_t n;
    int r = nvml_card_ready();

    if (r != NVML_SUCCESS)
        return r;
    snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, words, sizeof(words) - 1);
    if (n <= 0)
        return NVML_ERROR_NOT_FOUND;
    words[n] = '\0'; /* its first word ends before */
    return nvml_text(name, length, words);
}

/* Units are boxes of cards of another age; nobody's card is excluded. */
NVML_EXPORT
nvmlUnitGetCount(unsigned int *count)
{
    int r = nvml_card_ready();

    if (r == NVML_SUCCESS && !count)
        r = NVML_ERROR_INVALID_ARGUMENT;
    if (r == NVML_SUCCESS)
        *count = 0;
    return r;
}

NVML_EXPORT
nvmlGetExcludedDeviceCount(unsigned int *count)
{
    return nvmlUnitGetCount(count);
}
