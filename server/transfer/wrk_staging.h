/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slot: pinned memory of the worker that one copy between connection and card uses at
 * a time.
 *
 * The memory is ours and only registered with the driver, because what a driver
 * allocates dies with a context; where it cannot be registered it still works.  It is
 * made at first use and kept: fresh memory per transfer would cost more than the copy.
 * A slot belongs to whoever its owner's rules say; nothing here locks.
 */
#ifndef WRK_STAGING_H
#define WRK_STAGING_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wrk;

struct wrk_staging {
    uint8_t *mem;
    atomic_bool pinned; /* registered since the last context died */
    CUevent event;      /* of the copy in flight, NULL: free */
    uint32_t ctx_index; /* whose pool the event goes back to */
    bool taken;         /* bytes from the link are on their way into it */
    uint64_t ticket;    /* bytes to the link are on their way out of it, or 0 */
};

/* Memory of @size bytes, the same at every call, registered with the driver.  Where the
 * driver refuses it, its error, which the call that wants the memory ends with: a copy
 * to or from pageable memory waits for its stream inside the driver, and whoever starts
 * one here is the thread that has to go on receiving. */
CUresult wrk_staging_ready(struct wrk *w, struct wrk_staging *slot, size_t size);

/* A copy that uses the slot was started in @stream of the context @ctx_index, which is
 * current: busy until it is done.  What kept that from being marked, or CUDA_SUCCESS;
 * then the copy has been waited for. */
CUresult wrk_staging_fence(struct wrk *w, struct wrk_staging *slot, uint32_t ctx_index,
                           CUstream stream);

/* Is the copy that used it done?  An error counts as done: the stream is dead. */
bool wrk_staging_idle(struct wrk *w, struct wrk_staging *slot);

/* Wait for it, in the driver. */
void wrk_staging_wait(struct wrk *w, struct wrk_staging *slot);

/* Wait for it, asking until @spin_until_ns and sleeping from then on; what the copy
 * came to. */
CUresult wrk_staging_result(struct wrk *w, struct wrk_staging *slot,
                            uint64_t spin_until_ns);

/* The event is not needed any more. */
void wrk_staging_unfence(struct wrk *w, struct wrk_staging *slot);

/* The context is gone, and its events with it. */
void wrk_staging_forget(struct wrk_staging *slot, uint32_t ctx_index);

#endif
