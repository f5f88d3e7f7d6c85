/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_grant.h"

#include "control.pb-c.h"
#include "ctl_limits.h"
#include "gp_err.h"
#include "gp_str.h"
#include "gp_time.h"
#include "sched_draft.h"
#include "sched_session.h"
#include "sched_types.h"
#include "ticket_key.h"

#include <errno.h>
#include <string.h>

/* Tickets that nobody else can use are good for so many leases, but not for longer than
 * this or one lease: each renewal moves the lease, and one in six needs a signature. */
#define TICKET_LEASES 4
#define TICKET_MAX_S 600

/* What of it is on one server. */
struct part {
    struct ticket_claims claims;
    char endpoint[CTL_ENDPOINT_MAX], local[CTL_WORD_MAX];
    uint8_t server_key[TICKET_CLIENT_KEY_SIZE];
    bool has_server_key;
};

struct sched_grant {
    struct sched_draft draft;
    uint32_t request;
    uint32_t unix_s; /* when it was made */
    uint64_t session_id;
    char name[SCHED_SESSION_NAME_MAX];
    bool keyed;
    uint8_t lease_key[CTL_LEASE_KEY_SIZE];
    uint32_t lease_ms, core_limit;
    struct ticket_key *signer;
    uint8_t keys[2][TICKET_PUB_SIZE]; /* the scheduler's that are good */
    size_t n_keys;
    char (*card_names)[CTL_NAME_MAX]; /* one for each slice, in order */
    uint32_t n_slices;
    uint32_t n_parts;
    struct part parts[]; /* in the order of their slices */
};

/* -------------------------------------------------------------------- making -- */

static uint64_t
lease_s(const struct sched_session *session)
{
    return (session->lease_ms + 999) / 1000;
}

/* A ticket's own end matters when the scheduler is away, and must not come before the
 * lease's; a lease that ends earlier is announced to the server. */
static uint64_t
life_s(const struct sched_session *session, bool bound)
{
    uint64_t lease = lease_s(session);

    return bound ? gp_max(lease, gp_min(TICKET_LEASES * lease, (uint64_t)TICKET_MAX_S))
                 : lease;
}

/* No ticket is good beyond the time limit.  What else ends a session may be withdrawn,
 * and it goes on with the tickets that it has. */
static uint64_t
until_limit_s(const struct sched_session *session)
{
    uint64_t now = gp_wall_ns() / GP_NS_PER_S;

    return session->ends_unix ? session->ends_unix - gp_min(session->ends_unix, now)
                              : UINT64_MAX;
}

enum sched_due
sched_grant_due(const struct sched *sched, const struct sched_session *session,
                uint32_t tickets_unix)
{
    uint64_t now = gp_wall_ns() / GP_NS_PER_S, lease = lease_s(session);
    uint64_t end = tickets_unix + life_s(session, session->bound);

    if (now < tickets_unix || now + lease / 2 > end) /* or the clock was set */
        return SCHED_OVERDUE;
    if (now + lease > end ||
        (now >= sched->signs_since_unix && tickets_unix <= sched->signs_since_unix))
        return SCHED_DUE;
    for (uint32_t i = 0; i < session->n_parts; i++)
        if (tickets_unix <= session->parts[i].server->registered_unix)
            return SCHED_DUE;
    return SCHED_NOT_DUE;
}

/* A key that is new is told to the servers before it signs. */
static struct ticket_key *
signer(const struct sched *sched)
{
    return sched->old_key && gp_now_ns() < sched->sign_old_ns ? sched->old_key
                                                              : sched->key;
}

static void
claim_peers(struct ticket_claims *c, const struct sched_session *session)
{
    c->n_peers = session->n_parts > 1 ? session->n_parts : 0;
    for (uint32_t i = 0; i < c->n_peers; i++) {
        const struct sched_server *peer = session->parts[i].server;

        if (peer->has_attach_key)
            memcpy(c->peer_keys[i], peer->attach_key, sizeof(c->peer_keys[i]));
        if (!gp_str_copy(c->peers[i], sizeof(c->peers[i]), peer->endpoint))
            c->peers[i][0] = '\0'; /* copies with it go through the client */
    }
}

static void
claim_slices(struct ticket_claims *c, const struct sched_part *part)
{
    const struct sched_session *session = part->session;

    c->n_slices = part->n_slices;
    for (uint32_t i = 0; i < part->n_slices; i++) {
        const struct sched_slice *slice = &session->slices[part->first + i];

        memcpy(c->slices[i].card_uuid, slice->card->facts.uuid, TICKET_UUID_SIZE);
        c->slices[i].core = slice->core;
        c->slices[i].core_limit = gp_max(session->core_limit, slice->core);
        c->slices[i].memory = slice->memory;
    }
}

static void
claim(struct ticket_claims *c, const struct sched_part *part, const uint8_t *client_key)
{
    const struct sched_session *session = part->session;
    uint64_t now = gp_wall_ns() / GP_NS_PER_S;

    c->session_id = session->id;
    gp_str_copy(c->session, sizeof(c->session), session->name);
    gp_str_copy(c->server, sizeof(c->server), part->server->name);
    gp_str_copy(c->owner, sizeof(c->owner), session->owner->name);
    c->policy = session->policy;
    c->offline = session->offline;
    c->spatial = session->spatial;
    c->max_attachments = session->max_attachments;
    c->not_before = now - SCHED_CLOCK_SKEW_S;
    c->expires = now + gp_min(life_s(session, client_key), until_limit_s(session)) +
                 SCHED_CLOCK_SKEW_S;
    c->bound = client_key;
    if (client_key)
        memcpy(c->client_key, client_key, sizeof(c->client_key));
    claim_peers(c, session);
    claim_slices(c, part);
}

static void
fill_part(struct part *to, const struct sched_part *part, const uint8_t *client_key)
{
    const struct sched_server *server = part->server;

    claim(&to->claims, part, client_key);
    gp_str_copy(to->endpoint, sizeof(to->endpoint), server->endpoint);
    gp_str_copy(to->local, sizeof(to->local), server->local);
    to->has_server_key = server->has_attach_key;
    memcpy(to->server_key, server->attach_key, sizeof(to->server_key));
}

static void
add_key(struct sched_grant *grant, const struct ticket_key *key)
{
    if (key)
        memcpy(grant->keys[grant->n_keys++], ticket_key_pub(key), TICKET_PUB_SIZE);
}

static int grant_pack(const struct sched_draft *draft, uint8_t **ret, size_t *ret_size,
                      struct gp_err *err);

static void
grant_free(struct sched_draft *draft)
{
    sched_grant_free(container_of(draft, struct sched_grant, draft));
}

struct sched_grant *
sched_grant_new(const struct sched *sched, uint32_t request,
                const struct sched_session *session, const uint8_t *client_key,
                bool keyed)
{
    size_t head = sizeof(struct sched_grant) + session->n_parts * sizeof(struct part);
    struct sched_grant *grant =
        calloc(1, head + session->n_slices * sizeof(grant->card_names[0]));

    if (!grant)
        return NULL;
    grant->draft = (struct sched_draft){
        .name = grant->name, .pack = grant_pack, .free = grant_free};
    grant->request = request;
    grant->unix_s = (uint32_t)(gp_wall_ns() / GP_NS_PER_S);
    grant->session_id = session->id;
    gp_str_copy(grant->name, sizeof(grant->name), session->name);
    grant->keyed = keyed;
    memcpy(grant->lease_key, session->lease_key, sizeof(grant->lease_key));
    grant->lease_ms = session->lease_ms;
    grant->core_limit = session->core_limit;
    grant->signer = ticket_key_ref(signer(sched));
    add_key(grant, sched->key);
    add_key(grant, sched->old_key);
    grant->card_names = (void *)((char *)grant + head);
    grant->n_slices = session->n_slices;
    for (uint32_t i = 0; i < session->n_slices; i++)
        gp_str_copy(grant->card_names[i], sizeof(grant->card_names[i]),
                    session->slices[i].card->facts.name);
    grant->n_parts = session->n_parts;
    for (uint32_t i = 0; i < session->n_parts; i++)
        fill_part(&grant->parts[i], &session->parts[i], client_key);
    return grant;
}

void
sched_grant_free(struct sched_grant *grant)
{
    if (!grant)
        return;
    ticket_key_free(grant->signer);
    explicit_bzero(grant->lease_key, sizeof(grant->lease_key));
    free(grant);
}

struct sched_draft *
sched_grant_draft(struct sched_grant *grant)
{
    return grant ? &grant->draft : NULL;
}

/* ------------------------------------------------------------------- message -- */

struct sched_grant_lists {
    char *texts[TICKET_SLICES_MAX];
    Gpupool__Ctl__CtlTicket tickets[TICKET_SLICES_MAX], *ticket_list[TICKET_SLICES_MAX];
    Gpupool__Ctl__CtlSlice slices[TICKET_SLICES_MAX], *slice_list[TICKET_SLICES_MAX];
    ProtobufCBinaryData keys[2];
    uint32_t n_tickets, n_slices;
};

void
sched_grant_lists_free(struct sched_grant_lists *lists)
{
    for (uint32_t i = 0; lists && i < lists->n_tickets; i++)
        free(lists->texts[i]);
    free(lists);
}

static int
add_ticket(struct sched_grant_lists *lists, const struct sched_grant *grant,
           const struct part *part, struct gp_err *err)
{
    Gpupool__Ctl__CtlTicket *msg = &lists->tickets[lists->n_tickets];
    char *text;
    int r = ticket_sign(grant->signer, &part->claims, &text, err);

    if (r < 0)
        return r;
    gpupool__ctl__ctl_ticket__init(msg);
    msg->server = (char *)(uintptr_t)part->claims.server;
    msg->endpoint = (char *)(uintptr_t)part->endpoint;
    msg->local = (char *)(uintptr_t)part->local;
    msg->text = text;
    if (part->has_server_key)
        msg->server_key = (ProtobufCBinaryData){sizeof(part->server_key),
                                                (uint8_t *)(uintptr_t)part->server_key};
    lists->texts[lists->n_tickets] = text;
    lists->ticket_list[lists->n_tickets++] = msg;
    return 0;
}

static void
add_slices(struct sched_grant_lists *lists, const struct sched_grant *grant,
           const struct part *part)
{
    for (uint32_t i = 0; i < part->claims.n_slices; i++) {
        const struct ticket_slice *slice = &part->claims.slices[i];
        Gpupool__Ctl__CtlSlice *msg = &lists->slices[lists->n_slices];

        gpupool__ctl__ctl_slice__init(msg);
        msg->card_uuid = (ProtobufCBinaryData){sizeof(slice->card_uuid),
                                               (uint8_t *)(uintptr_t)slice->card_uuid};
        msg->core = slice->core;
        msg->core_limit = grant->core_limit;
        msg->memory_bytes = slice->memory;
        msg->server = (char *)(uintptr_t)part->claims.server;
        msg->card_name = grant->card_names[lists->n_slices];
        lists->slice_list[lists->n_slices++] = msg;
    }
}

static void
fill_message(const struct sched_grant *grant, struct sched_grant_lists *lists,
             Gpupool__Ctl__CtlGrant *msg)
{
    for (size_t i = 0; i < grant->n_keys; i++)
        lists->keys[i] = (ProtobufCBinaryData){TICKET_PUB_SIZE,
                                               (uint8_t *)(uintptr_t)grant->keys[i]};
    gpupool__ctl__ctl_grant__init(msg);
    msg->session_id = grant->session_id;
    msg->session = (char *)(uintptr_t)grant->name;
    msg->lease_key.data = (uint8_t *)(uintptr_t)grant->lease_key;
    msg->lease_key.len = grant->keyed ? CTL_LEASE_KEY_SIZE : 0;
    msg->lease_ms = grant->lease_ms;
    msg->slices = lists->slice_list;
    msg->n_slices = lists->n_slices;
    msg->tickets = lists->ticket_list;
    msg->n_tickets = lists->n_tickets;
    msg->scheduler_keys = lists->keys;
    msg->n_scheduler_keys = grant->n_keys;
    msg->tickets_unix = grant->unix_s;
}

int
sched_grant_message(const struct sched_grant *grant, Gpupool__Ctl__CtlGrant *msg,
                    struct sched_grant_lists **ret_lists, struct gp_err *err)
{
    CLEANUP(sched_grant_lists_freep)
    struct sched_grant_lists *lists = calloc(1, sizeof(*lists));
    int r = lists ? 0 : -ENOMEM;

    for (uint32_t i = 0; !r && i < grant->n_parts; i++) {
        r = add_ticket(lists, grant, &grant->parts[i], err);
        add_slices(lists, grant, &grant->parts[i]);
    }
    if (r < 0)
        return r;
    fill_message(grant, lists, msg);
    *ret_lists = TAKE_PTR(lists);
    return 0;
}

static int
grant_pack(const struct sched_draft *draft, uint8_t **ret, size_t *ret_size,
           struct gp_err *err)
{
    const struct sched_grant *grant =
        container_of(draft, const struct sched_grant, draft);
    CLEANUP(sched_grant_lists_freep) struct sched_grant_lists *lists = NULL;
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlGrant msg;
    int r = sched_grant_message(grant, &msg, &lists, err);

    if (r < 0)
        return r;
    reply.id = grant->request;
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_GRANT;
    reply.grant = &msg;
    return sched_draft_pack(&reply, ret, ret_size);
}
