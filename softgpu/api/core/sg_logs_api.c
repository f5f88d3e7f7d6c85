/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported calls on the driver's log.
 */
#include "sg_core.h"
#include "sg_logs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

SG_CALL(cuLogsRegisterCallback, CUlogsCallback callbackFunc, void *userData,
        CUlogsCallbackHandle *callback_out)
{
    uint64_t handle;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!callbackFunc)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    if (!sg_logs_add(callbackFunc, userData, &handle))
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    if (callback_out)
        *callback_out = (CUlogsCallbackHandle)(uintptr_t)handle;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuLogsUnregisterCallback, CUlogsCallbackHandle callback)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    return sg_leave(sg_logs_remove((uintptr_t)callback) ? CUDA_SUCCESS
                                                        : CUDA_ERROR_INVALID_VALUE);
}

SG_CALL(cuLogsCurrent, CUlogIterator *iterator_out, unsigned int flags)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!iterator_out || flags)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *iterator_out = (CUlogIterator)sg_logs_end();
    return sg_leave(CUDA_SUCCESS);
}

static void
dump(CUlogIterator *iterator, char *buffer, size_t *size)
{
    uint64_t from = iterator ? *iterator : 0;

    from = sg_logs_copy(from, buffer, size);
    if (iterator)
        *iterator = (CUlogIterator)from;
}

SG_CALL(cuLogsDumpToMemory, CUlogIterator *iterator, char *buffer, size_t *size,
        unsigned int flags)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!buffer || !size || !*size || flags)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    dump(iterator, buffer, size);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuLogsDumpToFile, CUlogIterator *iterator, const char *pathToFile,
        unsigned int flags)
{
    char text[SG_LOGS_BYTES];
    size_t size = sizeof(text);
    CUresult rc = sg_enter_init();
    CLEANUP_FD int fd = -1;

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pathToFile || flags)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    fd = open(pathToFile, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    dump(iterator, text, &size);
    return sg_leave(write(fd, text, size) == (ssize_t)size
                        ? CUDA_SUCCESS
                        : CUDA_ERROR_OPERATING_SYSTEM);
}
