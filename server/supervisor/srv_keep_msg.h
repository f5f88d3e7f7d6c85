/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between the supervisor and its keeper: fixed size, over SOCK_SEQPACKET, with
 * descriptors where the order says so.
 *
 * The keeper may be of an older version than the supervisor: the one that was started
 * first stays until the server is stopped.  So SRV_KEEP_VERSION changes only when an
 * order does, and a supervisor that meets another version starts anew.
 */
#ifndef SRV_KEEP_MSG_H
#define SRV_KEEP_MSG_H

#include "gp_base.h"
#include "gp_fds.h"

#include <stdint.h>

#define SRV_KEEP_VERSION 1

/* argv[0] of the keeper's process; the program is gpupool-server. */
#define SRV_KEEPER_NAME "gpupool-keeper"

/* Descriptors of the process beside 0..2. */
#define SRV_KEEPER_FD_LISTEN 3 /* the Unix socket, listening */
#define SRV_KEEPER_FD_LOCK 4   /* the state directory, locked */

/* Of one message: those of a worker that starts, and those that are kept of it. */
#define SRV_KEEP_FDS_MAX GP_FDS_MAX
/* That are kept of one item. */
#define SRV_KEEP_ITEM_FDS 24

enum srv_keep_order {
    /* Keeper, first: come in, or: the supervisor whose process is @number is here. */
    SRV_KEEP_WELCOME = 1,
    SRV_KEEP_BUSY,
    /* Supervisor, then: @number seconds for which workers may be without one, and its
     * version in @sub.  Answered with the same order, the keeper's version in @sub and
     * its process in @number, and the socket on which ends are told. */
    SRV_KEEP_HELLO,
    /* Tell the next item after (@kind, @key, @sub) in order of age.  Answered with the
     * same order and its descriptors; kind 0: there is none.  @ended and @status: of a
     * worker's process, which is @number. */
    SRV_KEEP_NEXT,
    /* Keep the descriptors as that item; one of that name is replaced. */
    SRV_KEEP_PUT,
    /* Exchange descriptor @number of that item for this one. */
    SRV_KEEP_SET,
    /* Drop that item; a worker's process is reaped. */
    SRV_KEEP_DROP,
    /* Start a worker and keep it as that item; its descriptors are below. */
    SRV_KEEP_START,
    /* Keeper: the process of that item has ended with @status. */
    SRV_KEEP_ENDED,
    /* Kill every worker and drop everything; with @number 1 end as well. */
    SRV_KEEP_END,
};

enum srv_keep_kind {
    SRV_KEEP_STATE = 1, /* of the server: memory */
    SRV_KEEP_LISTENER,  /* key 0: TCP, 1: the Unix socket; hash of the address in sub */
    SRV_KEEP_JAIL,      /* memory, folder, files of software cards */
    SRV_KEEP_PROBE,     /* memory: what the probe found */
    SRV_KEEP_ARBITER,   /* memory */
    SRV_KEEP_SESSION,   /* by id: memory, ledger, segment */
    SRV_KEEP_WORKER,    /* by number: enum srv_worker_fd */
    SRV_KEEP_EXPORTS,   /* by session: memory */
    SRV_KEEP_EXPORT,    /* by session, sub: its entry there: the descriptor */
    SRV_KEEP_IMAGE,     /* by number: memory, file */
};
/* A keeper keeps those that a later version has, too. */
#define SRV_KEEP_KINDS_MAX 32

struct srv_keep_msg {
    uint32_t order; /* enum srv_keep_order */
    uint32_t kind;  /* enum srv_keep_kind */
    uint64_t key, sub;
    int32_t result; /* of an answer: 0 or -errno */
    int32_t status; /* as of waitpid() */
    uint32_t ended;
    uint32_t number;
    /* SRV_KEEP_START: the first descriptor is a memory file with the program's path,
     * @n_args arguments and then variables, each ended by a zero; then @n_groups of
     * control groups (version @group_version), @n_child that the worker gets as 3, 4,
     * ..., except those whose bit in @closed says that there is none, and the rest is
     * kept. */
    uint32_t n_args, n_groups, group_version, n_child;
    uint64_t closed;
};

/* Descriptors of a message: as many as @n says. */
struct srv_keep_fds {
    int fd[SRV_KEEP_FDS_MAX];
    unsigned n;
};

void srv_keep_fds_close(struct srv_keep_fds *fds);

/* 0 or -errno; the descriptors stay the caller's. */
int srv_keep_send(int sock, const struct srv_keep_msg *msg,
                  const struct srv_keep_fds *fds);
/* *ret_fds are the caller's on success.  -EAGAIN, -ECONNRESET, -EPROTO; -EMFILE: this
 * process has no room for the descriptors of the message, of which *ret is the rest. */
int srv_keep_recv(int sock, struct srv_keep_msg *ret, struct srv_keep_fds *ret_fds,
                  int flags);

#endif
