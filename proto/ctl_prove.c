/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_prove.h"

#include "ctl_call.h"
#include "ctl_proof.h"
#include "gp_err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

char *
ctl_token_shown(const char *token)
{
    static char none[] = "";

    return token && getenv(CTL_CLEAR_TOKEN_ENV) ? (char *)token : none;
}

static int
check_answer(int r, const Gpupool__Ctl__CtlReply *reply, int wanted, struct gp_err *err)
{
    if (r == -EREMOTE && wanted == GPUPOOL__CTL__CTL_REPLY__BODY_CHALLENGE &&
        reply->error->code == GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST)
        return gp_err_set(
            err, -EPROTO,
            "the scheduler is older than this gpupool and wants the token "
            "in clear; upgrade it, or set " CTL_CLEAR_TOKEN_ENV
            "=1 on a network you trust");
    if (!r && (int)reply->body_case != wanted)
        return gp_err_set(err, -EPROTO, "the scheduler answered something else");
    return r;
}

static int
hello(ctl_prove_call call, void *arg, struct ctl_transcript *t, const uint8_t *link_key,
      struct gp_err *err)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlHello body = GPUPOOL__CTL__CTL_HELLO__INIT;
    CLEANUP(ctl_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    const Gpupool__Ctl__CtlChallenge *c;
    int r = ctl_nonce(t->peer_nonce);

    if (r < 0)
        return r;
    body.role = (Gpupool__Ctl__CtlRole)t->role;
    body.nonce = (ProtobufCBinaryData){CTL_NONCE_SIZE, t->peer_nonce};
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_HELLO;
    req.hello = &body;
    r = call(arg, &req, &reply, err);
    r = check_answer(r, reply, GPUPOOL__CTL__CTL_REPLY__BODY_CHALLENGE, err);
    if (r < 0)
        return r;
    c = reply->challenge;
    if (link_key && (c->scheduler_key.len != TICKET_PUB_SIZE ||
                     memcmp(c->scheduler_key.data, link_key, TICKET_PUB_SIZE) != 0))
        return gp_err_set(
            err, -EKEYREJECTED,
            "somebody is between us and the scheduler: the key of its TLS "
            "is not the scheduler's");
    return ctl_transcript_take(t, c->nonce.data, c->nonce.len, c->scheduler_key.data,
                               c->scheduler_key.len, c->signature.data,
                               c->signature.len, err);
}

int
ctl_prove(ctl_prove_call call, void *arg, Gpupool__Ctl__CtlRole role, const char *token,
          const char *address, const uint8_t *link_key, struct gp_err *err)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlProve body = GPUPOOL__CTL__CTL_PROVE__INIT;
    CLEANUP(ctl_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    struct ctl_transcript t = {.role = (uint8_t)role};
    uint8_t proof[CTL_PROOF_SIZE];
    int r;

    if (!token || !*token || getenv(CTL_CLEAR_TOKEN_ENV))
        return 0;
    r = hello(call, arg, &t, link_key, err);
    if (r < 0)
        return r;
    ctl_proof_make(&t, CTL_SIDE_PEER, token, proof);
    body.proof = (ProtobufCBinaryData){sizeof(proof), proof};
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_PROVE;
    req.prove = &body;
    r = call(arg, &req, &reply, err);
    r = check_answer(r, reply, GPUPOOL__CTL__CTL_REPLY__BODY_PROVED, err);
    if (r < 0)
        return r;
    if (!ctl_proof_holds(&t, CTL_SIDE_SCHEDULER, token, reply->proved->proof.data,
                         reply->proved->proof.len))
        return gp_err_set(err, -EKEYREJECTED,
                          "%s does not know the token: it is not the pool's scheduler",
                          address);
    return 0;
}
