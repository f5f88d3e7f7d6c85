/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program of `gpupool run`: started, sent its signals, awaited.
 *
 * It runs in our own process group, so a terminal's signals reach it without us; we
 * forward only those that another process sent to us alone.  Event loop thread only.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include "gp_base.h"
#include "gp_loop.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

struct gp_err;

struct cli_child {
    pid_t pid;  /* 0: not running */
    int status; /* as wait(2) says, when it has ended */
    struct gp_loop *loop;
    struct gp_loop_fd signals; /* a signalfd */
    sigset_t old_mask;
    struct rlimit core; /* of core files, for the program */
};

/* Whether @program can be started, before a session is opened for it: 0, or the exit
 * status that says it cannot, with words of @command ("run"). */
int cli_child_check(const char *command, const char *program);

/* Block what is to be forwarded.  Before anything that a signal should not cut short.
 */
int cli_child_init(struct cli_child *child, struct gp_loop *loop, struct gp_err *err);
/* Start it; the loop stops when it has ended. */
int cli_child_start(struct cli_child *child, char **argv, struct gp_err *err);
void cli_child_fini(struct cli_child *child);

/* Exit status to pass on: its own, or 128 + signal. */
int cli_child_exit(const struct cli_child *child);

#endif
