/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the threads of a shared store report to the event loop, in order.
 *
 * The queue is owned by the scheduler and outlives the store.  store_events_push() on
 * any thread, the rest on the event loop's.
 */
#ifndef STORE_EVENTS_H
#define STORE_EVENTS_H

#include "gp_base.h"
#include "gp_loop.h"
#include "store.h"

#include <pthread.h>

enum store_event_kind {
    STORE_CHANGED, /* key, and value or NULL */
    STORE_LEADER,  /* value: the address of the leader, as text; NULL: there is none */
    STORE_LEADING, /* this scheduler leads, and has seen every earlier change */
    STORE_LOST,    /* start again: it does not lead any more, or has missed changes, as
                    * the value says in words (NULL: no memory for them) */
};

struct store_event {
    enum store_event_kind kind;
    char key[STORE_KEY_MAX];
    uint8_t *value;
    size_t size;
    struct store_event *next;
};

struct store_events {
    pthread_mutex_t lock;
    struct store_event *first, **end;
    int event_fd;
    struct gp_loop_fd src;
    void (*on_event)(void *arg, const struct store_event *event);
    void *arg;
};

int store_events_init(struct store_events *events, struct gp_loop *loop,
                      void (*on_event)(void *arg, const struct store_event *event),
                      void *arg);
void store_events_fini(struct store_events *events);
/* @value is the queue's afterwards. */
void store_events_push(struct store_events *events, enum store_event_kind kind,
                       const char *key, uint8_t *value, size_t size);

#endif
