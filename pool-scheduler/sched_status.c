/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_status.h"

#include "gp_time.h"
#include "sched_commit.h"
#include "sched_conn.h"
#include "ticket_key.h"

#include <stdio.h>
#include <stdlib.h>

/* One allocation that holds every message of a reply. */
struct arena {
    Gpupool__Ctl__CtlServerStatus *servers, **server_list;
    Gpupool__Ctl__CtlCardStatus *cards, **card_list;
    Gpupool__Ctl__CtlCard *facts;
    Gpupool__Ctl__CtlSessionStatus *sessions, **session_list;
    Gpupool__Ctl__CtlSlice *slices, **slice_list;
    Gpupool__Ctl__CtlSliceUse *uses, **use_list;
    char **links; /* per session */
    size_t n_servers, n_cards, n_sessions, n_slices;
};

static void
slice_message(const struct sched_session *session, uint32_t i,
              Gpupool__Ctl__CtlSlice *msg)
{
    const struct sched_slice *slice = &session->slices[i];

    gpupool__ctl__ctl_slice__init(msg);
    msg->card_uuid.data = (uint8_t *)slice->card->facts.uuid;
    msg->card_uuid.len = TICKET_UUID_SIZE;
    msg->core = slice->core;
    msg->core_limit = session->core_limit;
    msg->memory_bytes = slice->memory;
    msg->server = slice->card->server->name;
    msg->card_name = slice->card->facts.name;
}

static void
use_message(const struct sched_session *session, uint32_t i,
            Gpupool__Ctl__CtlSliceUse *msg)
{
    const struct sched_use *use = &session->use[i];

    gpupool__ctl__ctl_slice_use__init(msg);
    msg->card_uuid.data = (uint8_t *)session->slices[i].card->facts.uuid;
    msg->card_uuid.len = TICKET_UUID_SIZE;
    msg->used_bytes = use->used_bytes;
    msg->high_bytes = use->high_bytes;
    msg->moved_bytes = use->moved_bytes;
    msg->gpu_ns = use->gpu_ns;
    msg->wait_ns = use->wait_ns;
    msg->launches = use->launches;
    msg->share_permille = use->share_permille;
}

void
sched_status_slices(struct sched_status_slices *ret,
                    const struct sched_session *session)
{
    for (uint32_t i = 0; i < session->n_slices; i++) {
        slice_message(session, i, &ret->msgs[i]);
        ret->list[i] = &ret->msgs[i];
    }
}

static size_t
count_slices(const struct sched *sched)
{
    const struct sched_session *s = NULL;
    size_t n = 0;

    while ((s = sched_sessions_next(&sched->sessions, s)))
        n += s->n_slices;
    return n;
}

static void
arena_fini(struct arena *a)
{
    free(a->servers);
    free(a->server_list);
    free(a->cards);
    free(a->card_list);
    free(a->facts);
    for (size_t i = 0; a->links && i < a->n_sessions; i++)
        free(a->links[i]);
    free(a->links);
    free(a->sessions);
    free(a->session_list);
    free(a->slices);
    free(a->slice_list);
    free(a->uses);
    free(a->use_list);
}

#define ARENA_NEW(array, count) ((array) = calloc((count) + 1, sizeof(*(array))))

static bool
arena_init(struct arena *a, const struct sched *sched)
{
    size_t n_slices = count_slices(sched), n_sessions = sched->sessions.by_id.count;
    size_t n_servers = sched->pool->n_servers, n_cards = sched->pool->n_cards;

    *a = (struct arena){0};
    return ARENA_NEW(a->servers, n_servers) && ARENA_NEW(a->server_list, n_servers) &&
           ARENA_NEW(a->cards, n_cards) && ARENA_NEW(a->card_list, n_cards) &&
           ARENA_NEW(a->facts, n_cards) && ARENA_NEW(a->sessions, n_sessions) &&
           ARENA_NEW(a->session_list, n_sessions) && ARENA_NEW(a->slices, n_slices) &&
           ARENA_NEW(a->slice_list, n_slices) && ARENA_NEW(a->uses, n_slices) &&
           ARENA_NEW(a->use_list, n_slices) && ARENA_NEW(a->links, n_sessions);
}

/* What the attachments go over: a process has one at each server.  NULL: no memory. */
static char *
links_text(const struct sched_session *s)
{
    size_t room = (size_t)s->n_parts * (CTL_WORD_MAX + 2), at = 0;
    char *text = calloc(1, room + 1);

    for (uint32_t i = 0; text && i < s->n_parts; i++)
        if (s->parts[i].links[0])
            at += (size_t)snprintf(text + at, room - at, "%s%s", at ? "; " : "",
                                   s->parts[i].links);
    return text;
}

static void
add_card(struct arena *a, const struct sched_card *card)
{
    Gpupool__Ctl__CtlCardStatus *msg = &a->cards[a->n_cards];
    Gpupool__Ctl__CtlCard *facts = &a->facts[a->n_cards];

    gpupool__ctl__ctl_card__init(facts);
    facts->uuid.data = (uint8_t *)card->facts.uuid;
    facts->uuid.len = TICKET_UUID_SIZE;
    facts->name = (char *)card->facts.name;
    facts->memory_bytes = card->facts.memory;
    facts->sms = card->facts.sms;
    facts->cc_major = card->facts.cc_major;
    facts->cc_minor = card->facts.cc_minor;
    facts->index = card->facts.index;
    facts->used_bytes = card->used_bytes;
    facts->busy_percent = card->busy_percent;
    facts->reserved_bytes = card->facts.reserved;
    gpupool__ctl__ctl_card_status__init(msg);
    msg->card = facts;
    msg->core_given = card->core_given;
    msg->memory_given = card->memory_given;
    msg->slices = card->slices;
    msg->slices_max = CTL_SLICES_PER_CARD_MAX;
    a->card_list[a->n_cards++] = msg;
}

static void
add_server(struct arena *a, const struct sched_server *server, uint64_t now)
{
    Gpupool__Ctl__CtlServerStatus *msg = &a->servers[a->n_servers];

    gpupool__ctl__ctl_server_status__init(msg);
    msg->server = (char *)server->name;
    msg->endpoint = (char *)server->endpoint;
    msg->local = (char *)server->local;
    msg->rdma = (char *)server->rdma;
    msg->version = (char *)server->version;
    msg->driver = (char *)server->driver;
    msg->driver_version = server->driver_version;
    msg->pid = server->pid;
    msg->state = !server->alive ? GPUPOOL__CTL__CTL_SERVER_STATE__CTL_DEAD
                 : server->drain_asked || server->drain_self
                     ? GPUPOOL__CTL__CTL_SERVER_STATE__CTL_DRAINING
                     : GPUPOOL__CTL__CTL_SERVER_STATE__CTL_ALIVE;
    /* Never seen since the scheduler started: the longest that is sure. */
    msg->silent_ms =
        (uint32_t)gp_min((now - server->seen_ns) / GP_NS_PER_MS, (uint64_t)UINT32_MAX);
    msg->cards = &a->card_list[a->n_cards];
    for (unsigned i = 0; i < server->n_cards; i++)
        if (server->cards[i]->present || server->cards[i]->slices) {
            add_card(a, server->cards[i]);
            msg->n_cards++;
        }
    a->server_list[a->n_servers++] = msg;
}

static void
add_session(struct arena *a, const struct sched_session *s, uint64_t now)
{
    Gpupool__Ctl__CtlSessionStatus *msg = &a->sessions[a->n_sessions];

    gpupool__ctl__ctl_session_status__init(msg);
    msg->session_id = s->id;
    msg->session = (char *)s->name;
    msg->owner = s->owner->name;
    msg->program = (char *)s->program;
    msg->policy = (Gpupool__Ctl__CtlPolicy)s->policy;
    msg->session_class = s->offline ? GPUPOOL__CTL__CTL_CLASS__CTL_OFFLINE
                                    : GPUPOOL__CTL__CTL_CLASS__CTL_ONLINE;
    msg->spatial = (Gpupool__Ctl__CtlSpatial)s->spatial;
    msg->attachments = sched_session_attachments(s);
    a->links[a->n_sessions] = links_text(s);
    if (a->links[a->n_sessions])
        msg->links = a->links[a->n_sessions];
    msg->max_attachments = s->max_attachments;
    msg->lease_left_ms = s->closing || s->lease_end_ns < now
                             ? 0
                             : (uint32_t)gp_min((s->lease_end_ns - now) / GP_NS_PER_MS,
                                                (uint64_t)UINT32_MAX);
    msg->opened_unix = s->opened_unix;
    for (uint32_t i = 0; i < s->n_parts; i++)
        msg->server_dead |= !s->parts[i].server->alive;
    msg->slices = &a->slice_list[a->n_slices];
    msg->use = &a->use_list[a->n_slices];
    msg->n_slices = msg->n_use = s->n_slices;
    for (uint32_t i = 0; i < s->n_slices; i++, a->n_slices++) {
        slice_message(s, i, &a->slices[a->n_slices]);
        use_message(s, i, &a->uses[a->n_slices]);
        a->slice_list[a->n_slices] = &a->slices[a->n_slices];
        a->use_list[a->n_slices] = &a->uses[a->n_slices];
    }
    a->session_list[a->n_sessions++] = msg;
}

static void
reply_status(struct sched_conn *conn, uint32_t id, bool sessions)
{
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlStatusReply status = GPUPOOL__CTL__CTL_STATUS_REPLY__INIT;
    const struct sched *sched = conn->sched;
    const struct sched_session *s = NULL;
    uint64_t now = gp_now_ns();
    CLEANUP(arena_fini) struct arena a;

    if (!arena_init(&a, sched)) {
        sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL,
                          "out of memory", NULL);
        return;
    }
    for (const struct sched_server *server = sched->pool->servers; server;
         server = server->next)
        add_server(&a, server, now);
    while (sessions && (s = sched_sessions_next(&sched->sessions, s)))
        add_session(&a, s, now);
    status.version = (char *)GPUPOOL_VERSION;
    status.up_ms = (now - sched->started_ns) / GP_NS_PER_MS;
    status.placement = (Gpupool__Ctl__CtlPlacement)sched->config.placement;
    status.servers = a.server_list;
    status.n_servers = a.n_servers;
    status.sessions = a.session_list;
    status.n_sessions = a.n_sessions;
    status.heartbeat_ms = sched->config.heartbeat_ms;
    status.lease_ms = sched->config.lease_ms;
    status.scheduler_key_id = (char *)ticket_key_id(sched->key);
    reply.id = id;
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_STATUS;
    reply.status = &status;
    sched_commit_everything(conn->sched); /* nothing that a crash takes back */
    sched_conn_reply(conn, &reply);
}

void
sched_status_reply(struct sched_conn *conn, uint32_t id)
{
    reply_status(conn, id, true);
}

void
sched_status_reply_servers(struct sched_conn *conn, uint32_t id)
{
    reply_status(conn, id, false);
}
