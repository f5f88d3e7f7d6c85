/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local pool that `gpupool up` started: who runs and where the scheduler listens.
 *
 * A text file in the user's folder, replaced as a whole:
 *
 *     gpupool-pool 1
 *     scheduler HOST:PORT
 *     process NAME PID START
 *
 * START is the process's start time in clock ticks since boot, so that a number that
 * was given to another process since is never signalled.
 */
#ifndef CLI_POOL_H
#define CLI_POOL_H

#include "gp_base.h"
#include "gp_net.h"

#include <sys/types.h>

struct gp_err;

#define CLI_POOL_PROCESSES_MAX 65 /* a scheduler and 64 servers */

struct cli_process {
    char name[32];
    pid_t pid;
    uint64_t start;
};

struct cli_pool {
    char scheduler[GP_NET_NAME_MAX];
    char local[GP_NET_NAME_MAX]; /* its Unix socket, or empty */
    struct cli_process processes[CLI_POOL_PROCESSES_MAX];
    unsigned n;
};

/* -ENOENT: no pool was started. */
int cli_pool_read(struct cli_pool *ret_pool, struct gp_err *err);
int cli_pool_write(const struct cli_pool *pool, struct gp_err *err);
int cli_pool_remove(struct gp_err *err);

/* Start time of @pid; -ESRCH. */
int cli_process_start(pid_t pid, uint64_t *ret_start);
/* A pidfd of the very process that was noted; -ESRCH: it is gone. */
int cli_process_open(const struct cli_process *process, int *ret_pidfd);
/* Does any process of @pool run? */
bool cli_pool_alive(const struct cli_pool *pool);

/* The name of a process of @pool that has died while others run, or NULL. */
const char *cli_pool_dead(const struct cli_pool *pool);
/* Does a server of @pool have processes of its own now?  Those work for sessions. */
bool cli_pool_works(const struct cli_pool *pool);

struct cli_pool_ended {
    unsigned ended;  /* processes that ran and were told to end */
    unsigned killed; /* those of them that had to be killed */
};

/* Ask every process to end, servers before the scheduler, and wait for it; kill what
 * has not ended by @deadline_ns. */
struct cli_pool_ended cli_pool_end(const struct cli_pool *pool, uint64_t deadline_ns);

#endif
