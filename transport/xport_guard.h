/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Noticing that an application unmapped memory, so that a registration of it can be
 * kept between transfers: nothing else tells a library, and a stale registration would
 * send whatever lay there before.
 *
 * The kernel tells through userfaultfd: ranges are registered for events (unmapped,
 * remapped, dropped by madvise), never for page faults.  A thread of this process takes
 * the events; munmap() returns in the application only after that thread has read its
 * event, and it reads and marks under the one lock that xport_guard_stale() takes, so
 * whoever looks after an unmap sees the mark.  Code under that lock neither allocates
 * nor frees: the thread that waits in munmap() may hold the allocator's lock.
 *
 * Anonymous private memory only: a file may be cut short without an event.
 *
 * One watcher per process, made by the first range and never ended; any thread.
 */
#ifndef XPORT_GUARD_H
#define XPORT_GUARD_H

#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

/* Storage is the caller's; zero: not watched. */
struct xport_guard {
    uintptr_t start, end; /* whole pages */
    bool stale;           /* under the lock */
    struct xport_guard *next;
};

/* Whether this process may watch memory at all. */
bool xport_guard_usable(void);

/* From here on an unmap of a part of the range is noticed.  -errno: the range cannot be
 * watched; nothing happens then.  Register the memory after this, then ask
 * xport_guard_sound(), then xport_guard_stale() before each use. */
int xport_guard_add(struct xport_guard *w, const void *addr, size_t len);
void xport_guard_remove(struct xport_guard *w);

/* With its pages present: whether they are all anonymous. */
bool xport_guard_sound(const struct xport_guard *w);

/* Whether a part of its pages has been unmapped, moved or given back since it was made.
 * Any thread. */
bool xport_guard_stale(const struct xport_guard *w);

#endif
