/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_events.h"

#include "gp_str.h"
#include "gp_time.h"

#include <string.h>

/* sched_events.h says what they mean. */
static const char *const KINDS[] = {
    "open",  "end",  "preempt", "register", "lost", "drain", "undrain",
    "fault", "well", "cordon",  "uncordon", "hand", "lead",  "forget",
};

static struct sched_event *
next_place(struct sched_events *events)
{
    if (!events->ring)
        events->ring = calloc(SCHED_EVENTS_MAX, sizeof(*events->ring));
    if (!events->ring)
        return NULL; /* a view without events is still a view */
    return &events->ring[events->n++ % SCHED_EVENTS_MAX];
}

void
sched_events_add(struct sched_events *events, const char *kind, const char *session,
                 const char *server, const char *owner, const char *words)
{
    struct sched_event *event = next_place(events);

    if (!event)
        return;
    event->serial = events->n;
    event->unix_ms = gp_wall_ns() / GP_NS_PER_MS;
    event->kind = kind;
    gp_str_copy(event->session, sizeof(event->session), session ? session : "");
    gp_str_copy(event->server, sizeof(event->server), server ? server : "");
    gp_str_copy(event->owner, sizeof(event->owner), owner ? owner : "");
    gp_str_copy(event->words, sizeof(event->words), words ? words : "");
}

static const char *
known_kind(const char *kind)
{
    for (size_t i = 0; i < ARRAY_SIZE(KINDS); i++)
        if (!strcmp(KINDS[i], kind))
            return KINDS[i];
    return "other";
}

void
sched_events_put(struct sched_events *events, const struct sched_event *from,
                 const char *kind)
{
    struct sched_event *event;

    if (from->serial <= events->n)
        return;
    /* After a gap, what is before it is not shown. */
    if (from->serial != events->n + 1)
        events->n = events->before = from->serial - 1;
    event = next_place(events);
    if (!event)
        return;
    *event = *from;
    event->kind = known_kind(kind);
}

void
sched_events_fini(struct sched_events *events)
{
    free(events->ring);
    *events = (struct sched_events){0};
}

static uint64_t
oldest(const struct sched_events *events)
{
    return gp_max(events->n - gp_min(events->n, (uint64_t)SCHED_EVENTS_MAX),
                  events->before) +
           1;
}

const struct sched_event *
sched_events_before(const struct sched_events *events, uint64_t serial)
{
    uint64_t wanted = serial > events->n ? events->n : serial - gp_min(serial, 1u);

    if (!events->ring || wanted < oldest(events))
        return NULL;
    return &events->ring[(wanted - 1) % SCHED_EVENTS_MAX];
}

const struct sched_event *
sched_events_after(const struct sched_events *events, uint64_t serial)
{
    uint64_t wanted = gp_max(oldest(events) - 1, serial) + 1;

    if (!events->ring || serial >= events->n)
        return NULL;
    return &events->ring[(wanted - 1) % SCHED_EVENTS_MAX];
}
