/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that renews a session's lease while `gpupool run` may be stopped.
 *
 * Ctrl-Z stops `gpupool run` with its program, and a lease that nobody renews ends.  So
 * a child of it, in a process group of its own, holds the connection to the scheduler
 * and renews; it ends when the other end of its socket is closed, as by the end of
 * `gpupool run`.  Should it end before that, `gpupool run` renews itself.
 *
 * Storage is the owner's; loop thread.  It does not close the session.
 */
#ifndef CLI_KEEPER_H
#define CLI_KEEPER_H

#include "gp_base.h"
#include "gp_loop.h"

#include <sys/types.h>

struct cli_session;
struct gp_err;

struct cli_keeper {
    struct cli_session *session;
    struct gp_loop *loop;
    struct gp_loop_fd src; /* to the process */
    pid_t pid;             /* 0: there is none */
};

int cli_keeper_start(struct cli_keeper *keeper, struct cli_session *session,
                     struct gp_loop *loop, struct gp_err *err);
/* Ends the process, before the session is closed.  Not started: a no-op. */
void cli_keeper_stop(struct cli_keeper *keeper);

#endif
