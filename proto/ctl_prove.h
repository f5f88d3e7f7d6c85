/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer's part of the proofs of ctl_proof.h, over a blocking control connection: for
 * the command line and the Kubernetes controller.  (A server registers on its event
 * loop and has its own.)  No state; any thread.
 */
#ifndef CTL_PROVE_H
#define CTL_PROVE_H

#include "control.pb-c.h"

#include <stdint.h>

struct gp_err;

/* Send @req on the connection that @arg stands for and wait for the answer; sets the
 * request's id.  Returns as ctl_call(). */
typedef int (*ctl_prove_call)(void *arg, Gpupool__Ctl__CtlRequest *req,
                              Gpupool__Ctl__CtlReply **ret_reply, struct gp_err *err);

/* Prove @token (NULL or empty: nothing to do) for @role, and have the scheduler at
 * @address prove that it knows the token too; requests on the connection then go
 * without one.  With the environment's choice of a clear token nothing happens here.
 *
 * @link_key: the key that the TLS of the connection has proven, which must be the one
 * that the proofs are made over; NULL: clear text, or a Unix socket.
 *
 * -EREMOTE: the scheduler refuses the proof.  -EKEYREJECTED: it does not know the
 * token. -EPROTO: it is older than the proofs, or no scheduler. */
int ctl_prove(ctl_prove_call call, void *arg, Gpupool__Ctl__CtlRole role,
              const char *token, const char *address, const uint8_t *link_key,
              struct gp_err *err);

/* What a request carries as its token: "", unless it goes in clear by the environment's
 * choice (CTL_CLEAR_TOKEN_ENV). */
char *ctl_token_shown(const char *token);

#endif
