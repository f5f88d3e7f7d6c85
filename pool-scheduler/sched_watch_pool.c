/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling who waits for it that the pool has changed: what a controller does instead of
 * asking again and again while nothing fits.
 *
 * The state of the pool is a number over everything that decides about a placement.  It
 * is computed once per tick while somebody waits, so no other module has to announce
 * its changes, and a burst of them is one answer.
 */
#include "gp_time.h"
#include "sched_auth.h"
#include "sched_conn.h"
#include "sched_handle.h"

/* As long as a long poll may hang on a dead link. */
#define WATCH_MAX_MS (5u * 60 * 1000)

static uint64_t
mix(uint64_t h, uint64_t value)
{
    h ^= value;
    h *= UINT64_C(0x100000001b3); /* FNV-1a, over words */
    return h ^ h >> 29;
}

static uint64_t
pool_state(const struct sched *sched)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (const struct sched_server *s = sched->pool->servers; s; s = s->next) {
        h = mix(h, s->serial);
        h = mix(h,
                s->alive | s->drain_asked << 1 | s->drain_self << 2 | s->unclean << 3);
        for (unsigned i = 0; i < s->n_cards; i++) {
            const struct sched_card *card = s->cards[i];

            h = mix(h, card->serial);
            h = mix(h,
                    sched_card_open(card) | card->core_given << 1 | card->slices << 16);
            h = mix(h, card->memory_given);
            h = mix(h, card->facts.memory);
        }
    }
    return h ? h : 1;
}

static void
answer(struct sched_conn *conn, uint64_t now)
{
    Gpupool__Ctl__CtlReply reply = GPUPOOL__CTL__CTL_REPLY__INIT;
    Gpupool__Ctl__CtlPoolChange change = GPUPOOL__CTL__CTL_POOL_CHANGE__INIT;

    reply.id = conn->pool_watch.request;
    change.now = now;
    reply.body_case = GPUPOOL__CTL__CTL_REPLY__BODY_POOL_CHANGE;
    reply.pool_change = &change;
    sched_watch_pool_end(conn);
    sched_conn_touch(conn);
    sched_conn_reply(conn, &reply);
}

static void
on_timeout(struct gp_loop_timer *timer)
{
    struct sched_conn *conn =
        container_of(timer, struct sched_conn, pool_watch.timeout);

    answer(conn, pool_state(conn->sched));
}

void
sched_handle_watch_pool(struct sched_conn *conn, uint32_t id,
                        const Gpupool__Ctl__CtlWatchPool *msg)
{
    uint32_t ms = gp_min(msg->timeout_ms, WATCH_MAX_MS);
    uint64_t now;

    if (!sched_auth_check(conn, id, SCHED_MAY_READ, ""))
        return;
    if (conn->pool_watch.request) {
        sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_LIMIT,
                          "this connection watches the pool already", NULL);
        return;
    }
    now = pool_state(conn->sched);
    conn->pool_watch.request = id;
    conn->pool_watch.seen = msg->seen;
    if (msg->seen != now) {
        answer(conn, now);
        return;
    }
    conn->sched->n_pool_watches++;
    gp_loop_timer_set(conn->sched->loop, &conn->pool_watch.timeout,
                      gp_now_ns() + ms * GP_NS_PER_MS, on_timeout);
}

void
sched_watch_pool_end(struct sched_conn *conn)
{
    if (conn->pool_watch.timeout.loop)
        conn->sched->n_pool_watches--;
    gp_loop_timer_del(&conn->pool_watch.timeout);
    conn->pool_watch.request = 0;
}

void
sched_watch_pool_check(struct sched *sched)
{
    uint64_t now;

    if (!sched->n_pool_watches)
        return;
    now = pool_state(sched);
    for (struct sched_conn *conn = sched->conns; conn; conn = conn->next)
        if (conn->pool_watch.request && conn->pool_watch.seen != now)
            answer(conn, now);
}
