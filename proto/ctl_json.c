/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_json.h"

#include "ctl_session_id.h"
#include "ticket.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Integers of any type, in the words of json_pack(). */
#define INT(value) ((json_int_t)(value))

/* ------------------------------------------------------------------- words -- */

const char *
ctl_server_state(Gpupool__Ctl__CtlServerState state)
{
    switch (state) {
    case GPUPOOL__CTL__CTL_SERVER_STATE__CTL_ALIVE:
        return "alive";
    case GPUPOOL__CTL__CTL_SERVER_STATE__CTL_DRAINING:
        return "draining";
    default:
        return "dead";
    }
}

const char *
ctl_session_state(const Gpupool__Ctl__CtlSessionStatus *session)
{
    if (session->server_dead)
        return "server-dead";
    if (session->unseen) /* neither its processes nor its lease are known */
        return "unknown";
    if (!session->lease_left_ms)
        return "closing";
    return session->attachments ? "running" : "idle";
}

const char *
ctl_session_class(const Gpupool__Ctl__CtlSessionStatus *session)
{
    return session->session_class == GPUPOOL__CTL__CTL_CLASS__CTL_OFFLINE ? "offline"
                                                                          : "online";
}

const char *
ctl_placement_name(Gpupool__Ctl__CtlPlacement placement)
{
    return placement == GPUPOOL__CTL__CTL_PLACEMENT__CTL_SPREAD ? "spread"
           : placement == GPUPOOL__CTL__CTL_PLACEMENT__CTL_FGD  ? "fgd"
                                                                : "binpack";
}

/* ------------------------------------------------------- servers and cards -- */

static json_t *
uuid_json(const ProtobufCBinaryData *uuid)
{
    char text[TICKET_UUID_TEXT];

    if (uuid->len != TICKET_UUID_SIZE)
        return json_string("");
    ticket_uuid_format(uuid->data, text);
    return json_string(text);
}

/* What servers report: null where whoever answers has had no report. */
static json_t *
reported(bool known, uint64_t value)
{
    return known ? json_integer(INT(value)) : json_null();
}

static json_t *
card_json(const Gpupool__Ctl__CtlCardStatus *status, bool seen)
{
    const Gpupool__Ctl__CtlCard *card = status->card;
    char cc[24];

    snprintf(cc, sizeof(cc), "%u.%u", card->cc_major, card->cc_minor);
    return json_pack(
        "{s:o, s:I, s:s, s:I, s:I, s:I, s:o, s:I, s:o, s:I, s:I, s:s, s:I, s:s, s:b, "
        "s:s}",
        "uuid", uuid_json(&card->uuid), "index", INT(card->index), "name", card->name,
        "memory_bytes", INT(card->memory_bytes), "memory_reserved_bytes",
        INT(card->reserved_bytes), "memory_given_bytes", INT(status->memory_given),
        "memory_used_bytes", reported(seen, card->used_bytes), "core_given_percent",
        INT(status->core_given), "busy_percent", reported(seen, card->busy_percent),
        "slices", INT(status->slices), "sms", INT(card->sms), "compute_capability", cc,
        "island", INT(card->island), "fault", card->fault, "cordoned",
        (int)status->cordoned, "reserved", status->reserved);
}

json_t *
ctl_json_server(const Gpupool__Ctl__CtlServerStatus *server)
{
    json_t *cards = json_array();
    json_t *silent = server->unseen ? json_null() : json_integer(server->silent_ms);

    for (size_t i = 0; i < server->n_cards; i++)
        json_array_append_new(cards, card_json(server->cards[i], !server->unseen));
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:I, s:o, s:s}", "name",
                     server->server, "rdma", server->rdma, "endpoint", server->endpoint,
                     "state", ctl_server_state(server->state), "version",
                     server->version, "driver", server->driver, "driver_version",
                     INT(server->driver_version), "silent_ms", silent, "pid",
                     INT(server->pid), "cards", cards, "fabric", server->fabric);
}

static bool
same_uuid(const ProtobufCBinaryData *a, const ProtobufCBinaryData *b)
{
    return a->len == b->len && !memcmp(a->data, b->data, a->len);
}

static json_t *
share_json(const Gpupool__Ctl__CtlSessionStatus *session,
           const Gpupool__Ctl__CtlSliceUse *use)
{
    return session->unseen ? json_null()
                           : json_real(use ? use->share_permille / 10.0 : 0.0);
}

/* A slice from the card's side. */
static json_t *
part_json(const Gpupool__Ctl__CtlSessionStatus *session, size_t i)
{
    const Gpupool__Ctl__CtlSlice *slice = session->slices[i];
    const Gpupool__Ctl__CtlSliceUse *use = i < session->n_use ? session->use[i] : NULL;

    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:o, s:o}", "session", session->session,
                     "owner", session->owner, "state", ctl_session_state(session),
                     "core_percent", INT(slice->core), "memory_bytes",
                     INT(slice->memory_bytes), "used_bytes",
                     reported(!session->unseen, use ? use->used_bytes : 0),
                     "share_percent", share_json(session, use));
}

static json_t *
parts_json(const Gpupool__Ctl__CtlCard *card, const Gpupool__Ctl__CtlListReply *list)
{
    json_t *parts = json_array();

    for (size_t i = 0; i < list->n_sessions; i++)
        for (size_t k = 0; k < list->sessions[i]->n_slices; k++)
            if (same_uuid(&list->sessions[i]->slices[k]->card_uuid, &card->uuid))
                json_array_append_new(parts, part_json(list->sessions[i], k));
    return parts;
}

json_t *
ctl_json_card(const Gpupool__Ctl__CtlServerStatus *server,
              const Gpupool__Ctl__CtlCardStatus *card,
              const Gpupool__Ctl__CtlListReply *list)
{
    json_t *json = card_json(card, !server->unseen);

    json_object_set_new(json, "server", json_string(server->server));
    json_object_set_new(json, "server_state",
                        json_string(ctl_server_state(server->state)));
    if (list)
        json_object_set_new(json, "parts", parts_json(card->card, list));
    return json;
}

/* ---------------------------------------------------------------- sessions -- */

static json_t *
slice_json(const Gpupool__Ctl__CtlSessionStatus *session, size_t i)
{
    static const Gpupool__Ctl__CtlSliceUse none = GPUPOOL__CTL__CTL_SLICE_USE__INIT;
    const Gpupool__Ctl__CtlSlice *slice = session->slices[i];
    const Gpupool__Ctl__CtlSliceUse *use = i < session->n_use ? session->use[i] : &none;
    bool seen = !session->unseen;

    return json_pack(
        "{s:s, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "server",
        slice->server, "card", uuid_json(&slice->card_uuid), "core_percent",
        INT(slice->core), "core_limit_percent", INT(slice->core_limit), "memory_bytes",
        INT(slice->memory_bytes), "used_bytes", reported(seen, use->used_bytes),
        "high_bytes", reported(seen, use->high_bytes), "moved_bytes",
        reported(seen, use->moved_bytes), "gpu_ns", reported(seen, use->gpu_ns),
        "wait_ns", reported(seen, use->wait_ns), "launches",
        reported(seen, use->launches), "share_percent", share_json(session, use));
}

json_t *
ctl_json_session(const Gpupool__Ctl__CtlSessionStatus *s)
{
    json_t *slices = json_array();
    char id[CTL_SESSION_ID_TEXT];

    ctl_session_id_format(s->session_id, id);
    for (size_t i = 0; i < s->n_slices; i++)
        json_array_append_new(slices, slice_json(s, i));
    return json_pack(
        "{s:s, s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:I, s:o, s:I, s:o}",
        "name", s->session, "id", INT(s->session_id), "id_hex", id, "state",
        ctl_session_state(s), "owner", s->owner, "program", s->program, "policy",
        ticket_policy_name((enum ticket_policy)s->policy), "class",
        ctl_session_class(s), "spatial",
        ticket_spatial_name((enum ticket_spatial)s->spatial), "links", s->links,
        "attachments", reported(!s->unseen, s->attachments), "max_attachments",
        INT(s->max_attachments), "lease_left_ms",
        reported(!s->unseen, s->lease_left_ms), "opened_unix", INT(s->opened_unix),
        "slices", slices);
}

/* ------------------------------------------------------ queue and tenants -- */

json_t *
ctl_json_waiter(const Gpupool__Ctl__CtlWaiter *w)
{
    json_t *held = json_array();

    for (size_t i = 0; i < w->n_held_cards; i++)
        json_array_append_new(held, json_string(w->held_cards[i]));
    return json_pack("{s:I, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:o, s:o}",
                     "position", INT(w->position), "owner", w->owner, "tenant",
                     w->tenant, "priority", w->priority, "program", w->program,
                     "core_percent", INT(w->core), "cards", INT(w->cards),
                     "memory_bytes", INT(w->memory_bytes), "waited_ms",
                     INT(w->waited_ms), "reason", w->reason, "estimate_ms",
                     w->estimated ? json_integer(INT(w->estimate_ms)) : json_null(),
                     "held_cards", held);
}

const char *
ctl_reservation_state(const Gpupool__Ctl__CtlReservation *r, uint64_t unix_s)
{
    if (unix_s >= r->until_unix)
        return "over";
    if (unix_s >= r->from_unix)
        return "now";
    return unix_s >= r->chosen_unix ? "soon" : "planned";
}

json_t *
ctl_json_reservation(const Gpupool__Ctl__CtlReservation *r, uint64_t unix_s)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b}", "name",
                     r->name, "state", ctl_reservation_state(r, unix_s), "owners",
                     r->owners, "servers", r->servers, "cards", INT(r->cards), "kept",
                     INT(r->kept), "from_unix", INT(r->from_unix), "until_unix",
                     INT(r->until_unix), "chosen_unix", INT(r->chosen_unix),
                     "ends_others", (int)r->ends_others);
}

json_t *
ctl_json_tenant(const Gpupool__Ctl__CtlTenantUse *t)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "tenant",
                     t->tenant, "weight", INT(t->weight), "share_ppm",
                     INT(t->share_ppm), "core_percent", INT(t->core), "memory_bytes",
                     INT(t->memory_bytes), "cards", INT(t->cards), "core_quota_percent",
                     INT(t->core_max), "memory_quota_bytes", INT(t->memory_max),
                     "cards_quota", INT(t->cards_max));
}

/* ------------------------------------------------------------------ the pool -- */

json_t *
ctl_json_event(const Gpupool__Ctl__CtlEvent *e)
{
    return json_pack("{s:I, s:I, s:s, s:s, s:s, s:s, s:s}", "serial", INT(e->serial),
                     "unix_ms", INT(e->unix_ms), "kind", e->kind, "session", e->session,
                     "server", e->server, "owner", e->owner, "words", e->words);
}

json_t *
ctl_json_sample(const Gpupool__Ctl__CtlSample *s)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "unix",
                     INT(s->unix_s), "core_percent", INT(s->core), "core_given_percent",
                     INT(s->core_given), "busy_percent", INT(s->busy), "memory_bytes",
                     INT(s->memory_bytes), "memory_given_bytes", INT(s->memory_given),
                     "memory_used_bytes", INT(s->memory_used), "sessions",
                     INT(s->sessions), "waiting", INT(s->waiting));
}

json_t *
ctl_json_other_pool(const Gpupool__Ctl__CtlOtherPool *p)
{
    return json_pack("{s:s, s:s, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:s}", "name",
                     p->pool, "scheduler", p->scheduler, "tried", p->tried, "answers",
                     p->answers, "asked", INT(p->asked), "granted", INT(p->granted),
                     "refused", INT(p->refused), "failed", INT(p->failed), "last_ms",
                     INT(p->last_ms), "words", p->words);
}

json_t *
ctl_json_account(const Gpupool__Ctl__CtlAccount *a)
{
    char day[16] = "";

    if (a->day)
        snprintf(day, sizeof(day), "%04u-%02u-%02u", a->day / 10000, a->day / 100 % 100,
                 a->day % 100);
    return json_pack("{s:s, s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:I, s:I}", "day",
                     day, "owner", a->owner, "tenant", a->tenant, "sessions",
                     INT(a->sessions), "card_seconds", (double)a->core_ms / 1e5,
                     "memory_gib_seconds", (double)a->memory_mib_ms / 1024e3,
                     "slice_seconds", (double)a->slice_ms / 1e3, "gpu_seconds",
                     (double)a->gpu_ns / 1e9, "wait_seconds", (double)a->wait_ns / 1e9,
                     "launches", INT(a->launches), "moved_bytes", INT(a->moved_bytes));
}

/* What is not in the store: a scheduler that follows must have asked for it. */
static json_t *
of_leader(const Gpupool__Ctl__CtlPoolStatus *p, uint64_t value)
{
    return reported(p->leads || p->live, value);
}

json_t *
ctl_json_pool(const Gpupool__Ctl__CtlPoolStatus *p)
{
    return json_pack(
        "{s:s, s:I, s:b, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:o, "
        "s:{s:I, s:I, s:I}, s:{s:I, s:I, s:o}, s:{s:I, s:I, s:o}, "
        "s:{s:o, s:o, s:o}}",
        "version", p->version, "up_ms", INT(p->up_ms), "leads", p->leads, "leader",
        p->leader, "placement", ctl_placement_name(p->placement), "key_id",
        p->scheduler_key_id, "heartbeat_ms", INT(p->heartbeat_ms), "lease_ms",
        INT(p->lease_ms), "cards", INT(p->cards), "sessions", INT(p->sessions),
        "waiting", of_leader(p, p->waiting), "servers", "alive", INT(p->servers_alive),
        "dead", INT(p->servers_dead), "draining", INT(p->servers_draining), "core",
        "total_percent", INT(p->core), "given_percent", INT(p->core_given),
        "busy_percent", of_leader(p, p->busy), "memory", "total_bytes",
        INT(p->memory_bytes), "given_bytes", INT(p->memory_given), "used_bytes",
        of_leader(p, p->memory_used), "sessions_since_start", "opened",
        of_leader(p, p->opened), "refused", of_leader(p, p->refused), "ended",
        of_leader(p, p->ended));
}
