/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory files between the supervisor and one worker: the desk, which the worker
 * writes, the notice, which it reads (wrk_segment.h), and the worker's wake-up
 * descriptor.
 *
 * Owned by a struct srv_worker, from before its process starts until that has been
 * reaped.  Between srv_arbiter_add() and srv_arbiter_remove() the arbiter's thread uses
 * the fields below the line, under the arbiter's lock.
 */
#ifndef SRV_DESK_H
#define SRV_DESK_H

#include "gov_card.h"
#include "wrk_segment.h"

#include <stdbool.h>
#include <stdint.h>

struct gp_err;
struct srv_ledger;

/* One slice of a worker, as the arbiter knows it. */
struct srv_desk_slice {
    struct srv_desk *desk;
    struct srv_desk_slice *next; /* of the card */
    uint32_t card;               /* whose arbiter */
    int slot;                    /* at the card (gov_card.h) */
    struct gov_share share;
    struct gov_want *want;
    struct gov_turn *turn;
    uint32_t grant;   /* as in *turn, which is only ever written */
    bool void_grant;  /* the worker had given up asking before it was made */
    bool rests;       /* as in *turn */
    uint64_t stop_ns; /* when its turn was to stop; 0: never */
    uint64_t busy_ns; /* seen on the desk, at @seen_ns */
    uint64_t seen_ns;
    uint64_t copied; /* the same */
};

struct srv_desk {
    struct wrk_desk *desk;
    struct wrk_notice *notice;
    int desk_fd, notice_fd, wake_fd;
    uint64_t session;
    struct srv_ledger *ledger;
    uint32_t slot; /* in the ledger */
    uint32_t n_slices;
    uint32_t work_limit_s; /* 0: none */
    _Atomic bool overdue;  /* it did not stop: the arbiter wants it to be ended */
    /* ------- the arbiter's: */
    struct srv_desk *next;
    uint64_t id;
    bool joined;
    uint32_t answered; /* the call that was answered last */
    uint32_t rings;    /* since @rings_ns */
    uint64_t rings_ns;
    uint64_t
        muted_ns; /* its wake-up descriptor is not listened to until then; 0: it is */
    struct srv_desk_slice slices[TICKET_SLICES_MAX];
};

/* A memory file of fixed size, mapped here read-write unless @ret_map is NULL; with
 * @ours nobody who gets the descriptor can write to it. */
int srv_desk_file(const char *name, size_t size, bool ours, int *ret_fd,
                  void **ret_map);

int srv_desk_new(struct srv_desk **ret, struct gp_err *err);
/* The worker has its descriptors: close ours, all but the wake-up descriptor. */
void srv_desk_sent(struct srv_desk *d);
void srv_desk_free(struct srv_desk *d); /* NULL is a no-op */
DEFINE_CLEANUP(struct srv_desk, srv_desk_free)

#endif
