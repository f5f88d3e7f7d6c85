/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_register.h"

#include "control.pb-c.h"
#include "ctl_addresses.h"
#include "ctl_dial.h"
#include "ctl_limits.h"
#include "ctl_proof.h"
#include "gp_audit.h"
#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"
#include "gp_msg.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"
#include "srv.h"
#include "srv_arbiter.h"
#include "srv_health.h"
#include "srv_inventory.h"
#include "srv_pin.h"
#include "srv_report.h"
#include "srv_session.h"
#include "srv_state.h"
#include "srv_worker.h"
#include "ticket_key.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define RETRY_FIRST_MS 100
#define RETRY_MAX_MS 2000
#define RETRY_SEVERAL_MS 400
/* A scheduler that has answered nothing for so long, or for three heartbeats: one of
 * several may hang while another leads, its kernel keeps the connection open.  A single
 * one may be as it was, and this host's address another: then the kernel would send
 * to nobody for a quarter of an hour. */
#define UNANSWERED_MS 6000u
#define UNANSWERED_ALONE_MS 15000u
/* A burst of attaching processes becomes one report. */
#define CHANGED_MS 10
/* A difference of the clocks that is half of what a ticket allows for. */
#define CLOCK_WORTH_S 15
#define HEARTBEAT_MS 2000 /* until the scheduler sets another */
#define HEARTBEAT_MIN_MS 10u
#define ID_REGISTER 1

enum reg_state {
    REG_IDLE,       /* waits for the retry timer */
    REG_CONNECTING, /* the thread is at it */
    REG_HELLO,      /* CtlHello sent, when there is a token */
    REG_PROVING,    /* CtlProve sent */
    REG_GREETING,   /* CtlRegister sent */
    REG_UP,
};

struct srv_register {
    struct srv *srv;
    enum reg_state state;
    struct ctl_dial dial; /* while it connects */
    unsigned attempts;    /* in a row that failed */
    struct gp_msg_conn conn;
    bool conn_live;
    struct gp_loop_timer retry;
    struct gp_loop_timer beat;
    struct gp_loop_timer unanswered; /* while a request waits for an answer */
    uint32_t retry_ms;
    uint32_t heartbeat_ms;
    uint32_t closes; /* CtlCloseSession followed on this connection; wraps */
    uint32_t next_id;
    struct srv_ended ended; /* what sessions used that are not known here any more */
    char token[CTL_TOKEN_MAX];
    bool clear_token; /* by choice, for a scheduler of before the proofs */
    struct ctl_transcript transcript;
    bool has_link_key; /* the scheduler has proven @link_key by TLS */
    uint8_t link_key[TLS_PUBLIC_SIZE];
    unsigned at;                        /* which of the schedulers is asked */
    char leader[CTL_ENDPOINT_MAX];      /* named by one that does not lead; or empty */
    char told_leader[CTL_ENDPOINT_MAX]; /* the last one in the log */
    char last_words[256];               /* of the last failure: each is logged once */
};

/* ---- messages ---- */

static void on_unanswered(struct gp_loop_timer *timer);

static void
expect_answer(struct srv_register *reg)
{
    bool several = ctl_addresses_count(reg->srv->conf.scheduler) > 1;
    uint64_t ms =
        gp_max(3 * reg->heartbeat_ms, several ? UNANSWERED_MS : UNANSWERED_ALONE_MS);

    if (!reg->unanswered.loop)
        gp_loop_timer_set(reg->srv->loop, &reg->unanswered,
                          gp_now_ns() + ms * GP_NS_PER_MS, on_unanswered);
}

static int
send_request(struct srv_register *reg, Gpupool__Ctl__CtlRequest *req)
{
    size_t size = gpupool__ctl__ctl_request__get_packed_size(req);
    CLEANUP_FREE uint8_t *buf = NULL;

    if (size > CTL_REQUEST_MAX)
        return -EMSGSIZE;
    buf = malloc(size + 1);
    if (!buf)
        return -ENOMEM;
    gpupool__ctl__ctl_request__pack(req, buf);
    expect_answer(reg);
    return gp_msg_conn_send(&reg->conn, buf, size);
}

static int
send_register(struct srv_register *reg)
{
    Gpupool__Ctl__CtlRegister body = GPUPOOL__CTL__CTL_REGISTER__INIT;
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    CLEANUP(srv_report_fini) struct srv_report rep = {0};
    struct srv *srv = reg->srv;
    uint8_t host_id[GP_HOST_ID_SIZE];
    int r = srv_report_init(&rep, srv, NULL);

    if (r < 0)
        return r;
    body.major = CTL_MAJOR;
    if (reg->clear_token)
        body.token = reg->token;
    body.server = srv->conf.name;
    body.endpoint = srv->endpoint;
    body.local = srv->conf.local;
    if (srv->tls) {
        body.attach_key.data = srv->public;
        body.attach_key.len = sizeof(srv->public);
    }
    body.rdma = (char *)(uintptr_t)srv_inventory_rdma(srv->inventory);
    if (gp_host_id(host_id) == 0)
        body.host_id = (ProtobufCBinaryData){sizeof(host_id), host_id};
    body.fabric = (char *)(uintptr_t)srv_inventory_fabric(srv->inventory);
    body.version = (char *)(uintptr_t)GPUPOOL_VERSION;
    body.driver = srv->conf.driver;
    body.driver_version = srv_inventory_driver_version(srv->inventory);
    body.instance = srv->state->instance;
    body.cards = rep.card_ptrs;
    body.n_cards = rep.n_cards;
    body.sessions = rep.session_ptrs;
    body.n_sessions = rep.n_sessions;
    body.draining = srv->stopping;
    body.pid = (uint32_t)getpid();
    req.id = ID_REGISTER;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_REGISTER_SERVER;
    req.register_server = &body;
    return send_request(reg, &req);
}

/* The token is proven, not sent: who is at the scheduler's address need not be it. */
static int
send_hello(struct srv_register *reg)
{
    Gpupool__Ctl__CtlHello body = GPUPOOL__CTL__CTL_HELLO__INIT;
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    int r = ctl_nonce(reg->transcript.peer_nonce);

    if (r < 0)
        return r;
    reg->transcript.role = GPUPOOL__CTL__CTL_ROLE__CTL_ROLE_SERVER;
    body.role = GPUPOOL__CTL__CTL_ROLE__CTL_ROLE_SERVER;
    body.nonce = (ProtobufCBinaryData){CTL_NONCE_SIZE, reg->transcript.peer_nonce};
    body.server = reg->srv->conf.name;
    req.id = ID_REGISTER;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_HELLO;
    req.hello = &body;
    reg->state = REG_HELLO;
    return send_request(reg, &req);
}

/* Nobody between us and the scheduler has made the TLS. */
static int
link_key_check(const struct srv_register *reg, const uint8_t *key, size_t size,
               struct gp_err *err)
{
    if (!reg->has_link_key ||
        (size == sizeof(reg->link_key) && memcmp(key, reg->link_key, size) == 0))
        return 0;
    return gp_err_set(err, -EKEYREJECTED,
                      "somebody is between us and the scheduler: the key of its TLS is "
                      "not the scheduler's");
}

static int
send_proof(struct srv_register *reg, const Gpupool__Ctl__CtlChallenge *challenge,
           struct gp_err *err)
{
    Gpupool__Ctl__CtlProve body = GPUPOOL__CTL__CTL_PROVE__INIT;
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    uint8_t proof[CTL_PROOF_SIZE];
    int r;

    r = ctl_transcript_take(&reg->transcript, challenge->nonce.data,
                            challenge->nonce.len, challenge->scheduler_key.data,
                            challenge->scheduler_key.len, challenge->signature.data,
                            challenge->signature.len, err);
    if (!r)
        r = link_key_check(reg, reg->transcript.scheduler_key, TICKET_PUB_SIZE, err);
    if (!r)
        r = srv_pin_check(reg->srv, reg->transcript.scheduler_key, TICKET_PUB_SIZE,
                          err);
    if (r < 0)
        return r;
    ctl_proof_make(&reg->transcript, CTL_SIDE_PEER, reg->token, proof);
    body.proof = (ProtobufCBinaryData){sizeof(proof), proof};
    req.id = ID_REGISTER;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_PROVE;
    req.prove = &body;
    reg->state = REG_PROVING;
    return send_request(reg, &req);
}

static int
send_report(struct srv_register *reg)
{
    Gpupool__Ctl__CtlReport body = GPUPOOL__CTL__CTL_REPORT__INIT;
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;
    CLEANUP(srv_report_fini) struct srv_report rep = {0};
    int r = srv_report_init(&rep, reg->srv, &reg->ended);

    if (r < 0)
        return r;
    body.cards = rep.card_ptrs;
    body.n_cards = rep.n_cards;
    body.sessions = rep.session_ptrs;
    body.n_sessions = rep.n_sessions;
    body.draining = reg->srv->stopping;
    body.heartbeat_ms = reg->heartbeat_ms;
    body.closes_followed = UINT64_C(1) + reg->closes;
    reg->next_id = reg->next_id == UINT32_MAX ? ID_REGISTER + 1 : reg->next_id + 1;
    req.id = reg->next_id;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_REPORT;
    req.report = &body;
    r = send_request(reg, &req);
    if (r == 0)
        srv_ended_reported(&reg->ended, &rep);
    return r;
}

/* ---- the link ---- */

static void start_connecting(struct srv_register *reg);

static void
on_retry(struct gp_loop_timer *timer)
{
    start_connecting(container_of(timer, struct srv_register, retry));
}

/* Where there are several schedulers, another takes over within seconds. */
static void
retry_later(struct srv_register *reg)
{
    bool several = ctl_addresses_count(reg->srv->conf.scheduler) > 1;
    uint32_t max = several ? RETRY_SEVERAL_MS : RETRY_MAX_MS;

    reg->retry_ms = gp_min(reg->retry_ms * 2, max);
}

static void
asked_address(const struct srv_register *reg, char *ret, size_t size)
{
    if (reg->leader[0])
        gp_str_copy(ret, size, reg->leader);
    else
        ctl_addresses_nth(reg->srv->conf.scheduler, reg->at, ret, size);
}

/* Tomorrow is another day: sessions go on meanwhile. */
static void
link_down(struct srv_register *reg, const char *words)
{
    char asked[CTL_ENDPOINT_MAX];

    if (strcmp(words, reg->last_words) != 0)
        gp_log_warn("server", "scheduler %s: %s; trying again",
                    reg->srv->conf.scheduler, words);
    gp_str_copy(reg->last_words, sizeof(reg->last_words), words);
    asked_address(reg, asked, sizeof(asked));
    reg->at = ctl_addresses_after(reg->srv->conf.scheduler, reg->at, asked);
    reg->leader[0] = 0;
    gp_loop_timer_del(&reg->beat);
    gp_loop_timer_del(&reg->unanswered);
    if (reg->conn_live)
        gp_msg_conn_fini(&reg->conn);
    reg->conn_live = false;
    reg->state = REG_IDLE;
    gp_loop_timer_set(reg->srv->loop, &reg->retry,
                      gp_now_ns() + ctl_dial_pause_ns(reg->retry_ms * GP_NS_PER_MS),
                      on_retry);
    retry_later(reg);
}

static void
on_unanswered(struct gp_loop_timer *timer)
{
    link_down(container_of(timer, struct srv_register, unanswered),
              "does not answer its reports");
}

static void
on_close(struct gp_msg_conn *conn, int code)
{
    struct srv_register *reg = container_of(conn, struct srv_register, conn);

    link_down(reg, code < 0 ? strerror(-code) : "closed the connection");
}

static void
on_beat(struct gp_loop_timer *timer)
{
    struct srv_register *reg = container_of(timer, struct srv_register, beat);
    int r;

    r = send_report(reg);
    if (r < 0) {
        link_down(reg, strerror(-r));
        return;
    }
    gp_loop_timer_set(reg->srv->loop, &reg->beat,
                      gp_now_ns() + reg->heartbeat_ms * GP_NS_PER_MS, on_beat);
}

/* From now on; it may be told at any time. */
static void
set_heartbeat(struct srv_register *reg, uint32_t ms)
{
    ms = gp_max(ms, HEARTBEAT_MIN_MS);
    if (ms == reg->heartbeat_ms)
        return;
    gp_log_info("server", "reports every %u ms, as the scheduler asks", ms);
    reg->heartbeat_ms = ms;
    gp_loop_timer_set(reg->srv->loop, &reg->beat, gp_now_ns(), on_beat);
}

static void
close_sessions(struct srv_register *reg, const uint64_t *ids, size_t n)
{
    /* Of one that has been closed by a notice the reason is known already. */
    for (size_t i = 0; i < n; i++)
        srv_worker_close_session(reg->srv, ids[i],
                                 "it had ended before this server reported it");
    if (n)
        srv_register_changed(reg);
}

static void
set_draining(struct srv *srv, bool drain)
{
    if (drain != srv->draining) {
        gp_log_info("server", "%s, as the scheduler asks",
                    drain ? "draining" : "no longer draining");
        gp_audit("order", "by", "scheduler", "order", drain ? "drain" : "undrain",
                 NULL);
    }
    srv->draining = drain;
}

/* Tickets are dated by the scheduler's clock. */
static void
compare_clocks(struct srv *srv, uint64_t scheduler_unix)
{
    int64_t ahead = (int64_t)(gp_wall_ns() / GP_NS_PER_S - scheduler_unix);

    if (!scheduler_unix || scheduler_unix > INT64_MAX) /* not said */
        return;
    if (llabs(ahead) < CLOCK_WORTH_S)
        ahead = 0;
    if (ahead && !srv->clock_ahead_s)
        gp_log_warn("server",
                    "the clock of this host is %lld s %s that of the scheduler: "
                    "tickets are refused from 30 s on; set the clocks",
                    llabs(ahead), ahead > 0 ? "ahead of" : "behind");
    else if (!ahead && srv->clock_ahead_s)
        gp_log_info("server", "the clock agrees with that of the scheduler again");
    srv->clock_ahead_s = ahead;
}

static void
on_registered(struct srv_register *reg, const Gpupool__Ctl__CtlRegistered *body)
{
    struct gp_err err = {0};
    int r =
        link_key_check(reg, body->scheduler_key.data, body->scheduler_key.len, &err);

    if (r == 0)
        r = srv_pin_take(reg->srv, body->scheduler_key.data, body->scheduler_key.len,
                         &err);

    if (r < 0) {
        link_down(reg, gp_err_msg(&err, r));
        return;
    }
    reg->state = REG_UP;
    reg->retry_ms = RETRY_FIRST_MS;
    reg->last_words[0] = 0;
    if (body->heartbeat_ms)
        reg->heartbeat_ms = gp_max(body->heartbeat_ms, HEARTBEAT_MIN_MS);
    gp_audit("register", "scheduler", reg->srv->conf.scheduler, "server",
             reg->srv->conf.name, NULL);
    gp_log_info("server", "registered with scheduler %s as %s",
                reg->srv->conf.scheduler, reg->srv->conf.name);
    compare_clocks(reg->srv, body->now_unix);
    set_draining(reg->srv, body->drain);
    gp_loop_timer_set(reg->srv->loop, &reg->beat,
                      gp_now_ns() + reg->heartbeat_ms * GP_NS_PER_MS, on_beat);
    close_sessions(reg, body->close_sessions, body->n_close_sessions);
}

static void
on_challenge(struct srv_register *reg, const Gpupool__Ctl__CtlChallenge *challenge)
{
    struct gp_err err = {0};
    int r = send_proof(reg, challenge, &err);

    if (r < 0)
        link_down(reg, gp_err_msg(&err, r));
}

/* The scheduler knows the token as well: register. */
static void
on_proved(struct srv_register *reg, const Gpupool__Ctl__CtlProved *proved)
{
    int r;

    if (!ctl_proof_holds(&reg->transcript, CTL_SIDE_SCHEDULER, reg->token,
                         proved->proof.data, proved->proof.len)) {
        link_down(reg, "it does not know the server token: not the scheduler");
        return;
    }
    reg->state = REG_GREETING;
    r = send_register(reg);
    if (r < 0)
        link_down(reg, strerror(-r));
}

static void
on_error_reply(struct srv_register *reg, const Gpupool__Ctl__CtlError *error)
{
    char words[256];

    if (reg->state == REG_HELLO &&
        error->code == GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST)
        gp_str_copy(
            words, sizeof(words),
            "it is older than this server and wants the token in clear; upgrade "
            "it first, or set " CTL_CLEAR_TOKEN_ENV "=1 on a network you trust");
    else
        snprintf(words, sizeof(words), "refused: %s",
                 error->words && *error->words ? error->words : "no reason given");
    link_down(reg, words);
}

/* The scheduler that was asked does not lead, and knows who does. */
static void
follow_leader(struct srv_register *reg, const char *leader)
{
    /* It is named again at each try while that one refuses this server. */
    if (strcmp(reg->told_leader, leader) != 0)
        gp_log_info("server", "scheduler %s leads", leader);
    gp_str_copy(reg->told_leader, sizeof(reg->told_leader), leader);
    gp_loop_timer_del(&reg->beat);
    gp_loop_timer_del(&reg->unanswered);
    gp_msg_conn_fini(&reg->conn);
    reg->conn_live = false;
    reg->state = REG_IDLE;
    gp_str_copy(reg->leader, sizeof(reg->leader), leader);
    gp_loop_timer_set(reg->srv->loop, &reg->retry,
                      gp_now_ns() + ctl_dial_pause_ns(reg->retry_ms * GP_NS_PER_MS),
                      on_retry);
    retry_later(reg);
}

/* Only over a link that nobody can have changed. */
static void
follow_keys(struct srv_register *reg, const Gpupool__Ctl__CtlReported *reported)
{
    struct gp_err err = {0};
    int r;

    if (!reg->has_link_key || !reported->n_scheduler_keys)
        return;
    r = srv_pin_follow(reg->srv, reported->scheduler_keys, reported->n_scheduler_keys,
                       &err);
    if (r < 0 && strcmp(reg->last_words, gp_err_msg(&err, r)) != 0) {
        gp_log_warn("server", "%s", gp_err_msg(&err, r));
        gp_str_copy(reg->last_words, sizeof(reg->last_words), gp_err_msg(&err, r));
    }
}

static void
on_reply(struct srv_register *reg, const Gpupool__Ctl__CtlReply *reply)
{
    const Gpupool__Ctl__CtlCloseSession *close;

    switch (reply->body_case) {
    case GPUPOOL__CTL__CTL_REPLY__BODY_CHALLENGE:
        if (reg->state == REG_HELLO)
            on_challenge(reg, reply->challenge);
        break;
    case GPUPOOL__CTL__CTL_REPLY__BODY_PROVED:
        if (reg->state == REG_PROVING)
            on_proved(reg, reply->proved);
        break;
    case GPUPOOL__CTL__CTL_REPLY__BODY_REGISTERED:
        if (reg->state == REG_GREETING)
            on_registered(reg, reply->registered);
        break;
    case GPUPOOL__CTL__CTL_REPLY__BODY_REPORTED:
        follow_keys(reg, reply->reported);
        if (reply->reported->heartbeat_ms && reg->state == REG_UP)
            set_heartbeat(reg, reply->reported->heartbeat_ms);
        compare_clocks(reg->srv, reply->reported->now_unix);
        set_draining(reg->srv, reply->reported->drain);
        close_sessions(reg, reply->reported->close_sessions,
                       reply->reported->n_close_sessions);
        break;
    case GPUPOOL__CTL__CTL_REPLY__BODY_CLOSE_SESSION:
        close = reply->close_session;
        srv_worker_close_session(reg->srv, close->session_id,
                                 close->words ? close->words : "");
        reg->closes++;
        srv_register_changed(reg);
        break;
    default:
        break;
    }
}

static void
on_msg(struct gp_msg_conn *conn, const void *data, size_t len)
{
    struct srv_register *reg = container_of(conn, struct srv_register, conn);
    Gpupool__Ctl__CtlReply *reply = gpupool__ctl__ctl_reply__unpack(NULL, len, data);

    gp_loop_timer_del(&reg->unanswered);
    if (!reply) {
        link_down(reg, "sent what is not a reply");
        return;
    }
    if (reply->error && *reply->error->leader)
        follow_leader(reg, reply->error->leader);
    else if (reply->error)
        on_error_reply(reg, reply->error);
    else
        on_reply(reg, reply);
    gpupool__ctl__ctl_reply__free_unpacked(reply, NULL);
}

/* ---- connecting ---- */

/* The first request.  Where a token is proven, the key is compared before the proof.
 * Without a token the first request registers, and a scheduler with another key would
 * take this server in and lose it again at each try. */
static int
greet(struct srv_register *reg, struct gp_err *err)
{
    int r;

    if (reg->token[0] && !reg->clear_token)
        return send_hello(reg);
    r = reg->has_link_key
            ? srv_pin_check(reg->srv, reg->link_key, sizeof(reg->link_key), err)
            : 0;
    return r < 0 ? r : send_register(reg);
}

static int
use_link(struct srv_register *reg, struct ctl_link *link, struct gp_err *err)
{
    int r = gp_msg_conn_init(&reg->conn, reg->srv->loop, link->fd, CTL_REQUEST_MAX,
                             CTL_REQUEST_MAX * 2, on_msg, on_close);

    if (r < 0)
        return r;
    reg->has_link_key = ctl_link_key(link) != NULL;
    memcpy(reg->link_key, link->key, sizeof(reg->link_key));
    reg->conn.wire = TAKE_PTR(link->wire);
    link->fd = -1;
    reg->conn_live = true;
    reg->closes = 0;
    reg->state = REG_GREETING;
    return greet(reg, err);
}

static void
on_connected(struct ctl_dial *dial, int r, struct ctl_link *link,
             const struct gp_err *why)
{
    struct srv_register *reg = container_of(dial, struct srv_register, dial);
    struct gp_err err = {0};

    if (r < 0) {
        reg->attempts++;
        link_down(reg, gp_err_msg(why, r));
        return;
    }
    reg->attempts = 0;
    r = use_link(reg, link, &err);
    if (r < 0)
        link_down(reg, gp_err_msg(&err, r));
}

/* The scheduler's key is compared where that proves itself, with words for who has set
 * it up anew. */
static int
dial(struct srv_register *reg)
{
    bool several = ctl_addresses_count(reg->srv->conf.scheduler) > 1;
    char target[CTL_ENDPOINT_MAX];

    asked_address(reg, target, sizeof(target));
    return ctl_dial_start(&reg->dial, reg->srv->loop, target,
                          reg->srv->tls_policy != TLS_OFF ? tls_linked() : NULL, NULL,
                          ctl_dial_timeout_ns(reg->attempts, several), on_connected);
}

static void
start_connecting(struct srv_register *reg)
{
    int r;

    reg->state = REG_CONNECTING;
    r = dial(reg);
    if (r < 0)
        link_down(reg, strerror(-r));
}

/* ---- life ---- */

static int
read_token(struct srv_register *reg, struct gp_err *err)
{
    const char *path = reg->srv->conf.token_file;
    CLEANUP_FREE char *text = NULL;
    size_t len;
    int r;

    if (!*path)
        return 0;
    r = gp_file_read(path, CTL_TOKEN_MAX - 1, &text, &len, err);
    if (r < 0)
        return r;
    text[strcspn(text, "\r\n")] = 0;
    if (!*text || *text == '#')
        return gp_err_set(err, -EINVAL, "%s: its first line is no token", path);
    gp_str_copy(reg->token, sizeof(reg->token), text);
    explicit_bzero(text, len);
    reg->clear_token = getenv(CTL_CLEAR_TOKEN_ENV) != NULL;
    if (reg->clear_token)
        gp_log_warn("server",
                    CTL_CLEAR_TOKEN_ENV " is set: the token is sent in clear");
    return 0;
}

/* The next report says what @s has used. */
static void
on_session_ended(struct srv *srv, const struct srv_session *s)
{
    srv_ended_add(&srv->reg->ended, s);
    srv_register_changed(srv->reg);
}

int
srv_register_start(struct srv *srv, struct srv_register **ret, struct gp_err *err)
{
    struct srv_register *reg;
    int r;

    *ret = NULL;
    if (!srv->conf.scheduler[0])
        return 0;
    reg = calloc(1, sizeof(*reg));
    if (!reg)
        return gp_err_set(err, -ENOMEM, "out of memory");
    reg->srv = srv;
    reg->retry_ms = RETRY_FIRST_MS;
    reg->heartbeat_ms = HEARTBEAT_MS;
    reg->next_id = ID_REGISTER;
    r = read_token(reg, err);
    if (r < 0) {
        free(reg);
        return r;
    }
    *ret = reg;
    srv->session_ended = on_session_ended;
    start_connecting(reg);
    return 0;
}

int
srv_register_reload(struct srv_register *reg, struct gp_err *err)
{
    int r = reg ? read_token(reg, err) : 0;

    if (r < 0 || !reg)
        return r;
    if (reg->state == REG_UP && reg->has_link_key &&
        srv_pin_check(reg->srv, reg->link_key, sizeof(reg->link_key), NULL) < 0)
        link_down(reg, "its key is not trusted any more");
    else if (reg->state == REG_IDLE)
        gp_loop_timer_set(reg->srv->loop, &reg->retry, gp_now_ns(), on_retry);
    return 0;
}

void
srv_register_changed(struct srv_register *reg)
{
    uint64_t soon = gp_now_ns() + CHANGED_MS * GP_NS_PER_MS;

    if (reg && reg->state == REG_UP && reg->beat.deadline_ns > soon)
        gp_loop_timer_set(reg->srv->loop, &reg->beat, soon, on_beat);
}

void
srv_register_leave(struct srv_register *reg)
{
    Gpupool__Ctl__CtlLeave body = GPUPOOL__CTL__CTL_LEAVE__INIT;
    Gpupool__Ctl__CtlRequest req = GPUPOOL__CTL__CTL_REQUEST__INIT;

    if (!reg || reg->state != REG_UP)
        return;
    req.id = ++reg->next_id;
    req.body_case = GPUPOOL__CTL__CTL_REQUEST__BODY_LEAVE;
    req.leave = &body;
    send_request(reg, &req);
}

void
srv_register_free(struct srv_register *reg)
{
    if (!reg)
        return;
    gp_loop_timer_del(&reg->retry);
    gp_loop_timer_del(&reg->beat);
    gp_loop_timer_del(&reg->unanswered);
    if (reg->conn_live)
        gp_msg_conn_fini(&reg->conn);
    ctl_dial_cancel(&reg->dial);
    srv_ended_free(&reg->ended);
    reg->srv->session_ended = NULL;
    free(reg);
}

bool
srv_register_connected(const struct srv_register *reg)
{
    return reg && reg->state == REG_UP;
}
