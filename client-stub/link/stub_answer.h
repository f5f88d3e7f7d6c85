/* SPDX-License-Identifier: Apache-2.0 */
/* What a server answers to an attach request, over whichever connection.  Any thread.
 */
#ifndef STUB_ANSWER_H
#define STUB_ANSWER_H

#include <stddef.h>
#include <stdint.h>

struct Gpupool__AttachReply;
struct gp_err;
struct gp_wire;

/* More than any answer has but the one to a ticket, in bytes. */
#define STUB_ANSWER_MAX 4096u

/* Receive it: *ret is the caller's, is well-formed, and may be a refusal.  @wire is
 * NULL where there is no TLS; @deadline is in ns (gp_now_ns).  -EPROTO: it is no attach
 * reply; -EMSGSIZE: it has more than @max bytes. */
int stub_answer_receive(struct gp_wire *wire, int fd, size_t max, uint64_t deadline,
                        struct Gpupool__AttachReply **ret, struct gp_err *err);

#endif
