/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The isolation between workers of different sessions, as far as the supervisor must
 * provide it: a user id and a control group per session, and for software GPUs a folder
 * per session and the files of the GPUs' memory.
 *
 * The worker does the rest (wrk_sandbox.h).  Owned by the server from its start to its
 * end; event-loop thread only.  It knows neither sessions nor workers.
 */
#ifndef SRV_JAIL_H
#define SRV_JAIL_H

#include "gp_base.h"
#include "srv_cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct gp_err;
struct srv_conf;
struct srv_disposal;
struct srv_jail;
struct srv_keep_fds;
struct srv_keeper;

/* Where systemd takes dynamic users from, which no package and no administrator
 * gives to anybody else. */
#define SRV_UIDS_FIRST 61184
#define SRV_UIDS_LAST 65519

/* The most cards that softgpu has. */
#define SRV_SOFT_CARDS 16

/* Files of exported memory of a session: six times a card of 80 GiB in pieces of 2 MiB.
 * Each costs the host about a KiB and one of its tmpfs's inodes, which all share. */
#define SRV_JAIL_FILES 262144

/* What one session has of it; zero: nothing. */
struct srv_cell {
    uid_t uid;         /* of its workers alone; 0: they are the server's user */
    char exports[128]; /* its folder, or "" */
    struct srv_cgroup cgroup;
};

/* @kept: what srv_jail_keep() of a supervisor left that is gone; stays the caller's.
 * NULL: all anew.  @disposal removes files that sessions leave, and has to end before
 * the jail.  -EINVAL, -EPERM: what --worker-uids asks for cannot be had. */
int srv_jail_new(const struct srv_conf *conf, struct srv_disposal *disposal,
                 const struct srv_keep_fds *kept, struct srv_jail **ret,
                 struct gp_err *err);
/* Leave all of it with the keeper, for a successor. */
void srv_jail_keep(const struct srv_jail *jail, struct srv_keeper *keeper);
/* Free the memory only: a successor comes, which is this process @again, or will be
 * started when it has ended. */
void srv_jail_abandon(struct srv_jail *jail, bool again);
void srv_jail_free(struct srv_jail *jail); /* NULL is a no-op */

/* For session number @id.  -EUSERS: every user id of the range is in use. */
int srv_jail_enter(struct srv_jail *jail, uint64_t id, struct srv_cell *cell,
                   struct gp_err *err);
/* For one that is adopted: its user id and folder stay. */
int srv_jail_reenter(struct srv_jail *jail, uint64_t id, uid_t uid, const char *exports,
                     struct srv_cell *cell, struct gp_err *err);
/* No worker of it runs: nothing that they exported is in use. */
void srv_jail_idle(struct srv_jail *jail, const struct srv_cell *cell);
/* Whether the session has more than SRV_JAIL_FILES files in its folder; false where
 * that is not known at once (it is in a tmpfs). */
bool srv_jail_overfull(const struct srv_jail *jail, const struct srv_cell *cell);
/* The session is over. */
void srv_jail_leave(struct srv_jail *jail, struct srv_cell *cell);

/* What the session's @workers may use of the host together, beside @slices of memory.
 */
int srv_jail_limit(const struct srv_jail *jail, const struct srv_cell *cell,
                   uint32_t workers, uint64_t slices, struct gp_err *err);

/* A worker of the session was killed: in words, for want of what the kernel did it
 * since this was asked; "" if it did not, or where nothing tells. */
void srv_jail_want(const struct srv_jail *jail, struct srv_cell *cell, char *words,
                   size_t size);

/* srv_clone(); the child, in the control group of @cell (NULL: none), has nothing else
 * of it yet. */
pid_t srv_jail_clone(const struct srv_jail *jail, const struct srv_cell *cell,
                     srv_clone_start *start, void *arg);
/* For the same by another process: the descriptors of the cell's control groups, *ret_n
 * of them, and their version. */
int srv_jail_group(const struct srv_jail *jail, const struct srv_cell *cell,
                   int *ret_fds, uint32_t *ret_n);

/* Whom the worker of @cell (NULL: the probe) becomes: a name, a number or "". */
void srv_jail_user(const struct srv_jail *jail, const struct srv_cell *cell,
                   char user[64]);

/* The driver is a software card's. */
bool srv_jail_soft(const struct srv_jail *jail);

/* The memory file of software card @index; -1: none. */
int srv_jail_card(const struct srv_jail *jail, unsigned index);

#endif
