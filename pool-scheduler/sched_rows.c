/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_rows.h"

#include "gp_time.h"

#include <stdio.h>

#define ROOM(array, count) ((array) = calloc((count) + 1, sizeof(*(array))))

bool
sched_rows_init(struct sched_rows *rows, const struct sched_rows_room *room)
{
    *rows = (struct sched_rows){0};
    return ROOM(rows->servers, room->servers) &&
           ROOM(rows->server_list, room->servers) && ROOM(rows->cards, room->cards) &&
           ROOM(rows->card_list, room->cards) && ROOM(rows->facts, room->cards) &&
           ROOM(rows->sessions, room->sessions) &&
           ROOM(rows->session_list, room->sessions) &&
           ROOM(rows->links, room->sessions) && ROOM(rows->slices, room->slices) &&
           ROOM(rows->slice_list, room->slices) && ROOM(rows->uses, room->slices) &&
           ROOM(rows->use_list, room->slices);
}

void
sched_rows_fini(struct sched_rows *rows)
{
    free(rows->servers);
    free(rows->server_list);
    free(rows->cards);
    free(rows->card_list);
    free(rows->facts);
    for (size_t i = 0; rows->links && i < rows->n_sessions; i++)
        free(rows->links[i]);
    free(rows->links);
    free(rows->sessions);
    free(rows->session_list);
    free(rows->slices);
    free(rows->slice_list);
    free(rows->uses);
    free(rows->use_list);
}

/* ----------------------------------------------------------------- servers -- */

/* Why nothing is placed on the card; "": nothing is wrong with it.  After a start no
 * card has been registered yet, which says nothing while its server is away. */
static const char *
fault_of(const struct sched_card *card)
{
    if (!card->present && card->server->alive)
        return "its server does not have it any more";
    return card->fault ? card->fault : "";
}

static void
add_card(struct sched_rows *rows, const struct sched_card *card)
{
    Gpupool__Ctl__CtlCardStatus *msg = &rows->cards[rows->n_cards];
    Gpupool__Ctl__CtlCard *facts = &rows->facts[rows->n_cards];

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
    facts->island = card->facts.island;
    facts->fault = (char *)fault_of(card);
    gpupool__ctl__ctl_card_status__init(msg);
    msg->card = facts;
    msg->core_given = card->core_given;
    msg->memory_given = card->memory_given;
    msg->slices = card->slices;
    msg->slices_max = CTL_SLICES_PER_CARD_MAX;
    msg->cordoned = card->cordoned;
    msg->reserved =
        card->hold && card->hold_words ? (char *)card->hold_words : (char *)"";
    rows->card_list[rows->n_cards++] = msg;
}

static void
server_message(const struct sched_server *server, uint64_t now,
               Gpupool__Ctl__CtlServerStatus *msg)
{
    gpupool__ctl__ctl_server_status__init(msg);
    msg->server = (char *)server->name;
    msg->endpoint = (char *)server->endpoint;
    msg->local = (char *)server->local;
    msg->rdma = (char *)server->rdma;
    msg->fabric = server->fabric ? server->fabric->name : (char *)"";
    msg->version = (char *)server->version;
    msg->driver = (char *)server->driver;
    msg->driver_version = server->driver_version;
    msg->pid = server->pid;
    msg->state = !server->alive ? GPUPOOL__CTL__CTL_SERVER_STATE__CTL_DEAD
                 : server->drain_asked || server->drain_self
                     ? GPUPOOL__CTL__CTL_SERVER_STATE__CTL_DRAINING
                     : GPUPOOL__CTL__CTL_SERVER_STATE__CTL_ALIVE;
    msg->unseen = !server->seen_ns;
    /* Never seen: the longest there is, for clients that do not know `unseen`. */
    msg->silent_ms =
        (uint32_t)gp_min((now - server->seen_ns) / GP_NS_PER_MS, (uint64_t)UINT32_MAX);
}

unsigned
sched_rows_server(struct sched_rows *rows, const struct sched_server *server,
                  unsigned first, unsigned most, uint64_t now)
{
    Gpupool__Ctl__CtlServerStatus *msg = &rows->servers[rows->n_servers];
    unsigned i;

    server_message(server, now, msg);
    msg->cards = &rows->card_list[rows->n_cards];
    for (i = first; i < server->n_cards && msg->n_cards < most; i++)
        if (sched_rows_shows(server->cards[i])) {
            add_card(rows, server->cards[i]);
            msg->n_cards++;
        }
    rows->server_list[rows->n_servers++] = msg;
    return i;
}

/* ---------------------------------------------------------------- sessions -- */

void
sched_rows_slice(const struct sched_session *session, uint32_t i,
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
    msg->card_number = slice->card->facts.index + 1;
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

/* What the attachments go over: a process has one at each server.  NULL: no memory. */
static char *
links_text(const struct sched_session *s)
{
    size_t room = (size_t)s->n_parts * (CTL_WORD_MAX + 2), at = 0;
    char *text = calloc(1, room + 1);

    for (uint32_t i = 0; text && i < s->n_parts; i++)
        if (s->parts[i].links)
            at += (size_t)snprintf(text + at, room - at, "%s%s", at ? "; " : "",
                                   s->parts[i].links);
    return text;
}

static void
session_message(const struct sched_session *s, uint64_t now,
                Gpupool__Ctl__CtlSessionStatus *msg)
{
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
    msg->max_attachments = s->max_attachments;
    msg->lease_left_ms = s->closing || s->lease_end_ns < now
                             ? 0
                             : (uint32_t)gp_min((s->lease_end_ns - now) / GP_NS_PER_MS,
                                                (uint64_t)UINT32_MAX);
    msg->opened_unix = s->opened_unix;
    for (uint32_t i = 0; i < s->n_parts; i++)
        msg->server_dead |= !s->parts[i].server->alive;
    /* The lease of one whose server is dead to this scheduler is its own to know. */
    msg->unseen = !msg->server_dead && sched_session_unseen(s);
}

void
sched_rows_session(struct sched_rows *rows, const struct sched_session *s, uint64_t now)
{
    Gpupool__Ctl__CtlSessionStatus *msg = &rows->sessions[rows->n_sessions];
    char *links = links_text(s);

    session_message(s, now, msg);
    rows->links[rows->n_sessions] = links;
    if (links)
        msg->links = links;
    msg->slices = &rows->slice_list[rows->n_slices];
    msg->use = &rows->use_list[rows->n_slices];
    msg->n_slices = msg->n_use = s->n_slices;
    for (uint32_t i = 0; i < s->n_slices; i++, rows->n_slices++) {
        sched_rows_slice(s, i, &rows->slices[rows->n_slices]);
        use_message(s, i, &rows->uses[rows->n_slices]);
        rows->slice_list[rows->n_slices] = &rows->slices[rows->n_slices];
        rows->use_list[rows->n_slices] = &rows->uses[rows->n_slices];
    }
    rows->session_list[rows->n_sessions++] = msg;
}

/* ----------------------------------------------------------------- tenants -- */

void
sched_rows_tenant(const struct sched_tenants *set, const struct sched_tenant *tenant,
                  Gpupool__Ctl__CtlTenantUse *msg)
{
    gpupool__ctl__ctl_tenant_use__init(msg);
    msg->tenant = (char *)tenant->name;
    msg->weight = tenant->weight;
    msg->core = tenant->used.core;
    msg->memory_bytes = tenant->used.memory;
    msg->cards = tenant->used.cards;
    msg->core_max = tenant->limit.core;
    msg->memory_max = tenant->limit.memory;
    msg->cards_max = tenant->limit.cards;
    msg->share_ppm = (uint32_t)sched_tenant_share(set, tenant);
}
