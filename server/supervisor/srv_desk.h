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
#include "srv_kept.h"
#include "wrk_segment.h"

#include <stdbool.h>
#include <stdint.h>

struct gp_err;
struct srv_ledger;

/* What the arbiter of a successor has to know of one slice. */
struct srv_slice_kept {
    int32_t slot;        /* at the card (gov_card.h) */
    uint32_t grant;      /* as in struct gov_turn, which is only ever written */
    uint32_t void_grant; /* the worker had given up asking before it was made */
    uint32_t zero;
    uint64_t stop_ns; /* when its turn was to stop; 0: never */
    uint64_t busy_ns; /* seen on the desk, at @seen_ns */
    uint64_t seen_ns;
    uint64_t copied; /* the same */
};

struct srv_desk_kept {
    struct srv_kept_head head;
    uint32_t joined;
    uint32_t answered; /* the call that was answered last */
    /* 1: call @doing is being answered, and this is what the ledger said before it, so
     * that what a supervisor has half done can be undone. */
    uint32_t undo;
    uint32_t doing, slice;
    uint64_t granted, granted_n;
    struct srv_slice_kept slices[TICKET_SLICES_MAX];
};
SRV_KEPT_SIZE(struct srv_desk_kept, 824);

/* One slice of a worker, as the arbiter knows it. */
struct srv_desk_slice {
    struct srv_desk *desk;
    struct srv_desk_slice *next; /* of the card */
    uint32_t card;               /* whose arbiter */
    struct gov_share share;
    struct gov_want *want;
    struct gov_turn *turn;
    struct srv_slice_kept *kept;
    bool rests; /* as in *turn */
};

struct srv_desk {
    struct wrk_desk *desk;
    struct wrk_notice *notice;
    struct srv_desk_kept *kept;
    size_t room; /* mapped behind the desk */
    int desk_fd, notice_fd, wake_fd, kept_fd;
    uint64_t session;
    struct srv_ledger *ledger;
    uint32_t slot; /* in the ledger */
    uint32_t n_slices;
    uint32_t work_limit_s; /* 0: none */
    _Atomic bool overdue;  /* it did not stop: the arbiter wants it to be ended */
    _Atomic bool leaving; /* its client is gone, perhaps for good, or its worker ends */
    /* ------- the arbiter's: */
    struct srv_desk *next;
    uint64_t id;
    uint32_t rings; /* since @rings_ns */
    uint64_t rings_ns;
    /* its wake-up descriptor is not listened to until then; 0: it is */
    uint64_t muted_ns;
    struct srv_desk_slice slices[TICKET_SLICES_MAX];
};

/* A memory file of fixed size, mapped here read-write unless @ret_map is NULL; with
 * @ours nobody who gets the descriptor can write to it. */
int srv_desk_file(const char *name, size_t size, bool ours, int *ret_fd,
                  void **ret_map);

/* The content of a file that only a supervisor could write, as far as it goes and up to
 * @size.  -EPROTO. */
int srv_desk_copy(int from, size_t size, void *to);

int srv_desk_new(struct srv_desk **ret, struct gp_err *err);
/* The one of a supervisor that is gone, with a new notice, because nobody can write to
 * the old one any more; its descriptor and that of the desk are read and closed by
 * srv_desk_sent().  Takes all four on success.  -EPROTO: not ours. */
struct srv_desk_files {
    int desk, notice, wake, kept;
};
int srv_desk_adopt(const struct srv_desk_files *files, struct srv_desk **ret,
                   struct gp_err *err);
/* The worker has its descriptors: close ours, all but the wake-up descriptor. */
void srv_desk_sent(struct srv_desk *d);
void srv_desk_free(struct srv_desk *d); /* NULL is a no-op */
DEFINE_CLEANUP(struct srv_desk, srv_desk_free)

#endif
