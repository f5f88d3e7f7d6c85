/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inline: the bytes came inside the frame.  The GPU may read them after the frame's
 * memory is reused, so either the connection goes on with other memory, or they are
 * copied to a staging buffer.
 */
#include "gp_copy.h"
#include "wrk.h"
#include "wrk_frame_buffers.h"
#include "wrk_path.h"
#include "wrk_staging_pool.h"

#include <string.h>

/* @bytes: in @slot. */
static void
inline_start(struct wrk_h2d *t, struct wrk_staging *slot, const void *bytes)
{
    struct wrk *w = t->w;
    const struct wrk_copy *copy = t->copy;

    t->result = copy->start(w, copy, (void *)(uintptr_t)bytes, 0, copy->len);
    if (t->result != CUDA_SUCCESS)
        return;
    wrk_staging_fence(w, slot, w->ctx_index, copy->stream);
    t->last = slot;
}

void
wrk_path_inline_h2d(struct wrk_h2d *t)
{
    struct wrk *w = t->w;
    const struct wrk_copy *copy = t->copy;
    struct wrk_staging *slot;

    if (copy->len > WRK_STAGING_SIZE) {
        t->result = CUDA_ERROR_INVALID_VALUE;
        return;
    }
    wrk_copy_account_receive(w, copy->len);
    slot = wrk_frame_buffers_take(w, t->in_frame, copy->len);
    if (slot) {
        inline_start(t, slot, t->in_frame);
        return;
    }
    t->result = wrk_staging_pool_get(w, copy->len, &slot);
    if (t->result != CUDA_SUCCESS)
        return;
    if (copy->len)
        gp_copy(slot->mem, t->in_frame, copy->len);
    inline_start(t, slot, slot->mem);
}
