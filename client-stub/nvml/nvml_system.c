/* SPDX-License-Identifier: Apache-2.0 */
/* The library itself: beginning and end, versions, words for errors, processes' names.
 */
#include "nvml_card.h"
#include "nvml_exports.h"
#include "nvml_text.h"

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

NVML_EXPORT
nvmlShutdown(void)
{
    return nvml_card_close();
}

GP_EXPORT const char *
nvmlErrorString(int result)
{
    switch (result) {
    case NVML_SUCCESS:
        return "Success";
    case NVML_ERROR_UNINITIALIZED:
        return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_ERROR_NO_PERMISSION:
        return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND:
        return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
        return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    case NVML_ERROR_GPU_IS_LOST:
        return "GPU is lost";
    case NVML_ERROR_MEMORY:
        return "Insufficient Memory";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
        return "Argument version mismatch";
    default:
        return "Unknown Error";
    }
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

/* CUDA's, and the driver's behind it. */
NVML_EXPORT
nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    int v = nvml_card_driver_version(), r = nvml_card_ready();
    char text[64];

    if (r != NVML_SUCCESS)
        return r;
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
