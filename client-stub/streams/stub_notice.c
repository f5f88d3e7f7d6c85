/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callbacks of the driver: lines of its log, asynchronous notifications.
 *
 * They run on the thread of host functions (stub_hostfn.h), soon after the server has
 * sent the message; the program's handle is the token in that message.
 */
#include "stub_call.h"
#include "stub_device.h"
#include "stub_hostfn.h"
#include "stub_manual.h"
#include "wire_api.h"

#include <stdlib.h>
#include <string.h>

struct log_callback {
    CUlogsCallback fn;
    void *user;
};

struct async_callback {
    CUasyncCallback fn;
    void *user;
    CUdevice device;
};

static void
log_run(uint64_t token, void *what, const struct wire_event_callback *event,
        char *words)
{
    const struct log_callback *cb = what;

    (void)token;
    cb->fn(cb->user, (CUlogLevel)event->what, words, event->len);
}

static void
async_run(uint64_t token, void *what, const struct wire_event_callback *event,
          char *words)
{
    const struct async_callback *cb = what;
    CUasyncNotificationInfo info = {.type = (CUasyncNotificationType)event->what};

    (void)words;
    info.info.overBudget.bytesOverBudget = event->value;
    cb->fn(&info, cb->user, (CUasyncCallbackHandle)(uintptr_t)token);
}

/* Send a call that holds a token and nothing else but perhaps a device. */
static CUresult
notice_report(uint16_t call, uint64_t token, int device)
{
    struct wire_cuDeviceRegisterAsyncNotification_req *req;
    struct stub_call c;
    bool log = call == WIRE_CALL_cuLogsRegisterCallback ||
               call == WIRE_CALL_cuLogsUnregisterCallback;
    CUresult r;

    static_assert(offsetof(struct wire_cuDeviceRegisterAsyncNotification_req, token) ==
                          0 &&
                      sizeof(struct wire_cuDeviceRegisterAsyncNotification_req) ==
                          sizeof(struct wire_cuDeviceUnregisterAsyncNotification_req) &&
                      sizeof(struct wire_cuLogsRegisterCallback_req) == sizeof(token) &&
                      sizeof(struct wire_cuLogsUnregisterCallback_req) == sizeof(token),
                  "the token comes first in all four");
    r = stub_call_begin(&c, call, log ? sizeof(token) : sizeof(*req));
    if (r != CUDA_SUCCESS)
        return r;
    if (log) {
        memcpy(c.body, &token, sizeof(token));
    } else {
        req = c.body;
        *req = (struct wire_cuDeviceRegisterAsyncNotification_req){.token = token,
                                                                   .device = device};
    }
    r = stub_call_wait(&c);
    stub_call_end(&c);
    return r;
}

/* @what is ours, and the table's once it is there. */
static CUresult
notice_register(uint16_t call, stub_notice_fn *run, void *what, int device,
                uint64_t *ret_token)
{
    uint64_t token = what ? stub_hostfn_add_notice(run, what) : 0;
    CUresult r;

    if (!token) {
        free(what);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    r = notice_report(call, token, device);
    if (r == CUDA_SUCCESS)
        *ret_token = token;
    else
        stub_hostfn_drop_notice(token);
    return r;
}

CUresult
stub_impl_cuLogsRegisterCallback(CUlogsCallback callbackFunc, void *userData,
                                 CUlogsCallbackHandle *callback_out)
{
    struct log_callback *cb;
    uint64_t token;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!callbackFunc)
        return CUDA_ERROR_INVALID_VALUE;
    cb = malloc(sizeof(*cb));
    if (cb)
        *cb = (struct log_callback){callbackFunc, userData};
    r = notice_register(WIRE_CALL_cuLogsRegisterCallback, log_run, cb, 0, &token);
    if (r == CUDA_SUCCESS && callback_out)
        *callback_out = (CUlogsCallbackHandle)(uintptr_t)token;
    return r;
}

CUresult
stub_impl_cuLogsUnregisterCallback(CUlogsCallbackHandle callback)
{
    uint64_t token = (uintptr_t)callback;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!stub_hostfn_notice(token, log_run))
        return CUDA_ERROR_INVALID_VALUE;
    r = notice_report(WIRE_CALL_cuLogsUnregisterCallback, token, 0);
    if (r == CUDA_SUCCESS)
        stub_hostfn_drop_notice(token);
    return r;
}

CUresult
stub_impl_cuDeviceRegisterAsyncNotification(CUdevice device,
                                            CUasyncCallback callbackFunc,
                                            void *userData,
                                            CUasyncCallbackHandle *callback)
{
    struct async_callback *cb;
    uint64_t token;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!stub_device_get(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!callbackFunc || !callback)
        return CUDA_ERROR_INVALID_VALUE;
    cb = malloc(sizeof(*cb));
    if (cb)
        *cb = (struct async_callback){callbackFunc, userData, device};
    r = notice_register(WIRE_CALL_cuDeviceRegisterAsyncNotification, async_run, cb,
                        stub_device_wire(device), &token);
    if (r == CUDA_SUCCESS)
        *callback = (CUasyncCallbackHandle)(uintptr_t)token;
    return r;
}

CUresult
stub_impl_cuDeviceUnregisterAsyncNotification(CUdevice device,
                                              CUasyncCallbackHandle callback)
{
    uint64_t token = (uintptr_t)callback;
    const struct async_callback *cb;
    CUresult r = stub_enter();

    if (r != CUDA_SUCCESS)
        return r;
    if (!stub_device_get(device))
        return CUDA_ERROR_INVALID_DEVICE;
    cb = stub_hostfn_notice(token, async_run);
    if (!cb || cb->device != device)
        return CUDA_ERROR_INVALID_VALUE;
    r = notice_report(WIRE_CALL_cuDeviceUnregisterAsyncNotification, token,
                      stub_device_wire(device));
    if (r == CUDA_SUCCESS)
        stub_hostfn_drop_notice(token);
    return r;
}
