/* SPDX-License-Identifier: Apache-2.0 */
#include "sg_logs.h"

#include "sg_handle.h"
#include "sg_lock.h"

#include "cuda_errors.h"
#include "gp_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOG_LINES = SG_LOGS_LINES,
    LOG_LINE = SG_LOGS_BYTES / SG_LOGS_LINES,
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

static void
line_write(CUresult rc, char *line)
{
    const char *name = NULL, *words = NULL;

    cuda_error_words(rc, &name, &words);
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

bool
sg_logs_add(CUlogsCallback fn, void *data, uint64_t *ret_handle)
{
    struct sg_log_callback *cb;
    unsigned i = 0;

    while (i < CALLBACKS && callbacks[i])
        i++;
    cb = i < CALLBACKS ? calloc(1, sizeof(*cb)) : NULL;
    if (cb)
        cb->handle = sg_handle_new(SG_KIND_LOGCB, cb);
    if (!cb || !cb->handle) {
        free(cb);
        return false;
    }
    cb->fn = fn;
    cb->data = data;
    callbacks[i] = cb;
    *ret_handle = cb->handle;
    return true;
}

bool
sg_logs_remove(uint64_t handle)
{
    struct sg_log_callback *cb = sg_handle_get(SG_KIND_LOGCB, handle);

    if (!cb)
        return false;
    for (unsigned i = 0; i < CALLBACKS; i++)
        if (callbacks[i] == cb)
            callbacks[i] = NULL;
    sg_handle_drop(cb->handle);
    if (telling && cb->running) { /* perhaps from inside: its frame still needs it */
        cb->left = true;
        return true;
    }
    cb->gone = true;
    while (cb->running)
        sg_wait();
    free(cb);
    return true;
}

uint64_t
sg_logs_end(void)
{
    return n_lines;
}

uint64_t
sg_logs_copy(uint64_t from, char *buffer, size_t *size)
{
    size_t at = 0;

    from = gp_min(from, n_lines);
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
