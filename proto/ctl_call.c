/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_call.h"

#include "ctl_limits.h"
#include "gp_err.h"
#include "gp_hash.h"
#include "gp_msg.h"
#include "gp_time.h"

#include <errno.h>

int
ctl_call_once(const struct ctl_link *link, const Gpupool__Ctl__CtlRequest *req,
              uint64_t deadline_ns, Gpupool__Ctl__CtlReply **ret_reply,
              struct gp_err *err)
{
    size_t size = gpupool__ctl__ctl_request__get_packed_size(req), len = 0;
    CLEANUP(ctl_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    CLEANUP_FREE uint8_t *bytes = malloc(size);
    CLEANUP_FREE void *data = NULL;
    int r;

    if (!bytes)
        return -ENOMEM;
    gpupool__ctl__ctl_request__pack(req, bytes);
    r = gp_msg_send_over(link->wire, link->fd, bytes, size, deadline_ns, err);
    if (!r)
        r = gp_msg_recv_over(link->wire, link->fd, CTL_REPLY_MAX, deadline_ns, &data,
                             &len, err);
    if (r < 0)
        return gp_err_wrap(err, r, "scheduler");
    reply = gpupool__ctl__ctl_reply__unpack(NULL, len, data);
    if (!reply || (reply->id != req->id && reply->id))
        return gp_err_set(err, -EPROTO, "the answer is not a gpupool-scheduler's");
    r = reply->error ? gp_err_set(err, -EREMOTE, "%s", reply->error->words) : 0;
    *ret_reply = TAKE_PTR(reply);
    return r;
}

bool
ctl_retry_wait(const Gpupool__Ctl__CtlError *error, uint64_t deadline_ns)
{
    uint64_t wait = error->retry_after_ms * GP_NS_PER_MS;

    if (!wait)
        return false;
    wait += gp_hash_u64(gp_now_ns()) % wait;
    if (gp_now_ns() + wait >= deadline_ns)
        return false;
    gp_sleep_ns(wait);
    return true;
}

int
ctl_call(const struct ctl_link *link, const Gpupool__Ctl__CtlRequest *req,
         uint64_t deadline_ns, Gpupool__Ctl__CtlReply **ret_reply, struct gp_err *err)
{
    int r = ctl_call_once(link, req, deadline_ns, ret_reply, err);

    while (r == -EREMOTE &&
           (*ret_reply)->error->code != GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT &&
           ctl_retry_wait((*ret_reply)->error, deadline_ns)) {
        ctl_reply_free(TAKE_PTR(*ret_reply));
        r = ctl_call_once(link, req, deadline_ns, ret_reply, err);
    }
    return r;
}

void *
ctl_message_copy(const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    CLEANUP_FREE uint8_t *bytes = malloc(size + 1);

    if (!bytes)
        return NULL;
    protobuf_c_message_pack(message, bytes);
    return protobuf_c_message_unpack(message->descriptor, NULL, size, bytes);
}

void
ctl_reply_free(Gpupool__Ctl__CtlReply *reply)
{
    gpupool__ctl__ctl_reply__free_unpacked(reply, NULL);
}
