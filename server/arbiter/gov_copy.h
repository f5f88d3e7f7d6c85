/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which session may go on copying: bytes between clients and a GPU, per session.
 *
 * What limits copies is not known here: the GPU's link, the network, or the host's
 * processors.  So nothing is limited while only one session copies.  When several
 * sessions do, each is counted in bytes divided by its weight (gov_card.h), and a
 * session that is ahead of another by a bucket pauses, at most for as long as the other
 * would need for its part.  If the other session is no faster during the pause, its own
 * client is slow, and for a while no session waits for it.  So a slow neighbour costs a
 * few percent, and a session that was crowded out by the many connections of another
 * gets its part.
 *
 * Part of the arbiter's accounting: under its lock, with the time as an argument.  All
 * processes of a session pause together.
 */
#ifndef GOV_COPY_H
#define GOV_COPY_H

#include "gov_card.h"

/* How far one may be ahead: a few pieces of each of its processes. */
#define GOV_COPY_AHEAD (UINT64_C(4) << 20)
/* Who has not copied for so long, copies no more. */
#define GOV_COPY_IDLE_NS 100000000
/* The shortest pause: what is in flight has to drain first, and on a busy host the
 * other session has to be scheduled... */
#define GOV_COPY_PAUSE_MIN_NS 8000000
/* ...and not longer: answers wait behind some. */
#define GOV_COPY_PAUSE_MAX_NS 50000000
/* After this many useless pauses in a row there are none for a while; that time doubles
 * up to this many times. */
#define GOV_COPY_USELESS 4
#define GOV_COPY_OFF_NS 100000000
#define GOV_COPY_OFF_DOUBLINGS 4

/* The worker is about to copy @bytes: returns the time until which it has to wait
 * first, at most; earlier when gov_copy_caught_up(). */
uint64_t gov_copy_take(struct gov_card *card, int slot, uint64_t bytes,
                       uint64_t now_ns);

/* Whether those who were waited for have had their part by now. */
bool gov_copy_caught_up(struct gov_card *card, int slot, uint64_t now_ns);

#endif
