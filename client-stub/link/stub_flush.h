/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends frames that no waiting call sends, so that the device does not run out of work.
 *
 * One thread of the stub per link checks the queue about every 50 us while frames are
 * queued, and sends what has been there since its last check.  It sleeps while none is;
 * calls that wait and copies are sent by their threads.  The first frame after that
 * wakes it, which is the only system call that it ever costs a caller.
 */
#ifndef STUB_FLUSH_H
#define STUB_FLUSH_H

#include "stub_link.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Launches are waited for (stub_launch.c). */
extern bool stub_launch_blocking;

/* Start the thread of @link, once, after attaching.  -errno when there can be none;
 * then every frame leaves at once. */
int stub_flush_start(struct stub_link *link);

void stub_flush_wake(struct stub_link *link);

/* The first frame entered an empty buffer. */
static inline void
stub_flush_arm(struct stub_link *link)
{
    atomic_store_explicit(&link->flush_armed, 1, memory_order_relaxed);
    if (__builtin_expect(
            atomic_load_explicit(&link->flush_asleep, memory_order_seq_cst) != 0, 0))
        stub_flush_wake(link);
}

#endif
