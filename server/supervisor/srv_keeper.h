/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's side of its keeper (srv_keeper_main.h): to find the one of a
 * supervisor that is gone, or start one; to leave things with it; to have workers
 * started.
 *
 * Everything is ordered: what was put before the supervisor died is there for the
 * successor.  Owned by struct srv, NULL without --state-dir or with --adopt-window 0:
 * then nothing is kept, and each function below is a no-op.  Event-loop thread only.
 */
#ifndef SRV_KEEPER_H
#define SRV_KEEPER_H

#include "gp_base.h"
#include "srv_keep_msg.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct gp_err;
struct gp_loop;
struct srv_conf;
struct srv_keeper;

/* The keeper that a supervisor of before has left; *ret NULL: there is none.  -EBUSY:
 * another supervisor has it.  -EPROTO: it is of another version; it was ended, and its
 * workers with it. */
int srv_keeper_find(const struct srv_conf *conf, struct srv_keeper **ret,
                    struct gp_err *err);
/* A new one. */
int srv_keeper_start(const struct srv_conf *conf, struct srv_keeper **ret,
                     struct gp_err *err);
/* It goes on, and waits for another supervisor, unless srv_keeper_end() came before. */
void srv_keeper_free(struct srv_keeper *keeper);

/* What is kept, one by one, oldest first: begin with a @msg of zeros.  The descriptors
 * are the caller's.  kind 0: there is no more.  -errno: the keeper is gone. */
int srv_keeper_next(struct srv_keeper *keeper, struct srv_keep_msg *msg,
                    struct srv_keep_fds *ret_fds);

/* Keep @n descriptors, which stay the caller's too, as an item. */
void srv_keeper_put(struct srv_keeper *keeper, enum srv_keep_kind kind, uint64_t key,
                    uint64_t sub, const int *fds, unsigned n);
/* Exchange number @at of them. */
void srv_keeper_set(struct srv_keeper *keeper, enum srv_keep_kind kind, uint64_t key,
                    uint64_t sub, unsigned at, int fd);
void srv_keeper_drop(struct srv_keeper *keeper, enum srv_keep_kind kind, uint64_t key,
                     uint64_t sub);

/* SRV_KEEP_START: the process, or -errno. */
pid_t srv_keeper_start_worker(struct srv_keeper *keeper, struct srv_keep_msg *msg,
                              const struct srv_keep_fds *fds);

/* From now on, @ended is called for each worker's process that has ended, and with a
 * @pid of 0 when the keeper itself is gone, and its workers with it. */
typedef void srv_keeper_ended(void *arg, uint64_t key, pid_t pid, int status);
int srv_keeper_watch(struct srv_keeper *keeper, struct gp_loop *loop,
                     srv_keeper_ended *ended, void *arg, struct gp_err *err);

/* Whose children workers are. */
pid_t srv_keeper_pid(const struct srv_keeper *keeper);

/* Kill all workers and forget everything; with @itself the keeper ends as well. */
void srv_keeper_end(struct srv_keeper *keeper, bool itself);

#endif
