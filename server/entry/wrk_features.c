/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The features that register with the core (wrk_hooks.h): per occasion, the functions
 * in the order in which they run.
 */
#include "wrk.h"
#include "wrk_capture.h"
#include "wrk_control.h"
#include "wrk_d2h_async.h"
#include "wrk_digests.h"
#include "wrk_governor.h"
#include "wrk_h2d_fence.h"
#include "wrk_hooks.h"
#include "wrk_hostfn_due.h"
#include "wrk_kernels.h"
#include "wrk_left.h"
#include "wrk_opaque.h"
#include "wrk_peer.h"
#include "wrk_quota.h"
#include "wrk_resume.h"
#include "wrk_shared_pinned.h"
#include "wrk_spatial.h"
#include "wrk_supervisor_channel.h"
#include "wrk_transfer.h"
#include "wrk_window.h"

static void
quota_ctx_gone(struct wrk *w, uint32_t ctx_index)
{
    wrk_quota_drop_ctx(w->priv->quota, ctx_index);
}

static void
windows_ctx_gone(struct wrk *w, uint32_t ctx_index)
{
    wrk_windows_forget_ctx(w->priv->windows, ctx_index);
}

const struct wrk_hooks wrk_hooks = {
    /* A small blocking copy must have reached the GPU before the next call. */
    .before_call = {wrk_h2d_fence_wait},
    /* The bytes of completed copies go before a reply that reports the completion. */
    .before_reply = {wrk_d2h_async_before_reply},
    .idle = {wrk_governor_idle, wrk_supervisor_idle},
    .poll = {{wrk_d2h_async_pending, wrk_d2h_async_poll},
             {wrk_pinned_pending, wrk_pinned_poll}},
    .d2h_async_end = {wrk_d2h_async_end},
    .ctx_idle = {wrk_governor_ctx_idle},
    .ctx_end = {wrk_digests_hold, wrk_digests_let_go},
    /* Memory is given back first, so that other processes see it as free.  Asynchronous
     * copies end before the staging buffers that they use. */
    .ctx_gone = {quota_ctx_gone, wrk_d2h_async_forget, wrk_transfer_forget,
                 wrk_kernels_forget_ctx, windows_ctx_gone, wrk_left_forget,
                 wrk_capture_forget, wrk_hostfn_due_ctx_gone, wrk_opaque_forget,
                 wrk_object_ctx_gone},
    .stream_gone = {wrk_governor_stream_gone, wrk_hostfn_due_stream_gone},
    .ctx_named = {wrk_spatial_named},
    .link_replaced = {wrk_windows_link_replaced},
    .host_function = {wrk_control_want},
    .host_urgent = {wrk_resume_wake_control},
    .peer_arrived = wrk_peer_arrived,
};
