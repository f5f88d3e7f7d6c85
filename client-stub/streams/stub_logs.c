/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuLogsDumpToFile: the lines come from the server, the file is written here.  Also
 * cuProfilerInitialize, which drivers no longer support.
 */
#include "cuda_api.h"
#include "gp_base.h"
#include "gp_fsize.h"
#include "stub_call.h"
#include "stub_manual.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* All of a driver's log: CUDA says that it is 25600 bytes at most.  A frame carries no
 * more. */
#define LOG_BYTES 32768u

static CUresult
file_append(int fd, const char *text, size_t n)
{
    while (n) {
        ssize_t done = gp_fsize_write(fd, text, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return CUDA_ERROR_OPERATING_SYSTEM;
        text += done;
        n -= (size_t)done;
    }
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuLogsDumpToFile(CUlogIterator *iterator, const char *pathToFile,
                           unsigned int flags)
{
    CLEANUP_FREE char *text = NULL;
    CLEANUP_FD int fd = -1;
    size_t size = LOG_BYTES;
    CUresult r;

    if (!pathToFile || flags)
        return CUDA_ERROR_INVALID_VALUE;
    text = malloc(LOG_BYTES);
    if (!text)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fd = open(pathToFile, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    r = cuLogsDumpToMemory(iterator, text, &size, flags);
    if (r == CUDA_SUCCESS)
        r = file_append(fd, text, strnlen(text, gp_min(size, (size_t)LOG_BYTES)));
    return r;
}

CUresult
stub_impl_cuProfilerInitialize(const char *configFile, const char *outputFile,
                               CUoutput_mode outputMode)
{
    CUresult r = stub_enter();

    return r == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : r;
}
