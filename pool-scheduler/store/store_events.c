/* SPDX-License-Identifier: Apache-2.0 */
#include "store_events.h"

#include "gp_str.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

static struct store_event *
pop(struct store_events *events)
{
    struct store_event *event;

    pthread_mutex_lock(&events->lock);
    event = events->first;
    if (event) {
        events->first = event->next;
        if (!events->first)
            events->end = &events->first;
    }
    pthread_mutex_unlock(&events->lock);
    return event;
}

static void
on_readable(struct gp_loop_fd *src, uint32_t revents)
{
    struct store_events *events = container_of(src, struct store_events, src);
    struct store_event *event;
    uint64_t n;

    (void)revents;
    if (read(src->fd, &n, sizeof(n)) != sizeof(n))
        return;
    while ((event = pop(events))) {
        events->on_event(events->arg, event);
        free(event->value);
        free(event);
    }
}

int
store_events_init(struct store_events *events, struct gp_loop *loop,
                  void (*on_event)(void *arg, const struct store_event *event),
                  void *arg)
{
    pthread_mutex_init(&events->lock, NULL);
    events->first = NULL;
    events->end = &events->first;
    events->on_event = on_event;
    events->arg = arg;
    events->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (events->event_fd < 0)
        return -errno;
    return gp_loop_fd_add(loop, &events->src, events->event_fd, EPOLLIN, on_readable);
}

void
store_events_fini(struct store_events *events)
{
    struct store_event *event;

    if (!events->end)
        return; /* never made */
    gp_loop_fd_del(&events->src);
    while ((event = pop(events))) {
        free(event->value);
        free(event);
    }
    if (events->event_fd >= 0)
        close(events->event_fd);
    pthread_mutex_destroy(&events->lock);
    events->end = NULL;
}

void
store_events_push(struct store_events *events, enum store_event_kind kind,
                  const char *key, uint8_t *value, size_t size)
{
    struct store_event *event = calloc(1, sizeof(*event));
    uint64_t one = 1;

    if (!event) { /* a change that is missed is worse than no scheduler */
        free(value);
        abort();
    }
    event->kind = kind;
    gp_str_copy(event->key, sizeof(event->key), key ? key : "");
    event->value = value;
    event->size = size;
    pthread_mutex_lock(&events->lock);
    *events->end = event;
    events->end = &event->next;
    pthread_mutex_unlock(&events->lock);
    /* It only fails when the counter is full, and then the loop is woken anyway. */
    if (write(events->event_fd, &one, sizeof(one)) < 0)
        return;
}
