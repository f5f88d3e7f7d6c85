/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between the card and page-locked memory of the client that both map
 * (wrk_pinned.h).
 */
#include "wire_api.h"
#include "wire_result.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_bulk.h"
#include "wrk_pinned.h"
#include "wrk_wait.h"

CUresult
h_gp_pin(struct wrk *w, const struct wire_args_gp_pin *a, struct wrk_reply *rep)
{
    struct wire_gp_pin_rep *body = rep->body;

    body->taken = wrk_pinned_add(w, a->id, a->size);
    return CUDA_SUCCESS;
}

CUresult
h_gp_unpin(struct wrk *w, const struct wire_args_gp_unpin *a, struct wrk_reply *rep)
{
    (void)rep;
    wrk_pinned_drop(w, a->id);
    return CUDA_SUCCESS;
}

CUresult
h_gp_pin_up(struct wrk *w, const struct wire_args_gp_pin_up *a, struct wrk_reply *rep)
{
    struct wrk_pinned_place place = {a->id, a->offset, a->n};
    CUresult r = wrk_bulk_capturing(w, a->hStream);

    (void)rep;
    return r == CUDA_SUCCESS ? wrk_pinned_start(w, &place, a->dst, false, a->hStream)
                             : r;
}

/* One up that would have to wait for other work is better sent: then the program can go
 * on as soon as its bytes are under way. */
CUresult
h_gp_pin_copy(struct wrk *w, const struct wire_args_gp_pin_copy *a,
              struct wrk_reply *rep)
{
    struct wrk_pinned_place place = {a->id, a->offset, a->n};
    CUresult r = wrk_bulk_capturing(w, a->hStream);

    if (r == CUDA_SUCCESS && !a->down) {
        r = wrk_wait_idle(w, a->hStream);
        if (r == CUDA_ERROR_NOT_READY)
            r = WIRE_RESULT_SEND_BYTES;
    }
    if (r == CUDA_SUCCESS)
        r = wrk_pinned_start(w, &place, a->device, a->down, a->hStream);
    return r == CUDA_SUCCESS ? wrk_wait_stream(w, rep, a->hStream) : r;
}
