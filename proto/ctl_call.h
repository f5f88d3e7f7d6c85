/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request to a scheduler and its answer, with a deadline, over a connection that
 * the caller owns.  Blocking; any thread.  For those who are not on an event loop: the
 * client stub in a pod, the controller.
 */
#ifndef CTL_CALL_H
#define CTL_CALL_H

#include "control.pb-c.h"
#include "ctl_link.h"
#include "gp_base.h"

struct gp_err;

/* Send @req, whose id is set by the caller, and wait for the answer.
 *
 * One that is refused because there were too many is asked again while there is time;
 * one that fits nowhere is not, for these callers ask again themselves.
 *
 * 0: *ret_reply is the caller's.  -EREMOTE: a refusal, *ret_reply is set as well and
 * @err has its words.  Anything else: the link is of no use any more. */
int ctl_call(const struct ctl_link *link, const Gpupool__Ctl__CtlRequest *req,
             uint64_t deadline_ns, Gpupool__Ctl__CtlReply **ret_reply,
             struct gp_err *err);

/* The same, but the refusal is returned at once: the caller is not to wait for it. */
int ctl_call_once(const struct ctl_link *link, const Gpupool__Ctl__CtlRequest *req,
                  uint64_t deadline_ns, Gpupool__Ctl__CtlReply **ret_reply,
                  struct gp_err *err);

/* A refusal that says when to ask again: wait for that, and up to as long again, so
 * that many who were refused do not come back at once.  False: it does not say so, or
 * there is no time for it before @deadline_ns. */
bool ctl_retry_wait(const Gpupool__Ctl__CtlError *error, uint64_t deadline_ns);

/* A copy of the same type, which the caller frees with that type's function; NULL
 * without memory. */
void *ctl_message_copy(const ProtobufCMessage *message);
void ctl_reply_free(Gpupool__Ctl__CtlReply *reply); /* NULL is a no-op */
DEFINE_CLEANUP(Gpupool__Ctl__CtlReply, ctl_reply_free)

#endif
