/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A staging buffer: page-locked memory of the worker through which one copy at a time
 * passes between the connection and the GPU.
 *
 * The memory is the worker's own and only registered with the driver, because memory
 * that a driver allocates dies with a context.  It is allocated at first use and kept:
 * fresh memory per transfer would cost more than the copy.  The owner of the buffer
 * decides on its threads; there is no lock here.
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
    size_t size;        /* of memory that wrk_staging_ready() has allocated, else 0 */
    atomic_bool pinned; /* registered since the last context died */
    CUevent event;      /* of the copy in flight, NULL: free */
    uint32_t ctx_index; /* whose pool the event goes back to */
    bool taken;         /* bytes from the link are on their way into it */
    uint64_t ticket;    /* bytes to the link are on their way out of it, or 0 */
};

/* Memory of @size bytes at least, registered with the driver.  A buffer that is too
 * small gets new memory; what it had stays registered, because taking a registration
 * back may wait for the card and bytes may still be sent from it.  If the driver
 * refuses, its error is returned, and the call that needs the buffer fails with
 * it: a copy with pageable memory would wait for its stream inside the driver and block
 * the receive thread. */
CUresult wrk_staging_ready(struct wrk *w, struct wrk_staging *slot, size_t size);

/* Record a fence: a copy that uses the buffer was started in @stream of the context
 * @ctx_index, which is current; the buffer is busy until the copy is complete.  On an
 * error the copy has been waited for. */
CUresult wrk_staging_fence(struct wrk *w, struct wrk_staging *slot, uint32_t ctx_index,
                           CUstream stream);

/* Is the copy that used it done?  An error counts as done: the stream is dead. */
bool wrk_staging_idle(struct wrk *w, struct wrk_staging *slot);

/* Wait for it, in the driver. */
void wrk_staging_wait(struct wrk *w, struct wrk_staging *slot);

/* Wait for the fence, polling until @spin_until_ns and then sleeping; returns the
 * copy's result. */
CUresult wrk_staging_result(struct wrk *w, struct wrk_staging *slot,
                            uint64_t spin_until_ns);

/* Has the GPU come past the fence, or did it fail?  The fence stays. */
bool wrk_staging_done(struct wrk *w, const struct wrk_staging *slot);

/* The event is not needed any more. */
void wrk_staging_unfence(struct wrk *w, struct wrk_staging *slot);

/* The context is gone, and its events with it. */
void wrk_staging_forget(struct wrk_staging *slot, uint32_t ctx_index);

#endif
