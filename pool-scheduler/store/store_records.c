/* SPDX-License-Identifier: Apache-2.0 */
#include "store_records.h"

#include "gp_err.h"
#include "gp_str.h"
#include "gp_utf8.h"
#include "sched_pool.h"
#include "sched_session.h"
#include "store.pb-c.h"
#include "store_check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void
store_server_key(const char *name, char key[STORE_KEY_MAX])
{
    snprintf(key, STORE_KEY_MAX, STORE_SERVER "%s", name);
}

void
store_session_key(uint64_t id, char key[STORE_KEY_MAX])
{
    snprintf(key, STORE_KEY_MAX, STORE_SESSION "%016" PRIx64, id);
}

static int
pack(const ProtobufCMessage *msg, uint8_t **ret, size_t *ret_size)
{
    size_t size = protobuf_c_message_get_packed_size(msg);
    uint8_t *bytes = malloc(size ? size : 1);

    if (!bytes)
        return -ENOMEM;
    protobuf_c_message_pack(msg, bytes);
    *ret = bytes;
    *ret_size = size;
    return 0;
}

/* ----------------------------------------------------------------- servers -- */

static void
card_message(const struct sched_card *card, Gpupool__Store__StoreCard *msg)
{
    const struct sched_card_facts *f = &card->facts;

    gpupool__store__store_card__init(msg);
    msg->uuid = (ProtobufCBinaryData){sizeof(f->uuid), (uint8_t *)(uintptr_t)f->uuid};
    msg->index = f->index;
    msg->name = (char *)(uintptr_t)f->name;
    msg->memory = f->memory;
    msg->sms = f->sms;
    msg->cc_major = f->cc_major;
    msg->cc_minor = f->cc_minor;
    msg->cordoned = card->cordoned;
}

int
store_server_pack(const struct sched_server *server, uint8_t **ret, size_t *ret_size)
{
    Gpupool__Store__StoreServer msg = GPUPOOL__STORE__STORE_SERVER__INIT;
    Gpupool__Store__StoreCard cards[CTL_SERVER_CARDS_MAX];
    Gpupool__Store__StoreCard *list[CTL_SERVER_CARDS_MAX];

    for (unsigned i = 0; i < server->n_cards; i++) {
        const struct sched_card *card = server->cards[i];

        /* A card that is gone is kept while sessions hold slices of it, and if it is
         * not to be used when it comes back. */
        if (!card->present && !card->slices && !card->cordoned)
            continue;
        list[msg.n_cards] = &cards[msg.n_cards];
        card_message(card, &cards[msg.n_cards++]);
    }
    msg.cards = list;
    msg.endpoint = (char *)(uintptr_t)server->endpoint;
    msg.local = (char *)(uintptr_t)server->local;
    msg.version = (char *)(uintptr_t)server->version;
    msg.driver = (char *)(uintptr_t)server->driver;
    msg.driver_version = server->driver_version;
    msg.drain = server->drain_asked;
    msg.connected = server->conn != NULL;
    return pack(&msg.base, ret, ret_size);
}

static int
take_card(struct store_world *world, struct sched_server *server,
          const Gpupool__Store__StoreCard *msg, struct gp_err *err)
{
    struct sched_card_facts facts = {0};
    struct sched_card *card;
    int r;

    if (msg->uuid.len != sizeof(facts.uuid))
        return gp_err_set(err, -EBADMSG, "state: a bad card of server %s",
                          server->name);
    memcpy(facts.uuid, msg->uuid.data, sizeof(facts.uuid));
    facts.index = msg->index;
    gp_str_copy(facts.name, sizeof(facts.name), msg->name);
    facts.memory = msg->memory;
    facts.sms = msg->sms;
    facts.cc_major = msg->cc_major;
    facts.cc_minor = msg->cc_minor;
    r = sched_pool_card_put(world->pool, server, &facts, &card, err);
    if (!r)
        sched_pool_set_cordoned(world->pool, card, msg->cordoned);
    return r;
}

static int
fill_server(struct store_world *world, struct sched_server *server,
            const Gpupool__Store__StoreServer *msg, struct gp_err *err)
{
    int r = 0;

    gp_str_copy(server->endpoint, sizeof(server->endpoint), msg->endpoint);
    gp_str_copy(server->local, sizeof(server->local), msg->local);
    gp_str_copy(server->version, sizeof(server->version), msg->version);
    gp_str_copy(server->driver, sizeof(server->driver), msg->driver);
    server->driver_version = msg->driver_version;
    server->drain_asked = msg->drain;
    server->alive = world->following && msg->connected;
    sched_pool_cards_absent(world->pool, server);
    for (size_t i = 0; !r && i < msg->n_cards; i++)
        r = take_card(world, server, msg->cards[i], err);
    return r;
}

static int
take_server(struct store_world *world, const char *name, const uint8_t *value,
            size_t size, struct gp_err *err)
{
    Gpupool__Store__StoreServer *msg =
        gpupool__store__store_server__unpack(NULL, size, value);
    struct sched_server *server = sched_pool_server_find(world->pool, name);
    int r = 0;

    if (!msg || store_check_broken(&msg->base) || !*name ||
        strlen(name) >= CTL_NAME_MAX)
        r = gp_err_set(err, -EBADMSG, "state: server %.64s cannot be read", name);
    if (!r && !server)
        r = sched_pool_server_add(world->pool, name, &server, err);
    if (!r)
        r = fill_server(world, server, msg, err);
    gpupool__store__store_server__free_unpacked(msg, NULL);
    return r;
}

/* ---------------------------------------------------------------- sessions -- */

int
store_session_pack(const struct sched_session *s, uint8_t **ret, size_t *ret_size)
{
    Gpupool__Store__StoreSession msg = GPUPOOL__STORE__STORE_SESSION__INIT;
    Gpupool__Store__StoreSlice slices[TICKET_SLICES_MAX], *list[TICKET_SLICES_MAX];

    for (uint32_t i = 0; i < s->n_slices; i++) {
        gpupool__store__store_slice__init(&slices[i]);
        slices[i].card =
            (ProtobufCBinaryData){TICKET_UUID_SIZE, s->slices[i].card->facts.uuid};
        slices[i].core = s->slices[i].core;
        slices[i].memory = s->slices[i].memory;
        list[i] = &slices[i];
    }
    msg.slices = list;
    msg.n_slices = s->n_slices;
    msg.lease_key =
        (ProtobufCBinaryData){sizeof(s->lease_key), (uint8_t *)(uintptr_t)s->lease_key};
    msg.owner = s->owner->name;
    msg.program = (char *)(uintptr_t)s->program;
    msg.policy = s->policy;
    msg.core_limit = s->core_limit;
    msg.max_attachments = s->max_attachments;
    msg.lease_ms = s->lease_ms;
    msg.opened = s->opened_unix;
    msg.offline = s->offline;
    msg.spatial = s->spatial;
    msg.client_key = (ProtobufCBinaryData){s->bound ? sizeof(s->client_key) : 0,
                                           (uint8_t *)(uintptr_t)s->client_key};
    msg.class_name = (char *)(uintptr_t)s->class_name;
    msg.ends = s->ends_unix;
    return pack(&msg.base, ret, ret_size);
}

static int
take_slices(struct store_world *world, const Gpupool__Store__StoreSession *msg,
            struct sched_decision *decision, struct gp_err *err)
{
    decision->n_slices = 0;
    if (!msg->n_slices || msg->n_slices > TICKET_SLICES_MAX)
        return gp_err_set(err, -EBADMSG, "%zu slices", msg->n_slices);
    for (size_t i = 0; i < msg->n_slices; i++) {
        struct sched_slice *slice = &decision->slices[decision->n_slices++];

        if (msg->slices[i]->card.len != TICKET_UUID_SIZE)
            return gp_err_set(err, -EBADMSG, "a bad slice");
        slice->card = sched_pool_card_find(world->pool, msg->slices[i]->card.data);
        if (!slice->card)
            return gp_err_set(err, -EBADMSG, "a slice of an unknown card");
        slice->core = msg->slices[i]->core;
        slice->memory = msg->slices[i]->memory;
        slice->in_space = msg->spatial != TICKET_SPATIAL_OFF;
    }
    return 0;
}

static int
add_session(struct store_world *world, uint64_t id,
            const Gpupool__Store__StoreSession *msg, struct gp_err *err)
{
    struct sched_session_spec spec = {.id = id};
    struct sched_decision decision;
    struct sched_session *session;
    int r;

    if (msg->lease_key.len != CTL_LEASE_KEY_SIZE)
        return gp_err_set(err, -EBADMSG, "no lease key");
    if (msg->policy >= TICKET_POLICIES || msg->spatial >= TICKET_SPATIALS ||
        msg->core_limit > 100 || !msg->lease_ms || !msg->max_attachments)
        return gp_err_set(err, -EBADMSG, "numbers that no session has");
    spec.lease_key = msg->lease_key.data;
    spec.owner = msg->owner;
    spec.program = msg->program;
    spec.policy = (enum ticket_policy)msg->policy;
    spec.core_limit = msg->core_limit;
    spec.max_attachments = msg->max_attachments;
    spec.lease_ms = msg->lease_ms;
    spec.opened_unix = msg->opened;
    spec.offline = msg->offline;
    spec.spatial = (enum ticket_spatial)msg->spatial;
    spec.class_name = msg->class_name;
    spec.ends_unix = msg->ends;
    spec.bound = msg->client_key.len == sizeof(spec.client_key);
    if (spec.bound)
        memcpy(spec.client_key, msg->client_key.data, sizeof(spec.client_key));
    r = take_slices(world, msg, &decision, err);
    if (!r)
        r = sched_sessions_add(world->sessions, &spec, &decision, world->now_ns,
                               &session);
    return r == -ENOSPC ? gp_err_set(err, r, "its slices are given to another") : r;
}

static int
take_session(struct store_world *world, const char *name, const uint8_t *value,
             size_t size, struct gp_err *err)
{
    Gpupool__Store__StoreSession *msg;
    uint64_t id = 0;
    int r = 0, end = 0;

    if (sscanf(name, "%16" SCNx64 "%n", &id, &end) != 1 || end != 16 || name[16] || !id)
        return gp_err_set(err, -EBADMSG, "state: %.40s is no session", name);
    if (sched_sessions_find(world->sessions, id))
        return 0; /* a session does not change */
    msg = gpupool__store__store_session__unpack(NULL, size, value);
    r = msg && !store_check_broken(&msg->base)
            ? add_session(world, id, msg, err)
            : gp_err_set(err, -EBADMSG, "not readable");
    gpupool__store__store_session__free_unpacked(msg, NULL);
    return r < 0 ? gp_err_wrap(err, r, "state: session s%" PRIu32, sched_id_number(id))
                 : 0;
}

/* ----------------------------------------------------------------- account -- */

void
store_account_key(const struct sched_account *row, char key[STORE_KEY_MAX])
{
    char text[SCHED_ACCOUNT_KEY_TEXT];

    sched_account_format_key(row, text);
    snprintf(key, STORE_KEY_MAX, STORE_ACCOUNT "%s", text);
}

int
store_account_pack(const struct sched_account *row, uint8_t **ret, size_t *ret_size)
{
    Gpupool__Store__StoreAccount msg = GPUPOOL__STORE__STORE_ACCOUNT__INIT;

    msg.day = row->day;
    msg.owner = (char *)(uintptr_t)row->owner;
    msg.tenant = (char *)(uintptr_t)row->tenant;
    msg.sessions = row->sums.sessions;
    msg.core_ms = row->sums.core_ms;
    msg.memory_mib_ms = row->sums.memory_mib_ms;
    msg.slice_ms = row->sums.slice_ms;
    msg.gpu_ns = row->sums.spent.gpu_ns;
    msg.wait_ns = row->sums.spent.wait_ns;
    msg.launches = row->sums.spent.launches;
    msg.moved_bytes = row->sums.spent.moved_bytes;
    return pack(&msg.base, ret, ret_size);
}

/* What was entered here and is not written yet is newer. */
static int
add_account(struct sched_accounts *set, const char *name,
            const Gpupool__Store__StoreAccount *msg)
{
    uint64_t own[2], at[2];
    struct sched_account *row;

    sched_account_key(msg->day, msg->owner, own);
    if (!sched_account_parse_key(name, at) || at[0] != own[0] || at[1] != own[1])
        return -EBADMSG;
    row = sched_account_get(set, msg->day, msg->owner);
    if (!row)
        return -ENOMEM;
    if (row->dirty)
        return 0;
    gp_utf8_copy(row->tenant, sizeof(row->tenant), msg->tenant);
    row->sums = (struct sched_account_sums){
        .sessions = msg->sessions,
        .core_ms = msg->core_ms,
        .memory_mib_ms = msg->memory_mib_ms,
        .slice_ms = msg->slice_ms,
        .spent = {msg->gpu_ns, msg->wait_ns, msg->launches, msg->moved_bytes},
    };
    return 0;
}

static int
take_account(struct store_world *world, const char *name, const uint8_t *value,
             size_t size, struct gp_err *err)
{
    Gpupool__Store__StoreAccount *msg =
        gpupool__store__store_account__unpack(NULL, size, value);
    int r = msg && !store_check_broken(&msg->base) && strlen(msg->owner) < CTL_OWNER_MAX
                ? 0
                : -EBADMSG;

    if (!r)
        r = add_account(&world->sessions->accounts, name, msg);
    gpupool__store__store_account__free_unpacked(msg, NULL);
    return r < 0 ? gp_err_set(err, r, "state: the account %.60s cannot be read", name)
                 : 0;
}

/* ------------------------------------------------------------------ number -- */

int
store_number_pack(uint32_t epoch, uint32_t last, bool checked, uint8_t **ret,
                  size_t *ret_size)
{
    Gpupool__Store__StoreNumber msg = GPUPOOL__STORE__STORE_NUMBER__INIT;

    msg.epoch = epoch;
    msg.last = last;
    msg.checked = checked;
    return pack(&msg.base, ret, ret_size);
}

static int
take_number(struct store_world *world, const uint8_t *value, size_t size,
            struct gp_err *err)
{
    Gpupool__Store__StoreNumber *msg =
        gpupool__store__store_number__unpack(NULL, size, value);

    int r = msg && !store_check_broken(&msg->base) ? 0 : -EBADMSG;

    if (!r) {
        world->epoch = msg->epoch;
        world->last = msg->last;
        world->checked = msg->checked;
    }
    gpupool__store__store_number__free_unpacked(msg, NULL);
    return r < 0 ? gp_err_set(err, r, "state: the last number cannot be read") : 0;
}

/* --------------------------------------------------------------------- all -- */

static int
take(struct store_world *arg, const char *key, const uint8_t *value, size_t size,
     struct gp_err *err)
{
    const size_t server = sizeof(STORE_SERVER) - 1, session = sizeof(STORE_SESSION) - 1;
    const size_t account = sizeof(STORE_ACCOUNT) - 1;

    if (!strncmp(key, STORE_SERVER, server))
        return take_server(arg, key + server, value, size, err);
    if (!strncmp(key, STORE_SESSION, session))
        return take_session(arg, key + session, value, size, err);
    if (!strncmp(key, STORE_ACCOUNT, account))
        return take_account(arg, key + account, value, size, err);
    if (!strcmp(key, STORE_NUMBER))
        return take_number(arg, value, size, err);
    return 0;
}

static bool
is_known(const char *key)
{
    return !strncmp(key, STORE_SERVER, sizeof(STORE_SERVER) - 1) ||
           !strncmp(key, STORE_SESSION, sizeof(STORE_SESSION) - 1) ||
           !strncmp(key, STORE_ACCOUNT, sizeof(STORE_ACCOUNT) - 1) ||
           !strcmp(key, STORE_NUMBER);
}

int
store_record_take(void *arg, const char *key, const uint8_t *value, size_t size,
                  struct gp_err *err)
{
    struct store_world *world = arg;
    int r;

    if (!is_known(key))
        return 0;
    if (size > STORE_VALUE_MAX)
        r = gp_err_set(err, -EBADMSG, "state: %.60s has %zu bytes", key, size);
    else {
        if (!store_check_take(key, value, &size) && !*world->unchecked)
            gp_str_copy(world->unchecked, sizeof(world->unchecked), key);
        r = take(world, key, value, size, err);
    }
    world->broken |= r < 0 && r != -ENOMEM;
    return r;
}

void
store_record_drop(struct store_world *world, const char *key)
{
    const size_t server = sizeof(STORE_SERVER) - 1, session = sizeof(STORE_SESSION) - 1;
    const size_t account = sizeof(STORE_ACCOUNT) - 1;

    if (!strncmp(key, STORE_SESSION, session)) {
        uint64_t id = strtoull(key + session, NULL, 16);
        struct sched_session *s = sched_sessions_find(world->sessions, id);

        if (s)
            sched_session_free(world->sessions, s);
    } else if (!strncmp(key, STORE_SERVER, server)) {
        struct sched_server *s = sched_pool_server_find(world->pool, key + server);

        if (s)
            sched_pool_server_remove(world->pool, s);
    } else if (!strncmp(key, STORE_ACCOUNT, account)) {
        struct sched_accounts *set = &world->sessions->accounts;
        uint64_t at[2];
        struct sched_account *row = sched_account_parse_key(key + account, at)
                                        ? sched_account_find(set, at)
                                        : NULL;

        if (row)
            sched_account_drop(set, row);
    }
}
