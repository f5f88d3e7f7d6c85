/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between the card and page-locked memory of the client that both map
 * (wrk_shared_pinned.h).
 */
#include "gp_err.h"
#include "gp_log.h"
#include "wire_api.h"
#include "wire_lines.h"
#include "wire_result.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_capture.h"
#include "wrk_paths.h"
#include "wrk_shared_pinned.h"
#include "wrk_unified.h"
#include "wrk_wait.h"

#include <string.h>

CUresult
h_gp_pin(struct wrk *w, const struct wire_args_gp_pin *a, struct wrk_reply *rep)
{
    struct wire_gp_pin_rep *body = rep->body;

    body->taken = wrk_pinned_add(
        w, &(struct wrk_pinned_request){.id = a->id, .file = true, .size = a->size});
    return CUDA_SUCCESS;
}

CUresult
h_gp_window(struct wrk *w, const struct wire_args_gp_window *a, struct wrk_reply *rep)
{
    struct wire_gp_window_rep *body = rep->body;
    struct gp_err err = {0};
    /* Another server of the session may refuse what this one has taken: without a size
     * it is given back. */
    int r = a->size ? wrk_unified_reserve(a->base, a->size, &err)
                    : wrk_unified_give_back(a->base, &err);

    (void)w;
    if (r < 0)
        gp_log_info("bulk", "no common range of addresses: %s", gp_err_msg(&err, r));
    body->taken = r >= 0;
    return CUDA_SUCCESS;
}

CUresult
h_gp_pin_at(struct wrk *w, const struct wire_args_gp_pin_at *a, struct wrk_reply *rep)
{
    struct wire_gp_pin_at_rep *body = rep->body;

    if (!a->addr)
        return CUDA_ERROR_INVALID_VALUE;
    body->taken = wrk_pinned_add(
        w, &(struct wrk_pinned_request){
               .id = a->id, .file = a->file != 0, .addr = a->addr, .size = a->size});
    return CUDA_SUCCESS;
}

CUresult
h_gp_lines_up(struct wrk *w, const struct wire_args_gp_lines_up *a,
              struct wrk_reply *rep)
{
    (void)w;
    (void)rep;
    return a->n % sizeof(struct wire_line) == 0 &&
                   wrk_pinned_lines_put(a->id, (const void *)a->lines,
                                        a->n / sizeof(struct wire_line))
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult
h_gp_lines_down(struct wrk *w, const struct wire_args_gp_lines_down *a,
                struct wrk_reply *rep)
{
    static struct wire_line lines[WIRE_LINES_MAX]; /* the reader's */
    struct wire_gp_lines_down_rep fixed = {.next_id = a->id, .next_offset = a->offset};
    struct wire_gp_lines_down_rep_room room;
    void *body;

    fixed.len =
        (uint32_t)(wrk_pinned_lines_take(&fixed.next_id, &fixed.next_offset, lines) *
                   sizeof(lines[0]));
    rep->taken = true;
    body = wrk_reply_reserve(w, rep->req, wire_gp_lines_down_rep_size(&fixed));
    if (!body)
        return CUDA_SUCCESS;
    memcpy(body, &fixed, sizeof(fixed));
    wire_gp_lines_down_rep_place(&room, body);
    if (room.lines)
        memcpy(room.lines, lines, fixed.len);
    wrk_reply_send(w, rep->req, CUDA_SUCCESS);
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
    CUresult r = wrk_capturing(w, a->hStream);

    (void)rep;
    wrk_path_log(wrk_path_choose(WRK_FACT_H2D | WRK_FACT_BOTH_MAP), a->n);
    return r == CUDA_SUCCESS ? wrk_pinned_start(w, &place, a->dst, false, a->hStream)
                             : r;
}

/* A host-to-device copy that would have to wait for other work is refused, and the
 * client sends the bytes instead: its program can then go on as soon as they are sent.
 */
CUresult
h_gp_pin_copy(struct wrk *w, const struct wire_args_gp_pin_copy *a,
              struct wrk_reply *rep)
{
    struct wrk_pinned_place place = {a->id, a->offset, a->n};
    CUresult r = wrk_capturing(w, a->hStream);

    if (r == CUDA_SUCCESS && !a->down) {
        r = wrk_wait_idle(w, a->hStream);
        if (r == CUDA_ERROR_NOT_READY)
            r = WIRE_RESULT_SEND_BYTES;
    }
    if (r == CUDA_SUCCESS) {
        wrk_path_log(wrk_path_choose((a->down ? WRK_FACT_D2H : WRK_FACT_H2D) |
                                     WRK_FACT_BOTH_MAP),
                     a->n);
        r = wrk_pinned_start(w, &place, a->device, a->down, a->hStream);
    }
    return r == CUDA_SUCCESS ? wrk_wait_stream(w, rep, a->hStream) : r;
}
