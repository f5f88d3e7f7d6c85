/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether to spin before sleeping, learnt per connection.
 *
 * Waking a sleeping thread costs 10-40 us on an idle virtual machine, a spin of a few
 * microseconds nothing, as long as a core is free for it.  On a shared core every spin
 * delays the very peer it waits for.  So: spin while spinning pays, back off by
 * doubling the number of waits that do not try it when it does not, and take a pause in
 * our own progress (somebody else ran here) as proof that the core is wanted.
 *
 * Storage is the caller's, zero-initialised; one thread at a time.
 */
#ifndef XPORT_SPIN_H
#define XPORT_SPIN_H

#include "gp_base.h"

/* As long as a sleep and wake-up would cost, the classical bound: never worse than
 * twice the best choice. */
#define XPORT_SPIN_NS 40000
/* A gap between two looks at the clock that only a switch to another thread explains.
 */
#define XPORT_SPIN_GAP_NS 2500
/* At least so many polls: the last one receives what has come, and takes longer. */
#define XPORT_SPIN_LOOKS 16
#define XPORT_SPIN_SKIP_MAX 4096u /* waits between two trials when it never pays */
/* A transport that polls memory polls it so often between two readings of the clock,
 * each of which takes as long as polling once. */
#define XPORT_SPIN_BATCH 4
/* The clock is read for one won spin in so many as long as none has been lost, because
 * that reading delays the execution of the frame that has come. */
#define XPORT_SPIN_CHECKED 8u
/* So many won spins pay for one that ends because the peer made a pause: the wait that
 * follows it spins as well. */
#define XPORT_SPIN_CREDIT 64u

struct xport_spin {
    uint32_t skip;     /* waits still to go without spinning */
    uint32_t backoff;  /* how many to skip after the next failure */
    uint64_t until_ns; /* end of the current spin, 0: not begun */
    uint64_t last_ns;
    uint32_t spin_ns, gap_ns, skip_max; /* of this transport; 0: the values above */
    uint32_t look_ns, looks; /* the shortest look so far; how many in this spin */
    uint32_t won;            /* spins, counted while backoff is 0, since one was lost */
};

/* A wait begins: whether to do so without spinning. */
static inline bool
xport_spin_skips(struct xport_spin *spin)
{
    return spin->skip && spin->skip--;
}

/* Before the first look of a wait that spins: its time begins. */
void xport_spin_begin(struct xport_spin *spin);

/* Nothing there yet: whether to look again at once. */
bool xport_spin_again(struct xport_spin *spin);

/* The awaited came while spinning: proof that it pays, unless it came because we were
 * switched away for who sent it, which sleeping would have done sooner. */
void xport_spin_won(struct xport_spin *spin);

#endif
