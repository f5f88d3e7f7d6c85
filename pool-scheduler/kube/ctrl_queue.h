/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of things to look at: each at most once, some only after a pause.
 *
 * Those of one namespace come in order; namespaces take turns, so that who has
 * thousands of objects keeps nobody waiting for all of them.  What is in no namespace
 * ("cards", "g:name") is one more of them.  Each call costs the logarithm of what is
 * there at most, because a tenant makes as many objects as he likes.
 *
 * Owned by struct ctrl; event loop thread.  A name that fails comes back after a pause
 * that doubles (ctrl_queue_again()), until it succeeds (ctrl_queue_done()).
 */
#ifndef CTRL_QUEUE_H
#define CTRL_QUEUE_H

#include "gp_base.h"

#include <jansson.h>

struct ctrl_list;

struct ctrl_item {
    struct ctrl_item *next; /* of its list */
    uint64_t due_ns;        /* 0: now */
    size_t at;              /* in @later, if it is due then */
    unsigned tries;
    bool queued;
    char name[]; /* "c:default/train" */
};

struct ctrl_queue {
    json_t *by_name; /* addresses of items, as numbers */
    json_t *lists;   /* the same of namespaces that have something to look at now */
    struct ctrl_list *first, **last; /* of those, in the order of their turns */
    struct ctrl_item **later; /* a heap: the one that is due first is the first */
    size_t n_later, room_later;
};

int ctrl_queue_init(struct ctrl_queue *queue);
void ctrl_queue_fini(struct ctrl_queue *queue);
/* Nothing is queued any more. */
void ctrl_queue_clear(struct ctrl_queue *queue);
/* Queued already: a no-op, but a pause is cut short. */
void ctrl_queue_add(struct ctrl_queue *queue, const char *name);
/* Queued already: for the earlier of both times. */
void ctrl_queue_add_at(struct ctrl_queue *queue, const char *name, uint64_t due_ns);
/* The next one, or NULL; it stays the queue's until done or again. */
struct ctrl_item *ctrl_queue_take(struct ctrl_queue *queue, uint64_t now_ns);
void ctrl_queue_done(struct ctrl_queue *queue, struct ctrl_item *item);
void ctrl_queue_again(struct ctrl_queue *queue, struct ctrl_item *item,
                      uint64_t now_ns);
/* When the next one is due: 0 now, UINT64_MAX never. */
uint64_t ctrl_queue_due(const struct ctrl_queue *queue);

#endif
