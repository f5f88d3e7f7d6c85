/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that renews a session's lease while `gpupool run` may be stopped.
 *
 * Ctrl-Z stops `gpupool run` with its program, and a lease that nobody renews ends.  So
 * a child of it, in a process group of its own, keeps the session (cli_keepalive.h). It
 * ends when the other end of its socket is closed: without the session, if `gpupool
 * run` has said that it ends; else, as when that was killed, it ends the session as
 * well.  Should it end before that, `gpupool run` starts another, and after some of
 * them keeps the session itself.
 *
 * Storage is the owner's; loop thread.
 */
#ifndef CLI_KEEPALIVE_PROCESS_H
#define CLI_KEEPALIVE_PROCESS_H

#include "cli_keepalive.h"
#include "gp_base.h"
#include "gp_loop.h"

#include <sys/types.h>

struct cli_session;
struct gp_err;

struct cli_keepalive_process {
    struct cli_session *session;
    struct gp_loop *loop;
    struct gp_loop_fd src;     /* to the process */
    pid_t pid;                 /* 0: there is none */
    uint64_t began_ns;         /* when it was started */
    unsigned restarts;         /* of processes that ended soon */
    struct cli_keepalive keep; /* without a process */
};

int cli_keepalive_process_start(struct cli_keepalive_process *process,
                                struct cli_session *session, struct gp_loop *loop,
                                struct gp_err *err);
/* Ends the process, before the session is closed.  Not started: a no-op. */
void cli_keepalive_process_stop(struct cli_keepalive_process *process);

#endif
