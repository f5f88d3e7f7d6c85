/* SPDX-License-Identifier: Apache-2.0 */
/* See stub_sticky.h. */
#include "stub_sticky.h"

#include "cuda_api.h"
#include "gp_lock.h"
#include "stub_ctx.h"
#include "stub_hooks.h"
#include "stub_link.h"
#include "wire_api.h"

/* The errors after which CUDA says that the process, or at least the context, has to
 * end: a device or kernel caused them, not the arguments of a call. */
static bool
is_sticky(CUresult r)
{
    switch (r) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN:
        return true;
    default:
        return false;
    }
}

static struct stub_link *
link_of(const struct stub_ctx *ctx)
{
    return &stub_links[wire_handle_link(ctx->handle)];
}

/* Contexts with ctx->failed, per link; the links' attention goes with it. */
static struct gp_lock lock;
static uint32_t failed[STUB_LINKS_MAX];

static void
sticky_over(struct stub_ctx *ctx)
{
    struct stub_link *link = link_of(ctx);

    gp_lock_take(&lock);
    if (atomic_exchange(&ctx->failed, false) && --failed[link->number] == 0)
        stub_link_attend(link, STUB_ATTEND_REPLY, false);
    gp_lock_release(&lock);
}

/* Another thread may end the context meanwhile.  It clears `alive` and then reads
 * `failed`; here `failed` is set and then `alive` is read, so that one of the two
 * clears it. */
static void
sticky_note(struct stub_link *link, CUresult r)
{
    struct stub_ctx *ctx = stub_tls.ctx;

    if (!is_sticky(r) || !ctx || link_of(ctx) != link || !atomic_load(&ctx->alive))
        return;
    gp_lock_take(&lock);
    if (!atomic_exchange(&ctx->failed, true) && failed[link->number]++ == 0)
        stub_link_attend(link, STUB_ATTEND_REPLY, true);
    gp_lock_release(&lock);
    if (!atomic_load(&ctx->alive))
        sticky_over(ctx);
}

/* The stub's own calls, but for copies, have no reply that a program needs, and are
 * made where waiting is not allowed. */
static bool
sticky_wants_reply(uint32_t attention, uint16_t call)
{
    if (!(attention & STUB_ATTEND_REPLY))
        return false;
    return call < WIRE_CALL_gp_host_done || call == WIRE_CALL_gp_pin_up ||
           call == WIRE_CALL_gp_pin_copy;
}

const struct stub_feature stub_sticky_feature = {
    .name = "sticky errors",
    .wants_reply = sticky_wants_reply,
    .call_failed = sticky_note,
    .ctx_end = sticky_over,
};

/* A query that a driver refuses in such a context, and that changes nothing. */
CUresult
stub_sticky_result(void)
{
    size_t free, total;
    CUresult r;

    if (!stub_link_wants_replies(stub_link_here()))
        return CUDA_SUCCESS;
    r = cuMemGetInfo_v2(&free, &total);
    return is_sticky(r) ? r : CUDA_SUCCESS;
}
