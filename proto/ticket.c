/* SPDX-License-Identifier: Apache-2.0 */
#include "ticket.h"

#include "control.pb-c.h"
#include "gp_b64.h"
#include "gp_err.h"
#include "gp_str.h"
#include "ticket_key.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char DOMAIN[] = "gpupool-ticket-v1";

/* ------------------------------------------------------------------ rules -- */

/* Names go into logs, file names and tables: printable, no blanks. */
static bool
name_ok(const char *name)
{
    if (!*name)
        return false;
    for (const char *p = name; *p; p++)
        if (*p <= ' ' || *p > '~')
            return false;
    return true;
}

/* Rules that hold for every ticket, when it is signed and when it is read. */
static int
claims_check(const struct ticket_claims *c, struct gp_err *err)
{
    if (!c->session_id || !name_ok(c->session))
        return gp_err_set(err, -EINVAL, "no session name");
    if (!name_ok(c->server))
        return gp_err_set(err, -EINVAL, "no server name");
    if ((unsigned)c->policy >= TICKET_POLICIES)
        return gp_err_set(err, -EINVAL, "unknown policy %u", (unsigned)c->policy);
    if ((unsigned)c->spatial >= TICKET_SPATIALS)
        return gp_err_set(err, -EINVAL, "unknown spatial share %u",
                          (unsigned)c->spatial);
    if (!c->n_slices || c->n_slices > TICKET_SLICES_MAX)
        return gp_err_set(err, -EINVAL, "%u slices, 1 to %d allowed", c->n_slices,
                          TICKET_SLICES_MAX);
    if (c->n_peers > TICKET_SLICES_MAX)
        return gp_err_set(err, -EINVAL, "%u servers, at most %d", c->n_peers,
                          TICKET_SLICES_MAX);
    if (c->expires <= c->not_before)
        return gp_err_set(err, -EINVAL, "expires before it becomes valid");
    if (!c->max_attachments)
        return gp_err_set(err, -EINVAL, "no attachment allowed");
    for (uint32_t i = 0; i < c->n_slices; i++) {
        const struct ticket_slice *s = &c->slices[i];

        if (!s->core || s->core > 100)
            return gp_err_set(err, -EINVAL, "slice %u: core %u %% is not 1..100", i,
                              s->core);
        if (s->core_limit < s->core || s->core_limit > 100)
            return gp_err_set(err, -EINVAL, "slice %u: core limit %u %% is not %u..100",
                              i, s->core_limit, s->core);
        if (!s->memory)
            return gp_err_set(err, -EINVAL, "slice %u: no memory", i);
    }
    return 0;
}

/* ------------------------------------------------------------------- sign -- */

static void
slices_to_message(const struct ticket_claims *c, Gpupool__Ctl__TicketSlice *msgs,
                  Gpupool__Ctl__TicketSlice **list)
{
    for (uint32_t i = 0; i < c->n_slices; i++) {
        const struct ticket_slice *s = &c->slices[i];

        gpupool__ctl__ticket_slice__init(&msgs[i]);
        msgs[i].card_uuid.data = (uint8_t *)s->card_uuid;
        msgs[i].card_uuid.len = TICKET_UUID_SIZE;
        msgs[i].core = s->core;
        msgs[i].core_limit = s->core_limit;
        msgs[i].memory_bytes = s->memory;
        list[i] = &msgs[i];
    }
}

static bool
key_is_set(const uint8_t key[TICKET_CLIENT_KEY_SIZE])
{
    static const uint8_t none[TICKET_CLIENT_KEY_SIZE];

    return memcmp(key, none, sizeof(none)) != 0;
}

/* malloc'ed wire form of the claims. */
static int
claims_pack(const struct ticket_claims *c, const char *key_id, uint8_t **ret,
            size_t *size)
{
    Gpupool__Ctl__TicketClaims msg = GPUPOOL__CTL__TICKET_CLAIMS__INIT;
    Gpupool__Ctl__TicketSlice msgs[TICKET_SLICES_MAX], *list[TICKET_SLICES_MAX];
    ProtobufCBinaryData peer_keys[TICKET_SLICES_MAX];
    char *peers[TICKET_SLICES_MAX];
    uint8_t *bytes;

    slices_to_message(c, msgs, list);
    for (uint32_t i = 0; i < c->n_peers; i++) {
        peers[i] = (char *)c->peers[i];
        peer_keys[i].data = (uint8_t *)(uintptr_t)c->peer_keys[i];
        peer_keys[i].len = key_is_set(c->peer_keys[i]) ? TICKET_CLIENT_KEY_SIZE : 0;
    }
    msg.peer_keys = peer_keys;
    msg.n_peer_keys = c->n_peers;
    msg.peers = peers;
    msg.n_peers = c->n_peers;
    msg.session_id = c->session_id;
    msg.session = (char *)c->session;
    msg.server = (char *)c->server;
    msg.slices = list;
    msg.n_slices = c->n_slices;
    msg.policy = (Gpupool__Ctl__CtlPolicy)c->policy;
    msg.session_class = c->offline ? GPUPOOL__CTL__CTL_CLASS__CTL_OFFLINE
                                   : GPUPOOL__CTL__CTL_CLASS__CTL_ONLINE;
    msg.spatial = (Gpupool__Ctl__CtlSpatial)c->spatial;
    msg.owner = (char *)c->owner;
    msg.not_before = c->not_before;
    msg.expires = c->expires;
    msg.max_attachments = c->max_attachments;
    msg.key_id = (char *)key_id;
    if (c->bound) {
        msg.client_key.data = (uint8_t *)c->client_key;
        msg.client_key.len = sizeof(c->client_key);
    }
    bytes = malloc(gpupool__ctl__ticket_claims__get_packed_size(&msg));
    if (!bytes)
        return -ENOMEM;
    *size = gpupool__ctl__ticket_claims__pack(&msg, bytes);
    *ret = bytes;
    return 0;
}

int
ticket_sign(const struct ticket_key *key, const struct ticket_claims *claims,
            char **ret_text, struct gp_err *err)
{
    CLEANUP_FREE uint8_t *bytes = NULL;
    CLEANUP_FREE char *body = NULL, *sig_text = NULL, *text = NULL;
    uint8_t sig[TICKET_SIG_SIZE];
    size_t size;
    int r;

    r = claims_check(claims, err);
    if (r < 0)
        return gp_err_wrap(err, r, "ticket");
    r = claims_pack(claims, ticket_key_id(key), &bytes, &size);
    if (r < 0)
        return r;
    r = ticket_key_sign(key, DOMAIN, bytes, size, sig, err);
    if (r < 0)
        return r;
    body = gp_b64_encode(bytes, size);
    sig_text = gp_b64_encode(sig, sizeof(sig));
    if (!body || !sig_text)
        return -ENOMEM;
    text = gp_str_printf("%s.%s", body, sig_text);
    if (!text)
        return -ENOMEM;
    if (strlen(text) > TICKET_TEXT_MAX)
        return gp_err_set(err, -EINVAL, "ticket: %zu characters, more than %d",
                          strlen(text), TICKET_TEXT_MAX);
    *ret_text = TAKE_PTR(text);
    return 0;
}

/* ----------------------------------------------------------------- verify -- */

static int
malformed(struct gp_err *err, const char *why)
{
    return gp_err_set(err, -EBADMSG, "malformed ticket: %s", why);
}

/* Cut @text at its dot and decode both halves. */
static int
text_split(const char *text, uint8_t **ret_claims, size_t *ret_size,
           uint8_t ret_sig[TICKET_SIG_SIZE], struct gp_err *err)
{
    CLEANUP_FREE uint8_t *claims = NULL, *sig = NULL;
    size_t len = strnlen(text, TICKET_TEXT_MAX + 1), size, sig_size;
    const char *dot;

    if (len > TICKET_TEXT_MAX)
        return malformed(err, "longer than any ticket");
    dot = memchr(text, '.', len);
    if (!dot || dot == text)
        return malformed(err, "no signature");
    if (gp_b64_decode(text, (size_t)(dot - text), &claims, &size) < 0)
        return malformed(err, "the claims are not base64url");
    if (gp_b64_decode(dot + 1, len - (size_t)(dot - text) - 1, &sig, &sig_size) < 0 ||
        sig_size != TICKET_SIG_SIZE)
        return malformed(err, "the signature is not 64 bytes of base64url");
    memcpy(ret_sig, sig, TICKET_SIG_SIZE);
    *ret_claims = TAKE_PTR(claims);
    *ret_size = size;
    return 0;
}

static int
slice_from_message(const Gpupool__Ctl__TicketSlice *msg, struct ticket_slice *slice)
{
    if (msg->card_uuid.len != TICKET_UUID_SIZE)
        return -EBADMSG;
    memcpy(slice->card_uuid, msg->card_uuid.data, TICKET_UUID_SIZE);
    slice->core = msg->core;
    slice->core_limit = msg->core_limit;
    slice->memory = msg->memory_bytes;
    return 0;
}

static int
claims_from_message(const Gpupool__Ctl__TicketClaims *msg, struct ticket_claims *c)
{
    if (msg->n_slices > TICKET_SLICES_MAX || msg->n_peers > TICKET_SLICES_MAX ||
        !gp_str_copy(c->session, sizeof(c->session), msg->session) ||
        !gp_str_copy(c->server, sizeof(c->server), msg->server) ||
        !gp_str_copy(c->owner, sizeof(c->owner), msg->owner) ||
        !gp_str_copy(c->key_id, sizeof(c->key_id), msg->key_id))
        return -EBADMSG;
    for (size_t i = 0; i < msg->n_slices; i++)
        if (slice_from_message(msg->slices[i], &c->slices[i]) < 0)
            return -EBADMSG;
    for (size_t i = 0; i < msg->n_peers; i++)
        if (!gp_str_copy(c->peers[i], sizeof(c->peers[i]), msg->peers[i]))
            return -EBADMSG;
    if (msg->client_key.len && msg->client_key.len != sizeof(c->client_key))
        return -EBADMSG;
    c->bound = msg->client_key.len;
    if (c->bound)
        memcpy(c->client_key, msg->client_key.data, sizeof(c->client_key));
    c->n_peers = (uint32_t)msg->n_peers;
    for (size_t i = 0; i < gp_min(msg->n_peer_keys, msg->n_peers); i++)
        if (msg->peer_keys[i].len == TICKET_CLIENT_KEY_SIZE)
            memcpy(c->peer_keys[i], msg->peer_keys[i].data, TICKET_CLIENT_KEY_SIZE);
    c->session_id = msg->session_id;
    c->n_slices = (uint32_t)msg->n_slices;
    c->policy = (enum ticket_policy)msg->policy;
    if ((unsigned)msg->session_class > GPUPOOL__CTL__CTL_CLASS__CTL_OFFLINE)
        return -EBADMSG;
    c->offline = msg->session_class == GPUPOOL__CTL__CTL_CLASS__CTL_OFFLINE;
    c->spatial = (enum ticket_spatial)msg->spatial;
    c->not_before = msg->not_before;
    c->expires = msg->expires;
    c->max_attachments = msg->max_attachments;
    return 0;
}

static int
claims_unpack(const uint8_t *bytes, size_t size, struct ticket_claims *c,
              struct gp_err *err)
{
    Gpupool__Ctl__TicketClaims *msg;
    struct gp_err why = {0};
    int r;

    msg = gpupool__ctl__ticket_claims__unpack(NULL, size, bytes);
    if (!msg)
        return malformed(err, "the claims cannot be read");
    memset(c, 0, sizeof(*c));
    r = claims_from_message(msg, c);
    gpupool__ctl__ticket_claims__free_unpacked(msg, NULL);
    if (r < 0)
        return malformed(err, "a field is out of bounds");
    if (claims_check(c, &why) < 0)
        return malformed(err, why.msg);
    return 0;
}

int
ticket_peek(const char *text, struct ticket_claims *ret_claims, struct gp_err *err)
{
    CLEANUP_FREE uint8_t *bytes = NULL;
    uint8_t sig[TICKET_SIG_SIZE];
    size_t size = 0;
    int r = text_split(text, &bytes, &size, sig, err);

    return r < 0 ? r : claims_unpack(bytes, size, ret_claims, err);
}

int
ticket_verify(const struct ticket_key *pub, const char *text, uint64_t now_unix,
              const char *server, struct ticket_claims *ret_claims, struct gp_err *err)
{
    CLEANUP_FREE uint8_t *bytes = NULL;
    uint8_t sig[TICKET_SIG_SIZE];
    struct ticket_claims c;
    size_t size = 0;
    int r;

    r = text_split(text, &bytes, &size, sig, err);
    if (r < 0)
        return r;
    /* Nothing inside is looked at before the signature holds. */
    r = ticket_key_check(pub, DOMAIN, bytes, size, sig);
    if (r == -EKEYREJECTED)
        return gp_err_set(
            err, r, "forged ticket: not signed by the scheduler of this pool (key %s)",
            ticket_key_id(pub));
    if (r < 0)
        return r;
    r = claims_unpack(bytes, size, &c, err);
    if (r < 0)
        return r;
    if (now_unix >= c.expires)
        return gp_err_set(err, -EKEYEXPIRED,
                          "expired ticket: session %s, %" PRIu64
                          " s ago; was its lease renewed?",
                          c.session, now_unix - c.expires);
    if (now_unix < c.not_before)
        return gp_err_set(err, -EAGAIN,
                          "ticket not valid yet: session %s, for another %" PRIu64
                          " s; the clocks of scheduler and server differ",
                          c.session, c.not_before - now_unix);
    if (strcmp(c.server, server) != 0)
        return gp_err_set(
            err, -EXDEV,
            "foreign ticket: session %s is for another server (%s), this is %s",
            c.session, c.server, server);
    *ret_claims = c;
    return 0;
}
