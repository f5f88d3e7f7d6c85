/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often something has changed on which it depends whether the driver accepts what
 * it has accepted before (stub_graph_accepted.h).  Counted up behind the call that
 * changes it, so what was accepted before it, or meanwhile, is not relied on any more.
 *
 * No object.  Any thread.
 */
#ifndef STUB_ACCEPTED_H
#define STUB_ACCEPTED_H

#include <stdatomic.h>
#include <stdint.h>

extern _Atomic uint32_t stub_accepted_changes;

static inline void
stub_accepted_forget(void)
{
    atomic_fetch_add(&stub_accepted_changes, 1);
}

static inline uint32_t
stub_accepted_since(void)
{
    return atomic_load(&stub_accepted_changes);
}

#endif
