/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_attach.h"

#include "attach.pb-c.h"
#include "attach_proof.h"
#include "gp_audit.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_msg.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"
#include "srv.h"
#include "srv_resume.h"
#include "srv_session.h"
#include "srv_state.h"
#include "srv_worker.h"
#include "srv_worker_conf.h"
#include "ticket_keys.h"
#include "tls_door.h"
#include "tls_record.h"
#include "wire_format.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#define REPLY_MAX 4096

/* A start is 5 to 10 ms of a processor, a little of which is waiting. */
#define SRV_STARTING_PER_CORE 4
#define SRV_STARTING_MIN 8
/* A start that takes longer waits for its card and not for a processor, so it keeps
 * nobody else waiting. */
#define SRV_START_NS (2 * GP_NS_PER_S)
/* A worker that ends before it has started does not say so. */
#define QUEUE_LOOK_NS (100 * GP_NS_PER_MS)

/* Addresses that share one only share the blame for a flood. */
#define CROWD_BUCKETS 1024

struct srv_attach {
    struct srv *srv;
    struct srv_attach *next;
    struct gp_msg_conn conn;
    struct tls_door door;
    struct gp_loop_timer timer;
    bool local;
    bool queued;   /* in srv->queued */
    bool proven;   /* @key is set */
    int fd;        /* taken from conn once the request is whole, else -1 */
    uint64_t from; /* gp_net_peer_hash() */
    char peer[GP_NET_NAME_MAX];
    uint32_t retry_ms;           /* of its refusal, if it came too often */
    Gpupool__AttachRequest *req; /* once it is whole */
    /* Of its ticket, which is good, while the proof is awaited; NULL before. */
    struct ticket_claims *claims;
    uint8_t nonce[ATTACH_NONCE_SIZE];
    uint8_t key[ATTACH_KEY_SIZE]; /* of the attachment */
};

/* An unauthenticated peer can cause as many of these lines as it likes. */
static void
log_refusal(struct srv_attach *a, const char *why)
{
    uint32_t skipped;

    gp_audit_deny("attach-denied", "from", a->peer, "words", why, NULL);

    if (!gp_log_limit_ok(&a->srv->refusal_log, &skipped))
        return;
    gp_log_warn("server", "refused %s: %s", a->peer, why);
    if (skipped)
        gp_log_warn("server", "%u refusals before it were not logged", skipped);
}

static void
attach_unlink(struct srv_attach *a)
{
    struct srv_attach **at = a->queued ? &a->srv->queued : &a->srv->pending;

    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
    if (a->queued)
        a->srv->n_queued--;
    else
        a->srv->n_pending--;
}

static void
attach_free(struct srv_attach *a)
{
    attach_unlink(a);
    gp_loop_timer_del(&a->timer);
    tls_door_fini(&a->door);
    gp_msg_conn_fini(&a->conn);
    if (a->fd >= 0)
        gp_net_close_now(a->fd); /* a worker may have it already */
    gpupool__attach_request__free_unpacked(a->req, NULL);
    free(a->claims);
    explicit_bzero(a->key, sizeof(a->key));
    free(a);
}

/* Tell the client why not, as far as its socket takes it, and let go. */
static void
attach_refuse(struct srv_attach *a, Gpupool__AttachStatus status, const char *words)
{
    Gpupool__AttachReply reply = GPUPOOL__ATTACH_REPLY__INIT;
    uint8_t buf[REPLY_MAX];

    log_refusal(a, words);
    a->srv->refused_total++;
    if (status == GPUPOOL__ATTACH_STATUS__ATTACH_BAD_TICKET ||
        status == GPUPOOL__ATTACH_STATUS__ATTACH_BAD_REQUEST)
        srv_rates_refused(&a->srv->rates, a->from);
    reply.status = status;
    reply.retry_after_ms = a->retry_ms;
    reply.message = (char *)(uintptr_t)words;
    reply.wire_minor = WIRE_MINOR;
    reply.server_version = (char *)(uintptr_t)GPUPOOL_VERSION;
    if (gpupool__attach_reply__get_packed_size(&reply) <= sizeof(buf)) {
        size_t len = gpupool__attach_reply__pack(&reply, buf);

        int fd = a->fd >= 0 ? a->fd : a->conn.src.fd;

        gp_msg_send_over(a->conn.wire, fd, buf, len, gp_now_ns(), NULL);
        shutdown(fd, SHUT_WR);
    }
    attach_free(a);
}

/* @retry_ms is 0: go on.  Otherwise the client came too often and is refused. */
static bool
attach_in_time(struct srv_attach *a, uint32_t retry_ms, const char *what)
{
    char words[128];

    if (!retry_ms)
        return true;
    a->retry_ms = retry_ms;
    snprintf(words, sizeof(words), "too many %s; try again in %u ms", what, retry_ms);
    attach_refuse(a, GPUPOOL__ATTACH_STATUS__ATTACH_LIMIT, words);
    return false;
}

static Gpupool__AttachStatus
status_of(int code)
{
    switch (code) {
    case -EBADMSG:
    case -EKEYREJECTED:
    case -EAGAIN:
    case -EXDEV:
        return GPUPOOL__ATTACH_STATUS__ATTACH_BAD_TICKET;
    case -EKEYEXPIRED:
    case -EKEYREVOKED:
        return GPUPOOL__ATTACH_STATUS__ATTACH_EXPIRED;
    case -EDQUOT:
        return GPUPOOL__ATTACH_STATUS__ATTACH_LIMIT;
    default:
        return GPUPOOL__ATTACH_STATUS__ATTACH_INTERNAL;
    }
}

/* Names come from unauthenticated peers and go into a log: printable, short. */
static void
clean_name(char *dst, size_t size, const char *src)
{
    gp_str_copy(dst, size, src && *src ? src : "?");
    for (char *p = dst; *p; p++) {
        if (*p < 0x20 || *p > 0x7e)
            *p = '?';
    }
}

/* Take the socket out of the event loop, with the keys of its TLS, to hand both to a
 * worker. */
static int
attach_take(struct srv_attach *a, struct tls_keys *ret_tls)
{
    int r = gp_msg_conn_take_fd(&a->conn, &a->fd);

    *ret_tls = (struct tls_keys){0};
    if (r == 0 && a->local)
        gp_net_pass_fds(a->fd, true); /* shared memory comes as descriptors */
    if (r == 0 && a->conn.wire)
        r = tls_record_keys(a->conn.wire, ret_tls);
    return r;
}

/* The client by its request; @program and @hostname are the caller's. */
static struct srv_worker_client
attach_client(const struct srv_attach *a, char program[64], char hostname[64])
{
    const Gpupool__AttachRequest *req = a->req;
    struct srv_worker_client client = {.wire_minor = req->wire_minor,
                                       .cuda_version = req->cuda_version,
                                       .pid = req->pid,
                                       .links = req->links,
                                       .link = req->link,
                                       .device_base = req->device_base,
                                       .payloads = req->payloads,
                                       .resume_s = a->local ? 0 : req->resume_s,
                                       .resume_stripes = req->resume_stripes,
                                       .resume_rdma = req->resume_rdma,
                                       .control = req->control,
                                       .rereads = req->rereads,
                                       .program = program,
                                       .hostname = hostname};

    for (size_t i = 0; i < req->n_transports; i++) {
        client.shm |= a->local && strcmp(req->transports[i], "shm") == 0;
        client.wakefds |= strcmp(req->transports[i], "bells") == 0;
        client.rdma |= !a->local && strcmp(req->transports[i], "rdma") == 0;
    }
    clean_name(program, 64, req->program);
    clean_name(hostname, 64, req->hostname);
    return client;
}

/* Give it a worker. */
static void
attach_start(struct srv_attach *a)
{
    char program[64], hostname[64];
    struct srv_worker_client client = attach_client(a, program, hostname);
    struct srv_session *session = NULL;
    struct srv *srv = a->srv;
    struct gp_err err = {0};
    struct tls_keys tls;
    int r;

    r = attach_take(a, &tls);
    if (r < 0) {
        attach_refuse(a, GPUPOOL__ATTACH_STATUS__ATTACH_BAD_REQUEST,
                      "bytes follow the attach request before it was answered");
        return;
    }
    client.key = a->proven ? a->key : NULL;
    client.tls = &tls;
    r = srv_session_get(srv, a->claims, &session, &err);
    if (r == 0)
        r = srv_worker_start(srv, session, &client, a->fd, &err);
    explicit_bzero(&tls, sizeof(tls));
    if (r < 0) {
        attach_refuse(a, status_of(r), gp_err_msg(&err, r));
        return;
    }
    srv->state->attached_total++;
    gp_audit("attach", "from", a->peer, "who", session->claims.owner, "session",
             session->claims.session, NULL);
    a->fd = -1; /* the worker's */
    attach_free(a);
    srv_changed(srv);
}

/* Whether a further worker may start now. */
static bool
may_start(const struct srv *srv)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned most = gp_max((unsigned)gp_max(cores, 1L) * SRV_STARTING_PER_CORE,
                           (unsigned)SRV_STARTING_MIN);
    uint64_t now = gp_now_ns();
    unsigned n = 0;

    for (const struct srv_worker *w = srv->workers; w; w = w->next)
        n += w->starting_ns && now - w->starting_ns < SRV_START_NS;
    return n < most;
}

static void on_queue_timer(struct gp_loop_timer *timer);

/* A worker has started, or may have ended: the next ones of the queue. */
static void
queue_next(struct srv *srv)
{
    while (srv->queued && may_start(srv)) {
        struct srv_attach *a = srv->queued;

        while (a->next)
            a = a->next;
        if (srv->stopping)
            attach_refuse(a, GPUPOOL__ATTACH_STATUS__ATTACH_DRAINING,
                          "this server is shutting down");
        else
            attach_start(a);
    }
    srv->on_started = srv->queued ? queue_next : NULL;
    if (srv->queued)
        gp_loop_timer_set(srv->loop, &srv->queue_timer, gp_now_ns() + QUEUE_LOOK_NS,
                          on_queue_timer);
}

static void
on_queue_timer(struct gp_loop_timer *timer)
{
    queue_next(container_of(timer, struct srv, queue_timer));
}

/* Client processes that are served or wait for it, of the owner and from the address of
 * @a. */
static void
count_kin(const struct srv_attach *a, unsigned *ret_owner, unsigned *ret_address)
{
    const struct srv *srv = a->srv;

    *ret_owner = *ret_address = 0;
    for (const struct srv_worker *w = srv->workers; w; w = w->next) {
        *ret_owner += strcmp(w->session->claims.owner, a->claims->owner) == 0;
        *ret_address += w->from == a->from;
    }
    for (const struct srv_attach *q = srv->queued; q; q = q->next) {
        *ret_owner += strcmp(q->claims->owner, a->claims->owner) == 0;
        *ret_address += q->from == a->from;
    }
}

/* Whether its owner and its address have less than their share of the server; else it
 * is refused. */
static bool
attach_within_share(struct srv_attach *a)
{
    const struct srv_conf *conf = &a->srv->conf;
    unsigned owner, address;
    char words[320];

    count_kin(a, &owner, &address);
    if (owner >= srv_conf_share(conf, conf->owner_attachments))
        snprintf(words, sizeof(words),
                 "owner %s has %u client processes on this server, the limit for one "
                 "owner: end some, or start gpupool-server with a larger "
                 "--owner-attachments",
                 a->claims->owner, owner);
    else if (address >= srv_conf_share(conf, conf->address_attachments))
        snprintf(words, sizeof(words),
                 "%u client processes from this address are on this server, the limit "
                 "for one address: end some, or start gpupool-server with a larger "
                 "--address-attachments",
                 address);
    else
        return true;
    attach_refuse(a, GPUPOOL__ATTACH_STATUS__ATTACH_LIMIT, words);
    return false;
}

/* The ticket is good, and the client's if it has to be: give it a worker, now or when
 * those before it have theirs.  Nothing more is read from it until then. */
static void
attach_serve(struct srv_attach *a)
{
    struct srv *srv = a->srv;

    if (!attach_in_time(a, srv_rates_owner(&srv->rates, a->claims->owner),
                        "client processes of this owner") ||
        !attach_within_share(a))
        return;
    if (srv->n_workers + srv->n_queued >= srv->conf.max_attachments ||
        (!srv->queued && may_start(srv))) {
        attach_start(a); /* or be refused */
        return;
    }
    gp_loop_timer_del(&a->timer); /* its request was in time */
    attach_unlink(a);
    a->queued = true;
    a->next = srv->queued;
    srv->queued = a;
    srv->n_queued++;
    queue_next(srv);
}

/* Have the client prove that the ticket was made for it. */
static void
attach_challenge(struct srv_attach *a)
{
    Gpupool__AttachReply reply = GPUPOOL__ATTACH_REPLY__INIT;
    uint8_t buf[256];
    int r = getrandom(a->nonce, sizeof(a->nonce), 0) == sizeof(a->nonce) ? 0 : -EIO;

    reply.status = GPUPOOL__ATTACH_STATUS__ATTACH_PROVE;
    reply.proof_nonce.data = a->nonce;
    reply.proof_nonce.len = sizeof(a->nonce);
    reply.proof_key.data = a->srv->public;
    reply.proof_key.len = sizeof(a->srv->public);
    if (r == 0)
        r = gp_msg_conn_send(&a->conn, buf, gpupool__attach_reply__pack(&reply, buf));
    if (r < 0)
        attach_refuse(a, GPUPOOL__ATTACH_STATUS__ATTACH_INTERNAL,
                      "the server cannot ask for the ticket's proof");
}

/* The second message: the proof that was asked for. */
static void
attach_proof(struct srv_attach *a, const void *data, size_t len)
{
    Gpupool__AttachProof *msg = gpupool__attach_proof__unpack(NULL, len, data);
    struct attach_transcript t;
    bool holds = false;

    memcpy(t.client_key, a->claims->client_key, sizeof(t.client_key));
    memcpy(t.server_key, a->srv->public, sizeof(t.server_key));
    memcpy(t.nonce, a->nonce, sizeof(t.nonce));
    if (msg &&
        attach_transcript_finish(&t, a->srv->secret, t.client_key, a->req->ticket) == 0)
        holds = attach_proof_holds(&t, msg->proof.data, msg->proof.len);
    gpupool__attach_proof__free_unpacked(msg, NULL);
    if (holds) {
        attach_key_make(&t, a->key);
        a->proven = true;
        attach_serve(a);
    } else {
        attach_refuse(a, GPUPOOL__ATTACH_STATUS__ATTACH_BAD_TICKET,
                      "the ticket was made for another client: the proof of its secret "
                      "is wrong");
    }
    explicit_bzero(&t, sizeof(t));
}

/* Was the handshake made with the key that the ticket is bound to?  The key's owner may
 * have been given another one's ticket. */
static bool
attach_key_fits(const struct srv_attach *a)
{
    uint8_t key[ATTACH_KEY_SIZE];

    return !a->conn.wire || !a->claims->bound ||
           (attach_identity_read(a->door.identity, a->door.identity_size,
                                 a->srv->public, key) == 0 &&
            memcmp(key, a->claims->client_key, sizeof(key)) == 0);
}

/* A good ticket: is a proof due? */
static void
attach_bound(struct srv_attach *a)
{
    if (!attach_key_fits(a)) {
        attach_refuse(a, GPUPOOL__ATTACH_STATUS__ATTACH_BAD_TICKET,
                      "the ticket was made for another client: the TLS handshake was "
                      "made with another key");
    } else if (a->claims->bound && a->req->bound) {
        attach_challenge(a);
    } else if (a->claims->bound) {
        attach_refuse(
            a, GPUPOOL__ATTACH_STATUS__ATTACH_BAD_TICKET,
            "the ticket is bound to its client and this client does not prove "
            "that it is the one: it lacks the session's secret, or its "
            "libcuda.so.1 is older than the gpupool command (then: gpupool run "
            "--unbound-ticket)");
    } else if (!a->srv->conf.allow_unbound) {
        attach_refuse(a, GPUPOOL__ATTACH_STATUS__ATTACH_BAD_TICKET,
                      "the ticket is not bound to a client, so anybody could use it: "
                      "upgrade the gpupool command and the scheduler, or start "
                      "gpupool-server with --allow-unbound-tickets");
    } else {
        gp_log_warn("server", "%s attaches with a ticket that is not bound to a client",
                    a->peer);
        attach_serve(a);
    }
}

/* A ticket that has just been made is out of its time where the clocks differ. */
static void
blame_clock(const struct srv *srv, int r, struct gp_err *err)
{
    char words[sizeof(err->msg)];

    if ((r != -EKEYEXPIRED && r != -EAGAIN) || !srv->clock_ahead_s)
        return;
    gp_str_copy(words, sizeof(words), err->msg);
    gp_err_set(err, r, "%.400s; the server's clock is %lld s %s the scheduler's", words,
               llabs(srv->clock_ahead_s),
               srv->clock_ahead_s > 0 ? "ahead of" : "behind");
}

static void
attach_request(struct srv_attach *a)
{
    const Gpupool__AttachRequest *req = a->req;
    struct srv *srv = a->srv;
    struct gp_err err = {0};
    int r;

    if (req->links > WIRE_LINKS_MAX || req->link >= gp_max(req->links, 1u) ||
        req->device_base > WIRE_LINKS_MAX * TICKET_SLICES_MAX) {
        attach_refuse(a, GPUPOOL__ATTACH_STATUS__ATTACH_BAD_REQUEST,
                      "the client numbers its servers in a way that cannot be");
        return;
    }
    a->claims = calloc(1, sizeof(*a->claims));
    if (!a->claims)
        r = gp_err_set(&err, -ENOMEM, "no memory for the ticket");
    else if (!srv->keys)
        r = gp_err_set(&err, -EBADMSG,
                       "this server does not know its scheduler's key yet");
    else
        r = ticket_keys_verify(srv->keys, req->ticket, gp_wall_ns() / GP_NS_PER_S,
                               srv->conf.name, a->claims, &err);
    blame_clock(srv, r, &err);
    if (r < 0)
        attach_refuse(a, status_of(r), gp_err_msg(&err, r));
    else
        attach_bound(a);
}

static void
attach_say_ok(struct srv_attach *a)
{
    Gpupool__AttachReply reply = GPUPOOL__ATTACH_REPLY__INIT;
    uint8_t buf[REPLY_MAX];

    reply.status = GPUPOOL__ATTACH_STATUS__ATTACH_OK;
    gp_msg_send_over(a->conn.wire, a->fd, buf, gpupool__attach_reply__pack(&reply, buf),
                     gp_now_ns(), NULL);
}

/* A worker that was there already has the connection; @r < 0: none wanted it. */
static void
attach_passed(struct srv_attach *a, int r, const char *why_not)
{
    if (r < 0) {
        attach_refuse(a,
                      r == -EAGAIN ? GPUPOOL__ATTACH_STATUS__ATTACH_LIMIT
                                   : GPUPOOL__ATTACH_STATUS__ATTACH_BAD_REQUEST,
                      r == -EAGAIN ? "the worker has not taken its connections yet"
                                   : why_not);
        return;
    }
    attach_say_ok(a);
    attach_free(a); /* the worker has its own descriptor */
}

/* A further connection of an attachment: its worker's from now on. */
static void
attach_stripe(struct srv_attach *a, const Gpupool__AttachRequest *req)
{
    struct tls_keys tls;
    int r = attach_take(a, &tls);

    tls.tx.seq++; /* our answer, one record */
    if (r == 0)
        r = req->lane_cookie.len == WIRE_STRIPE_COOKIE
                ? srv_worker_stripe(a->srv, req->lane_cookie.data, req->stripe_round,
                                    req->lane_index, a->fd, &tls)
                : -EINVAL;
    explicit_bzero(&tls, sizeof(tls));
    attach_passed(a, r, "this is no connection that an attachment may still make");
}

/* A connection for copies from another server of the session. */
static void
attach_peer(struct srv_attach *a, const Gpupool__AttachRequest *req)
{
    struct tls_keys tls;
    int r = attach_take(a, &tls);

    tls.tx.seq++; /* our answer, one record */
    if (r == 0)
        r = req->peer_cookie.len == WIRE_PEER_COOKIE
                ? srv_worker_peer(a->srv, req->peer_cookie.data, req->link, a->fd, &tls)
                : -EINVAL;
    explicit_bzero(&tls, sizeof(tls));
    attach_passed(a, r, "this is no server that an attachment waits for");
}

/* The control connection of an attachment.  The worker greets over it at once, so it is
 * answered before; if the worker does not get it, the client finds it closed. */
static void
attach_control(struct srv_attach *a, const Gpupool__AttachRequest *req)
{
    struct srv_worker *w = NULL;
    struct tls_keys tls;
    int r = attach_take(a, &tls);

    if (r == 0)
        r = srv_resume_control(a->srv, req, a->conn.wire != NULL, &w);
    if (r == -EAGAIN) {
        attach_refuse(a, GPUPOOL__ATTACH_STATUS__ATTACH_LIMIT,
                      "the worker has not taken its control connections yet");
    } else if (r < 0) {
        attach_refuse(a, GPUPOOL__ATTACH_STATUS__ATTACH_BAD_REQUEST,
                      "this is no control connection of an attachment");
    } else {
        attach_say_ok(a);
        tls.tx.seq++; /* our answer, one record */
        if (srv_resume_control_give(w, a->fd, &tls) < 0)
            gp_log_info("server", "a control connection did not get to its worker");
        attach_free(a); /* the worker has its own descriptor */
    }
    explicit_bzero(&tls, sizeof(tls));
}

/* A connection for an attachment whose connection broke, which its worker answers when
 * it has it; or one for acknowledgements.  To that one the worker may write at once, so
 * it is answered before. */
static void
attach_resume(struct srv_attach *a, const Gpupool__AttachRequest *req)
{
    struct srv_worker *w = NULL;
    struct tls_keys tls;
    int r = attach_take(a, &tls);

    if (r == 0)
        w = srv_worker_resumes(a->srv, req, a->conn.wire != NULL);
    if (w && req->resume_acks) {
        attach_say_ok(a);
        tls.tx.seq++; /* one record */
    }
    if (w && srv_worker_relink(w, req, a->fd, &tls) < 0)
        gp_log_info("server", "a connection that resumes did not get to its worker");
    explicit_bzero(&tls, sizeof(tls));
    if (w)
        attach_free(a); /* the worker has its own descriptor */
    else
        attach_refuse(
            a, GPUPOOL__ATTACH_STATUS__ATTACH_BAD_TICKET,
            "there is no attachment here whose connection this could replace");
}

/* Not a connection to keep: how did an attachment end? */
static void
attach_ended(struct srv_attach *a, const Gpupool__AttachRequest *req)
{
    Gpupool__AttachReply reply = GPUPOOL__ATTACH_REPLY__INIT;
    const char *words = req->ended_cookie.len == WIRE_ENDING_COOKIE
                            ? srv_ending_find(&a->srv->endings, req->ended_cookie.data)
                            : "";
    uint8_t buf[REPLY_MAX];

    reply.message = (char *)(uintptr_t)words;
    gp_msg_send_over(a->conn.wire, a->conn.src.fd, buf,
                     gpupool__attach_reply__pack(&reply, buf), gp_now_ns(), NULL);
    shutdown(a->conn.src.fd, SHUT_WR);
    attach_free(a);
}

static void
on_msg(struct gp_msg_conn *conn, const void *data, size_t len)
{
    struct srv_attach *a = container_of(conn, struct srv_attach, conn);
    const Gpupool__AttachRequest *req;
    char words[160];

    if (a->queued) {
        attach_refuse(a, GPUPOOL__ATTACH_STATUS__ATTACH_BAD_REQUEST,
                      "bytes follow the attach request before it was answered");
        return;
    }
    if (a->claims) {
        attach_proof(a, data, len);
        return;
    }
    if (!attach_in_time(a, srv_rates_further(&a->srv->rates, a->from),
                        "wrong tickets from this address"))
        return;
    req = a->req = gpupool__attach_request__unpack(NULL, len, data);
    if (!req) {
        attach_refuse(a, GPUPOOL__ATTACH_STATUS__ATTACH_BAD_REQUEST,
                      "this is not an attach request");
    } else if (req->wire_major != WIRE_MAJOR) {
        snprintf(words, sizeof(words),
                 "the client speaks protocol %u, this server %u: install the same "
                 "gpupool version on both",
                 req->wire_major, WIRE_MAJOR);
        attach_refuse(a, GPUPOOL__ATTACH_STATUS__ATTACH_WRONG_VERSION, words);
    } else if (req->wire_minor > WIRE_MINOR) {
        snprintf(
            words, sizeof(words),
            "the client speaks protocol %u.%u, this server %u.%u: a server must not "
            "be older than its clients",
            req->wire_major, req->wire_minor, WIRE_MAJOR, WIRE_MINOR);
        attach_refuse(a, GPUPOOL__ATTACH_STATUS__ATTACH_WRONG_VERSION, words);
    } else if (a->door.clear && a->srv->tls_policy == TLS_REQUIRE) {
        attach_refuse(a, GPUPOOL__ATTACH_STATUS__ATTACH_BAD_REQUEST,
                      "the client speaks clear text, and this server takes only TLS: "
                      "upgrade the client and the scheduler, unset GPUPOOL_TLS, or "
                      "start gpupool-server with --tls prefer");
    } else if (req->ended_cookie.len) {
        attach_ended(a, req);
    } else if (a->srv->stopping) {
        attach_refuse(a, GPUPOOL__ATTACH_STATUS__ATTACH_DRAINING,
                      "this server is shutting down");
    } else if (req->resume_token.len) {
        attach_resume(a, req);
    } else if (req->lane_cookie.len) {
        attach_stripe(a, req);
    } else if (req->control_cookie.len) {
        attach_control(a, req);
    } else if (req->peer_cookie.len) {
        attach_peer(a, req);
    } else if (attach_in_time(a, srv_rates_attach(&a->srv->rates, a->from),
                              "client processes from this address")) {
        attach_request(a);
    }
}

static void
on_close(struct gp_msg_conn *conn, int code)
{
    struct srv_attach *a = container_of(conn, struct srv_attach, conn);

    if (code == -EMSGSIZE)
        srv_rates_refused(&a->srv->rates, a->from);
    if (code == -EMSGSIZE)
        log_refusal(a, "its request is over the limit of 64 KiB");
    else
        gp_log_debug("server", "%s went away before it asked for anything", a->peer);
    attach_free(a);
}

static void
on_deadline(struct gp_loop_timer *timer)
{
    struct srv_attach *a = container_of(timer, struct srv_attach, timer);
    char words[64];

    snprintf(words, sizeof(words), "no whole request within %d ms", SRV_ATTACH_MS);
    log_refusal(a, words);
    a->srv->refused_total++;
    attach_free(a);
}

int
srv_attach_find_psk(void *arg, const void *identity, size_t size, uint8_t *ret_key)
{
    uint8_t client_key[ATTACH_KEY_SIZE];
    struct srv *srv = arg;

    if (attach_identity_read(identity, size, srv->public, client_key) < 0 ||
        attach_psk_make(srv->secret, client_key, identity, ret_key) < 0)
        return -ENOKEY;
    return 0;
}

static int
on_begin(struct gp_msg_conn *conn, uint32_t *ret_events)
{
    struct srv_attach *a = container_of(conn, struct srv_attach, conn);
    struct gp_err err = {0};
    int r = tls_door_begin(&a->door, conn, ret_events, &err);

    if (r < 0 && r != -EAGAIN) {
        log_refusal(a, gp_err_msg(&err, r));
        a->srv->refused_total++;
    }
    return r;
}

/* The oldest connection of the address that has most of them. */
static struct srv_attach *
most_crowded(const struct srv *srv)
{
    uint16_t counts[CROWD_BUCKETS] = {0}, most = 0;
    struct srv_attach *found = NULL;

    for (struct srv_attach *a = srv->pending; a; a = a->next)
        most = gp_max(most, ++counts[a->from % CROWD_BUCKETS]);
    for (struct srv_attach *a = srv->pending; a; a = a->next)
        if (counts[a->from % CROWD_BUCKETS] == most)
            found = a; /* the list is newest first */
    return found;
}

static void
make_room(struct srv *srv)
{
    struct srv_attach *a = most_crowded(srv);
    uint32_t skipped;

    if (gp_log_limit_ok(&srv->crowd_log, &skipped))
        gp_log_warn("server",
                    "refused %s: %u connections wait to attach, and its address has "
                    "the most of them (%u such lines left out)",
                    a->peer, srv->n_pending, skipped);
    srv->refused_total++;
    attach_free(a);
}

/* Whether the connection is closed unread: its address makes too many of them, and an
 * answer to each would serve the flood. */
static bool
too_often(struct srv *srv, int fd, uint64_t from)
{
    char peer[GP_NET_NAME_MAX];
    uint32_t retry_ms = srv_rates_connection(&srv->rates, from), skipped;

    if (!retry_ms)
        return false;
    if (gp_log_limit_ok(&srv->rates.connections_log, &skipped))
        gp_log_warn("server",
                    "%s: too many connections from this address, closed unread; the "
                    "next one is taken in %u ms (%u such lines left out)",
                    gp_net_peer_name(fd, peer, sizeof(peer)), retry_ms, skipped);
    srv->refused_total++;
    return true;
}

void
srv_attach_accept(struct srv *srv, int fd, bool local)
{
    uint64_t from = gp_net_peer_hash(fd);
    struct srv_attach *a;

    if (too_often(srv, fd, from)) {
        close(fd);
        return;
    }
    if (srv->n_pending >= SRV_PENDING_MAX)
        make_room(srv);
    a = calloc(1, sizeof(*a));
    if (!a) {
        close(fd);
        return;
    }
    a->srv = srv;
    a->fd = -1;
    a->local = local;
    a->from = from;
    gp_net_peer_name(fd, a->peer, sizeof(a->peer));
    if (gp_msg_conn_init(&a->conn, srv->loop, fd, SRV_REQUEST_MAX, REPLY_MAX + 4,
                         on_msg, on_close) < 0) {
        close(fd);
        free(a);
        return;
    }
    if (!local && srv->tls) {
        a->door = (struct tls_door){.policy = srv->tls_policy, .ctx = srv->tls};
        a->conn.begin = on_begin;
    }
    a->next = srv->pending;
    srv->pending = a;
    srv->n_pending++;
    gp_loop_timer_set(srv->loop, &a->timer, gp_now_ns() + SRV_ATTACH_MS * GP_NS_PER_MS,
                      on_deadline);
}

void
srv_attach_free_all(struct srv *srv)
{
    gp_loop_timer_del(&srv->queue_timer);
    while (srv->pending)
        attach_free(srv->pending);
    while (srv->queued)
        attach_free(srv->queued);
}
