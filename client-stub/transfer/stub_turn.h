/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The turn of a copy in its stream: when it matters that the host's memory is read or
 * written then, and not when the call is made.
 *
 * It matters while the program can act between the two: by a function of its own that a
 * stream or a graph calls, and behind a wait for a value (cuStreamWaitValue32 and the
 * like), which the program ends when it likes.  A kernel that spins until the program
 * writes its memory is such a wait, too, and cannot be told from others.  Any thread.
 */
#ifndef STUB_TURN_H
#define STUB_TURN_H

#include "gp_base.h"
#include "stub_hostfn.h"

#include <stdatomic.h>
#include <stdbool.h>

/* A stream of this process has waited for a value, or will. */
extern atomic_bool stub_turn_gates;

/* May the program's memory be written in stream order, or a stream wait for what the
 * program does next? */
static inline bool
stub_turn_matters(void)
{
    return unlikely(atomic_load_explicit(&stub_turn_gates, memory_order_relaxed)) ||
           unlikely(atomic_load_explicit(&stub_hostfn_of_program,
                                         memory_order_acquire) != 0);
}

#endif
