/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting in the scheduler's queue, or for a scheduler: what is shown meanwhile, how it
 * ends.
 *
 * Lives in `gpupool run` until its session is granted or refused.  Blocks; one
 * thread.  On a terminal one line is written again and again, else a line for each
 * change, both on stderr.
 */
#ifndef CLI_WAIT_H
#define CLI_WAIT_H

#include "cli_ctl.h"

struct gp_err;

#define CLI_PLACE_MAX 256 /* what the scheduler signs is under 100 bytes */

struct cli_wait {
    bool queue;       /* not only for a scheduler, but for room as well */
    uint32_t most_ms; /* 0: no limit */
    int signals;      /* signalfd: one that arrives ends the waiting */
    int signo;        /* the one that did */
    uint64_t since_ns;
    bool terminal, shown;
    char line[512]; /* shown last */
    uint8_t place[CLI_PLACE_MAX];
    size_t place_len;
    uint32_t position;
    unsigned moments; /* waited for a scheduler */
};

void cli_wait_init(struct cli_wait *wait, bool queue, uint32_t most_ms, int signals);
/* What goes into an open request: that it may wait, and for which place. */
void cli_wait_request(const struct cli_wait *wait, Gpupool__Ctl__CtlOpen *open);
/* The scheduler has answered @reply, a CtlQueued: wait for what comes after the last of
 * them, which replaces it.  -EREMOTE: it is a refusal, with words.  -EINTR: a signal.
 * Else the link failed, and coming back with the place may help. */
int cli_wait_turn(struct cli_wait *wait, struct cli_ctl *ctl, uint32_t id,
                  Gpupool__Ctl__CtlReply **reply, struct gp_err *err);
/* A pause before the next attempt to connect, after one that failed because of @why.
 * -EINTR: a signal.  -ETIMEDOUT: the user's time to wait is over. */
int cli_wait_pause(struct cli_wait *wait, const char *why, struct gp_err *err);
/* A short one, longer each time, which nothing is shown of.  -EINTR: a signal. */
int cli_wait_moment(struct cli_wait *wait, struct gp_err *err);
void cli_wait_end(struct cli_wait *wait); /* nothing more is shown */

#endif
