/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wake-up descriptors: the eventfd that the consumer of a shared-memory ring sleeps on.
 * Both ends hold it.
 *
 * A futex in memory that two processes share has the kernel look up the page behind the
 * address, when sleeping and again when waking: a tenth of a microsecond per round trip
 * that a descriptor does not cost.  An end without one, an older client say, sleeps on
 * the futex.  Owned by the connection; any thread.  The peer may do with it what it
 * likes: a wait can end early, and a write to a counter that the peer has filled up
 * blocks until xport_wakefd_kick().  Private to transport/.
 */
#ifndef XPORT_WAKEFD_H
#define XPORT_WAKEFD_H

#include "gp_base.h"
#include "gp_syscall.h"

#include <errno.h>

/* A descriptor, or -errno. */
int xport_wakefd_new(void);

/* Sleep until somebody has written to it since the last wait; may return early. -EBADF:
 * the descriptor is no eventfd (any more). */
static GP_INLINE int
xport_wakefd_wait(int wakefd)
{
    uint64_t count;
    long r = gp_syscall3(SYS_read, wakefd, (long)&count, sizeof(count));

    return likely(r == sizeof(count)) || r == -EINTR || r == -EAGAIN ? 0 : -EBADF;
}

static GP_INLINE void
xport_wakefd_wake(int wakefd)
{
    uint64_t one = 1;

    gp_syscall3(SYS_write, wakefd, (long)&one, sizeof(one));
}

/* Wake the thread that waits, and the one whose write a full counter holds up. */
void xport_wakefd_kick(int wakefd);

#endif
