/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a consumer of a shared-memory ring sleeps on: an eventfd that both ends hold.
 *
 * A futex in memory that two processes share has the kernel look up the page behind the
 * address, when sleeping and again when waking: a tenth of a microsecond per round trip
 * that a descriptor does not cost.  Whoever has no bell, an older client say, sleeps on
 * the futex.  Owned by the connection; any thread.  The peer may do with it what it
 * likes: a wait can end early, and ringing one that the peer has filled up waits until
 * xport_bell_kick().  Private to transport/.
 */
#ifndef XPORT_BELL_H
#define XPORT_BELL_H

#include "gp_base.h"
#include "gp_syscall.h"

#include <errno.h>

/* A descriptor, or -errno. */
int xport_bell_new(void);

/* Until somebody has rung since the last wait; returns early now and then.  -errno: it
 * is no bell (any more). */
static GP_INLINE int
xport_bell_wait(int bell)
{
    uint64_t count;
    long r = gp_syscall3(SYS_read, bell, (long)&count, sizeof(count));

    return likely(r == sizeof(count)) || r == -EINTR || r == -EAGAIN ? 0 : -EBADF;
}

static GP_INLINE void
xport_bell_ring(int bell)
{
    uint64_t one = 1;

    gp_syscall3(SYS_write, bell, (long)&one, sizeof(one));
}

/* Wake who waits, and who rings a bell that the peer has filled up. */
void xport_bell_kick(int bell);

#endif
