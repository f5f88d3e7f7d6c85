/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that wait for room, and which of them is next when some comes free.
 *
 * The order: priority, then the tenant with the smallest dominant share, then arrival.
 * A request is placed as soon as it fits; one that is before it and does not fit does
 * not stop it (backfill), but gets room kept for it in the end (sched_hold.h).
 *
 * Waiters of one tenant and one priority that can use the same cards (a kind) form a
 * line; the lines of a kind form an order.  Both are trees that sum up needs
 * (sched_order.h), so that when a card comes free, kinds and lines that it cannot serve
 * are passed over without looking at their members:
 *
 *   queue -> kind (cards, span, selectors) -> line (priority, tenant) -> waiter
 *
 * Waiters belong to the caller, from sched_queue_add() until sched_queue_remove().  The
 * queue decides nothing about the pool: whether a waiter really fits, sched_queue.place
 * says.  Event loop thread only.
 */
#ifndef SCHED_QUEUE_H
#define SCHED_QUEUE_H

#include "sched_order.h"
#include "sched_place.h"
#include "sched_tenant.h"
#include "sched_where.h"

struct gp_err;
struct sched_class;
struct sched_line;
struct sched_waiter;

/* A waiter and what belongs to it are about 1 KiB. */
#define SCHED_QUEUE_MAX 65536
/* Each event looks at every kind: different sets of cards that requests may use. */
#define SCHED_KINDS_MAX 1024
/* Of them those of one tenant, a kind counted once for each class of priority; and
 * never more than a quarter of what is free, so that the first tenants leave some to
 * later ones. */
#define SCHED_TENANT_KINDS_MAX 128
/* Waiters that seemed to fit and did not, for one event; the others are found by
 * sched_queue_sweep(). */
#define SCHED_TRIES_MAX 64

/* What makes two requests able to use the same cards; compared with memcmp(). */
struct sched_kind_key {
    uint32_t cards, span, near, in_space, has_uuid;
    uint8_t uuid[TICKET_UUID_SIZE];
    char server[CTL_NAME_MAX];
    struct sched_where where;
};

struct sched_kind {
    struct sched_kind_key key;
    uint64_t hash;
    struct sched_order lines;
    unsigned n_lines;
    struct sched_kind *next;
};

struct sched_line {
    struct sched_kind *kind;
    struct sched_tenant *tenant;
    uint32_t priority;
    struct sched_order waiters;
    struct sched_order_node node;   /* in kind->lines */
    struct sched_line *tenant_next; /* of the same tenant */
};

struct sched_waiter {
    struct sched_request req; /* its strings are the kind's */
    struct sched_tenant *tenant;
    uint32_t priority;
    uint64_t arrived; /* orders the waiters of a line; nanoseconds of the wall clock */
    uint64_t serial;
    struct sched_amount amount; /* what it will hold */
    bool in_queue;
    struct sched_line *line;
    struct sched_order_node node; /* in line->waiters */
    struct gp_tree_node by_age;   /* in queue->by_age */
};

struct sched_queue {
    const struct sched_pool *pool;
    struct sched_tenants *tenants;
    /* Where @waiter could go now; -ENOSPC: nowhere. */
    int (*place)(void *arg, const struct sched_waiter *waiter,
                 struct sched_decision *ret);
    void *arg;
    struct sched_kind *kinds;
    unsigned n_kinds, n;
    uint64_t next_serial;
    struct gp_tree by_age; /* arrival, serial */
    uint64_t swept[2];     /* where sched_queue_sweep() goes on */
    uint64_t tries;        /* waiters that sched_queue.place was asked for */
};

void sched_queue_init(struct sched_queue *queue, const struct sched_pool *pool,
                      struct sched_tenants *tenants);
/* The waiters must be gone. */
void sched_queue_fini(struct sched_queue *queue);

/* @waiter has req, tenant, priority, arrived; req's strings are copied.  -ENOSPC with
 * words: one of the caps, and what to do. */
int sched_queue_add(struct sched_queue *queue, struct sched_waiter *waiter,
                    struct gp_err *err);
void sched_queue_remove(struct sched_queue *queue, struct sched_waiter *waiter);
/* What its tenant holds has changed: its place in the order has too. */
void sched_queue_tenant_changed(struct sched_queue *queue, struct sched_tenant *tenant);
/* How many are served before it, if nothing else changes; 0: it is next. */
uint32_t sched_queue_ahead(const struct sched_queue *queue,
                           const struct sched_waiter *waiter);
/* In the order of the queue. */
bool sched_waiter_before(const struct sched_waiter *a, const struct sched_waiter *b);
/* By arrival. */
static inline struct sched_waiter *
sched_queue_oldest(const struct sched_queue *queue)
{
    struct gp_tree_node *node = gp_tree_first(&queue->by_age);

    return node ? container_of(node, struct sched_waiter, by_age) : NULL;
}
static inline struct sched_waiter *
sched_queue_younger(const struct sched_queue *queue, const struct sched_waiter *waiter)
{
    struct gp_tree_node *node = gp_tree_next(&queue->by_age, &waiter->by_age);

    return node ? container_of(node, struct sched_waiter, by_age) : NULL;
}

/* The first waiter that fits now that @card has more to give, and where; or NULL. */
struct sched_waiter *sched_queue_serve_card(struct sched_queue *queue,
                                            const struct sched_card *card,
                                            struct sched_decision *ret);
/* The first waiter of @tenant that fits now that its quotas leave more; or NULL. */
struct sched_waiter *sched_queue_serve_tenant(struct sched_queue *queue,
                                              const struct sched_tenant *tenant,
                                              struct sched_decision *ret);
/* Ask for the next @n by arrival, going round: finds in time whoever was passed over.
 * The first that fits, or NULL. */
struct sched_waiter *sched_queue_sweep(struct sched_queue *queue, unsigned n,
                                       struct sched_decision *ret);

#endif
