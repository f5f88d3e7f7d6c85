/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ids of sessions that the scheduler has ended: their tickets are refused here,
 * also those that have not expired, and also after a restart of this server.
 *
 * With --state-dir they are in a file there, a line each.  Ids never come again, so
 * that one that is remembered for too long does no harm.  Why each was ended is in
 * memory alone: an earlier version would not take a line with more than an id, and open
 * the session again.  Owned by struct srv; event-loop thread only.
 */
#ifndef SRV_CLOSED_H
#define SRV_CLOSED_H

#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct gp_err;

/* How many are remembered.  A ticket outlives its session by four leases and half a
 * minute (150 seconds, as a rule), so this is enough for 27 closed sessions a second.
 */
#define SRV_CLOSED_IDS 4096
/* Of the scheduler's words so many bytes are kept, with the NUL: 0.75 MiB at most. */
#define SRV_CLOSED_WORDS 192

struct srv_closed {
    uint64_t ids[SRV_CLOSED_IDS]; /* a ring; 0: free */
    char *words[SRV_CLOSED_IDS];  /* why that one was closed; NULL: not known */
    unsigned at;
    char *path;     /* NULL: not kept */
    unsigned lines; /* in the file */
    bool behind;    /* the file lacks ids, or ends within a line */
    bool told;      /* that it cannot be written */
};

/* Read what an earlier server left; @state_dir "": nothing is kept. */
int srv_closed_init(struct srv_closed *closed, const char *state_dir,
                    struct gp_err *err);
void srv_closed_fini(struct srv_closed *closed);

/* @why may be ""; the first reason of a session stays. */
void srv_closed_add(struct srv_closed *closed, uint64_t id, const char *why);
/* Write what an earlier call could not, as when the disk was full; to be called now and
 * then. */
void srv_closed_retry(struct srv_closed *closed);
bool srv_closed_has(const struct srv_closed *closed, uint64_t id);
/* Why it was closed, "" when that is not known. */
const char *srv_closed_why(const struct srv_closed *closed, uint64_t id);

#endif
