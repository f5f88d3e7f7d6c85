/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spare driver events for the worker's own use: waits, copies in flight, charged work.
 * An event belongs to a context, so each context has its list.
 *
 * Any thread; the context of the index must be current where get() is called.
 */
#ifndef WRK_EVPOOL_H
#define WRK_EVPOOL_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;

/* Without timing; NULL when the driver has none to give. */
CUevent wrk_evpool_get(struct wrk *w, uint32_t ctx_index);
void wrk_evpool_put(struct wrk *w, uint32_t ctx_index, CUevent event);

/* With timing, for the governor. */
CUevent wrk_evpool_get_timed(struct wrk *w, uint32_t ctx_index);
void wrk_evpool_put_timed(struct wrk *w, uint32_t ctx_index, CUevent event);

/* The context died with its events. */
void wrk_evpool_forget(uint32_t ctx_index);

#endif
