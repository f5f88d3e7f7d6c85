/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What those who wait are told, what the queue looks like from outside, and the signed
 * place that a client comes back with.
 */
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"
#include "sched_auth.h"
#include "sched_commit.h"
#include "sched_conn.h"
#include "sched_grant.h"
#include "sched_reserve.h"
#include "sched_rows.h"
#include "sched_wait.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A waiter is told each change, but not more often than this, and in any case so often,
 * because its signed place grows old. */
#define TELL_MIN_NS GP_NS_PER_S
#define TELL_MAX_NS (20 * GP_NS_PER_S)
/* Bounds the time that news take from other work; with 10,000 waiters each is told
 * every twenty seconds. */
#define TOLD_EACH_TICK 128
/* A place is good for so long after it was signed: time for a restart. */
#define PLACE_SECONDS 120
/* Younger services than this tell how fast the queue moves. */
#define RATE_NS (600 * GP_NS_PER_S)
#define QUERY_MOST 1000u

static const char DOMAIN[] = "gpupool queue place";

/* ---------------------------------------------------------------------- place -- */

struct place_text {
    char text[CTL_OWNER_MAX + SCHED_CLASS_NAME_MAX + 200];
    size_t len;
};

/* What the signature is over: whose place, and what for. */
static void
place_text(const struct sched_wait *wait, uint64_t arrived, uint64_t signed_unix,
           struct place_text *ret)
{
    const struct sched_request *req = &wait->open.req;
    char key[2 * TICKET_CLIENT_KEY_SIZE + 1] = "";

    for (size_t i = 0; wait->open.spec.bound && i < TICKET_CLIENT_KEY_SIZE; i++)
        snprintf(key + 2 * i, 3, "%02x", wait->open.spec.client_key[i]);
    ret->len = (size_t)snprintf(ret->text, sizeof(ret->text),
                                "%" PRIu64 " %" PRIu64 " %u %u %" PRIu64 " %s %s %s",
                                arrived, signed_unix, req->core, req->cards,
                                req->memory, key, wait->class_name, wait->owner);
}

int
sched_place_sign(const struct sched_wait *wait, uint64_t now_unix,
                 uint8_t ret[SCHED_PLACE_SIZE])
{
    uint64_t head[2] = {wait->waiter.arrived, now_unix};
    struct place_text text;

    memcpy(ret, head, sizeof(head));
    place_text(wait, head[0], head[1], &text);
    return ticket_key_sign(wait->sched->key, DOMAIN, text.text, text.len,
                           ret + sizeof(head), NULL);
}

static bool
place_is_ours(const struct ticket_key *key, const struct place_text *text,
              const uint8_t *sig)
{
    return key && ticket_key_check(key, DOMAIN, text->text, text->len, sig) == 0;
}

void
sched_place_spend(const struct sched_wait *wait)
{
    struct sched_waits *waits = wait->sched->waits;

    waits->spent[waits->n_spent++ % SCHED_SPENT_MAX] = wait->waiter.arrived;
}

/* No two arrivals are the same. */
static bool
is_spent(const struct sched_waits *waits, uint64_t arrived)
{
    uint64_t n = gp_min(waits->n_spent, (uint64_t)SCHED_SPENT_MAX);

    for (uint64_t i = 0; i < n; i++)
        if (waits->spent[i] == arrived)
            return true;
    return false;
}

uint64_t
sched_place_check(const struct sched_wait *wait, uint64_t now_unix, const void *place,
                  size_t size)
{
    uint64_t head[2];
    const uint8_t *sig;
    struct place_text text;

    if (size != SCHED_PLACE_SIZE)
        return 0;
    sig = (const uint8_t *)place + sizeof(head);
    memcpy(head, place, sizeof(head));
    /* The leader that signed it may have had a clock that is ahead of this one. */
    if (head[1] > now_unix + SCHED_CLOCK_SKEW_S ||
        (head[1] < now_unix && now_unix - head[1] > PLACE_SECONDS))
        return 0;
    place_text(wait, head[0], head[1], &text);
    return (place_is_ours(wait->sched->key, &text, sig) ||
            place_is_ours(wait->sched->old_key, &text, sig)) &&
                   !is_spent(wait->sched->waits, head[0])
               ? head[0]
               : 0;
}

/* --------------------------------------------------------------------- reason -- */

static void
held_words(const struct sched_wait *wait, char *words, size_t size)
{
    const struct sched_target *target = &wait->target;
    uint64_t core = 0;

    for (unsigned i = 0; i < target->n; i++) {
        uint32_t wanted = sched_place_core(target->cards[i], &wait->open.req);

        core += wanted - gp_min(wanted, sched_card_free_core(target->cards[i]));
    }
    snprintf(words, size,
             "%u card%s kept for it, on server %s%s; %" PRIu64
             " %% core there must come free%s",
             target->n, target->n > 1 ? "s are" : " is", target->cards[0]->server->name,
             target->n > 1 ? " first" : "", core,
             wait->n_victims ? ", sessions of a lower class are ending" : "");
}

void
sched_wait_reason(const struct sched_wait *wait, char *words, size_t size)
{
    const struct sched_tenant *tenant = wait->waiter.tenant;

    if (wait->gang) {
        sched_gang_words(wait->gang, words, size);
        return;
    }
    if (sched_tenant_check(tenant, &wait->waiter.amount, words, size) < 0 ||
        sched_open_is_full(wait->sched, wait->owner, 1, words, size))
        return;
    if (sched_tenant_kept_from(tenant, wait, &wait->waiter.amount))
        snprintf(words, size,
                 "quota: what tenant %s has left is kept for an older request",
                 tenant->name);
    else if (wait->target.n)
        held_words(wait, words, size);
    else
        sched_place_shortage(wait->sched->pool, &wait->open.req, words, size);
}

/* When what is on the cards that are kept has ended, if all of it has a time limit. */
bool
sched_wait_kept_until(const struct sched_wait *wait, uint64_t now, uint64_t *ret_ms)
{
    const struct sched_sessions *set = &wait->sched->sessions;
    uint64_t last = now;

    for (unsigned i = 0; i < wait->target.n; i++) {
        const struct sched_card *card = wait->target.cards[i];
        const struct sched_part *part = NULL;

        while ((part = sched_sessions_next_on(set, card->server, part))) {
            const struct sched_session *s = part->session;

            for (uint32_t k = 0; k < s->n_slices; k++)
                if (s->slices[k].card == card && !s->closing)
                    last = gp_max(last, s->ends_ns);
        }
    }
    if (last == UINT64_MAX)
        return false;
    *ret_ms = (last - now) / GP_NS_PER_MS;
    return true;
}

/* Until it is served.  False: unknown. */
static bool
estimate(const struct sched_wait *wait, uint32_t ahead, uint64_t now, uint64_t *ret_ms)
{
    const struct sched_waits *waits = wait->sched->waits;
    uint64_t oldest = now;
    unsigned n = 0;

    if (wait->target.n && sched_wait_kept_until(wait, now, ret_ms))
        return true;
    for (unsigned i = 0; i < SCHED_SERVED_MAX; i++) {
        uint64_t at = waits->served_ns[i];

        if (!at || now - at > RATE_NS)
            continue;
        oldest = gp_min(oldest, at);
        n++;
    }
    if (n < 3) /* too few to tell anything */
        return false;
    *ret_ms = (now - oldest) / n * (ahead + 1) / GP_NS_PER_MS;
    return true;
}

/* ----------------------------------------------------------------------- news -- */

void
sched_wait_tell(struct sched_wait *wait, uint64_t now)
{
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlQueued queued = GPUPOOL__CTL__CTL_QUEUED__INIT;
    uint32_t ahead = sched_queue_ahead(&wait->sched->waits->queue, &wait->waiter);
    uint8_t place[SCHED_PLACE_SIZE];
    char reason[256];

    sched_wait_reason(wait, reason, sizeof(reason));
    queued.position = ahead + 1;
    queued.waiting = wait->sched->waits->queue.n;
    queued.reason = reason;
    queued.estimated = estimate(wait, ahead, now, &queued.estimate_ms);
    if (!sched_place_sign(wait, gp_wall_ns() / GP_NS_PER_S, place)) {
        queued.place.data = place;
        queued.place.len = sizeof(place);
    }
    reply.id = wait->request;
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_QUEUED;
    reply.queued = &queued;
    wait->told_ns = now;
    wait->told_position = queued.position;
    sched_conn_reply(wait->conn, &reply);
}

void
sched_wait_news(struct sched *sched, uint64_t now)
{
    struct sched_waits *waits = sched->waits;

    sched_commit_turn(sched); /* news are of no transaction */
    for (unsigned i = 0; i < TOLD_EACH_TICK && i < waits->queue.n; i++) {
        struct gp_tree_node *node =
            gp_tree_at_least(&waits->queue.by_age, waits->told[0], waits->told[1]);
        struct sched_waiter *waiter;
        struct sched_wait *wait;

        if (!node)
            node = gp_tree_first(&waits->queue.by_age);
        waiter = container_of(node, struct sched_waiter, by_age);
        wait = container_of(waiter, struct sched_wait, waiter);
        waits->told[0] = waiter->arrived;
        waits->told[1] = waiter->serial + 1;
        if (now - wait->told_ns < TELL_MIN_NS)
            continue;
        if (now - wait->told_ns >= TELL_MAX_NS ||
            sched_queue_ahead(&waits->queue, waiter) + 1 != wait->told_position)
            sched_wait_tell(wait, now);
    }
}

/* ---------------------------------------------------------------------- query -- */

struct entry {
    struct sched_wait *wait;
    Gpupool__Ctl__CtlWaiter msg;
    char reason[256];
    char uuids[TICKET_SLICES_MAX][TICKET_UUID_TEXT], *held[TICKET_SLICES_MAX];
};

static int
by_order(const void *a, const void *b)
{
    const struct sched_wait *x = *(struct sched_wait *const *)a;
    const struct sched_wait *y = *(struct sched_wait *const *)b;

    return sched_waiter_before(&x->waiter, &y->waiter) ? -1 : 1;
}

static void
describe(struct entry *e, struct sched_wait *wait, uint32_t position, uint64_t now)
{
    Gpupool__Ctl__CtlWaiter *msg = &e->msg;
    const struct sched_request *req = &wait->open.req;

    gpupool__ctl__ctl_waiter__init(msg);
    sched_wait_reason(wait, e->reason, sizeof(e->reason));
    msg->position = position;
    msg->owner = wait->owner;
    msg->tenant = wait->waiter.tenant->name;
    msg->priority = wait->class_name;
    msg->program = wait->program;
    msg->core = req->core;
    msg->cards = req->cards;
    msg->memory_bytes = req->memory;
    msg->waited_ms = sched_wait_waited(wait, now) / GP_NS_PER_MS;
    msg->reason = e->reason;
    msg->estimated = estimate(wait, position - 1, now, &msg->estimate_ms);
    for (unsigned i = 0; i < wait->target.n; i++) {
        ticket_uuid_format(wait->target.cards[i]->facts.uuid, e->uuids[i]);
        e->held[i] = e->uuids[i];
    }
    msg->held_cards = e->held;
    msg->n_held_cards = wait->target.n;
}

/* Tenants that hold or want something, or the one that is asked for; capped as the
 * waiters are. */
static unsigned
list_tenants(const struct sched *sched, const char *name,
             Gpupool__Ctl__CtlTenantUse *msgs, Gpupool__Ctl__CtlTenantUse **list)
{
    const struct sched_tenants *set = &sched->sessions.tenants;
    struct gp_tree_node *node = gp_tree_first(&set->by_name);
    unsigned n = 0;

    for (; node && n < QUERY_MOST; node = gp_tree_next(&set->by_name, node)) {
        const struct sched_tenant *tenant =
            container_of(node, struct sched_tenant, by_name);

        if (*name && strcmp(tenant->name, name))
            continue;
        sched_rows_tenant(set, tenant, &msgs[n]);
        list[n] = &msgs[n];
        n++;
    }
    return n;
}

static unsigned
list_reservations(const struct sched *sched, Gpupool__Ctl__CtlReservation *msgs,
                  Gpupool__Ctl__CtlReservation **list, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        sched_reserve_row(sched, &sched->rules->reservations[i], &msgs[i]);
        list[i] = &msgs[i];
    }
    return n;
}

/* Those that were asked for, with their places in the whole queue. */
struct found {
    struct sched_wait *wait;
    uint32_t position;
};

static int
give_queue(const struct sched *sched, const Gpupool__Ctl__CtlQueueQuery *want,
           const struct found *found, unsigned matching,
           void (*take)(void *arg, Gpupool__Ctl__CtlReply *reply), void *arg)
{
    unsigned n =
        gp_min(matching, want->most ? gp_min(want->most, QUERY_MOST) : QUERY_MOST);
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlQueueReply body = GPUPOOL__CTL__CTL_QUEUE_REPLY__INIT;
    CLEANUP_FREE struct entry *entries = calloc(n + 1, sizeof(*entries));
    CLEANUP_FREE Gpupool__Ctl__CtlWaiter **list = calloc(n + 1, sizeof(*list));
    CLEANUP_FREE Gpupool__Ctl__CtlTenantUse *tenants =
        calloc(QUERY_MOST, sizeof(*tenants));
    CLEANUP_FREE Gpupool__Ctl__CtlTenantUse **tenant_list =
        calloc(QUERY_MOST, sizeof(*tenant_list));
    unsigned n_reserved = gp_min(sched->rules->n_reservations, QUERY_MOST);
    CLEANUP_FREE Gpupool__Ctl__CtlReservation *reserved =
        calloc(n_reserved + 1, sizeof(*reserved));
    CLEANUP_FREE Gpupool__Ctl__CtlReservation **reserved_list =
        calloc(n_reserved + 1, sizeof(*reserved_list));
    uint64_t now = gp_now_ns();

    if (!entries || !list || !tenants || !tenant_list || !reserved || !reserved_list)
        return -ENOMEM;
    for (unsigned i = 0; i < n; i++) {
        describe(&entries[i], found[i].wait, found[i].position, now);
        list[i] = &entries[i].msg;
    }
    body.waiters = list;
    body.n_waiters = n;
    body.matching = matching;
    body.waiting = sched->waits->queue.n;
    body.tenants = tenant_list;
    body.n_tenants = list_tenants(sched, want->tenant, tenants, tenant_list);
    body.reservations = reserved_list;
    body.n_reservations = list_reservations(sched, reserved, reserved_list, n_reserved);
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_QUEUE;
    reply.queue = &body;
    take(arg, &reply);
    return 0;
}

static bool
is_wanted(const Gpupool__Ctl__CtlQueueQuery *want, const struct sched_wait *wait)
{
    return (!*want->owner || !strcmp(want->owner, wait->owner)) &&
           (!*want->tenant || !strcmp(want->tenant, wait->waiter.tenant->name));
}

int
sched_queue_list(const struct sched *sched, const Gpupool__Ctl__CtlQueueQuery *want,
                 void (*take)(void *arg, Gpupool__Ctl__CtlReply *reply), void *arg)
{
    const struct sched_queue *queue = &sched->waits->queue;
    CLEANUP_FREE struct sched_wait **waits = NULL;
    CLEANUP_FREE struct found *found = calloc(queue->n + 1, sizeof(*found));
    unsigned n = 0, matching = 0;

    waits = calloc(queue->n + 1, sizeof(struct sched_wait *));
    if (!waits || !found)
        return -ENOMEM;
    for (struct sched_waiter *w = sched_queue_oldest(queue); w;
         w = sched_queue_younger(queue, w))
        waits[n++] = container_of(w, struct sched_wait, waiter);
    qsort(waits, n, sizeof(struct sched_wait *), by_order);
    for (unsigned i = 0; i < n; i++)
        if (is_wanted(want, waits[i]))
            found[matching++] = (struct found){waits[i], i + 1};
    return give_queue(sched, want, found, matching, take, arg);
}

struct asked {
    struct sched_conn *conn;
    uint32_t id;
};

static void
answer_queue(void *arg, Gpupool__Ctl__CtlReply *reply)
{
    const struct asked *asked = arg;

    reply->id = asked->id;
    sched_conn_reply(asked->conn, reply);
}

void
sched_handle_queue(struct sched_conn *conn, uint32_t id,
                   const Gpupool__Ctl__CtlQueueQuery *msg)
{
    struct asked asked = {conn, id};

    if (!sched_auth_check(conn, id, SCHED_MAY_READ, msg->token))
        return;
    if (sched_queue_list(conn->sched, msg, answer_queue, &asked) < 0)
        sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL,
                          "the scheduler is out of memory", NULL);
}
