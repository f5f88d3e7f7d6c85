/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of pool servers: register, report, leave. */
#include "gp_audit.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"
#include "sched_auth.h"
#include "sched_commit.h"
#include "sched_conn.h"
#include "sched_crowd.h"
#include "sched_ending.h"
#include "sched_handle.h"
#include "sched_peer.h"
#include "sched_rules.h"
#include "sched_serve.h"
#include "sched_store.h"
#include "ticket_key.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* 64 TiB: what servers say they have is summed up, and shares are parts of the sum. */
#define CARD_MEMORY_MAX (UINT64_C(1) << 46)

/* Session ids of a report that the scheduler does not want to run. */
struct unwanted {
    uint64_t ids[CTL_SERVER_SESSIONS_MAX];
    size_t n;
};

static const char *
bad_name(const char *name)
{
    if (!*name || strlen(name) >= CTL_NAME_MAX)
        return "a server name has 1 to 63 characters";
    for (const char *p = name; *p; p++)
        if (*p <= ' ' || *p > '~' || *p == '"' || *p == '\\')
            return "a server name has no blanks, quotes or control characters";
    return NULL;
}

/* ----------------------------------------------------------------- reports -- */

/* What its server found wrong with a card, or that it is well again. */
static void
take_fault(struct sched *sched, struct sched_card *card, const char *said)
{
    char words[SCHED_FAULT_MAX], text[SCHED_FAULT_MAX + 64];

    gp_str_copy_printable(words, sizeof(words), said);
    if (!strcmp(card->fault ? card->fault : "", words) ||
        sched_pool_set_fault(sched->pool, card, words) < 0)
        return;
    if (*words)
        snprintf(text, sizeof(text), "card %u is out of use: %s", card->facts.index,
                 words);
    else
        snprintf(text, sizeof(text), "card %u accepts sessions again",
                 card->facts.index);
    gp_log_warn("server", "%s: %s", card->server->name, text);
    sched_events_add(&sched->events, *words ? "fault" : "well", NULL,
                     card->server->name, NULL, text);
}

static void
take_card_values(struct sched *sched, struct sched_server *server,
                 Gpupool__Ctl__CtlCard *const *cards, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct sched_card *card;

        if (cards[i]->uuid.len != TICKET_UUID_SIZE)
            continue;
        card = sched_pool_card_find(sched->pool, cards[i]->uuid.data);
        if (!card || card->server != server)
            continue;
        sched_pool_used(
            sched->pool, card,
            gp_min(cards[i]->used_bytes, card->facts.memory + card->facts.reserved),
            gp_min(cards[i]->busy_percent, 100u));
        take_fault(sched, card, cards[i]->fault);
    }
}

static void
take_slice_use(struct sched_part *part, const Gpupool__Ctl__CtlSliceUse *msg)
{
    struct sched_use use = {
        .used_bytes = msg->used_bytes,
        .high_bytes = msg->high_bytes,
        .moved_bytes = msg->moved_bytes,
        .gpu_ns = msg->gpu_ns,
        .wait_ns = msg->wait_ns,
        .launches = msg->launches,
    };

    for (uint32_t i = part->first; i < part->first + part->n_slices; i++)
        if (msg->card_uuid.len == TICKET_UUID_SIZE &&
            !memcmp(msg->card_uuid.data, part->session->slices[i].card->facts.uuid,
                    TICKET_UUID_SIZE))
            sched_session_used(part->session, i, &use, gp_now_ns());
}

static void
take_session_use(struct sched_part *part, const Gpupool__Ctl__CtlSessionUse *use)
{
    part->attachments = gp_min(use->attachments, part->session->max_attachments);
    sched_part_set_links(part, use->links);
    for (size_t i = 0; i < use->n_slices && i < TICKET_SLICES_MAX; i++)
        take_slice_use(part, use->slices[i]);
}

/* Sessions of @server that this report did not name have no workers there.  Only those
 * are gone whose end the server knew when it made the report, which is after @closes
 * notices: a program may have attached to another one since. */
static void
sweep_unreported(struct sched *sched, const struct sched_server *server,
                 uint64_t serial, uint32_t closes)
{
    struct sched_part *part, *next;

    part = sched_sessions_next_on(&sched->sessions, server, NULL);
    for (; part; part = next) {
        next = sched_sessions_next_on(&sched->sessions, server, part);
        if (part->report_serial == serial)
            continue;
        sched_session_unused(part);
        if (part->session->closing && (int32_t)(closes - part->close_number) >= 0)
            sched_session_gone(sched, part);
    }
}

static void
take_sessions(struct sched *sched, struct sched_server *server,
              Gpupool__Ctl__CtlSessionUse *const *uses, size_t n, uint32_t closes,
              struct unwanted *unwanted)
{
    uint64_t serial = sched->next_report++;
    bool unknown = false;

    unwanted->n = 0;
    for (size_t i = 0; i < n && i < CTL_SERVER_SESSIONS_MAX; i++) {
        struct sched_session *s;
        struct sched_part *part;

        s = sched_sessions_find(&sched->sessions, uses[i]->session_id);
        part = s ? sched_session_part(s, server) : NULL;
        if (part && part->gone)
            part = NULL;
        if (part)
            take_session_use(part, uses[i]);
        if (uses[i]->ended)
            continue;
        if (part)
            part->report_serial = serial;
        unknown |= !part;
        if (!part || s->closing)
            unwanted->ids[unwanted->n++] = uses[i]->session_id;
    }
    sweep_unreported(sched, server, serial, closes);
    if (unknown != server->unclean) {
        server->unclean = unknown;
        sched_pool_server_update(sched->pool, server);
    }
}

/* How many notices of closed sessions @server had followed.  One that does not say it
 * is believed to have followed all. */
static uint32_t
closes_followed(const struct sched_server *server, const Gpupool__Ctl__CtlReport *msg)
{
    if (!msg->closes_followed)
        return server->closes;
    return (uint32_t)(msg->closes_followed - 1);
}

void
sched_handle_report(struct sched_conn *conn, uint32_t id,
                    const Gpupool__Ctl__CtlReport *msg)
{
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlReported reported = GPUPOOL__CTL__CTL_REPORTED__INIT;
    struct sched_keys keys = sched_conn_keys(conn->sched);
    struct sched_server *server = conn->server;
    struct unwanted unwanted;

    if (!server) {
        sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_UNREGISTERED,
                          "a report before a registration", NULL);
        return;
    }
    server->seen_ns = gp_now_ns();
    if (msg->heartbeat_ms)
        server->beat_ms = msg->heartbeat_ms;
    take_card_values(conn->sched, server, msg->cards, msg->n_cards);
    take_sessions(conn->sched, server, msg->sessions, msg->n_sessions,
                  closes_followed(server, msg), &unwanted);
    if (server->drain_self != !!msg->draining) {
        server->drain_self = msg->draining;
        sched_pool_server_update(conn->sched->pool, server);
    }
    reported.close_sessions = unwanted.ids;
    reported.n_close_sessions = unwanted.n;
    reported.drain = server->drain_asked;
    reported.scheduler_keys = keys.list;
    reported.n_scheduler_keys = keys.n;
    reported.heartbeat_ms = conn->sched->config.heartbeat_ms;
    reported.now_unix = gp_wall_ns() / GP_NS_PER_S;
    reply.id = id;
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_REPORTED;
    reply.reported = &reported;
    sched_conn_reply(conn, &reply);
}

void
sched_handle_tell_keys(struct sched *sched)
{
    struct sched_keys keys = sched_conn_keys(sched);

    for (struct sched_server *s = sched->pool->servers; s; s = s->next) {
        Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
        Gpupool__Ctl__CtlReported reported = GPUPOOL__CTL__CTL_REPORTED__INIT;

        if (!s->conn)
            continue;
        reported.drain = s->drain_asked;
        reported.scheduler_keys = keys.list;
        reported.n_scheduler_keys = keys.n;
        reported.heartbeat_ms = sched->config.heartbeat_ms;
        reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_REPORTED;
        reply.reported = &reported;
        sched_conn_reply(s->conn, &reply);
    }
}

/* ------------------------------------------------------------ registration -- */

bool
sched_handle_register_allowed(struct sched_conn *conn, uint32_t id, const char *token)
{
    if (sched_auth_check(conn, id, SCHED_MAY_SERVE, token))
        return true;
    gp_log_warn("server", "registration from %s refused: no right token", conn->peer);
    return false;
}

static int
check_register(const struct sched_conn *conn, const Gpupool__Ctl__CtlRegister *msg,
               Gpupool__Ctl__CtlCode *code, struct gp_err *err)
{
    const char *name_error = bad_name(msg->server);

    *code = GPUPOOL__CTL__CTL_CODE__CTL_VERSION;
    if (msg->major != CTL_MAJOR)
        return gp_err_set(err, -EPROTO,
                          "the server speaks version %u of the control protocol, this "
                          "scheduler %u",
                          msg->major, CTL_MAJOR);
    *code = GPUPOOL__CTL__CTL_CODE__CTL_DENIED;
    if (!sched_peer_server_name(conn, msg->server))
        return gp_err_set(err, -EACCES,
                          "this token does not belong to a server of that name "
                          "(--server-tokens-file of the scheduler)");
    *code = GPUPOOL__CTL__CTL_CODE__CTL_BAD_REQUEST;
    if (name_error)
        return gp_err_set(err, -EINVAL, "%s", name_error);
    if (msg->n_cards > CTL_SERVER_CARDS_MAX)
        return gp_err_set(err, -EINVAL, "%zu cards, more than %d", msg->n_cards,
                          CTL_SERVER_CARDS_MAX);
    if (msg->n_sessions > CTL_SERVER_SESSIONS_MAX)
        return gp_err_set(err, -EINVAL, "%zu sessions, more than %d", msg->n_sessions,
                          CTL_SERVER_SESSIONS_MAX);
    if (strlen(msg->endpoint) >= CTL_ENDPOINT_MAX || !strchr(msg->endpoint, ':'))
        return gp_err_set(err, -EINVAL, "the endpoint is not host:port");
    if (*msg->local &&
        (strlen(msg->local) >= CTL_WORD_MAX || strncmp(msg->local, "unix:/", 6) != 0))
        return gp_err_set(err, -EINVAL, "the local endpoint is not unix:/path");
    if (msg->host_id.len && msg->host_id.len != SCHED_HOST_SIZE)
        return gp_err_set(err, -EINVAL, "a host's id of %zu bytes", msg->host_id.len);
    if (msg->attach_key.len && msg->attach_key.len != TICKET_CLIENT_KEY_SIZE)
        return gp_err_set(err, -EINVAL, "a key of %zu bytes", msg->attach_key.len);
    if (strpbrk(msg->endpoint, " \n") || strpbrk(msg->local, " \n"))
        return gp_err_set(err, -EINVAL, "an endpoint has no blanks");
    return 0;
}

static int
facts_from_message(const Gpupool__Ctl__CtlCard *msg, struct sched_card_facts *facts,
                   struct gp_err *err)
{
    memset(facts, 0, sizeof(*facts));
    if (msg->uuid.len != TICKET_UUID_SIZE)
        return gp_err_set(err, -EINVAL, "card %u: a uuid has 16 bytes", msg->index);
    if (!msg->memory_bytes)
        return gp_err_set(err, -EINVAL, "card %u: no memory", msg->index);
    if (msg->memory_bytes > CARD_MEMORY_MAX || msg->reserved_bytes > CARD_MEMORY_MAX ||
        msg->cc_major > 99 || msg->cc_minor > 99)
        return gp_err_set(err, -EINVAL,
                          "card %u: %" PRIu64 " bytes, %" PRIu64
                          " reserved, compute capability %u.%u: no card has that",
                          msg->index, msg->memory_bytes, msg->reserved_bytes,
                          msg->cc_major, msg->cc_minor);
    memcpy(facts->uuid, msg->uuid.data, TICKET_UUID_SIZE);
    gp_str_copy_printable(facts->name, sizeof(facts->name), msg->name);
    facts->memory = msg->memory_bytes;
    facts->reserved = msg->reserved_bytes;
    facts->sms = msg->sms;
    facts->cc_major = msg->cc_major;
    facts->cc_minor = msg->cc_minor;
    facts->index = msg->index;
    facts->driver_island = msg->island;
    return 0;
}

/* A wildcard host in the endpoint becomes the address we see the server at. */
static void
set_endpoint(struct sched_server *server, const struct sched_conn *conn,
             const char *text)
{
    const char *port = strrchr(text, ':'), *peer_port = strrchr(conn->peer, ':');
    size_t host = (size_t)(port - text);
    bool wild = !host || !strncmp(text, "0.0.0.0:", host + 1) ||
                !strncmp(text, "[::]:", host + 1) || !strncmp(text, "*:", host + 1);

    if (wild && conn->own_user) /* it came over the Unix socket: from this host */
        snprintf(server->endpoint, sizeof(server->endpoint), "127.0.0.1%s", port);
    else if (wild && peer_port)
        snprintf(server->endpoint, sizeof(server->endpoint), "%.*s%s",
                 (int)(peer_port - conn->peer), conn->peer, port);
    else
        gp_str_copy_printable(server->endpoint, sizeof(server->endpoint), text);
}

/* The server object of that name, free to be used by @conn. */
static int
claim_name(struct sched_conn *conn, const Gpupool__Ctl__CtlRegister *msg,
           struct sched_server **ret_server, struct gp_err *err)
{
    struct sched *sched = conn->sched;
    struct sched_server *server = sched_pool_server_find(sched->pool, msg->server);

    if (!server)
        return sched_pool_server_add(sched->pool, msg->server, ret_server, err);
    if (server->conn && server->conn != conn) {
        if (server->instance != msg->instance)
            return gp_err_set(
                err, -EADDRINUSE,
                "another server named %s is connected from %s; give one of "
                "them another --name",
                msg->server, server->conn->peer);
        /* The same process again: its old connection just does not know yet. */
        sched_serve_end(server->conn);
    }
    *ret_server = server;
    return 0;
}

/* Kinds of cards are kept until there are too many, and those are few for the whole
 * pool. */
static int
check_kinds(const struct sched_server *server, unsigned made, struct gp_err *err)
{
    if (server->groups_made + made <= SCHED_SERVER_GROUPS_MAX)
        return 0;
    return gp_err_set(err, -ENOSPC,
                      "server %s has shown more than %d kinds of cards that no other "
                      "has, the most allowed until the scheduler is started again",
                      server->name, SCHED_SERVER_GROUPS_MAX);
}

/* May another server register @card of @owner?  Not while @owner may be about to come
 * back, as after a fail-over or a short loss of its connection: whoever came first
 * would have the card, and the owner would be refused.  Where servers have tokens of
 * their own, no other server decides that one is gone for good; a registration of the
 * owner without the card, or an order of an administrator, does. */
static int
check_owner(const struct sched *sched, const struct sched_server *owner,
            const struct sched_card *card, struct gp_err *err)
{
    uint64_t within =
        (uint64_t)sched->config.dead_after_ms + sched->config.server_return_ms;
    uint64_t away_ms =
        (gp_now_ns() - gp_max(owner->lost_ns, sched->started_ns)) / GP_NS_PER_MS;
    char uuid[TICKET_UUID_TEXT];

    if (owner->conn) /* the pool knows whether it still has the card */
        return 0;
    ticket_uuid_format(card->facts.uuid, uuid);
    if (sched_tokens_has_server(sched->tokens, owner->name))
        return gp_err_set(err, -EEXIST,
                          "card %s belongs to server %s, which has a token of its own "
                          "and is not connected; if it does not come back, gpupool "
                          "forget %s",
                          uuid, owner->name, owner->name);
    if (owner->left || away_ms >= within)
        return 0;
    return gp_err_set(err, -EEXIST,
                      "card %s belongs to server %s, which may come back; try again in "
                      "%" PRIu64 " s",
                      uuid, owner->name, (within - away_ms + 999) / 1000);
}

static int
take_cards(struct sched *sched, struct sched_server *server,
           const Gpupool__Ctl__CtlRegister *msg, struct gp_err *err)
{
    uint64_t groups = sched->pool->groups_made;
    struct sched_card_facts facts;
    struct sched_server *before;
    struct sched_card *card;
    char labels[SCHED_LABELS_MAX];
    struct sched_reach reach = {.zone = sched_rules_zone(sched->rules, server->name),
                                .rdma = *msg->rdma};
    int r = check_kinds(server, 0, err);

    if (r < 0)
        return r;
    sched_rules_labels(sched->rules, server->name, labels, sizeof(labels));
    sched_pool_cards_absent(sched->pool, server);
    r = sched_pool_set_labels(sched->pool, server, labels);
    reach.has_host = msg->host_id.len;
    if (reach.has_host)
        memcpy(reach.host, msg->host_id.data, sizeof(reach.host));
    if (!r)
        r = sched_pool_set_reach(sched->pool, server, &reach);
    gp_str_copy_printable(server->driver_fabric, sizeof(server->driver_fabric),
                          msg->fabric);
    sched_pool_set_fabric(
        sched->pool, server,
        sched_rules_fabric(sched->rules, server->name, server->driver_fabric));
    for (size_t i = 0; !r && i < msg->n_cards; i++) {
        r = facts_from_message(msg->cards[i], &facts, err);
        card = r ? NULL : sched_pool_card_find(sched->pool, facts.uuid);
        before = card ? card->server : server;
        if (!r && before != server)
            r = check_owner(sched, before, card, err);
        facts.tflops = sched_rules_tflops(sched->rules, facts.name);
        facts.island = sched_rules_island(sched->rules, server->name, facts.index,
                                          facts.driver_island);
        if (!r)
            r = sched_pool_card_put(sched->pool, server, &facts, &card, err);
        if (!r)
            r = check_kinds(server, (unsigned)(sched->pool->groups_made - groups), err);
        if (!r)
            take_fault(sched, card, msg->cards[i]->fault);
        if (!r && before != server) /* its record still has the card */
            r = sched_store_put_server(sched->store, before, err);
    }
    server->groups_made += (unsigned)(sched->pool->groups_made - groups);
    if (r < 0)
        sched_pool_cards_absent(sched->pool, server);
    return r;
}

static void
fill_server(struct sched_server *server, struct sched_conn *conn,
            const Gpupool__Ctl__CtlRegister *msg)
{
    set_endpoint(server, conn, msg->endpoint);
    gp_str_copy_printable(server->local, sizeof(server->local), msg->local);
    server->has_attach_key = msg->attach_key.len != 0;
    if (server->has_attach_key)
        memcpy(server->attach_key, msg->attach_key.data, sizeof(server->attach_key));
    gp_str_copy_printable(server->rdma, sizeof(server->rdma), msg->rdma);
    gp_str_copy_printable(server->version, sizeof(server->version), msg->version);
    gp_str_copy_printable(server->driver, sizeof(server->driver), msg->driver);
    server->driver_version = msg->driver_version;
    server->pid = msg->pid;
    server->instance = msg->instance;
    server->drain_self = msg->draining;
    server->registered_unix = gp_wall_ns() / GP_NS_PER_S;
    server->seen_ns = gp_now_ns();
}

static void
reply_registered(struct sched_conn *conn, uint32_t id, struct unwanted *unwanted)
{
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlRegistered body = GPUPOOL__CTL__CTL_REGISTERED__INIT;
    struct sched *sched = conn->sched;

    body.scheduler_key.data = (uint8_t *)ticket_key_pub(conn->key);
    body.scheduler_key.len = TICKET_PUB_SIZE;
    body.scheduler_key_id = (char *)ticket_key_id(conn->key);
    body.heartbeat_ms = conn->server->beat_ms = sched->config.heartbeat_ms;
    body.dead_after_ms = sched->config.dead_after_ms;
    body.close_sessions = unwanted->ids;
    body.n_close_sessions = unwanted->n;
    body.drain = conn->server->drain_asked;
    body.now_unix = gp_wall_ns() / GP_NS_PER_S;
    reply.id = id;
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_REGISTERED;
    reply.registered = &body;
    sched_conn_reply(conn, &reply);
}

static int
do_register(struct sched_conn *conn, const Gpupool__Ctl__CtlRegister *msg,
            struct unwanted *unwanted, Gpupool__Ctl__CtlCode *code, struct gp_err *err)
{
    struct sched *sched = conn->sched;
    struct sched_server *server;
    bool known;
    int r;

    r = check_register(conn, msg, code, err);
    if (r < 0)
        return r;
    *code = GPUPOOL__CTL__CTL_CODE__CTL_CONFLICT;
    if (conn->server && strcmp(conn->server->name, msg->server) != 0)
        return gp_err_set(err, -EINVAL, "this connection is server %s already",
                          conn->server->name);
    known = sched_pool_server_find(sched->pool, msg->server);
    r = claim_name(conn, msg, &server, err);
    if (r < 0)
        return r;
    r = take_cards(sched, server, msg, err);
    if (r < 0) {
        /* One that was never there is not shown as one that is gone, unless it is kept
         * to count the kinds of cards that it made. */
        if (!known && !server->groups_made)
            sched_pool_server_remove(sched->pool, server);
        return r;
    }
    fill_server(server, conn, msg);
    *code = GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL;
    sched_commit_soon(sched);
    r = sched_store_put_server(sched->store, server, err);
    if (r < 0)
        return r;
    if (!conn->server)
        sched_crowd_remove(conn); /* it was counted as a client until now */
    if (server->conn != conn)
        server->closes = 0;
    conn->server = server;
    server->conn = conn;
    server->alive = true;
    server->left = false;
    *code = GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL;
    sched_commit_soon(sched);
    r = sched_store_put_server(sched->store, server, err);
    if (r < 0)
        return r;
    take_sessions(sched, server, msg->sessions, msg->n_sessions, server->closes,
                  unwanted);
    sched_pool_server_update(sched->pool, server);
    return 0;
}

/* A server that is refused comes again each second, for as long as nobody mends it. */
static void
log_refused(struct sched_conn *conn, const char *words)
{
    uint32_t skipped;

    if (gp_log_limit_ok(&conn->sched->refused_log, &skipped))
        gp_log_warn("server", "%s: registration refused: %s (%u such lines left out)",
                    conn->peer, words, skipped);
}

void
sched_handle_register(struct sched_conn *conn, uint32_t id,
                      const Gpupool__Ctl__CtlRegister *msg)
{
    struct gp_err err = {0};
    Gpupool__Ctl__CtlCode code = GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL;
    struct unwanted unwanted;
    int r;

    /* Again, with the token that the decoder read: only its word counts. */
    if (!sched_handle_register_allowed(conn, id, msg->token))
        return;
    r = do_register(conn, msg, &unwanted, &code, &err);
    if (r < 0) {
        log_refused(conn, gp_err_msg(&err, r));
        sched_conn_refuse(conn, id, code, gp_err_msg(&err, r), NULL);
        return;
    }
    sched_events_add(&conn->sched->events, "register", NULL, conn->server->name, NULL,
                     conn->server->endpoint);
    gp_audit("register", "from", conn->peer, "server", conn->server->name, "endpoint",
             conn->server->endpoint, NULL);
    gp_log_info("server",
                "%s: registered from %s, clients attach at %s, %zu %s, "
                "driver %s, %zu %s running",
                conn->server->name, conn->peer, conn->server->endpoint, msg->n_cards,
                gp_plural(msg->n_cards, "card", "cards"), conn->server->driver,
                msg->n_sessions, gp_plural(msg->n_sessions, "session", "sessions"));
    reply_registered(conn, id, &unwanted);
    sched_handle_wait_check(conn->sched);
}

void
sched_handle_leave(struct sched_conn *conn, uint32_t id)
{
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlReported reported = GPUPOOL__CTL__CTL_REPORTED__INIT;
    struct sched_server *server = conn->server;

    if (server) {
        conn->server = NULL;
        sched_crowd_add(conn);
        sched_server_lost(conn->sched, server, "it left the pool");
        server->left = true;
    }
    reply.id = id;
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_REPORTED;
    reply.reported = &reported;
    sched_conn_reply(conn, &reply);
}
