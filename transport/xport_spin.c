/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_spin.h"

#include "gp_time.h"

/* Longer between two looks: somebody else ran.  What a look itself takes is learnt, for
 * it is a system call where the transport is a socket; one that knows better says so.
 */
static uint64_t
gap_of(const struct xport_spin *spin)
{
    uint64_t looks = XPORT_SPIN_LOOKS * (uint64_t)spin->look_ns;

    return spin->gap_ns ? spin->gap_ns : gp_max((uint64_t)XPORT_SPIN_GAP_NS, looks);
}

static void
learn(struct xport_spin *spin, uint64_t ns)
{
    if (spin->looks++ > 0 && (!spin->look_ns || ns < spin->look_ns))
        spin->look_ns = (uint32_t)gp_min(ns, (uint64_t)UINT32_MAX);
}

/* The first loss costs one wait only: an interrupt is a pause, too. */
static bool
lost(struct xport_spin *spin)
{
    uint32_t most = spin->skip_max ? spin->skip_max : XPORT_SPIN_SKIP_MAX;

    spin->backoff = gp_min(spin->backoff ? 2 * spin->backoff : 1u, most);
    spin->skip = spin->backoff;
    spin->won = 0;
    return false;
}

/* Nothing came for the whole time, and nobody else wanted the core. */
static bool
lost_in_vain(struct xport_spin *spin)
{
    if (spin->won < XPORT_SPIN_CREDIT)
        return lost(spin);
    spin->won = 0;
    return false;
}

void
xport_spin_won(struct xport_spin *spin)
{
    if (!spin->backoff && ++spin->won % XPORT_SPIN_CHECKED)
        return;
    if (gp_now_ns() - spin->last_ns > gap_of(spin))
        lost(spin);
    else
        spin->backoff = 0;
}

void
xport_spin_begin(struct xport_spin *spin)
{
    spin->looks = 0;
    spin->last_ns = gp_now_ns();
    spin->until_ns = spin->last_ns + (spin->spin_ns ? spin->spin_ns : XPORT_SPIN_NS);
}

bool
xport_spin_again(struct xport_spin *spin)
{
    uint64_t now = gp_now_ns();

    learn(spin, now - spin->last_ns);
    if (now - spin->last_ns > gap_of(spin))
        return lost(spin);
    if (now >= spin->until_ns)
        return lost_in_vain(spin);
    spin->last_ns = now;
    gp_cpu_relax();
    return true;
}
