/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A control group per session: what its workers may use of the host together, whatever
 * their user ids are and however the memory is allocated.
 *
 *   memory  --worker-memory and --worker-shared for each worker, and its slices with a
 *           software card
 *   pids    SRV_CGROUP_TASKS threads and processes
 *   cpu     the same weight for each session, however many workers it has
 *
 * Version 2 where the server's own group is delegated to it (systemd: Delegate=yes), or
 * is that of a container whose first process the server is; the workers are born in
 * their group.  Version 1 only when it is asked for: there a process has to move, which
 * waits for an RCU grace period, up to 30 ms per attach.
 *
 * Owned by the server's jail; event-loop thread only.  It knows neither sessions nor
 * workers.
 */
#ifndef SRV_CGROUP_H
#define SRV_CGROUP_H

#include "gp_base.h"
#include "srv_clone.h"

#include <stdint.h>
#include <sys/types.h>

struct gp_err;
struct srv_cgroups;

/* As a worker with a user id of its own may have (WRK_TASKS_MAX). */
#define SRV_CGROUP_TASKS 4096

/* Hierarchies of version 1 that one session is in. */
#define SRV_CGROUP_PARTS 3

struct srv_cgroup {
    char name[32]; /* "": none */
    int fd[SRV_CGROUP_PARTS];
    uint64_t killed, reached; /* srv_cgroup_want() has told of so many */
};

/* Of what there was too little when the kernel ended a process of the group. */
enum srv_cgroup_want {
    SRV_CGROUP_WANT_NONE,  /* it ended none, or this is not known */
    SRV_CGROUP_WANT_OWN,   /* memory that the group may have */
    SRV_CGROUP_WANT_OTHER, /* of a group that it is in, or of the host */
};

/* What a successor has to know (srv_kept.h). */
struct srv_cgroups_kept {
    uint32_t n_parts; /* 0: none */
    char path[SRV_CGROUP_PARTS][512];
};

/* @mode: "auto", "on" or "off".  *ret is NULL when there are none.  @kept and @fds,
 * which stay the caller's: those of a supervisor that is gone, or NULL.  -ENOTSUP with
 * words: "on", but this host or this user has none. */
int srv_cgroups_new(const char *mode, const struct srv_cgroups_kept *kept,
                    const int *fds, struct srv_cgroups **ret, struct gp_err *err);
/* For the keeper; the descriptors, as many as n_parts, stay ours. */
void srv_cgroups_keep(const struct srv_cgroups *groups, struct srv_cgroups_kept *kept,
                      int *ret_fds);
/* Free the memory and leave the groups to a successor. */
void srv_cgroups_leave(struct srv_cgroups *groups);
/* Let a successor be started where this process's server was started.  A group whose
 * groups have limits takes no process (EBUSY), and systemd before 254 puts a service's
 * process into the service's own group.  So limits end, until the successor sets them
 * again; what a session has used by then does not count against them any more.  Does
 * nothing where systemd puts servers into a group of their own.  Any process in the
 * server's group. */
void srv_cgroups_make_room(void);
void srv_cgroups_free(struct srv_cgroups *groups); /* NULL is a no-op */

/* For session number @id; @groups NULL: none. */
int srv_cgroup_enter(struct srv_cgroups *groups, uint64_t id, struct srv_cgroup *group,
                     struct gp_err *err);
/* Its processes have ended, or are about to. */
void srv_cgroup_leave(struct srv_cgroups *groups, struct srv_cgroup *group);

/* Before a worker more, or after one less: what all of them may use together. */
int srv_cgroup_limit(const struct srv_cgroups *groups, const struct srv_cgroup *group,
                     uint64_t bytes, struct gp_err *err);

/* For want of what the kernel has ended processes of the group since this was asked, or
 * the group entered; in *ret_limit, where it was the group's own, its limit in bytes.
 */
enum srv_cgroup_want srv_cgroup_want(const struct srv_cgroups *groups,
                                     struct srv_cgroup *group, uint64_t *ret_limit);

/* srv_clone(), with the child in the group. */
pid_t srv_cgroup_clone(const struct srv_cgroups *groups, const struct srv_cgroup *group,
                       srv_clone_start *start, void *arg);

/* The version of @group's hierarchies, and in *ret_n how many of its descriptors count;
 * 0: none. */
int srv_cgroup_version(const struct srv_cgroups *groups, const struct srv_cgroup *group,
                       unsigned *ret_n);
/* The same by a process that has only the @n descriptors of a group. */
pid_t srv_cgroup_clone_at(int version, const int *fds, unsigned n,
                          srv_clone_start *start, void *arg);

#endif
