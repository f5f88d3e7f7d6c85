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
void srv_arbiter_free(struct srv_arbiter *arb); /* NULL is a no-op; no desk is left */
DEFINE_CLEANUP(struct srv_arbiter, srv_arbiter_free)
int srv_arbiter_alarm(const struct srv_arbiter *arb);

/* Listen to a worker; its slices' cards and shares are filled in. */
int srv_arbiter_add(struct srv_arbiter *arb, struct srv_desk *desk, struct gp_err *err);
/* The worker is gone: whatever it was doing, others may go on. */
void srv_arbiter_remove(struct srv_arbiter *arb, struct srv_desk *desk);

/* The share of a session has changed. */
void srv_arbiter_reshare(struct srv_arbiter *arb, uint32_t card, uint64_t session,
                         const struct gov_share *share);

/* Percent of the time since about the last such question in which the workers' reports
 * say that the card was busy. */
uint32_t srv_arbiter_busy(struct srv_arbiter *arb, uint32_t card);

#endif
