/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_wait.h"

#include "gp_err.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"
#include "gp_utf8.h"
#include "sched_commit.h"
#include "sched_conn.h"
#include "sched_gang.h"
#include "sched_handle.h"
#include "sched_reserve.h"
#include "sched_rules.h"
#include "sched_store.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* Waiters that are asked for each tick though nothing came free for them. */
#define SWEEP_EACH_TICK 16
/* Gangs for which there was no time before. */
#define SEARCHES_EACH_TICK 8

/* ------------------------------------------------------------- what came free -- */

static void
on_turn_end(struct gp_loop_timer *timer)
{
    struct sched_waits *waits = container_of(timer, struct sched_waits, timer);

    sched_commit_turn(waits->queue.arg);
    sched_wait_serve(waits->queue.arg);
}

static void
serve_soon(struct sched *sched)
{
    struct sched_waits *waits = sched->waits;

    if (sched->loop && !waits->serving && !waits->timer.loop)
        gp_loop_timer_set(sched->loop, &waits->timer, 0, on_turn_end);
}

static void
on_card_freed(void *arg)
{
    serve_soon(arg);
}

static bool
has_quota(const struct sched_tenant *tenant)
{
    return tenant->limit.core || tenant->limit.memory || tenant->limit.cards;
}

/* What a tenant holds has changed, and so has its place in the queue. */
static void
on_charged(void *arg, struct sched_tenant *tenant, bool less)
{
    struct sched *sched = arg;
    struct sched_waits *waits = sched->waits;

    if (!tenant->lines)
        return;
    sched_queue_tenant_changed(&waits->queue, tenant);
    if (!less || tenant->freed || !has_quota(tenant))
        return;
    tenant->freed = true;
    tenant->refs++; /* of the list */
    tenant->freed_next = waits->freed;
    waits->freed = tenant;
    serve_soon(sched);
}

static struct sched_tenant *
next_freed(struct sched_waits *waits)
{
    struct sched_tenant *tenant = waits->freed;

    if (!tenant)
        return NULL;
    waits->freed = tenant->freed_next;
    tenant->freed_next = NULL;
    tenant->freed = false;
    return tenant; /* with its reference */
}

/* ------------------------------------------------------------------ lifetime -- */

static int
place(void *arg, const struct sched_waiter *waiter, struct sched_decision *ret)
{
    const struct sched_wait *wait =
        container_of((struct sched_waiter *)waiter, struct sched_wait, waiter);

    if (wait->gang) {
        struct sched *sched = arg;
        struct sched_decision *all = sched->waits->gang_decisions;

        sched->waits->gang_placed = NULL;
        if (sched_gang_place(sched, wait->gang, all) < 0)
            return -ENOSPC;
        sched->waits->gang_placed = wait->gang; /* serve() has the others' there */
        *ret = all[0];
        return 0;
    }
    if (sched_tenant_kept_from(waiter->tenant, wait, &waiter->amount) ||
        sched_open_is_full(arg, wait->owner, 1, NULL, 0))
        return -ENOSPC;
    return sched_open_place(arg, &wait->open, waiter->tenant, ret, NULL, 0) < 0
               ? -ENOSPC
               : 0;
}

int
sched_waits_init(struct sched *sched)
{
    struct sched_waits *waits = calloc(1, sizeof(*waits));

    if (!waits)
        return -ENOMEM;
    sched->waits = waits;
    sched_queue_init(&waits->queue, sched->pool, &sched->sessions.tenants);
    waits->queue.place = place;
    waits->queue.arg = sched;
    sched->pool->on_freed = on_card_freed;
    sched->pool->on_freed_arg = sched;
    sched->sessions.on_charged = on_charged;
    sched->sessions.on_charged_arg = sched;
    return 0;
}

/* The connections are gone already, and with them everybody who waited. */
void
sched_waits_fini(struct sched *sched)
{
    struct sched_waits *waits = sched->waits;
    struct sched_tenant *tenant;

    if (!waits)
        return;
    gp_loop_timer_del(&waits->timer);
    while ((tenant = next_freed(waits)))
        sched_tenant_unref(&sched->sessions.tenants, tenant);
    sched->pool->on_freed = NULL;
    sched->sessions.on_charged = NULL;
    sched_queue_fini(&waits->queue);
    sched_reserve_fini(waits);
    free(waits);
    sched->waits = NULL;
}

void
sched_wait_drop(struct sched_wait *wait)
{
    struct sched *sched = wait->sched;

    sched_wait_release(wait);
    sched_gang_leave(wait);
    if (wait->by_deadline.key[0])
        gp_tree_remove(&sched->waits->by_deadline, &wait->by_deadline);
    sched_queue_remove(&sched->waits->queue, &wait->waiter);
    if (wait->waiter.tenant && wait->waiter.tenant->kept_for == wait)
        wait->waiter.tenant->kept_for = NULL;
    sched_tenant_unref(&sched->sessions.tenants, wait->waiter.tenant);
    if (wait->conn)
        wait->conn->waiting = NULL;
    free(wait);
}

/* A client whose host died would keep its place until the system's own limits. */
static void
watch_link(struct sched_conn *conn)
{
    int fd = conn->msg.src.fd, on = 1, idle = 20, pause = 10, probes = 3;

    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause, sizeof(pause));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

/* The request outlives its message. */
static void
copy_open(struct sched_wait *wait, const struct sched_open *open)
{
    wait->open = *open;
    gp_utf8_copy(wait->owner, sizeof(wait->owner), open->spec.owner);
    gp_utf8_copy(wait->program, sizeof(wait->program), open->spec.program);
    gp_str_copy(wait->class_name, sizeof(wait->class_name), open->class->name);
    gp_str_copy(wait->server, sizeof(wait->server),
                open->req.server ? open->req.server : "");
    wait->open.spec.owner = wait->owner;
    wait->open.spec.program = wait->program;
    wait->open.spec.class_name = wait->class_name;
    gp_str_copy(wait->gang_name, sizeof(wait->gang_name), open->gang ? open->gang : "");
    wait->open.gang = open->gang ? wait->gang_name : NULL;
    wait->open.req.server = *wait->server ? wait->server : NULL;
    wait->open.req.where = sched_where_any(&open->where) ? NULL : &wait->open.where;
    wait->open.req.avoid = NULL; /* found out at each try */
}

void
sched_wait_renew_total(struct sched *sched)
{
    struct sched_amount *total = &sched->sessions.tenants.total, now = {0};
    struct sched_waiter *w;

    now.core = sched->pool->core;
    now.memory = sched->pool->sums.memory;
    if (now.core == total->core && now.memory == total->memory)
        return;
    *total = now;
    for (w = sched_queue_oldest(&sched->waits->queue); w;
         w = sched_queue_younger(&sched->waits->queue, w))
        sched_queue_tenant_changed(&sched->waits->queue, w->tenant);
}

static void refuse(struct sched_wait *wait, Gpupool__Ctl__CtlCode code,
                   const char *words);

/* A place is for one request at a time: who comes back with it before the scheduler has
 * noticed that the connection broke takes it over. */
static void
end_who_has(struct sched_waits *waits, uint64_t arrived)
{
    struct gp_tree_node *node = gp_tree_at_least(&waits->queue.by_age, arrived, 0);
    struct sched_waiter *waiter;

    if (!node || node->key[0] != arrived)
        return;
    waiter = container_of(node, struct sched_waiter, by_age);
    refuse(container_of(waiter, struct sched_wait, waiter),
           GPUPOOL__CTL__CTL_CODE__CTL_CONFLICT,
           "another connection came back with the place in the queue of this one");
}

uint64_t
sched_wait_waited(const struct sched_wait *wait, uint64_t now)
{
    return wait->before_ns + now - wait->since_ns;
}

static int
enter(struct sched_wait *wait, const Gpupool__Ctl__CtlOpen *msg, struct gp_err *err)
{
    struct sched *sched = wait->sched;
    struct sched_waiter *waiter = &wait->waiter;
    struct sched_waits *waits = sched->waits;
    uint64_t back;
    int r;

    waiter->req = wait->open.req;
    waiter->priority = wait->open.class->value;
    waiter->amount = sched_open_amount(&wait->open);
    waiter->arrived = gp_max(gp_wall_ns(), waits->last_arrival + 1);
    waiter->tenant = sched_tenant_ref(&sched->sessions.tenants, wait->owner);
    if (!waiter->tenant)
        return -ENOMEM;
    back = sched_place_check(wait, gp_wall_ns() / GP_NS_PER_S, msg->place.data,
                             msg->place.len);
    if (back)
        end_who_has(waits, back);
    r = wait->open.gang ? sched_gang_join(sched, wait, err) : 0;
    if (r < 0)
        return r;
    if (back) {
        uint64_t now = gp_wall_ns();

        waiter->arrived =
            back; /* even after now: those who come back keep their order */
        wait->before_ns = now - gp_min(back, now);
    }
    waits->last_arrival = gp_max(waits->last_arrival, waiter->arrived);
    r = sched_queue_add(&waits->queue, waiter, err);
    if (r < 0 || !msg->wait_ms)
        return r;
    gp_tree_insert(&waits->by_deadline, &wait->by_deadline,
                   wait->since_ns + msg->wait_ms * GP_NS_PER_MS, waiter->serial);
    return 0;
}

static void
refuse(struct sched_wait *wait, Gpupool__Ctl__CtlCode code, const char *words)
{
    struct sched_conn *conn = wait->conn;
    uint32_t request = wait->request;

    wait->sched->counters.refused++;
    sched_wait_drop(wait);
    sched_conn_refuse(conn, request, code, words, NULL);
    sched_conn_touch(conn);
}

/* Serve all members of a gang, if there is room for all. */
static void gang_try(struct sched_gang *gang);

/* All members have come: they are served, or wait; what their quota never allows all of
 * them is refused to all of them. */
static void
gang_complete(struct sched_gang *gang)
{
    struct sched_wait *members[SCHED_GANG_MAX];
    unsigned n = gang->n;
    char words[320];

    if (sched_gang_check(gang, words, sizeof(words)) != -EFBIG) {
        gang_try(gang);
        return;
    }
    memcpy(members, gang->members, sizeof(members));
    for (unsigned i = 0; i < n; i++)
        refuse(members[i], GPUPOOL__CTL__CTL_CODE__CTL_LIMIT, words);
}

int
sched_wait_add(struct sched_conn *conn, uint32_t id, const struct sched_open *open,
               const Gpupool__Ctl__CtlOpen *msg, struct gp_err *err)
{
    struct sched *sched = conn->sched;
    struct sched_wait *wait = calloc(1, sizeof(*wait));
    int r;

    if (!wait)
        return -ENOMEM;
    wait->sched = sched;
    wait->request = id;
    wait->since_ns = gp_now_ns();
    sched_wait_renew_total(sched);
    copy_open(wait, open);
    r = enter(wait, msg, err);
    if (r < 0) {
        sched_wait_drop(wait);
        return r;
    }
    wait->conn = conn;
    conn->waiting = wait;
    sched->counters.waited++;
    watch_link(conn);
    sched_conn_touch(conn);
    gp_log_info("queue", "%s: %s waits, %u before it", conn->peer, wait->owner,
                sched_queue_ahead(&sched->waits->queue, &wait->waiter));
    if (wait->gang && wait->gang->n == wait->gang->size)
        gang_complete(wait->gang);
    if (conn->waiting == wait) /* it was not served at once, as the last of a gang */
        sched_wait_tell(wait, wait->since_ns);
    return 0;
}

void
sched_wait_end(struct sched_conn *conn)
{
    if (!conn->waiting)
        return;
    conn->sched->counters.gave_up++;
    gp_log_info("queue", "%s: does not wait any more", conn->peer);
    sched_wait_drop(conn->waiting);
}

/* --------------------------------------------------------------------- serve -- */

/* Its owner has got the session of another request meanwhile, and wants one. */
static bool
serve_found(struct sched_wait *wait)
{
    struct sched *sched = wait->sched;
    struct sched_conn *conn = wait->conn;
    struct sched_session *session =
        wait->open.once ? sched_sessions_find_owner(&sched->sessions, wait->owner)
                        : NULL;
    uint32_t request = wait->request;

    if (!session)
        return false;
    sched_wait_drop(wait);
    sched_handle_open_found(conn, request, session);
    sched_conn_touch(conn);
    return true;
}

/* One of a gang's members, if any has got it so; the others wait on. */
static bool
serve_found_of(const struct sched_gang *gang)
{
    for (unsigned i = 0; gang->of_owners && i < gang->n; i++)
        if (serve_found(gang->members[i]))
            return true;
    return false;
}

/* All members on @decisions, in one transaction. */
static void
serve_gang(struct sched_gang *gang, const struct sched_decision *decisions)
{
    struct sched_session *sessions[SCHED_GANG_MAX];
    struct sched_wait *members[SCHED_GANG_MAX];
    struct sched *sched = gang->members[0]->sched;
    struct sched_waits *waits = sched->waits;
    unsigned n = gang->n, taken = 0;
    struct gp_err err = {0};
    int r = 0;

    waits->gang_placed = NULL;
    if (serve_found_of(gang))
        return;
    memcpy(members, gang->members, sizeof(members));
    for (unsigned i = 0; i < n; i++)
        sched_queue_remove(&waits->queue, &members[i]->waiter);
    sched_gang_release(sched, gang);
    sched_store_group_begin(sched->store);
    for (; !r && taken < n; taken += !r) {
        struct sched_open open = members[taken]->open;

        r = sched_open_take(sched, &open, &decisions[taken], &sessions[taken], &err);
    }
    sched_store_group_end(sched->store);
    gp_log_info("queue", "gang %s: %s", gang->name,
                r < 0 ? gp_err_msg(&err, r) : "all members are served");
    for (unsigned i = 0; r < 0 && i < taken; i++) {
        sched_store_undo_session(sched->store, sessions[i]->id);
        sched_session_free(&sched->sessions, sessions[i]);
    }
    for (unsigned i = 0; i < n; i++) {
        struct sched_conn *conn = members[i]->conn;
        uint32_t request = members[i]->request;
        bool hold = members[i]->open.hold;

        if (r < 0) {
            refuse(members[i], GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL,
                   gp_err_msg(&err, r));
            continue;
        }
        waits->served_ns[waits->n_served++ % SCHED_SERVED_MAX] = gp_now_ns();
        sched_place_spend(members[i]);
        sched_wait_drop(members[i]);
        sched_commit_open(conn, request, sessions[i], hold);
    }
}

static void
gang_try(struct sched_gang *gang)
{
    struct sched *sched = gang->members[0]->sched;
    struct sched_decision *all = sched->waits->gang_decisions;

    sched->waits->gang_placed = NULL;
    if (!sched_gang_place_kept(sched, gang, all) || !sched_gang_place(sched, gang, all))
        serve_gang(gang, all);
}

/* That for which a search has been due longest. */
static struct sched_gang *
longest_due(const struct sched_waits *waits)
{
    struct sched_gang *first = NULL;

    for (struct sched_gang *gang = waits->gangs; gang; gang = gang->next)
        if (gang->due_ns && (!first || gang->due_ns < first->due_ns))
            first = gang;
    return first;
}

static void
try_due(struct sched *sched, uint64_t now)
{
    struct sched_waits *waits = sched->waits;
    struct sched_gang *gang;

    for (unsigned i = 0; i < SEARCHES_EACH_TICK && now >= waits->gang_search_ns; i++) {
        gang = longest_due(waits);
        if (!gang)
            return;
        gang->due_ns = 0;
        gang_try(gang);
    }
}

static void
serve(struct sched_wait *wait, const struct sched_decision *decision)
{
    struct sched *sched = wait->sched;
    struct sched_waits *waits = sched->waits;
    struct sched_conn *conn = wait->conn;
    struct sched_open open = wait->open;
    struct sched_session *session;
    uint32_t request = wait->request;
    struct gp_err err = {0};
    int r;

    if (wait->gang && waits->gang_placed == wait->gang) {
        serve_gang(wait->gang, waits->gang_decisions);
        return;
    }
    if (wait->gang) {
        gang_try(wait->gang);
        return;
    }
    if (serve_found(wait))
        return;
    sched_queue_remove(&waits->queue, &wait->waiter);
    sched_wait_release(wait); /* or its own cards could not be taken */
    r = sched_open_take(sched, &open, decision, &session, &err);
    if (r < 0) {
        refuse(wait, GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL, gp_err_msg(&err, r));
        return;
    }
    waits->served_ns[waits->n_served++ % SCHED_SERVED_MAX] = gp_now_ns();
    gp_log_info("queue", "%s: served after %" PRIu64 " ms", session->name,
                sched_wait_waited(wait, gp_now_ns()) / GP_NS_PER_MS);
    sched_place_spend(wait);
    sched_wait_drop(wait);
    sched_commit_open(conn, request, session, open.hold);
}

/* For whom a card is kept, that card counts first. */
static void
serve_held(struct sched_wait *wait)
{
    struct sched_decision decision;
    struct sched_amount amount;

    if (sched_wait_place_kept(wait, &wait->open, &decision) < 0 ||
        sched_open_is_full(wait->sched, wait->owner, 1, NULL, 0))
        return;
    amount = sched_decision_amount(&decision);
    if (!sched_tenant_check(wait->waiter.tenant, &amount, NULL, 0))
        serve(wait, &decision);
}

static struct sched_wait *
wait_of(struct sched_waiter *waiter)
{
    return waiter ? container_of(waiter, struct sched_wait, waiter) : NULL;
}

static void
serve_card(struct sched *sched, struct sched_card *card)
{
    struct sched_queue *queue = &sched->waits->queue;
    struct sched_decision decision;
    struct sched_waiter *waiter;
    struct sched_gang *gang = sched_gang_of_hold(sched->waits, card->hold);

    if (gang) {
        gang_try(gang);
        return;
    }
    for (unsigned i = 0; card->hold && i < sched->waits->n_holds; i++)
        if (sched->waits->holds[i] == card->hold) {
            serve_held(sched->waits->holds[i]);
            return; /* what it leaves is a change of its own */
        }
    while (queue->n && (waiter = sched_queue_serve_card(queue, card, &decision)))
        serve(wait_of(waiter), &decision);
}

/* Those for whom cards are kept, of @tenant or (NULL) of all.  Each that is served
 * takes only itself from the lists. */
static void
serve_holds(struct sched *sched, const struct sched_tenant *tenant)
{
    struct sched_waits *waits = sched->waits;
    struct sched_gang *gangs[SCHED_GANG_HOLDS_MAX];
    struct sched_wait *holds[SCHED_HOLDS_MAX];
    unsigned n = waits->n_holds, n_gangs = waits->n_gang_holds;

    memcpy(holds, waits->holds, sizeof(holds));
    memcpy(gangs, waits->gang_holds, sizeof(gangs));
    for (unsigned i = 0; i < n; i++)
        if (!tenant || holds[i]->waiter.tenant == tenant)
            serve_held(holds[i]);
    for (unsigned i = 0; i < n_gangs; i++)
        if ((!tenant || sched_gang_first_of(gangs[i], tenant) < gangs[i]->n) &&
            !sched_gang_place_kept(sched, gangs[i], waits->gang_decisions))
            serve_gang(gangs[i], waits->gang_decisions);
}

static void
serve_tenant(struct sched *sched, struct sched_tenant *tenant)
{
    struct sched_decision decision;
    struct sched_waiter *waiter;

    serve_holds(sched, tenant);
    while (tenant->lines &&
           (waiter = sched_queue_serve_tenant(&sched->waits->queue, tenant, &decision)))
        serve(wait_of(waiter), &decision);
}

void
sched_wait_serve(struct sched *sched)
{
    struct sched_waits *waits = sched->waits;
    struct sched_tenant *tenant;
    struct sched_card *card;

    gp_loop_timer_del(&waits->timer);
    if (waits->serving)
        return;
    waits->serving = true;
    do {
        while ((card = sched_pool_freed(sched->pool)))
            serve_card(sched, card);
        tenant = next_freed(waits);
        if (tenant) {
            serve_tenant(sched, tenant);
            sched_tenant_unref(&sched->sessions.tenants, tenant);
        }
    } while (tenant || sched->pool->freed);
    waits->serving = false;
}

bool
sched_wait_blocked(const struct sched_tenant *tenant,
                   const struct sched_decision *decision)
{
    struct sched_amount amount = sched_decision_amount(decision);

    return sched_tenant_kept_from(tenant, NULL, &amount);
}

/* ---------------------------------------------------------------------- time -- */

static void
expire(struct sched *sched, uint64_t now)
{
    struct gp_tree_node *node;

    while ((node = gp_tree_first(&sched->waits->by_deadline)) && node->key[0] <= now) {
        struct sched_wait *wait = container_of(node, struct sched_wait, by_deadline);
        char reason[256], words[320];

        sched_wait_reason(wait, reason, sizeof(reason));
        snprintf(words, sizeof(words), "timed out in the queue: %s", reason);
        refuse(wait, GPUPOOL__CTL__CTL_CODE__CTL_NO_FIT, words);
    }
}

void
sched_wait_tick(struct sched *sched, uint64_t now)
{
    struct sched_waits *waits = sched->waits;
    struct sched_decision decision;
    struct sched_waiter *waiter;

    sched_wait_renew_total(sched);
    sched_reserve_tick(sched, gp_wall_ns() / GP_NS_PER_S);
    expire(sched, now);
    waiter = sched_queue_sweep(&waits->queue, SWEEP_EACH_TICK, &decision);
    if (waiter)
        serve(wait_of(waiter), &decision);
    try_due(sched, now);
    serve_holds(sched, NULL); /* their owners may have fewer sessions than before */
    sched_wait_serve(sched);
    sched_wait_holds(sched, now);
    sched_wait_news(sched, now);
}

/* --------------------------------------------------------------------- rules -- */

void
sched_wait_rules_changed(struct sched *sched)
{
    struct sched_queue *queue = &sched->waits->queue;

    for (struct sched_conn *conn = sched->conns; conn; conn = conn->next) {
        struct sched_wait *wait = conn->waiting;
        const struct sched_class *class;
        struct sched_tenant *old;

        if (!wait)
            continue;
        old = wait->waiter.tenant;
        sched_queue_remove(queue, &wait->waiter);
        class = sched_rules_class(sched->rules, wait->class_name);
        wait->open.class = class ? class : sched_rules_class(sched->rules, "");
        wait->waiter.priority = wait->open.class->value;
        if (old->kept_for == wait || (wait->gang && old->kept_for == wait->gang))
            old->kept_for = NULL;
        wait->waiter.tenant = sched_tenant_ref(&sched->sessions.tenants, wait->owner);
        sched_tenant_unref(&sched->sessions.tenants, old);
        wait->open.where.unreached =
            sched_rules_unreached(sched->rules, wait->open.node);
        wait->open.req.where =
            sched_where_any(&wait->open.where) ? NULL : &wait->open.where;
        wait->waiter.req = wait->open.req;
        if (!wait->waiter.tenant || sched_queue_add(queue, &wait->waiter, NULL) < 0)
            refuse(wait, GPUPOOL__CTL__CTL_CODE__CTL_LIMIT,
                   "the rules of the pool have changed; wait again");
    }
}
