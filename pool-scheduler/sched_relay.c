/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_relay.h"

#include "ctl_call.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"
#include "sched_asker.h"
#include "sched_auth.h"
#include "sched_commit.h"
#include "sched_conn.h"
#include "sched_fed_link.h"
#include "sched_handle.h"
#include "sched_list.h"
#include "sched_list_next.h"
#include "sched_peer.h"
#include "sched_reads.h"
#include "sched_replica.h"
#include "sched_wait.h"
#include "ticket_key.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* `gpupool` waits five seconds for an answer, and then has time to go to the leader. */
#define ASK_NS (2 * GP_NS_PER_S)

struct sched_relay {
    struct sched_fed_link *link; /* NULL: none yet */
    bool answers;                /* it did the last time */
    unsigned n_out;
    struct sched_relay_ask *asks;
    struct sched_relay_stats stats;
    struct gp_log_limit log;
};

/* A request that is out; owned by the relay's list, until done. */
struct sched_relay_ask {
    struct sched_fed_job job;
    struct sched *sched;
    struct sched_fed_link *link; /* a reference */
    Gpupool__Ctl__CtlRequest *req;
    Gpupool__Ctl__CtlAsker asker;
    uint8_t address[GP_NET_PEER_BYTES];
    char user[CTL_OWNER_MAX];
    uint64_t from, begun_ns;
    sched_relay_done *done;
    void *arg;
    struct sched_conn *conn; /* sched_relay_request(): NULL when it is gone */
    struct sched_relay_ask *next, **at;
};

/* -------------------------------------------------------------------- link -- */

/* Zeroed first, since it is compared byte by byte. */
static int
make_config(const struct sched *sched, struct sched_fed_config *config)
{
    const struct ticket_key *const keys[] = {sched->key, sched->old_key};

    memset(config, 0, sizeof(*config));
    gp_str_copy(config->name, sizeof(config->name), "leader");
    gp_str_copy(config->scheduler, sizeof(config->scheduler), sched->replica.leader);
    config->once = true;
    config->clear = sched->tls_policy == TLS_OFF;
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (keys[i])
            memcpy(config->pins.keys[config->pins.n++], ticket_key_pub(keys[i]),
                   TICKET_PUB_SIZE);
    return sched_asker_token(sched->key, config->token);
}

/* The connection to who leads now, with the keys of now. */
static int
use_link(struct sched *sched)
{
    struct sched_relay *relay = sched->relay;
    struct sched_fed_config config;
    struct gp_err err = {0};
    int r = make_config(sched, &config);

    if (!r && relay->link &&
        memcmp(sched_fed_link_config(relay->link), &config, sizeof(config)) != 0) {
        sched_fed_link_unref(TAKE_PTR(relay->link));
        relay->answers = false;
    }
    if (!r && !relay->link)
        r = sched_fed_link_new(sched->loop, &config, &relay->link, &err);
    if (r < 0)
        gp_log_warn("sched", "the leader cannot be asked: %s", gp_err_msg(&err, r));
    explicit_bzero(&config, sizeof(config));
    return r;
}

static bool
link_is_for(const struct sched_relay *relay, const char *leader)
{
    return relay->link &&
           !strcmp(sched_fed_link_config(relay->link)->scheduler, leader);
}

/* --------------------------------------------------------------------- asks -- */

static void
ask_free(struct sched_relay_ask *ask)
{
    if (ask->req)
        gpupool__ctl__ctl_request__free_unpacked(ask->req, NULL);
    ctl_reply_free(ask->job.reply);
    free(ask);
}

/* Of the leader's own state, with which one that does not lead, or that does not take
 * this scheduler's key, cannot answer. */
static bool
is_answer(const struct sched_relay_ask *ask)
{
    const struct sched_fed_job *job = &ask->job;

    if (!job->r)
        return job->reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_LIST ||
               job->reply->body_case == GPUPOOL__CTL__CTL_REPLY__BODY_QUEUE;
    return job->r == -EREMOTE &&
           job->reply->error->code != GPUPOOL__CTL__CTL_CODE__CTL_NOT_LEADER;
}

static void
give(struct sched_relay_ask *ask)
{
    Gpupool__Ctl__CtlReply *reply = ask->job.reply;

    reply->source = GPUPOOL__CTL__CTL_SOURCE__CTL_SOURCE_LEADER;
    reply->age_ms = (gp_now_ns() - ask->begun_ns) / GP_NS_PER_MS + 1;
    ask->done(ask->arg, reply);
}

static void
note_failure(struct sched_relay_ask *ask)
{
    struct sched_relay *relay = ask->sched->relay;
    uint32_t skipped;

    relay->stats.failed++;
    if (relay->link != ask->link) /* of a leader of before */
        return;
    relay->answers = false;
    if (gp_log_limit_ok(&relay->log, &skipped))
        gp_log_info("sched",
                    "%s, which leads, gave no answer: %s (%u such lines left out)",
                    sched_fed_link_config(ask->link)->scheduler,
                    gp_err_msg(&ask->job.err, ask->job.r), skipped);
}

static void
on_done(struct sched_fed_job *job)
{
    struct sched_relay_ask *ask = container_of(job, struct sched_relay_ask, job);
    struct sched_relay *relay = ask->sched->relay;
    struct sched_fed_link *link = ask->link;

    sched_commit_turn(ask->sched);
    *ask->at = ask->next;
    if (ask->next)
        ask->next->at = ask->at;
    relay->n_out--;
    if (is_answer(ask)) {
        relay->stats.answered++;
        relay->answers |= relay->link == link;
        give(ask);
    } else {
        note_failure(ask);
        ask->done(ask->arg, NULL);
    }
    ask_free(ask);
    sched_fed_link_unref(link);
}

static unsigned
count_from(const struct sched_relay *relay, uint64_t from)
{
    unsigned n = 0;

    for (const struct sched_relay_ask *ask = relay->asks; ask; ask = ask->next)
        n += ask->from == from;
    return n;
}

static bool
is_for_leader(const struct sched *sched, const Gpupool__Ctl__CtlRequest *req)
{
    if (req->body_case == GPUPOOL__CTL__CTL_REQUEST__BODY_QUEUE)
        return true;
    if (req->body_case != GPUPOOL__CTL__CTL_REQUEST__BODY_LIST)
        return false;
    switch (req->list->kind) {
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SERVERS:
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_CARDS:
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_SESSIONS:
        return true;
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_EVENTS:
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_HISTORY:
    case GPUPOOL__CTL__CTL_LIST_KIND__CTL_LIST_POOLS:
        return !sched_copy_time(&sched->copy, req->list); /* not copied yet */
    default:
        return false;
    }
}

bool
sched_relay_can(const struct sched *sched, const Gpupool__Ctl__CtlRequest *req)
{
    const struct sched_relay *relay = sched->relay;
    const char *leader = sched->replica.leader;

    /* An old leader whose time is over names nobody. */
    if (!sched->replica.shared || sched->replica.leads || !is_for_leader(sched, req))
        return false;
    /* A later page of the copy: rows have other places at the leader. */
    if (req->body_case == GPUPOOL__CTL__CTL_REQUEST__BODY_LIST &&
        sched_list_next_is_of_copy(req->list))
        return false;
    return relay->answers && link_is_for(relay, leader);
}

/* For whom it is: with no limit of rate here there is none at the leader. */
static void
make_asker(struct sched_relay_ask *ask, const struct sched_conn *who, int fd)
{
    const char *user = sched_peer_user(who);

    gpupool__ctl__ctl_asker__init(&ask->asker);
    gp_str_copy(ask->user, sizeof(ask->user), user ? user : "");
    ask->asker.user = ask->user;
    ask->from = who->from;
    if (!sched_peer_is_admin(who))
        ask->asker.address =
            (ProtobufCBinaryData){gp_net_peer_bytes(fd, ask->address), ask->address};
}

/* The token is the follower's to see: the leader takes its word for it. */
static void
make_request(struct sched_relay_ask *ask, bool own)
{
    Gpupool__Ctl__CtlRequest *req = ask->req;
    char **token = req->body_case == GPUPOOL__CTL__CTL_REQUEST__BODY_LIST
                       ? &req->list->token
                       : &req->queue->token;

    explicit_bzero(*token, strlen(*token));
    ask->job.req = *req;
    ask->job.req.asker = own ? NULL : &ask->asker;
    ask->job.deadline_ns = ask->begun_ns + ASK_NS;
    ask->job.done = on_done;
}

static int
hand_over(struct sched_relay_ask *ask)
{
    struct sched_relay *relay = ask->sched->relay;
    int r = use_link(ask->sched);

    if (!r)
        r = sched_fed_link_add(relay->link, &ask->job);
    if (r < 0)
        return r;
    ask->link = sched_fed_link_ref(relay->link);
    ask->next = relay->asks;
    if (ask->next)
        ask->next->at = &ask->next;
    ask->at = &relay->asks;
    relay->asks = ask;
    relay->n_out++;
    return 0;
}

static struct sched_relay_ask *
ask_new(struct sched *sched, const Gpupool__Ctl__CtlRequest *req,
        sched_relay_done *done, void *arg)
{
    struct sched_relay_ask *ask = calloc(1, sizeof(*ask));

    if (ask)
        ask->req = ctl_message_copy(&req->base);
    if (!ask || !ask->req) {
        free(ask);
        return NULL;
    }
    ask->sched = sched;
    ask->begun_ns = gp_now_ns();
    ask->done = done;
    ask->arg = arg;
    return ask;
}

int
sched_relay_ask_own(struct sched *sched, const Gpupool__Ctl__CtlRequest *req,
                    sched_relay_done *done, void *arg)
{
    struct sched_relay_ask *ask = ask_new(sched, req, done, arg);
    int r;

    if (!ask)
        return -ENOMEM;
    make_request(ask, true);
    r = hand_over(ask);
    if (r < 0)
        ask_free(ask);
    return r;
}

int
sched_relay_ask(const struct sched_conn *who, int fd,
                const Gpupool__Ctl__CtlRequest *req, sched_relay_done *done, void *arg,
                struct sched_relay_ask **ret)
{
    struct sched_relay *relay = who->sched->relay;
    struct sched_relay_ask *ask;
    int r;

    if (relay->n_out >= SCHED_RELAY_MAX ||
        count_from(relay, who->from) >= SCHED_RELAY_PEER_MAX) {
        relay->stats.refused++;
        return -EBUSY;
    }
    ask = ask_new(who->sched, req, done, arg);
    if (!ask)
        return -ENOMEM;
    make_asker(ask, who, fd);
    make_request(ask, false);
    r = hand_over(ask);
    if (r < 0)
        ask_free(ask);
    else
        *ret = ask;
    return r;
}

/* ------------------------------------------------------------------- peers -- */

/* Without the leader: from the copy, or who leads. */
static void
answer_here(struct sched_conn *conn, const Gpupool__Ctl__CtlRequest *req)
{
    if (sched_replica_answers(conn, req))
        sched_reads_later(conn, req);
}

static void
on_peer_answer(void *arg, Gpupool__Ctl__CtlReply *reply)
{
    struct sched_relay_ask *ask = arg;
    struct sched_conn *conn = ask->conn;

    if (!conn)
        return;
    conn->relayed = NULL;
    if (reply) {
        reply->id = ask->req->id;
        sched_conn_reply(conn, reply);
    } else {
        answer_here(conn, ask->req);
    }
    sched_conn_touch(conn);
}

static bool
may_read(struct sched_conn *conn, const Gpupool__Ctl__CtlRequest *req)
{
    return sched_auth_check(conn, req->id, SCHED_MAY_READ,
                            req->body_case == GPUPOOL__CTL__CTL_REQUEST__BODY_LIST
                                ? req->list->token
                                : req->queue->token);
}

bool
sched_relay_request(struct sched_conn *conn, const Gpupool__Ctl__CtlRequest *req)
{
    struct sched_relay_ask *ask;
    int r;

    if (!sched_relay_can(conn->sched, req))
        return false;
    if (!may_read(conn, req))
        return true;
    r = conn->relayed
            ? -EBUSY
            : sched_relay_ask(conn, conn->msg.src.fd, req, on_peer_answer, NULL, &ask);
    if (r == -EBUSY) {
        sched_conn_refuse_until(conn, req->id, 100,
                                "too many questions wait for the scheduler that leads");
        return true;
    }
    if (r < 0)
        return false;
    ask->arg = ask;
    ask->conn = conn;
    conn->relayed = ask;
    return true;
}

void
sched_relay_end(struct sched_conn *conn)
{
    if (conn->relayed)
        conn->relayed->conn = NULL;
    conn->relayed = NULL;
}

/* ----------------------------------------------------------------- lifetime -- */

int
sched_relay_new(struct sched_relay **ret)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : -ENOMEM;
}

/* Links of leaders of before may have questions out, too. */
void
sched_relay_cancel(struct sched_relay *relay)
{
    while (relay && relay->asks)
        sched_fed_link_cancel(relay->asks->link);
}

void
sched_relay_free(struct sched_relay *relay)
{
    if (!relay)
        return;
    sched_fed_link_unref(relay->link);
    free(relay);
}

const struct sched_relay_stats *
sched_relay_stats(const struct sched_relay *relay)
{
    return &relay->stats;
}
