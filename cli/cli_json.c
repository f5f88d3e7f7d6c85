/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_json.h"

#include "ticket.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>

const char *
cli_server_state(Gpupool__Ctl__CtlServerState state)
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
cli_session_state(const Gpupool__Ctl__CtlSessionStatus *session)
{
    if (session->server_dead)
        return "server-dead";
    if (!session->lease_left_ms)
        return "closing";
    return session->attachments ? "running" : "idle";
}

const char *
cli_session_class(const Gpupool__Ctl__CtlSessionStatus *session)
{
    return session->session_class == GPUPOOL__CTL__CTL_CLASS__CTL_OFFLINE ? "offline"
                                                                          : "online";
}

static json_t *
uuid_json(const ProtobufCBinaryData *uuid)
{
    char text[TICKET_UUID_TEXT];

    if (uuid->len != TICKET_UUID_SIZE)
        return json_string("");
    ticket_uuid_format(uuid->data, text);
    return json_string(text);
}

static json_t *
card_json(const Gpupool__Ctl__CtlCardStatus *status)
{
    const Gpupool__Ctl__CtlCard *card = status->card;

    char cc[24];

    snprintf(cc, sizeof(cc), "%u.%u", card->cc_major, card->cc_minor);
    return json_pack("{s:o, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s}",
                     "uuid", uuid_json(&card->uuid), "index", (json_int_t)card->index,
                     "name", card->name, "memory_bytes", (json_int_t)card->memory_bytes,
                     "memory_reserved_bytes", (json_int_t)card->reserved_bytes,
                     "memory_given_bytes", (json_int_t)status->memory_given,
                     "memory_used_bytes", (json_int_t)card->used_bytes,
                     "core_given_percent", (json_int_t)status->core_given,
                     "busy_percent", (json_int_t)card->busy_percent, "slices",
                     (json_int_t)status->slices, "sms", (json_int_t)card->sms,
                     "compute_capability", cc);
}

static json_t *
server_json(const Gpupool__Ctl__CtlServerStatus *server)
{
    json_t *cards = json_array();

    for (size_t i = 0; i < server->n_cards; i++)
        json_array_append_new(cards, card_json(server->cards[i]));
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:o}", "name",
                     server->server, "rdma", server->rdma, "endpoint", server->endpoint,
                     "state", cli_server_state(server->state), "version",
                     server->version, "driver", server->driver, "driver_version",
                     (json_int_t)server->driver_version, "silent_ms",
                     (json_int_t)server->silent_ms, "pid", (json_int_t)server->pid,
                     "cards", cards);
}

static json_t *
slice_json(const Gpupool__Ctl__CtlSessionStatus *session, size_t i)
{
    static const Gpupool__Ctl__CtlSliceUse none = GPUPOOL__CTL__CTL_SLICE_USE__INIT;
    const Gpupool__Ctl__CtlSlice *slice = session->slices[i];
    const Gpupool__Ctl__CtlSliceUse *use = i < session->n_use ? session->use[i] : &none;

    return json_pack(
        "{s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "server",
        slice->server, "card", uuid_json(&slice->card_uuid), "core_percent",
        (json_int_t)slice->core, "core_limit_percent", (json_int_t)slice->core_limit,
        "memory_bytes", (json_int_t)slice->memory_bytes, "used_bytes",
        (json_int_t)use->used_bytes, "high_bytes", (json_int_t)use->high_bytes,
        "moved_bytes", (json_int_t)use->moved_bytes, "gpu_ns", (json_int_t)use->gpu_ns,
        "wait_ns", (json_int_t)use->wait_ns, "launches", (json_int_t)use->launches,
        "share_percent", use->share_permille / 10.0);
}

static json_t *
session_json(const Gpupool__Ctl__CtlSessionStatus *s)
{
    json_t *slices = json_array();

    for (size_t i = 0; i < s->n_slices; i++)
        json_array_append_new(slices, slice_json(s, i));
    return json_pack(
        "{s:s, s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:o}",
        "name", s->session, "id", (json_int_t)s->session_id, "state",
        cli_session_state(s), "owner", s->owner, "program", s->program, "policy",
        ticket_policy_name((enum ticket_policy)s->policy), "class",
        cli_session_class(s), "spatial",
        ticket_spatial_name((enum ticket_spatial)s->spatial), "links", s->links,
        "attachments", (json_int_t)s->attachments, "max_attachments",
        (json_int_t)s->max_attachments, "lease_left_ms", (json_int_t)s->lease_left_ms,
        "opened_unix", (json_int_t)s->opened_unix, "slices", slices);
}

int
cli_json_print(const Gpupool__Ctl__CtlStatusReply *status)
{
    json_t *servers = json_array(), *sessions = json_array(), *root;
    int r;

    for (size_t i = 0; i < status->n_servers; i++)
        json_array_append_new(servers, server_json(status->servers[i]));
    for (size_t i = 0; i < status->n_sessions; i++)
        json_array_append_new(sessions, session_json(status->sessions[i]));
    root = json_pack("{s:s, s:I, s:s, s:I, s:I, s:s, s:o, s:o}", "version",
                     status->version, "up_ms", (json_int_t)status->up_ms, "placement",
                     status->placement == GPUPOOL__CTL__CTL_PLACEMENT__CTL_SPREAD
                         ? "spread"
                         : "binpack",
                     "heartbeat_ms", (json_int_t)status->heartbeat_ms, "lease_ms",
                     (json_int_t)status->lease_ms, "key_id", status->scheduler_key_id,
                     "servers", servers, "sessions", sessions);
    if (!root)
        return -ENOMEM;
    r = json_dumpf(root, stdout, JSON_INDENT(2) | JSON_SORT_KEYS);
    json_decref(root);
    putchar('\n');
    return r < 0 ? -EIO : 0;
}
