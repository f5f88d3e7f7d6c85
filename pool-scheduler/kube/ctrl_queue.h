/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of things to look at: each at most once, in order, some only after a pause.
 *
 * Owned by struct ctrl; event loop thread.  A name that fails comes back after a pause
 * that doubles (ctrl_queue_again()), until it succeeds (ctrl_queue_done()).
 */
#ifndef CTRL_QUEUE_H
#define CTRL_QUEUE_H

#include "gp_base.h"

#include <jansson.h>

struct ctrl_item {
    struct ctrl_item *next;
    uint64_t due_ns; /* 0: now */
    unsigned tries;
    bool queued;
    char name[]; /* "c:default/train" */
};

struct ctrl_queue {
    json_t *by_name; /* addresses of items, as numbers */
    struct ctrl_item *head, **tail, *later;
    size_t n, n_later;
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
