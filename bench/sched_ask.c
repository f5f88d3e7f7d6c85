/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_ask.h"

#include "control.pb-c.h"
#include "ctl_limits.h"
#include "gp_base.h"
#include "gp_msg.h"
#include "gp_net.h"
#include "gp_time.h"

#include <errno.h>

int
sched_ask_leads(const char *address, uint64_t patience_ns)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlRenew body = GPUPOOL__CTL__CTL_RENEW__INIT;
    CLEANUP_FD int fd = -1;
    CLEANUP_FREE void *data = NULL;
    uint64_t end = gp_now_ns() + patience_ns;
    Gpupool__Ctl__CtlReply *reply;
    uint8_t bytes[64];
    size_t len;
    bool yes;

    body.session_id = 1; /* there is none */
    req.id = 1;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_RENEW;
    req.renew = &body;
    if (gp_net_connect(address, 0, end, true, &fd, NULL) < 0 ||
        gp_msg_send(fd, bytes, gpupool__ctl__ctl_request__pack(&req, bytes), end,
                    NULL) < 0 ||
        gp_msg_recv(fd, CTL_REPLY_MAX, end, &data, &len, NULL) < 0)
        return -EPIPE;
    reply = gpupool__ctl__ctl_reply__unpack(NULL, len, data);
    yes = reply && reply->error &&
          reply->error->code != GPUPOOL__CTL__CTL_CODE__CTL_NOT_LEADER;
    gpupool__ctl__ctl_reply__free_unpacked(reply, NULL);
    return yes;
}

uint32_t
sched_ask_free_port(void)
{
    CLEANUP_FD int fd = -1;

    return gp_net_listen("127.0.0.1:0", 0, 1, &fd, NULL) < 0 ? 0 : gp_net_port(fd);
}
