/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that other processes may know (cuIpcGetEventHandle, cuIpcOpenEventHandle).
 *
 * Recording such an event is waited for: the program may tell another process of it
 * over a pipe as soon as the call has returned, and that process queries its own
 * worker.  A flag in the event's entry of the handle table says so, and is removed with
 * the handle.
 */
#ifndef STUB_IPC_EVENT_H
#define STUB_IPC_EVENT_H

#include "cuda_abi.h"
#include "gp_base.h"
#include "stub_handle.h"
#include "wire_format.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Is there any such event?  Most programs have none. */
extern atomic_bool stub_ipc_events;

static inline bool
stub_ipc_event_is(CUevent event)
{
    return unlikely(atomic_load_explicit(&stub_ipc_events, memory_order_relaxed)) &&
           stub_handle_data(WIRE_KIND_EVENT, (uintptr_t)event);
}

#endif
