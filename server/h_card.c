/* SPDX-License-Identifier: Apache-2.0 */
/* What management libraries ask about a slice; needs no context. */
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_quota.h"

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
