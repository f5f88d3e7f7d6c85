/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callbacks of the client for log lines and asynchronous notifications.
 *
 * For each the driver gets a function of the worker's, which sends an unsolicited
 * message with the client's token and does not wait, because no work depends on it.
 * The list belongs to the receive thread; the driver calls on any thread.
 */
#include "drv.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_log_mute.h"

#include <stdlib.h>
#include <string.h>

/* Callbacks of one client.  A program has one or two. */
#define NOTICES_MAX 1024u

struct notice {
    struct notice *next;
    struct wrk *w;
    uint64_t token;
    CUlogsCallbackHandle log; /* one of the two */
    CUasyncCallbackHandle async;
};

static struct notice *notices;
static unsigned n_notices;

static void
on_log(void *data, CUlogLevel level, char *message, size_t length)
{
    const struct notice *n = data;
    struct wire_event_callback event = {.token = n->token, .what = (uint32_t)level};

    if (wrk_log_muted())
        return;
    event.len = (uint32_t)gp_min(length, (size_t)WIRE_LOG_LINE_MAX);
    wrk_unsolicited(n->w, WIRE_EVENT_CALLBACK, &event, sizeof(event), message,
                    event.len);
}

static void
on_notification(CUasyncNotificationInfo *info, void *data, CUasyncCallbackHandle handle)
{
    const struct notice *n = data;
    const struct wire_event_callback event = {
        .token = n->token,
        .what = (uint32_t)info->type,
        .value = info->info.overBudget.bytesOverBudget};

    (void)handle;
    wrk_unsolicited(n->w, WIRE_EVENT_CALLBACK, &event, sizeof(event), NULL, 0);
}

static struct notice *
notice_new(struct wrk *w, uint64_t token)
{
    struct notice *n = n_notices < NOTICES_MAX ? calloc(1, sizeof(*n)) : NULL;

    if (!n)
        return NULL;
    n->w = w;
    n->token = token;
    return n;
}

/* The driver's answer to its registration. */
static CUresult
notice_keep(struct notice *n, CUresult r)
{
    if (r != CUDA_SUCCESS) {
        free(n);
        return r;
    }
    n->next = notices;
    notices = n;
    n_notices++;
    return r;
}

static struct notice **
notice_at(uint64_t token)
{
    struct notice **at = &notices;

    while (*at && (*at)->token != token)
        at = &(*at)->next;
    return at;
}

/* The driver has forgotten it. */
static CUresult
notice_drop(struct notice **at, CUresult r)
{
    struct notice *n = *at;

    if (r != CUDA_SUCCESS)
        return r;
    *at = n->next;
    n_notices--;
    free(n);
    return r;
}

CUresult
h_cuLogsRegisterCallback(struct wrk *w,
                         const struct wire_args_cuLogsRegisterCallback *a,
                         struct wrk_reply *rep)
{
    struct notice *n = notice_new(w, a->token);

    (void)rep;
    if (!n)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return notice_keep(n, WRK_CALL(w, cuLogsRegisterCallback, on_log, n, &n->log));
}

CUresult
h_cuLogsUnregisterCallback(struct wrk *w,
                           const struct wire_args_cuLogsUnregisterCallback *a,
                           struct wrk_reply *rep)
{
    struct notice **at = notice_at(a->token);

    (void)rep;
    if (!*at || !(*at)->log)
        return CUDA_ERROR_INVALID_VALUE;
    return notice_drop(at, WRK_CALL(w, cuLogsUnregisterCallback, (*at)->log));
}

CUresult
h_cuDeviceRegisterAsyncNotification(
    struct wrk *w, const struct wire_args_cuDeviceRegisterAsyncNotification *a,
    struct wrk_reply *rep)
{
    struct notice *n = notice_new(w, a->token);

    (void)rep;
    if (!n)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return notice_keep(n, WRK_CALL(w, cuDeviceRegisterAsyncNotification, a->device,
                                   on_notification, n, &n->async));
}

CUresult
h_cuDeviceUnregisterAsyncNotification(
    struct wrk *w, const struct wire_args_cuDeviceUnregisterAsyncNotification *a,
    struct wrk_reply *rep)
{
    struct notice **at = notice_at(a->token);

    (void)rep;
    if (!*at || !(*at)->async)
        return CUDA_ERROR_INVALID_VALUE;
    return notice_drop(
        at, WRK_CALL(w, cuDeviceUnregisterAsyncNotification, a->device, (*at)->async));
}
