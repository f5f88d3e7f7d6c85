/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_session.h"

#include "gp_hash.h"
#include "gp_str.h"
#include "gp_time.h"
#include "gp_utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

void
sched_sessions_init(struct sched_sessions *set, struct sched_pool *pool)
{
    memset(set, 0, sizeof(*set));
    set->pool = pool;
    set->next_id = 1;
    sched_accounts_init(&set->accounts);
}

void
sched_sessions_fini(struct sched_sessions *set)
{
    struct gp_tree_node *node;

    while ((node = gp_tree_first(&set->by_id)))
        sched_session_free(set, container_of(node, struct sched_session, by_id));
    sched_tenants_fini(&set->tenants);
    sched_accounts_fini(&set->accounts);
}

/* ----------------------------------------------------------------- owners -- */

/* Two keyed hashes make 128 bits: names that unauthenticated peers choose do not
 * collide. */
static void
owner_key(const char *name, uint64_t key[2])
{
    const struct gp_hash_key *k = gp_hash_process_key();
    struct gp_hash_key other = {.k = {k->k[1], ~k->k[0]}};

    key[0] = gp_hash_bytes(k, name, strlen(name));
    key[1] = gp_hash_bytes(&other, name, strlen(name));
}

static struct sched_owner *
owner_find(const struct sched_sessions *set, const char *name)
{
    struct gp_tree_node *node;
    uint64_t key[2];

    owner_key(name, key);
    node = gp_tree_find(&set->owners, key[0], key[1]);
    return node ? container_of(node, struct sched_owner, by_name) : NULL;
}

static struct sched_owner *
owner_ref(struct sched_sessions *set, const char *name)
{
    struct sched_owner *owner = owner_find(set, name);
    uint64_t key[2];

    if (!owner) {
        owner = calloc(1, sizeof(*owner));
        if (!owner)
            return NULL;
        gp_str_copy(owner->name, sizeof(owner->name), name);
        owner_key(owner->name, key);
        gp_tree_insert(&set->owners, &owner->by_name, key[0], key[1]);
    }
    owner->n_sessions++;
    return owner;
}

static void
owner_link(struct sched_session *session)
{
    struct sched_owner *owner = session->owner;

    session->owner_next = owner->sessions;
    if (owner->sessions)
        owner->sessions->owner_link = &session->owner_next;
    session->owner_link = &owner->sessions;
    owner->sessions = session;
}

static void
owner_unlink(struct sched_session *session)
{
    *session->owner_link = session->owner_next;
    if (session->owner_next)
        session->owner_next->owner_link = session->owner_link;
}

static void
owner_unref(struct sched_sessions *set, struct sched_owner *owner)
{
    if (!owner || --owner->n_sessions)
        return;
    gp_tree_remove(&set->owners, &owner->by_name);
    free(owner);
}

const struct sched_owner *
sched_sessions_owner(const struct sched_sessions *set, const char *name)
{
    return owner_find(set, name);
}

unsigned
sched_sessions_of_owner(const struct sched_sessions *set, const char *owner)
{
    const struct sched_owner *found = owner_find(set, owner);

    return found ? found->n_sessions : 0;
}

struct sched_session *
sched_sessions_find_owner(const struct sched_sessions *set, const char *owner)
{
    const struct sched_owner *found = owner_find(set, owner);
    struct sched_session *oldest = NULL;

    for (struct sched_session *s = found ? found->sessions : NULL; s; s = s->owner_next)
        if (!s->closing && (!oldest || s->id < oldest->id))
            oldest = s;
    return oldest;
}

/* --------------------------------------------------------------- sessions -- */

static void
slices_give(struct sched_sessions *set, struct sched_session *session)
{
    while (session->n_slices) {
        struct sched_slice *slice = &session->slices[--session->n_slices];

        sched_pool_give(set->pool, slice->card, slice->core, slice->memory);
    }
}

static int
slices_take(struct sched_sessions *set, struct sched_session *session,
            const struct sched_decision *decision)
{
    for (uint32_t i = 0; i < decision->n_slices; i++) {
        const struct sched_slice *slice = &decision->slices[i];
        int r = sched_pool_take(set->pool, slice->card, slice->core, slice->memory,
                                slice->in_space);

        if (r < 0) {
            slices_give(set, session);
            return r;
        }
        session->slices[session->n_slices++] = *slice;
    }
    return 0;
}

/* Servers in the order in which the slices name them. */
static void
parts_make(struct sched_sessions *set, struct sched_session *session)
{
    for (uint32_t i = 0; i < session->n_slices; i++) {
        struct sched_server *server = session->slices[i].card->server;
        struct sched_part *part = sched_session_part(session, server);

        if (!part) {
            part = &session->parts[session->n_parts++];
            *part =
                (struct sched_part){.session = session, .server = server, .first = i};
            gp_tree_insert(&set->by_server, &part->by_server, server->serial,
                           session->id);
        }
        part->n_slices++;
    }
}

struct sched_part *
sched_session_part(struct sched_session *session, const struct sched_server *server)
{
    for (uint32_t i = 0; i < session->n_parts; i++)
        if (session->parts[i].server == server)
            return &session->parts[i];
    return NULL;
}

bool
sched_session_unseen(const struct sched_session *session)
{
    for (uint32_t i = 0; i < session->n_parts; i++)
        if (session->parts[i].server->seen_ns)
            return false;
    return session->n_parts;
}

uint32_t
sched_session_attachments(const struct sched_session *session)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < session->n_parts; i++)
        most = gp_max(most, session->parts[i].attachments);
    return most;
}

struct sched_amount
sched_decision_amount(const struct sched_decision *decision)
{
    struct sched_amount amount = {.cards = decision->n_slices};

    for (uint32_t i = 0; i < decision->n_slices; i++) {
        amount.core += decision->slices[i].core;
        amount.memory += decision->slices[i].memory;
    }
    return amount;
}

static uint64_t
used_bytes(const struct sched_session *session)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < session->n_slices; i++)
        sum += session->use[i].used_bytes;
    return sum;
}

/* Before what the owner holds changes. */
static struct sched_amount *
enter(struct sched_sessions *set, const struct sched_session *session)
{
    struct sched_owner *owner = session->owner;

    sched_account_enter(&set->accounts, &owner->holding, owner->name,
                        session->tenant->name, gp_now_ns());
    return &owner->holding.held;
}

void
sched_sessions_enter(struct sched_sessions *set, uint64_t now_ns, uint64_t older_ns,
                     size_t most)
{
    struct gp_tree_node *node =
        gp_tree_at_least(&set->owners, set->enter_from[0], set->enter_from[1]);

    if (most > set->owners.count) { /* once round */
        most = set->owners.count;
        node = gp_tree_first(&set->owners);
    }
    for (; most; most--) {
        struct sched_owner *owner;

        if (!node)
            node = gp_tree_first(&set->owners);
        owner = container_of(node, struct sched_owner, by_name);
        node = gp_tree_next(&set->owners, node);
        if (owner->sessions && now_ns - owner->holding.since_ns >= older_ns)
            sched_account_enter(&set->accounts, &owner->holding, owner->name,
                                owner->sessions->tenant->name, now_ns);
    }
    set->enter_from[0] = node ? node->key[0] : 0;
    set->enter_from[1] = node ? node->key[1] : 0;
}

static void
charge(struct sched_sessions *set, struct sched_session *session)
{
    struct sched_amount *held = enter(set, session);

    held->core += session->amount.core;
    held->memory += session->amount.memory;
    held->cards += session->amount.cards;
    sched_tenant_charge(session->tenant, &session->amount);
    session->tenant->sessions++;
    session->tenant->used_bytes += used_bytes(session);
    if (set->on_charged)
        set->on_charged(set->on_charged_arg, session->tenant, false);
}

static void
uncharge(struct sched_sessions *set, struct sched_session *session)
{
    struct sched_amount *held = enter(set, session);

    held->core -= session->amount.core;
    held->memory -= session->amount.memory;
    held->cards -= session->amount.cards;
    sched_tenant_uncharge(session->tenant, &session->amount);
    session->tenant->sessions--;
    session->tenant->used_bytes -= used_bytes(session);
    if (set->on_charged)
        set->on_charged(set->on_charged_arg, session->tenant, true);
    sched_tenant_unref(&set->tenants, session->tenant);
}

void
sched_sessions_set_rules(struct sched_sessions *set, const struct sched_rules *rules)
{
    struct sched_session *s = NULL;

    while ((s = sched_sessions_next(set, s)))
        uncharge(set, s);
    set->tenants.rules = rules;
    while ((s = sched_sessions_next(set, s))) {
        s->tenant = sched_tenant_ref(&set->tenants, s->owner->name);
        if (!s->tenant)
            abort(); /* a few bytes: no state would be right without them */
        charge(set, s);
    }
}

/* Its time limit on the clock of leases. */
static uint64_t
time_limit(const struct sched_session *session, uint64_t now_ns)
{
    uint64_t now_unix = gp_wall_ns() / GP_NS_PER_S;

    if (!session->ends_unix)
        return UINT64_MAX;
    return now_ns +
           (session->ends_unix - gp_min(session->ends_unix, now_unix)) * GP_NS_PER_S;
}

/* The first of its limits. */
static void
set_end(struct sched_session *session, uint64_t now_ns)
{
    session->ends_ns = time_limit(session, now_ns);
    for (int i = 0; i < SCHED_LIMITS; i++)
        if (session->limits[i].by)
            session->ends_ns = gp_min(session->ends_ns, session->limits[i].end_ns);
}

const char *
sched_session_end_words(const struct sched_session *session)
{
    for (int i = 0; i < SCHED_LIMITS; i++) {
        const struct sched_limit *limit = &session->limits[i];

        if (limit->by && limit->words && limit->end_ns == session->ends_ns)
            return limit->words;
    }
    return "its time limit is over";
}

/* With room for @n slices and for its strings. */
static struct sched_session *
session_new(const struct sched_session_spec *spec, uint32_t n)
{
    char program[CTL_WORD_MAX], class_name[SCHED_CLASS_NAME_MAX];
    struct sched_session *session;
    size_t program_size, class_size;
    char *at;

    gp_utf8_copy(program, sizeof(program), spec->program);
    gp_utf8_copy(class_name, sizeof(class_name),
                 spec->class_name ? spec->class_name : "");
    program_size = strlen(program) + 1;
    class_size = strlen(class_name) + 1;
    session = calloc(1, sizeof(*session) +
                            n * (sizeof(struct sched_slice) +
                                 sizeof(struct sched_part) + sizeof(struct sched_use)) +
                            program_size + class_size);
    if (!session)
        return NULL;
    session->slices = (struct sched_slice *)(session + 1);
    session->parts = (struct sched_part *)(session->slices + n);
    session->use = (struct sched_use *)(session->parts + n);
    at = (char *)(session->use + n);
    session->program = memcpy(at, program, program_size);
    session->class_name = memcpy(at + program_size, class_name, class_size);
    return session;
}

static int
session_fill(struct sched_sessions *set, struct sched_session *session,
             const struct sched_session_spec *spec)
{
    char owner[CTL_OWNER_MAX];

    session->id = spec->id ? spec->id : set->next_id;
    snprintf(session->name, sizeof(session->name), "s%" PRIu32,
             sched_id_number(session->id));
    if (spec->lease_key)
        memcpy(session->lease_key, spec->lease_key, CTL_LEASE_KEY_SIZE);
    else if (getrandom(session->lease_key, CTL_LEASE_KEY_SIZE, 0) != CTL_LEASE_KEY_SIZE)
        return -EIO;
    gp_utf8_copy(owner, sizeof(owner), spec->owner);
    session->policy = spec->policy;
    session->offline = spec->offline;
    session->spatial = spec->spatial;
    session->bound = spec->bound;
    memcpy(session->client_key, spec->client_key, sizeof(session->client_key));
    session->core_limit = spec->core_limit;
    session->max_attachments = spec->max_attachments;
    session->lease_ms = spec->lease_ms;
    session->opened_unix = spec->opened_unix;
    session->ends_unix = spec->ends_unix;
    session->tenant = sched_tenant_ref(&set->tenants, owner);
    session->owner = owner_ref(set, owner);
    return session->owner && session->tenant ? 0 : -ENOMEM;
}

int
sched_sessions_add(struct sched_sessions *set, const struct sched_session_spec *spec,
                   const struct sched_decision *decision, uint64_t now_ns,
                   struct sched_session **ret_session)
{
    struct sched_session *session = session_new(spec, decision->n_slices);
    int r;

    if (!session)
        return -ENOMEM;
    r = session_fill(set, session, spec);
    if (!r)
        r = slices_take(set, session, decision);
    if (r < 0) {
        owner_unref(set, session->owner);
        sched_tenant_unref(&set->tenants, session->tenant);
        free(session);
        return r;
    }
    if (!spec->id) {
        set->next_id++;
        session->owner->holding.opened++;
    }
    gp_tree_insert(&set->by_id, &session->by_id, session->id, 0);
    owner_link(session);
    parts_make(set, session);
    for (uint32_t i = 0; i < session->n_slices; i++)
        session->use[i].since_ns = now_ns;
    session->amount = sched_decision_amount(decision);
    charge(set, session);
    set_end(session, now_ns);
    session->lease_end_ns =
        gp_min(now_ns + session->lease_ms * GP_NS_PER_MS, session->ends_ns);
    gp_tree_insert(&set->by_lease, &session->by_lease, session->lease_end_ns,
                   session->id);
    *ret_session = session;
    return 0;
}

void
sched_session_free(struct sched_sessions *set, struct sched_session *session)
{
    if (!session->closing)
        gp_tree_remove(&set->by_lease, &session->by_lease);
    gp_tree_remove(&set->by_id, &session->by_id);
    for (uint32_t i = 0; i < session->n_parts; i++) {
        gp_tree_remove(&set->by_server, &session->parts[i].by_server);
        free(session->parts[i].links);
    }
    session->tenant->used_bytes -= used_bytes(session);
    slices_give(set, session);
    owner_unlink(session);
    uncharge(set, session);
    owner_unref(set, session->owner);
    explicit_bzero(session->lease_key, sizeof(session->lease_key));
    for (int i = 0; i < SCHED_LIMITS; i++)
        free(session->limits[i].words);
    free(session);
}

struct sched_session *
sched_sessions_find(const struct sched_sessions *set, uint64_t id)
{
    struct gp_tree_node *node = gp_tree_find(&set->by_id, id, 0);

    return node ? container_of(node, struct sched_session, by_id) : NULL;
}

/* Looks at all of them: for orders of people. */
struct sched_session *
sched_sessions_find_number(const struct sched_sessions *set, uint64_t number)
{
    struct sched_session *s = NULL;

    while ((s = sched_sessions_next(set, s)))
        if (sched_id_number(s->id) == number)
            return s;
    return NULL;
}

struct sched_session *
sched_sessions_next(const struct sched_sessions *set, const struct sched_session *after)
{
    struct gp_tree_node *node;

    node =
        after ? gp_tree_next(&set->by_id, &after->by_id) : gp_tree_first(&set->by_id);
    return node ? container_of(node, struct sched_session, by_id) : NULL;
}

struct sched_part *
sched_sessions_next_on(const struct sched_sessions *set,
                       const struct sched_server *server,
                       const struct sched_part *after)
{
    struct gp_tree_node *node;

    node = gp_tree_at_least(&set->by_server, server->serial,
                            after ? after->session->id + 1 : 0);
    return node && node->key[0] == server->serial
               ? container_of(node, struct sched_part, by_server)
               : NULL;
}

/* What a slice may be charged at most: all of its card's time, the time of all of its
 * processes that waited, and more launches and bytes than any card does. */
#define LAUNCHES_PER_US 100u
#define BYTES_PER_NS 1024u
/* Reports are not sent at the moment of which they tell. */
#define REPORT_SLACK_NS GP_NS_PER_S

/* How much @now is more than @before, and no more than what @most leaves of @charged. A
 * server that was started again counts from zero. */
static uint64_t
grown(uint64_t now, uint64_t before, uint64_t most, uint64_t charged)
{
    uint64_t more = now >= before ? now - before : now;

    return gp_min(more, most - gp_min(charged, most));
}

static uint64_t
times(uint64_t a, uint64_t b)
{
    uint64_t product;

    return gp_mul_ok(a, b, &product) ? product : UINT64_MAX;
}

/* What a session had used before this scheduler was started is not its tenant's since
 * then. */
static void
account(struct sched_session *session, struct sched_use *own,
        const struct sched_use *use, uint64_t now_ns)
{
    const struct sched_spent *charged = &own->charged;
    uint64_t passed = now_ns - own->since_ns + REPORT_SLACK_NS;
    struct sched_spent grew;

    session->tenant->used_bytes += use->used_bytes - own->used_bytes;
    if (!own->reported && !session->open_serial)
        return;
    grew.gpu_ns = grown(use->gpu_ns, own->gpu_ns, passed, charged->gpu_ns);
    grew.wait_ns = grown(use->wait_ns, own->wait_ns,
                         times(passed, session->max_attachments), charged->wait_ns);
    grew.launches = grown(use->launches, own->launches,
                          times(passed / 1000, LAUNCHES_PER_US), charged->launches);
    grew.moved_bytes = grown(use->moved_bytes, own->moved_bytes,
                             times(passed, BYTES_PER_NS), charged->moved_bytes);
    sched_spent_add(&own->charged, &grew);
    sched_spent_add(&session->tenant->spent, &grew);
    sched_spent_add(&session->owner->holding.spent, &grew);
}

/* A share needs some time between two samples; reports come in bursts as well. */
#define SHARE_SAMPLE_NS (500 * GP_NS_PER_MS)

/* In thousandths of a card that has all of its time. */
static uint32_t
share_of(uint64_t spent_ns, uint64_t passed_ns)
{
    return (uint32_t)(1000.0 * (double)gp_min(spent_ns, passed_ns) / (double)passed_ns);
}

void
sched_session_used(struct sched_session *session, uint32_t i,
                   const struct sched_use *said, uint64_t now_ns)
{
    const struct sched_card_facts *facts = &session->slices[i].card->facts;
    uint64_t memory = facts->memory + facts->reserved;
    struct sched_use *own = &session->use[i], use = *said;

    use.used_bytes = gp_min(use.used_bytes, memory);
    use.high_bytes = gp_min(use.high_bytes, memory);
    account(session, own, &use, now_ns);
    if (!own->sample_ns || now_ns - own->sample_ns >= SHARE_SAMPLE_NS) {
        /* A server that was started again counts from zero. */
        uint64_t spent = use.gpu_ns - gp_min(use.gpu_ns, own->sample_gpu_ns);

        own->share_permille =
            own->sample_ns ? share_of(spent, now_ns - own->sample_ns) : 0;
        own->sample_ns = now_ns;
        own->sample_gpu_ns = use.gpu_ns;
    }
    own->used_bytes = use.used_bytes;
    own->high_bytes = use.high_bytes;
    own->moved_bytes = use.moved_bytes;
    own->gpu_ns = use.gpu_ns;
    own->wait_ns = use.wait_ns;
    own->launches = use.launches;
    own->reported = true;
}

void
sched_part_set_links(struct sched_part *part, const char *links)
{
    char text[CTL_WORD_MAX];

    gp_str_copy_printable(text, sizeof(text), links);
    if (!strcmp(text, part->links ? part->links : ""))
        return;
    free(part->links);
    part->links = *text ? strdup(text) : NULL;
}

void
sched_session_unused(struct sched_part *part)
{
    struct sched_session *session = part->session;

    part->attachments = 0;
    sched_part_set_links(part, "");
    for (uint32_t i = part->first; i < part->first + part->n_slices; i++) {
        session->tenant->used_bytes -= session->use[i].used_bytes;
        session->use[i].used_bytes = 0;
        session->use[i].share_permille = 0;
        session->use[i].sample_ns = 0;
    }
}

void
sched_session_lease(struct sched_sessions *set, struct sched_session *session,
                    uint64_t end_ns)
{
    gp_tree_remove(&set->by_lease, &session->by_lease);
    session->lease_end_ns = gp_min(end_ns, session->ends_ns);
    gp_tree_insert(&set->by_lease, &session->by_lease, session->lease_end_ns,
                   session->id);
}

void
sched_session_limit(struct sched_sessions *set, struct sched_session *session,
                    enum sched_limit_kind kind, const struct sched_limit *limit)
{
    struct sched_limit *own = &session->limits[kind];

    free(own->words);
    *own = *limit;
    own->words = limit->words ? strdup(limit->words) : NULL;
    set_end(session, gp_now_ns());
    sched_session_lease(set, session, session->lease_end_ns);
}

void
sched_session_unlimit(struct sched_sessions *set, struct sched_session *session,
                      enum sched_limit_kind kind)
{
    sched_session_limit(set, session, kind, &(struct sched_limit){0});
}

void
sched_session_closing(struct sched_sessions *set, struct sched_session *session)
{
    gp_tree_remove(&set->by_lease, &session->by_lease);
    session->closing = true;
}

struct sched_session *
sched_sessions_first_lease(const struct sched_sessions *set)
{
    struct gp_tree_node *node = gp_tree_first(&set->by_lease);

    return node ? container_of(node, struct sched_session, by_lease) : NULL;
}
