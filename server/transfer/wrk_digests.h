/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a card has changed, where its driver does not tell (wrk_changes.h): digests of
 * the pages, which the card makes itself.
 *
 * A kernel of ours (wrk_digests.ptx) reads the memory and leaves 64 bits for each page
 * of 4 KiB.  A card reads its memory a hundred times as fast as the network takes it
 * away, and what travels is what has another digest than the one that was noted.  A
 * page without a note counts as changed.  Two contents of a page have the same digest
 * with a chance of 2^-63, unless they differ in one word of eight bytes alone: then
 * never.
 *
 * A look is made by a launch, which takes its turn on the card as the program's do.
 * While the program has work there, which may be in front of it and may not end, nobody
 * waits longer for a look than fetching everything would take; without one all may have
 * changed.  One look at a time.
 */
#ifndef WRK_DIGESTS_H
#define WRK_DIGESTS_H

#include "cuda_abi.h"
#include "wire_runs.h"
#include "wrk_changes.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;
struct wrk_digest_look;

/* The card does not compute (the null driver), or takes no kernel of ours: digests are
 * never made.  Any thread. */
bool wrk_digests_are_impossible(void);

/* Begin a look at the memory of @ranges in @stream, of the current context.  NULL: not
 * now.  Receive thread; waits for a turn on the card, not for the look. */
struct wrk_digest_look *wrk_digests_look(struct wrk *w, CUstream stream,
                                         const struct wire_run *ranges, uint32_t n);

/* Wait for the look.  False: it takes too long, or failed; only wrk_digests_end() is
 * left.  The look's own thread, as all of the following, with the context current. */
bool wrk_digests_wait(struct wrk *w, struct wrk_digest_look *look);

/* wrk_changes_take() for range number @range of those that were asked about, in their
 * order.  What it returns is noted if nothing works (all ranges are WIRE_RUN_IDLE): the
 * client gets the bytes of a later moment.  Else it has no note any more. */
int wrk_digests_take(struct wrk_digest_look *look, uint32_t range, uint64_t *addr,
                     uint64_t end, struct wrk_change *changes, int max);

void wrk_digests_end(struct wrk *w, struct wrk_digest_look *look);

/* What was noted of the pages of @runs is not what the client has any more.  Any
 * thread.
 */
void wrk_digests_drop(const struct wire_run *runs, uint32_t n);

/* Client and card have the same bytes there, once what is in @stream is done, and
 * nothing else works: note their digests.  Waits shortly; what is not done by then has
 * no note.  Receive thread. */
void wrk_digests_note(struct wrk *w, CUstream stream, const struct wire_run *runs,
                      uint32_t n);

/* Memory of the program is about to go in whichever context, without a wait of the
 * driver for all of them: no kernel of ours reads any until wrk_digests_let_go(), and
 * no look begins.  Waits for one that has begun, which is never long; not for kernels
 * of the program.  False: it @may_wait not, and would have to.  Not a look's own
 * thread, nor a second time between the two. */
bool wrk_digests_hold(struct wrk *w, bool may_wait);
void wrk_digests_let_go(void);

/* The context died with what was loaded and registered there.  Between the two. */
void wrk_digests_forget(uint32_t ctx_index);

#endif
