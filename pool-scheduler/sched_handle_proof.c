/* SPDX-License-Identifier: Apache-2.0 */
/* How a peer shows a token without sending it: hello, prove (ctl_proof.h). */
#include "ctl_proof.h"
#include "gp_err.h"
#include "gp_log.h"
#include "sched_asker.h"
#include "sched_auth.h"
#include "sched_conn.h"
#include "sched_handle.h"
#include "sched_peer.h"

#include <string.h>

void
sched_handle_hello(struct sched_conn *conn, uint32_t id,
                   const Gpupool__Ctl__CtlHello *msg)
{
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlChallenge body = GPUPOOL__CTL__CTL_CHALLENGE__INIT;
    const struct ticket_key *key = conn->key;
    struct ctl_transcript *t = conn->transcript;
    uint8_t signature[TICKET_SIG_SIZE];
    struct gp_err err = {0};

    if (msg->nonce.len != CTL_NONCE_SIZE || (unsigned)msg->role >= SCHED_ROLES ||
        strlen(msg->server) >= CTL_NAME_MAX) {
        sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST,
                          "a hello names a role and a nonce of 32 bytes", NULL);
        return;
    }
    free(conn->hello_server);
    conn->hello_server = strdup(msg->server);
    if (!t)
        t = conn->transcript = calloc(1, sizeof(*t));
    if (!t || !conn->hello_server || ctl_nonce(t->scheduler_nonce) < 0) {
        sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL,
                          "the scheduler cannot make a challenge", NULL);
        return;
    }
    t->role = (uint8_t)msg->role;
    memcpy(t->peer_nonce, msg->nonce.data, CTL_NONCE_SIZE);
    memcpy(t->scheduler_key, ticket_key_pub(key), TICKET_PUB_SIZE);
    if (ctl_transcript_sign(t, key, signature, &err) < 0) {
        sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL, err.msg,
                          NULL);
        return;
    }
    if (!conn->known)
        conn->refusals++; /* a signature is work; an unauthenticated peer gets a few */
    body.nonce = (ProtobufCBinaryData){CTL_NONCE_SIZE, t->scheduler_nonce};
    body.scheduler_key = (ProtobufCBinaryData){TICKET_PUB_SIZE, t->scheduler_key};
    body.signature = (ProtobufCBinaryData){sizeof(signature), signature};
    reply.id = id;
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_CHALLENGE;
    reply.challenge = &body;
    sched_conn_reply(conn, &reply);
}

struct claim {
    const struct ctl_transcript *transcript;
    const ProtobufCBinaryData *proof;
};

static bool
proves(const char *token, void *arg)
{
    const struct claim *claim = arg;

    return ctl_proof_holds(claim->transcript, CTL_SIDE_PEER, token, claim->proof->data,
                           claim->proof->len);
}

static void
reply_proved(struct sched_conn *conn, uint32_t id, const char *token)
{
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlProved body = GPUPOOL__CTL__CTL_PROVED__INIT;
    uint8_t proof[CTL_PROOF_SIZE];

    ctl_proof_make(conn->transcript, CTL_SIDE_SCHEDULER, token, proof);
    body.proof = (ProtobufCBinaryData){sizeof(proof), proof};
    reply.id = id;
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_PROVED;
    reply.proved = &body;
    sched_conn_reply(conn, &reply);
}

void
sched_handle_prove(struct sched_conn *conn, uint32_t id,
                   const Gpupool__Ctl__CtlProve *msg)
{
    struct claim claim = {conn->transcript, &msg->proof};
    enum sched_role role;
    unsigned rights;
    const struct sched_token *token;
    char words[256], shared[SCHED_ASKER_TOKEN];

    if (!conn->transcript) {
        sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST,
                          "a proof before a hello", NULL);
        return;
    }
    role = (enum sched_role)conn->transcript->role;
    rights = sched_role_rights(role);
    if (role == SCHED_ROLE_ADMIN) /* what only an administrator has */
        rights = SCHED_MAY_END | SCHED_MAY_DRAIN;
    token = sched_tokens_find(conn->sched->tokens, rights, conn->hello_server, proves,
                              &claim);
    if (token) {
        sched_peer_shown(conn, role, token);
        reply_proved(conn, id, token->text);
    } else if (role == SCHED_ROLE_CLIENT &&
               sched_asker_proves(conn, proves, &claim, shared)) {
        reply_proved(conn, id, shared);
    } else {
        sched_auth_words(conn, role, words, sizeof(words));
        sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_DENIED, words, NULL);
    }
    explicit_bzero(shared, sizeof(shared));
    /* One try for each challenge. */
    free(conn->transcript);
    conn->transcript = NULL;
}
