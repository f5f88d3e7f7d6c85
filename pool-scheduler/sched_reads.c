/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_reads.h"

#include "gp_hash.h"
#include "gp_time.h"
#include "sched_commit.h"
#include "sched_conn.h"
#include "sched_peer.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* What --rate-reads counts in; each of them, in nanoseconds. */
#define UNIT_NS (GP_NS_PER_MS / SCHED_READS_UNITS)

/* A read that waits for its turn. */
struct sched_read {
    struct sched_conn *conn;
    struct sched_read *conn_next;
    uint64_t who;
    struct gp_tree_node node; /* by round and arrival */
    uint32_t id;
    size_t size;
    uint8_t data[];
};

/* ------------------------------------------------------------------- costs -- */

uint64_t
sched_reads_begin(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * GP_NS_PER_S + (uint64_t)ts.tv_nsec;
}

void
sched_reads_charge(struct sched *sched, uint64_t who, uint64_t begin)
{
    uint64_t ns = sched_reads_begin() - begin;

    sched->reads.spent_ns += ns;
    gp_rate_spend(&sched->rates.reads, who, ns / UNIT_NS + 1, gp_now_ns());
}

uint64_t
sched_reads_wait(struct sched *sched, uint64_t who)
{
    return gp_rate_wait(&sched->rates.reads, who, gp_now_ns());
}

static uint64_t
user_hash(const char *user)
{
    return gp_hash_bytes(gp_hash_process_key(), user, strlen(user));
}

uint64_t
sched_reads_who(const struct sched_conn *conn)
{
    const char *user = sched_peer_user(conn);

    return user ? user_hash(user) : conn->from;
}

/* A scheduler that relays asks for somebody. */
static uint64_t
who_asks(const struct sched_conn *conn, const Gpupool__Ctl__CtlRequest *req)
{
    const Gpupool__Ctl__CtlAsker *asker = conn->relays ? req->asker : NULL;

    if (asker && *asker->user)
        return user_hash(asker->user);
    if (asker && asker->address.len)
        return gp_hash_bytes(gp_hash_process_key(), asker->address.data,
                             asker->address.len);
    return sched_reads_who(conn);
}

static bool
is_limited(const struct sched_conn *conn, const Gpupool__Ctl__CtlRequest *req)
{
    if (conn->relays)
        return req->asker && (*req->asker->user || req->asker->address.len);
    return !conn->server && !sched_peer_is_admin(conn) && !sched_peer_forwards(conn);
}

/* ------------------------------------------------------------------- turns -- */

static void on_turn_end(struct gp_loop_timer *timer);

/* Not before the descriptors of the next turn, when called from a timer. */
static void
arm(struct sched *sched)
{
    if (sched->loop && !sched->reads.timer.loop)
        gp_loop_timer_set(sched->loop, &sched->reads.timer, gp_now_ns(), on_turn_end);
}

static void
answer(struct sched_conn *conn, const Gpupool__Ctl__CtlRequest *req)
{
    struct sched *sched = conn->sched;
    uint64_t who = who_asks(conn, req), begin = sched_reads_begin();

    arm(sched);
    sched_commit_turn(sched);
    sched->reads.answer(conn, req); /* @conn may be gone */
    sched_reads_charge(sched, who, begin);
}

static uint16_t *
count_of(struct sched *sched, uint64_t who)
{
    return &sched->reads.counts[who % SCHED_READS_BUCKETS];
}

/* In the round after that of the last one of its peer that waits. */
static void
enqueue(struct sched_conn *conn, struct sched_read *read)
{
    struct sched *sched = conn->sched;
    uint16_t *count = count_of(sched, read->who);

    read->conn = conn;
    read->conn_next = conn->reads;
    conn->reads = read;
    gp_tree_insert(&sched->reads.waiting, &read->node, sched->reads.round + *count,
                   sched->reads.arrived++);
    if (*count < UINT16_MAX)
        ++*count;
    gp_msg_conn_hold(&conn->msg, true);
    arm(sched);
}

static void
dequeue(struct sched_read *read)
{
    struct sched *sched = read->conn->sched;
    struct sched_read **at = &read->conn->reads;
    uint16_t *count = count_of(sched, read->who);

    while (*at != read)
        at = &(*at)->conn_next;
    *at = read->conn_next;
    gp_tree_remove(&sched->reads.waiting, &read->node);
    if (*count)
        --*count;
}

static void
refuse_without_memory(struct sched_conn *conn, uint32_t id)
{
    sched_conn_refuse(conn, id, GPUPOOL__CTL__CTL_CODE__CTL_INTERNAL, "out of memory",
                      NULL);
}

static void
answer_first(struct sched *sched)
{
    struct sched_read *read =
        container_of(gp_tree_first(&sched->reads.waiting), struct sched_read, node);
    Gpupool__Ctl__CtlRequest *req =
        gpupool__ctl__ctl_request__unpack(NULL, read->size, read->data);
    struct sched_conn *conn = read->conn;
    uint32_t id = read->id;

    sched->reads.round = read->node.key[0];
    dequeue(read);
    free(read);
    sched_commit_release(conn);
    if (req) {
        answer(conn, req);
        gpupool__ctl__ctl_request__free_unpacked(req, NULL);
    } else {
        refuse_without_memory(conn, id);
    }
}

static void
on_turn_end(struct gp_loop_timer *timer)
{
    struct sched *sched = container_of(timer, struct sched, reads.timer);

    sched->reads.spent_ns = 0;
    while (sched->reads.waiting.count && sched->reads.spent_ns < SCHED_READS_TURN_NS)
        answer_first(sched);
    if (sched->reads.waiting.count)
        arm(sched);
}

/* ---------------------------------------------------------------- requests -- */

bool
sched_reads_is(const Gpupool__Ctl__CtlRequest *req)
{
    switch (req->body_case) {
    case GPUPOOL__CTL__CTL_REQUEST__BODY_STATUS:
    case GPUPOOL__CTL__CTL_REQUEST__BODY_LIST:
    case GPUPOOL__CTL__CTL_REQUEST__BODY_QUEUE:
    case GPUPOOL__CTL__CTL_REQUEST__BODY_WATCH_POOL:
    case GPUPOOL__CTL__CTL_REQUEST__BODY_WAIT_SERVERS: /* which may be there already */
        return true;
    case GPUPOOL__CTL__CTL_REQUEST__BODY_OPEN:
        return req->open->explain;
    default:
        return false;
    }
}

static struct sched_read *
read_new(const struct sched_conn *conn, const Gpupool__Ctl__CtlRequest *req,
         size_t size)
{
    struct sched_read *read = calloc(1, sizeof(*read) + size);

    if (!read)
        return NULL;
    read->who = who_asks(conn, req);
    read->id = req->id;
    read->size = size;
    return read;
}

/* True: it was refused. */
static bool
used_up(struct sched_conn *conn, const Gpupool__Ctl__CtlRequest *req)
{
    uint64_t wait =
        is_limited(conn, req) ? sched_reads_wait(conn->sched, who_asks(conn, req)) : 0;
    char words[160];

    if (!wait)
        return false;
    snprintf(words, sizeof(words),
             "too many or too large requests to read the pool from this %s; try again "
             "in %u ms",
             sched_peer_user(conn) ? "user" : "address", gp_rate_ms(wait));
    sched_conn_refuse_until(conn, req->id, gp_rate_ms(wait), words);
    return true;
}

bool
sched_reads_request(struct sched_conn *conn, const Gpupool__Ctl__CtlRequest *req,
                    const void *data, size_t size)
{
    const struct sched *sched = conn->sched;
    struct sched_read *read;

    if (used_up(conn, req))
        return true;
    if (!sched->reads.waiting.count && sched->reads.spent_ns < SCHED_READS_TURN_NS) {
        answer(conn, req);
        return false;
    }
    read = read_new(conn, req, size);
    if (read) {
        memcpy(read->data, data, size);
        enqueue(conn, read);
    } else {
        refuse_without_memory(conn, req->id);
    }
    return true;
}

void
sched_reads_later(struct sched_conn *conn, const Gpupool__Ctl__CtlRequest *req)
{
    struct sched_read *read =
        read_new(conn, req, gpupool__ctl__ctl_request__get_packed_size(req));

    if (!read) {
        refuse_without_memory(conn, req->id);
        return;
    }
    gpupool__ctl__ctl_request__pack(req, read->data);
    enqueue(conn, read);
}

void
sched_reads_end(struct sched_conn *conn)
{
    while (conn->reads) {
        struct sched_read *read = conn->reads;

        dequeue(read);
        free(read);
    }
}
