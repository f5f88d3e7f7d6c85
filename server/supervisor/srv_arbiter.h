/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arbiter: a thread of the supervisor that decides whose turn it is on each GPU.
 *
 * It connects the workers, whose words it does not trust, with the accounting
 * (gov_card.h, srv_ledger.h), which only it and the event loop's thread write.  It
 * wakes when a worker signals its wake-up descriptor or when a turn may be over, reads
 * what all workers of that GPU want and run, and writes what they may do.  It never
 * waits for a worker: no lock, no reply.  A worker that signals without end is served
 * every MUTE_NS only.
 *
 * Every function is called on the event loop's thread and takes the arbiter's lock.
 */
#ifndef SRV_ARBITER_H
#define SRV_ARBITER_H

#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct gov_share;
struct gp_err;
struct srv_arbiter;
struct srv_desk;

/* For cards 0 to @cards - 1.  The descriptor of srv_arbiter_alarm() becomes readable
 * when a desk was found to be overdue. */
int srv_arbiter_new(uint32_t cards, struct srv_arbiter **ret, struct gp_err *err);
/* With the accounting of a supervisor that is gone, behind @fd, which stays the
 * caller's; anew if that is not of this form. */
int srv_arbiter_adopt(uint32_t cards, int fd, struct srv_arbiter **ret,
                      struct gp_err *err);
/* The kept memory of that accounting (srv_kept.h); stays the arbiter's. */
int srv_arbiter_kept(const struct srv_arbiter *arb);
void srv_arbiter_free(struct srv_arbiter *arb); /* NULL is a no-op; no desk is left */
DEFINE_CLEANUP(struct srv_arbiter, srv_arbiter_free)
int srv_arbiter_alarm(const struct srv_arbiter *arb);

/* Listen to a worker; its slices' cards and shares are filled in. */
int srv_arbiter_add(struct srv_arbiter *arb, struct srv_desk *desk, struct gp_err *err);
/* The same for a desk that was adopted: it keeps its place and its turn. */
int srv_arbiter_readd(struct srv_arbiter *arb, struct srv_desk *desk,
                      struct gp_err *err);
/* All that live are here: those that are not leave, and the accounting is made
 * consistent, because its supervisor may have died in the middle of a change. */
void srv_arbiter_mend(struct srv_arbiter *arb);
/* The worker is gone: whatever it was doing, others may go on. */
void srv_arbiter_remove(struct srv_arbiter *arb, struct srv_desk *desk);

/* The share of a session has changed. */
void srv_arbiter_reshare(struct srv_arbiter *arb, uint32_t card, uint64_t session,
                         const struct gov_share *share);

/* Percent of the time since about the last such question in which the workers' reports
 * say that the card was busy. */
uint32_t srv_arbiter_busy(struct srv_arbiter *arb, uint32_t card);

#endif
