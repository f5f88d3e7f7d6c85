/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_events.h"

#include "gp_str.h"
#include "gp_time.h"

void
sched_events_add(struct sched_events *events, const char *kind, const char *session,
                 const char *server, const char *owner, const char *words)
{
    struct sched_event *event;

    if (!events->ring)
        events->ring = calloc(SCHED_EVENTS_MAX, sizeof(*events->ring));
    if (!events->ring)
        return; /* a view without events is still a view */
    event = &events->ring[events->n % SCHED_EVENTS_MAX];
    event->serial = ++events->n;
    event->unix_ms = gp_wall_ns() / GP_NS_PER_MS;
    event->kind = kind;
    gp_str_copy(event->session, sizeof(event->session), session ? session : "");
    gp_str_copy(event->server, sizeof(event->server), server ? server : "");
    gp_str_copy(event->owner, sizeof(event->owner), owner ? owner : "");
    gp_str_copy(event->words, sizeof(event->words), words ? words : "");
}

void
sched_events_fini(struct sched_events *events)
{
    free(events->ring);
    *events = (struct sched_events){0};
}

const struct sched_event *
sched_events_before(const struct sched_events *events, uint64_t serial)
{
    uint64_t oldest = events->n - gp_min(events->n, (uint64_t)SCHED_EVENTS_MAX) + 1;
    uint64_t wanted = serial > events->n ? events->n : serial - gp_min(serial, 1u);

    if (!events->ring || wanted < oldest)
        return NULL;
    return &events->ring[(wanted - 1) % SCHED_EVENTS_MAX];
}
