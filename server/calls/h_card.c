/* SPDX-License-Identifier: Apache-2.0 */
/* What management libraries ask about a slice; needs no context. */
#include "gp_time.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_call.h"
#include "wrk_desk.h"
#include "wrk_quota.h"

#include <string.h>

CUresult
h_gp_card_info(struct wrk *w, const struct wire_args_gp_card_info *a,
               struct wrk_reply *rep)
{
    struct wire_gp_card_info_rep *body = rep->body;

    if (a->slice >= w->priv->cards.n)
        return CUDA_ERROR_INVALID_DEVICE;
    body->limit = wrk_quota_limit(w->priv->quota, a->slice);
    body->used = wrk_quota_used(w->priv->quota, a->slice);
    return CUDA_SUCCESS;
}

struct holders {
    uint32_t n;
    uint32_t pids[WRK_SLOTS_MAX];
    uint64_t bytes[WRK_SLOTS_MAX];
};

/* The session's processes that hold memory of a slice. */
static void
holders_find(const struct wrk_segment *seg, uint32_t slice, struct holders *ret)
{
    uint32_t high = gp_min(atomic_load(&seg->slots_high), (uint32_t)WRK_SLOTS_MAX);

    ret->n = 0;
    for (uint32_t i = 0; i < high; i++) {
        uint64_t bytes = atomic_load(&seg->members[i].used[slice]);
        uint32_t pid = atomic_load(&seg->members[i].client_pid);

        if (!bytes || !pid)
            continue;
        ret->pids[ret->n] = pid;
        ret->bytes[ret->n++] = bytes;
    }
}

CUresult
h_gp_card_use(struct wrk *w, const struct wire_args_gp_card_use *a,
              struct wrk_reply *rep)
{
    const struct wrk_segment *seg = w->priv->desks->segment;
    struct wire_gp_card_use_rep_room room;
    struct wire_gp_card_use_rep fixed = {0};
    struct holders holders;
    void *body;

    if (a->slice >= w->priv->cards.n)
        return CUDA_ERROR_INVALID_DEVICE;
    wrk_desks_call(w->priv->desks, WRK_CALL_LOOK, 0, 0);
    holders_find(seg, a->slice, &holders);
    fixed.gpu_ns = atomic_load(&seg->gpu_ns[a->slice]);
    fixed.now_ns = gp_now_ns();
    fixed.n_pids = fixed.n_bytes = holders.n;
    rep->taken = true;
    body = wrk_reply_reserve(w, rep->req, wire_gp_card_use_rep_size(&fixed));
    if (!body)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(body, &fixed, sizeof(fixed));
    wire_gp_card_use_rep_place(&room, body);
    if (holders.n) { /* else there is no room for them */
        memcpy(room.pids, holders.pids, holders.n * sizeof(holders.pids[0]));
        memcpy(room.bytes, holders.bytes, holders.n * sizeof(holders.bytes[0]));
    }
    wrk_reply_send(w, rep->req, CUDA_SUCCESS);
    return CUDA_SUCCESS;
}
