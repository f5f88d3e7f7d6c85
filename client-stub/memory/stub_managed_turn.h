/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the cards of one server have been doing since the host last saw all of it: in
 * which stream there may be unfinished work.
 *
 * Work is noted before its frame has a place among the frames of the link, so a wait of
 * another thread may get its place before that frame, and end after the note.  Such a
 * wait knows nothing of the work.  So a thread that has noted work notes the place of
 * its frames as well, and a wait ends the turn only if no such place is behind its own.
 *
 * Part of struct managed in stub_managed.c.  Under its lock, but for
 * managed_turn_is_idle() and managed_turn_placed().  Of the current link, but for the
 * latter.
 */
#ifndef STUB_MANAGED_TURN_H
#define STUB_MANAGED_TURN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct stub_link;

/* The object of work or of a wait, besides a stream's id. */
#define STUB_MANAGED_ALL UINT64_MAX        /* the whole context */
#define STUB_MANAGED_SOME (UINT64_MAX - 1) /* who knows */
#define MANAGED_TURN_IDLE (UINT64_MAX - 2) /* no work */

struct managed_turn {
    /* The one stream that has unfinished work, STUB_MANAGED_SOME, or IDLE.  Copies read
     * it without the lock; the program itself orders them against other threads. */
    _Atomic uint64_t work;
    _Atomic uint32_t ctx;    /* index of its context, 0 = of several */
    _Atomic uint32_t placed; /* the newest frame that may be such work */
    bool changed; /* the host may have changed something since it last got all */
};

static inline bool
managed_turn_is_idle(const struct managed_turn *t)
{
    return atomic_load(&t->work) == MANAGED_TURN_IDLE;
}

/* Work of the calling thread goes into @stream of the context with index @ctx next.
 * True if the cards had nothing to do. */
bool managed_turn_work(struct managed_turn *t, uint64_t stream, uint32_t ctx);

/* A frame of the calling thread is the @seq-th of @link.  Under the lock of the
 * link's queue. */
void managed_turn_placed(struct managed_turn *t, const struct stub_link *link,
                         uint32_t seq, uint32_t ctx);

/* Would that end the turn, as far as is known now? */
bool managed_turn_is_over(const struct managed_turn *t, uint64_t stream, uint32_t ctx);

/* The calling thread has waited for @stream (or STUB_MANAGED_ALL, _SOME) of the context
 * with index @ctx, and its newest frame is that wait.  @seen: the host has what the
 * cards changed. */
void managed_turn_waited(struct managed_turn *t, uint64_t stream, uint32_t ctx,
                         bool seen);

#endif
