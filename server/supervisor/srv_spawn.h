/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting gpupool-worker processes: descriptors, environment, exec.
 *
 * Knows neither sessions nor probes: srv_worker.c and srv_inventory.c do.
 * Event-loop thread only.
 */
#ifndef SRV_SPAWN_H
#define SRV_SPAWN_H

#include "gp_base.h"

#include <stdint.h>
#include <sys/types.h>

struct gp_err;
struct srv_cell;
struct srv_keep_fds;
struct srv_keeper;
struct srv_conf;
struct srv_jail;

struct srv_spawn {
    const struct srv_conf *conf;
    int program; /* of srv_spawn_open() */
    const struct srv_jail *jail;
    const struct srv_cell *cell; /* of its session, or NULL */
    const char *const *argv;     /* argv[0] included, NULL-terminated */
    const int *fds;              /* become 3, 4, ... in the child; -1 stays closed */
    unsigned n_fds;
    int stdout_fd;             /* -1: /dev/null */
    const char *visible;       /* cards the driver shows, or NULL for all */
    const char *exports;       /* the session's folder on software cards, or NULL */
    uint32_t sm_percent;       /* of their multiprocessors, for the process; 0: all */
    struct srv_keeper *keeper; /* whose child it becomes; NULL: ours */
    uint64_t key;              /* of the keeper's item, with the descriptors @kept */
    const struct srv_keep_fds *kept;
};

/* The worker program as it is now.  Workers are started from the descriptor, because an
 * upgrade puts another program in its place some time before it restarts the server,
 * and what a server hands to its workers is for those of its own build. */
int srv_spawn_open(const struct srv_conf *conf, int *ret_fd, struct gp_err *err);

/* Start it in a process group of its own; it is killed when its parent, this thread or
 * the keeper, ends. */
int srv_spawn(const struct srv_spawn *what, pid_t *ret_pid, struct gp_err *err);

/* All that a new process needs before it execs. */
struct srv_spawn_child {
    const char *path;
    char **argv, **envp;
    const int *fds; /* become 3, 4, ...; -1 stays closed */
    unsigned n_fds;
    int stdout_fd; /* -1: /dev/null */
    pid_t parent;  /* which it does not outlive */
};

/* What starts it (srv_clone_start), from its struct srv_spawn_child. */
void srv_spawn_child(void *child);

#endif
