/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions one after another, by protocol: each is opened at the scheduler, a process
 * attaches to its server with the proof of its secret, makes a call, and ends; the
 * session is closed.  No program is started for it, so one costs milliseconds.
 *
 *     sessions SCHEDULER TOKEN-FILE
 *
 * A line "N" on the standard input is answered with "done N" when N sessions have come
 * and gone, over a connection to the scheduler of its own, which does not keep one that
 * is quiet; "open N" is the same for sessions that nobody attaches to.  The first
 * failure ends the program, with its words.
 */
#include "attach.pb-c.h"
#include "attach_proof.h"
#include "control.pb-c.h"
#include "ctl_call.h"
#include "ctl_link.h"
#include "ctl_prove.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_msg.h"
#include "gp_net.h"
#include "gp_time.h"
#include "gp_x25519.h"
#include "wire_format.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_NS (60 * GP_NS_PER_S)
#define REPLY_MAX 65536u
#define PING 0xe003u /* gp_ping: eight bytes and back */

static struct {
    const char *address;
    struct ctl_link link;
    uint32_t next_id;
} scheduler = {.link.fd = -1};

static uint64_t
soon(void)
{
    return gp_now_ns() + PATIENCE_NS;
}

static int
ask(void *arg, Gpupool__Ctl__CtlRequest *req, Gpupool__Ctl__CtlReply **ret_reply,
    struct gp_err *err)
{
    (void)arg;
    req->id = ++scheduler.next_id;
    return ctl_call(&scheduler.link, req, soon(), ret_reply, err);
}

/* The grant, in a reply that is the caller's. */
static int
open_session(const uint8_t secret[GP_X25519_SIZE], Gpupool__Ctl__CtlReply **ret,
             struct gp_err *err)
{
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlOpen open = GPUPOOL__CTL__CTL_OPEN__INIT;
    uint8_t key[GP_X25519_SIZE];
    int r;

    gp_x25519_public(secret, key);
    open.major = 1;
    open.owner = (char *)"soak@test";
    open.program = (char *)"soak";
    open.core = 10;
    open.memory_bytes = UINT64_C(64) << 20;
    open.client_key.data = key;
    open.client_key.len = sizeof(key);
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN;
    req.open = &open;
    r = ask(NULL, &req, ret, err);
    if (r == 0 && (!(*ret)->grant || (*ret)->grant->n_tickets != 1 ||
                   (*ret)->grant->lease_key.len != 16))
        r = gp_err_set(err, -EPROTO, "the answer is no grant");
    return r;
}

static int
close_session(const Gpupool__Ctl__CtlGrant *grant, struct gp_err *err)
{
    CLEANUP(ctl_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    Gpupool__Ctl__CtlClose end = GPUPOOL__CTL__CTL_CLOSE__INIT;

    end.session_id = grant->session_id;
    end.lease_key = grant->lease_key;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_CLOSE;
    req.close = &end;
    return ask(NULL, &req, &reply, err);
}

static int
receive_reply(int fd, Gpupool__AttachReply **ret, struct gp_err *err)
{
    CLEANUP_FREE void *bytes = NULL;
    size_t len;
    int r = gp_msg_recv(fd, REPLY_MAX, soon(), &bytes, &len, err);

    if (r < 0)
        return r;
    *ret = gpupool__attach_reply__unpack(NULL, len, bytes);
    return *ret ? 0 : gp_err_set(err, -EPROTO, "the answer is no attach reply");
}

static int
send_request(int fd, const char *ticket, struct gp_err *err)
{
    Gpupool__AttachRequest req = GPUPOOL__ATTACH_REQUEST__INIT;
    uint8_t bytes[8192];

    req.wire_major = WIRE_MAJOR;
    req.wire_minor = WIRE_MINOR;
    req.ticket = (char *)ticket;
    req.pid = (uint32_t)getpid();
    req.hostname = (char *)"test";
    req.program = (char *)"soak";
    req.bound = true;
    if (gpupool__attach_request__get_packed_size(&req) > sizeof(bytes))
        return gp_err_set(err, -E2BIG, "the ticket is too long");
    return gp_msg_send(fd, bytes, gpupool__attach_request__pack(&req, bytes), soon(),
                       err);
}

static int
send_proof(int fd, const Gpupool__AttachReply *asked,
           const uint8_t secret[GP_X25519_SIZE], const char *ticket, struct gp_err *err)
{
    Gpupool__AttachProof msg = GPUPOOL__ATTACH_PROOF__INIT;
    uint8_t proof[ATTACH_PROOF_SIZE], bytes[64];
    struct attach_transcript t;

    if (asked->status != GPUPOOL__ATTACH_STATUS__ATTACH_PROVE ||
        asked->proof_nonce.len != ATTACH_NONCE_SIZE ||
        asked->proof_key.len != ATTACH_KEY_SIZE)
        return gp_err_set(err, -EPROTO, "no proof is asked for: %s", asked->message);
    memcpy(t.nonce, asked->proof_nonce.data, sizeof(t.nonce));
    memcpy(t.server_key, asked->proof_key.data, sizeof(t.server_key));
    gp_x25519_public(secret, t.client_key);
    if (attach_transcript_finish(&t, secret, t.server_key, ticket) < 0)
        return gp_err_set(err, -EPROTO, "the server's key is none");
    attach_proof_make(&t, proof);
    msg.proof.data = proof;
    msg.proof.len = sizeof(proof);
    return gp_msg_send(fd, bytes, gpupool__attach_proof__pack(&msg, bytes), soon(),
                       err);
}

/* The next frame that is no sign of life of a worker that was kept from its work. */
static int
receive_frame(int fd, struct wire_rep *ret_head, uint8_t *ret_body, size_t size)
{
    do {
        size_t rest;

        if (recv(fd, ret_head, sizeof(*ret_head), MSG_WAITALL) != sizeof(*ret_head))
            return -EIO;
        rest = ret_head->size - sizeof(*ret_head);
        if (ret_head->size < sizeof(*ret_head) || rest > size ||
            recv(fd, ret_body, rest, MSG_WAITALL) != (ssize_t)rest)
            return -EIO;
    } while ((ret_head->flags & WIRE_F_EVENT) && ret_head->call == WIRE_EVENT_CREDIT);
    return 0;
}

/* One call: the number comes back. */
static int
ping(int fd, struct gp_err *err)
{
    struct {
        uint32_t size;
        uint16_t call, flags;
        uint32_t seq, ctx;
        uint64_t value;
    } frame = {sizeof(frame), PING, 2, 1, 0, 4711};
    uint8_t body[REPLY_MAX];
    struct wire_rep head;

    if (write(fd, &frame, sizeof(frame)) != sizeof(frame) ||
        receive_frame(fd, &head, body, sizeof(body)) < 0)
        return gp_err_set(err, -EIO, "the connection ended at the first call");
    if (head.call == PING && head.result == 0 &&
        head.size >= sizeof(head) + sizeof(frame.value) &&
        memcmp(body, &frame.value, sizeof(frame.value)) == 0)
        return 0;
    return gp_err_set(
        err, -EPROTO,
        "a wrong answer to the first call: %u bytes, call %#x, flags %#x, "
        "result %d",
        head.size, head.call, head.flags, head.result);
}

static int
attach(const Gpupool__Ctl__CtlTicket *ticket, const uint8_t secret[GP_X25519_SIZE],
       struct gp_err *err)
{
    CLEANUP_FD int fd = -1;
    Gpupool__AttachReply *asked = NULL, *reply = NULL;
    int r = gp_net_connect(ticket->endpoint, 0, soon(), true, &fd, err);

    if (r >= 0)
        r = send_request(fd, ticket->text, err);
    if (r >= 0)
        r = receive_reply(fd, &asked, err);
    if (r >= 0)
        r = send_proof(fd, asked, secret, ticket->text, err);
    if (r >= 0)
        r = receive_reply(fd, &reply, err);
    if (r >= 0 && reply->status != GPUPOOL__ATTACH_STATUS__ATTACH_OK)
        r = gp_err_set(err, -EACCES, "refused: %s", reply->message);
    if (r >= 0)
        r = ping(fd, err);
    if (asked)
        gpupool__attach_reply__free_unpacked(asked, NULL);
    if (reply)
        gpupool__attach_reply__free_unpacked(reply, NULL);
    return r;
}

static int
session(bool attached, struct gp_err *err)
{
    CLEANUP(ctl_reply_freep) Gpupool__Ctl__CtlReply *reply = NULL;
    uint8_t secret[GP_X25519_SIZE];
    int r = gp_x25519_new(secret);

    if (r >= 0)
        r = open_session(secret, &reply, err);
    if (r >= 0 && attached)
        r = attach(reply->grant->tickets[0], secret, err);
    return r < 0 ? r : close_session(reply->grant, err);
}

static int
begin(const char *token_file, struct gp_err *err)
{
    CLEANUP_FREE char *token = NULL;
    size_t len;
    int r = gp_file_read(token_file, 4096, &token, &len, err);

    if (r < 0)
        return r;
    token[strcspn(token, "\r\n")] = 0;
    r = ctl_link_open(&scheduler.link, scheduler.address, NULL, NULL, soon(), true,
                      err);
    return r < 0 ? r
                 : ctl_prove(ask, NULL, GPUPOOL__CTL__CTL_ROLE__CTL_ROLE_CLIENT, token,
                             scheduler.address, NULL, err);
}

static int
play(const char *token_file, unsigned long n, bool attached, struct gp_err *err)
{
    int r = begin(token_file, err);

    for (unsigned long i = 0; i < n && r >= 0; i++)
        r = session(attached, err);
    ctl_link_close(&scheduler.link);
    return r;
}

int
main(int argc, char **argv)
{
    struct gp_err err = {0};
    char line[64];
    int r = 0;

    if (argc != 3) {
        fprintf(stderr, "usage: sessions SCHEDULER TOKEN-FILE\n");
        return 2;
    }
    scheduler.address = argv[1];
    while (r >= 0 && fgets(line, sizeof(line), stdin)) {
        bool attached = strncmp(line, "open ", 5) != 0;
        unsigned long n = strtoul(attached ? line : line + 5, NULL, 10);

        r = play(argv[2], n, attached, &err);
        if (r >= 0)
            printf("done %lu\n", n);
        fflush(stdout);
    }
    if (r < 0)
        fprintf(stderr, "sessions: %s\n", gp_err_msg(&err, r));
    return r < 0;
}
