/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened in the pool lately, for people: the last few thousand events, in
 * memory.
 *
 * Not the audit log (gp_audit.h), which is complete and on disk: this starts empty with
 * the scheduler and forgets the oldest.  Part of struct sched; event loop thread only.
 *
 * Kinds: "open", "end", "preempt" of sessions; "register", "lost", "drain", "undrain",
 * "forget" of servers; "fault", "well", "cordon", "uncordon" of a server's cards;
 * "hand" of a request that another pool granted; "lead" of a scheduler that takes over.
 */
#ifndef SCHED_EVENTS_H
#define SCHED_EVENTS_H

#include "ctl_limits.h"
#include "gp_base.h"

#include <stdint.h>

/* An hour of a busy pool of a few hundred sessions; two megabytes. */
#define SCHED_EVENTS_MAX 4096

struct sched_event {
    uint64_t serial, unix_ms;
    const char *kind; /* static storage */
    char session[CTL_NAME_MAX], server[CTL_NAME_MAX], owner[CTL_OWNER_MAX];
    char words[160];
};

struct sched_events {
    struct sched_event *ring; /* SCHED_EVENTS_MAX; NULL before the first event */
    uint64_t n;               /* that ever were; the newest has this serial */
    uint64_t before;          /* the serial before the first one that was put here */
};

/* Strings are copied and cut; NULL: nothing to say. */
void sched_events_add(struct sched_events *events, const char *kind,
                      const char *session, const char *server, const char *owner,
                      const char *words);
/* One of another scheduler's, with its serial; those that it follows must be there
 * already.  An older one is left out; @kind is the text of its kind. */
void sched_events_put(struct sched_events *events, const struct sched_event *event,
                      const char *kind);
void sched_events_fini(struct sched_events *events);

/* The newest event before @serial (UINT64_MAX: the newest of all), or NULL. */
const struct sched_event *sched_events_before(const struct sched_events *events,
                                              uint64_t serial);
/* The oldest one behind @serial (0: the oldest of all), or NULL. */
const struct sched_event *sched_events_after(const struct sched_events *events,
                                             uint64_t serial);

#endif
