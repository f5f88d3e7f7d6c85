/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger: what a session uses on this server, summed over its attachments, and its
 * limits.
 *
 * The numbers that decide are in memory of the supervisor: the limits, what was granted
 * to each worker slot, what ended workers had spent.  What a running worker
 * reports about itself is read from its desk (wrk_segment.h), each word once, and
 * bounded: a session cannot use less than nothing or more than its limit, nor spend
 * more time than its workers have lived.  Limits and sums are shown to its workers in a
 * file that they can only read.
 *
 * Owned by a struct srv_session.  The event loop's thread and the arbiter's; every
 * function takes the lock, which is held only for one pass over all slots.
 */
#ifndef SRV_LEDGER_H
#define SRV_LEDGER_H

#include "gp_base.h"
#include "wrk_segment.h"

#include <stdbool.h>
#include <stdint.h>

struct gp_err;
struct srv_ledger;
struct srv_desk;
struct ticket_claims;

int srv_ledger_new(const struct ticket_claims *claims, struct srv_ledger **ret,
                   struct gp_err *err);
/* That of a supervisor that is gone, with a new segment, because nobody can write to
 * the old one any more: @kept becomes the ledger's, @segment stays the caller's. */
int srv_ledger_adopt(const struct ticket_claims *claims, int kept, int segment,
                     struct srv_ledger **ret, struct gp_err *err);
/* Slots that are taken and have no desk are free again. */
void srv_ledger_mend(struct srv_ledger *b);
void srv_ledger_free(struct srv_ledger *b); /* NULL is a no-op */
DEFINE_CLEANUP(struct srv_ledger, srv_ledger_free)

/* For workers: the segment, read-only. */
int srv_ledger_segment_fd(const struct srv_ledger *b);
/* For the keeper: the kept memory. */
int srv_ledger_kept_fd(const struct srv_ledger *b);

/* A younger ticket's limits. */
void srv_ledger_limit(struct srv_ledger *b, const struct ticket_claims *claims);

/* Take a slot.  -EDQUOT: none is free. */
int srv_ledger_slot_take(struct srv_ledger *b, uint32_t *ret_slot);
/* Whose desk it is, which stays the caller's until srv_ledger_leave(). */
void srv_ledger_desk(struct srv_ledger *b, uint32_t slot, struct srv_desk *desk,
                     uint32_t client_pid);
/* What was used there is free again, what was spent is remembered. */
void srv_ledger_leave(struct srv_ledger *b, uint32_t slot);

/* Count @bytes as one allocation of @slot if the limits allow it. */
bool srv_ledger_take(struct srv_ledger *b, uint32_t slot, uint32_t slice,
                     uint64_t bytes);
/* They did not: WRK_TAKE_REFUSED if they do not even fit beside what @slot itself
 * holds, else what is known of the others that hold something. */
enum wrk_take srv_ledger_room(struct srv_ledger *b, uint32_t slot, uint32_t slice,
                              uint64_t bytes);
/* What was granted to @slot so far; and to say so again. */
void srv_ledger_granted(struct srv_ledger *b, uint32_t slot, uint32_t slice,
                        uint64_t *ret_bytes, uint64_t *ret_n);
void srv_ledger_regrant(struct srv_ledger *b, uint32_t slot, uint32_t slice,
                        uint64_t bytes, uint64_t n);
/* An object of @bytes that another slot gave back is @slot's now; or is not any more.
 */
void srv_ledger_move(struct srv_ledger *b, uint32_t slot, uint32_t slice,
                     uint64_t bytes);
void srv_ledger_unmove(struct srv_ledger *b, uint32_t slot, uint32_t slice,
                       uint64_t bytes);
/* Note the name of an IPC handle that a worker hands out; the oldest is forgotten. */
void srv_ledger_name(struct srv_ledger *b, uint64_t name);
/* Show the workers why they are ended; the first reason stays unless @anew. */
void srv_ledger_ending(struct srv_ledger *b, const char *words, bool anew);
/* The same words; "" when there are none. */
void srv_ledger_ended(struct srv_ledger *ledger, char words[WRK_ENDING_MAX]);
/* Show the sums of now to the workers. */
void srv_ledger_look(struct srv_ledger *b);

uint64_t srv_ledger_used(struct srv_ledger *b, uint32_t slice);
uint64_t srv_ledger_pieces(struct srv_ledger *b, uint32_t slice);
uint64_t srv_ledger_high(struct srv_ledger *b, uint32_t slice);
uint64_t srv_ledger_spent(struct srv_ledger *b, enum wrk_spent kind, uint32_t slice);
/* So many attachments go over @transport with @gdr_mode. */
unsigned srv_ledger_links(struct srv_ledger *b, uint32_t transport, uint32_t gdr_mode);

#endif
