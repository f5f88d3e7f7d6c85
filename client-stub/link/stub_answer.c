/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_answer.h"

#include "attach.pb-c.h"
#include "gp_base.h"
#include "gp_err.h"
#include "gp_msg.h"

#include <errno.h>

int
stub_answer_receive(struct gp_wire *wire, int fd, size_t max, uint64_t deadline,
                    Gpupool__AttachReply **ret, struct gp_err *err)
{
    CLEANUP_FREE void *bytes = NULL;
    size_t len;
    int r = gp_msg_recv_over(wire, fd, max, deadline, &bytes, &len, err);

    if (r < 0)
        return r;
    *ret = gpupool__attach_reply__unpack(NULL, len, bytes);
    return *ret ? 0 : gp_err_set(err, -EPROTO, "the answer is no attach reply");
}
