/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The linker.  A link keeps the option values that the driver was given, because it
 * writes its logs into them until the link is complete; so the object behind a link's
 * id is ours, not the driver's.
 */
#include "drv.h"
#include "gp_base.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_image.h"
#include "wrk_jit.h"
#include "xport.h"

#include <string.h>

struct link {
    CUlinkState state;
    struct wrk_jit jit;
};

/* What the table has behind a link's id. */
static struct link *
link_of(CUlinkState looked_up)
{
    return (struct link *)(void *)looked_up;
}

static void
link_free(struct link *link)
{
    wrk_jit_fini(&link->jit);
    free(link);
}

CUresult
h_cuLinkCreate_v2(struct wrk *w, const struct wire_args_cuLinkCreate_v2 *a,
                  struct wrk_reply *rep)
{
    struct link *link = calloc(1, sizeof(*link));
    CUresult r;

    (void)rep;
    if (!link)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = wrk_jit_init(&link->jit, a->numOptions, a->options, a->values);
    if (r == CUDA_SUCCESS)
        r = WRK_CALL(w, cuLinkCreate_v2, link->jit.n, link->jit.options,
                     link->jit.values, &link->state);
    if (r == CUDA_SUCCESS)
        wrk_handle_put(w, WIRE_KIND_LINK, a->stateOut_id, link);
    else
        link_free(link);
    return r;
}

CUresult
h_cuLinkAddData_v2(struct wrk *w, const struct wire_args_cuLinkAddData_v2 *a,
                   struct wrk_reply *rep)
{
    CLEANUP(wrk_image_fini) struct wrk_image input = {0};
    CLEANUP(wrk_jit_fini) struct wrk_jit jit;
    CUresult r = wrk_jit_init(&jit, a->numOptions, a->options, a->values);

    if (r == CUDA_SUCCESS)
        r = wrk_image_take_input(w, rep, &input, a->type, a->data, a->size);
    if (r != CUDA_SUCCESS || !a->state)
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_HANDLE;
    r = WRK_CALL(w, cuLinkAddData_v2, link_of(a->state)->state, a->type,
                 (void *)(uintptr_t)input.code, input.len, a->name, jit.n, jit.options,
                 jit.values);
    if (r == CUDA_SUCCESS)
        wrk_image_keep(&input, NULL, 0);
    return r;
}

/* Logs are sent with a failing result too, because they contain the reason.  An image
 * that is too large for a frame follows it. */
static void
complete_reply(struct wrk *w, struct wrk_reply *rep, const struct wrk_jit *jit,
               CUresult result, const void *image, size_t size)
{
    struct wire_cuLinkComplete_rep fixed = {.cubin_len = size};
    struct wire_cuLinkComplete_rep_room room;
    bool bulk = size > WIRE_FRAME_MAX / 4;
    struct wrk_priv *p = w->priv;
    void *body;

    if (!(rep->req->flags & WIRE_F_REPLY))
        return;
    fixed.info_log_len = wrk_jit_log_len(jit, jit->info_log, jit->info_at);
    fixed.error_log_len = wrk_jit_log_len(jit, jit->error_log, jit->error_at);
    rep->taken = true;
    body = wrk_reply_reserve(w, rep->req, wire_cuLinkComplete_rep_size(&fixed, bulk));
    if (!body)
        return;
    memcpy(body, &fixed, sizeof(fixed));
    wire_cuLinkComplete_rep_place(&room, body, bulk);
    if (fixed.info_log_len)
        memcpy(room.info_log, jit->info_log, fixed.info_log_len);
    if (fixed.error_log_len)
        memcpy(room.error_log, jit->error_log, fixed.error_log_len);
    if (!bulk) {
        if (room.cubin)
            memcpy(room.cubin, image, size);
        wrk_reply_send(w, rep->req, result);
        return;
    }
    p->reserved->flags |= WIRE_F_BULK;
    xport_commit(p->conn, p->reserved->size);
    if (xport_send_bulk(p->conn, image, size) < 0)
        wrk_stop(w);
    gp_lock_release(&p->send_lock);
}

CUresult
h_gp_link_notes(struct wrk *w, const struct wire_args_gp_link_notes *a,
                struct wrk_reply *rep)
{
    struct wire_gp_link_notes_rep fixed = {0};
    struct wire_gp_link_notes_rep_room room;
    const struct link *link = link_of(a->state);
    const struct wrk_jit *jit;
    void *body;

    if (!link)
        return CUDA_ERROR_INVALID_HANDLE;
    jit = &link->jit;
    fixed.info_log_len = wrk_jit_log_len(jit, jit->info_log, jit->info_at);
    fixed.error_log_len = wrk_jit_log_len(jit, jit->error_log, jit->error_at);
    if (jit->wall_at != WRK_JIT_OPTIONS_MAX)
        memcpy(&fixed.wall_time, &jit->values[jit->wall_at], sizeof(fixed.wall_time));
    rep->taken = true;
    body = wrk_reply_reserve(w, rep->req, wire_gp_link_notes_rep_size(&fixed));
    if (!body)
        return CUDA_SUCCESS;
    memcpy(body, &fixed, sizeof(fixed));
    wire_gp_link_notes_rep_place(&room, body);
    if (fixed.info_log_len)
        memcpy(room.info_log, jit->info_log, fixed.info_log_len);
    if (fixed.error_log_len)
        memcpy(room.error_log, jit->error_log, fixed.error_log_len);
    wrk_reply_send(w, rep->req, CUDA_SUCCESS);
    return CUDA_SUCCESS;
}

CUresult
h_cuLinkComplete(struct wrk *w, const struct wire_args_cuLinkComplete *a,
                 struct wrk_reply *rep)
{
    struct link *link = link_of(a->state);
    void *image = NULL;
    size_t size = 0;
    CUresult r;

    if (!link)
        return CUDA_ERROR_INVALID_HANDLE;
    r = WRK_CALL(w, cuLinkComplete, link->state, &image, &size);
    complete_reply(w, rep, &link->jit, r, image, r == CUDA_SUCCESS ? size : 0);
    return r;
}

CUresult
h_cuLinkDestroy(struct wrk *w, const struct wire_args_cuLinkDestroy *a,
                struct wrk_reply *rep)
{
    struct link *link = link_of(a->state);
    CUresult r;

    (void)rep;
    if (!link)
        return CUDA_ERROR_INVALID_HANDLE;
    r = WRK_CALL(w, cuLinkDestroy, link->state);
    wrk_handle_del(w, WIRE_KIND_LINK, a->state_id);
    link_free(link);
    return r;
}
