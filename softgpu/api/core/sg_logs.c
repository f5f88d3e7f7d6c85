/* SPDX-License-Identifier: Apache-2.0 */
#include "sg_logs.h"

#include "sg_core.h"
#include "sg_handle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LOG_LINES = 128, /* older ones are forgotten */
    LOG_LINE = 160,
    CALLBACKS = 16,
};

struct sg_log_callback {
    uint64_t handle;
    CUlogsCallback fn;
    void *data;
    unsigned running; /* threads that are in it */
    bool gone;        /* somebody waits until they have left */
    bool left;        /* the last of them frees it */
};

/* All under the lock. */
static char lines[LOG_LINES][LOG_LINE];
static uint64_t n_lines; /* ever written: the next one's number */
static struct sg_log_callback *callbacks[CALLBACKS];

/* A callback that fails in a call of its own is not told. */
static __thread bool telling;

CUresult cuGetErrorName(CUresult error, const char **pStr);
CUresult cuGetErrorString(CUresult error, const char **pStr);

static void
line_write(CUresult rc, char *line)
{
    const char *name = NULL, *words = NULL;

    cuGetErrorName(rc, &name);
    cuGetErrorString(rc, &words);
    snprintf(line, LOG_LINE, "[CUDA][E] %s: %s", name ? name : "an unknown error",
             words ? words : "");
}

/* Takes the lock for a moment only around the list. */
static void
tell(struct sg_log_callback *cb, const char *line)
{
    char copy[LOG_LINE];

    snprintf(copy, sizeof(copy), "%s", line); /* the program may write into it */
    cb->fn(cb->data, CU_LOG_LEVEL_ERROR, copy, strlen(copy));
    sg_lock();
    if (--cb->running == 0 && cb->left)
        free(cb);
    else if (cb->running == 0 && cb->gone)
        sg_wake_all();
    sg_unlock();
}

void
sg_logs_leave(CUresult rc)
{
    struct sg_log_callback *todo[CALLBACKS];
    unsigned n = 0;
    char line[LOG_LINE];

    line_write(rc, line);
    memcpy(lines[n_lines++ % LOG_LINES], line, sizeof(line));
    for (unsigned i = 0; !telling && i < CALLBACKS; i++) {
        if (!callbacks[i])
            continue;
        callbacks[i]->running++;
        todo[n++] = callbacks[i];
    }
    sg_unlock();
    telling = telling || n;
    for (unsigned i = 0; i < n; i++)
        tell(todo[i], line);
    if (n)
        telling = false;
}

SG_CALL(cuLogsRegisterCallback, CUlogsCallback callbackFunc, void *userData,
        CUlogsCallbackHandle *callback_out)
{
    struct sg_log_callback *cb;
    CUresult rc = sg_enter_init();
    unsigned i = 0;

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!callbackFunc)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    while (i < CALLBACKS && callbacks[i])
        i++;
    cb = i < CALLBACKS ? calloc(1, sizeof(*cb)) : NULL;
    if (cb)
        cb->handle = sg_handle_new(SG_KIND_LOGCB, cb);
    if (!cb || !cb->handle) {
        free(cb);
        return sg_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    cb->fn = callbackFunc;
    cb->data = userData;
    callbacks[i] = cb;
    if (callback_out)
        *callback_out = (CUlogsCallbackHandle)(uintptr_t)cb->handle;
    return sg_leave(CUDA_SUCCESS);
}

/* When it returns nobody is in the callback, but perhaps the caller. */
SG_CALL(cuLogsUnregisterCallback, CUlogsCallbackHandle callback)
{
    struct sg_log_callback *cb;
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    cb = SG_OBJ(sg_log_callback, SG_KIND_LOGCB, callback);
    if (!cb)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < CALLBACKS; i++)
        if (callbacks[i] == cb)
            callbacks[i] = NULL;
    sg_handle_drop(cb->handle);
    if (telling && cb->running) { /* perhaps from inside: its frame still needs it */
        cb->left = true;
        return sg_leave(CUDA_SUCCESS);
    }
    cb->gone = true;
    while (cb->running)
        sg_wait();
    free(cb);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuLogsCurrent, CUlogIterator *iterator_out, unsigned int flags)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!iterator_out || flags)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *iterator_out = (CUlogIterator)n_lines;
    return sg_leave(CUDA_SUCCESS);
}

/* Whole lines from @from on, as many as fit behind each other with a zero; where it
 * ended. */
static uint64_t
lines_copy(uint64_t from, char *buffer, size_t *size)
{
    size_t at = 0;

    if (n_lines > LOG_LINES && from < n_lines - LOG_LINES)
        from = n_lines - LOG_LINES;
    for (; from < n_lines; from++) {
        const char *line = lines[from % LOG_LINES];
        size_t n = strlen(line);

        if (at + n + 2 > *size)
            break;
        memcpy(buffer + at, line, n);
        buffer[at + n] = '\n';
        at += n + 1;
    }
    buffer[at] = '\0';
    *size = at;
    return from;
}

static void
dump(CUlogIterator *iterator, char *buffer, size_t *size)
{
    uint64_t from = iterator ? *iterator : 0;

    from = lines_copy(gp_min(from, n_lines), buffer, size);
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
    char text[LOG_LINES * LOG_LINE];
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
