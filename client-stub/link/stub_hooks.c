/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the features; see stub_hooks.h. */
#include "stub_hooks.h"

#include "gp_copy.h"
#include "stub_tls.h"

#include <string.h>

void
stub_hooks_before_call(uint16_t call)
{
    uint32_t mode = stub_tls_relax();

    for (const struct stub_feature *const *at = stub_features; *at; at++)
        if ((*at)->before_call)
            (*at)->before_call(call);
    stub_tls_restore(mode);
}

CUresult
stub_hooks_after_wait(uint16_t call, CUresult result)
{
    uint32_t mode = stub_tls_relax();

    for (const struct stub_feature *const *at = stub_features; *at; at++)
        if ((*at)->after_wait)
            result = (*at)->after_wait(call, result);
    stub_tls_restore(mode);
    return result;
}

CUresult
stub_hooks_stream_waited(uint64_t stream)
{
    CUresult result = CUDA_SUCCESS;
    uint32_t mode = stub_tls_relax();

    for (const struct stub_feature *const *at = stub_features; *at; at++)
        if ((*at)->stream_waited && result == CUDA_SUCCESS)
            result = (*at)->stream_waited(stream);
    stub_tls_restore(mode);
    return result;
}

void
stub_hooks_hostfn_begin(struct stub_link *link)
{
    for (const struct stub_feature *const *at = stub_features; *at; at++)
        if ((*at)->hostfn_begin)
            (*at)->hostfn_begin(link);
}

void
stub_hooks_hostfn_end(struct stub_link *link)
{
    for (const struct stub_feature *const *at = stub_features; *at; at++)
        if ((*at)->hostfn_end)
            (*at)->hostfn_end(link);
}

void
stub_hooks_placed(struct stub_link *link, uint32_t seq)
{
    for (const struct stub_feature *const *at = stub_features; *at; at++)
        if ((*at)->placed)
            (*at)->placed(link, seq);
}

uint16_t
stub_hooks_frame_flags(void)
{
    uint16_t flags = 0;

    for (const struct stub_feature *const *at = stub_features; *at; at++)
        if ((*at)->frame_flags)
            flags |= (*at)->frame_flags();
    return flags;
}

/* All of them check, whatever the first has found. */
bool
stub_hooks_needs(const void *bytes, size_t n)
{
    bool some = false;

    for (const struct stub_feature *const *at = stub_features; *at; at++)
        if ((*at)->needs && (*at)->needs(bytes, n))
            some = true;
    return some;
}

/* Whoever searches for something copies, and one feature does. */
bool
stub_hooks_copy_needs(void *to, const void *bytes, size_t n)
{
    for (const struct stub_feature *const *at = stub_features; *at; at++)
        if ((*at)->copy_needs)
            return (*at)->copy_needs(to, bytes, n);
    gp_copy(to, bytes, n);
    return true;
}

void
stub_hooks_provide(void)
{
    uint32_t mode = stub_tls_relax();

    for (const struct stub_feature *const *at = stub_features; *at; at++)
        if ((*at)->provide)
            (*at)->provide();
    stub_tls_restore(mode);
}

bool
stub_hooks_wants_reply(uint32_t attention, uint16_t call)
{
    for (const struct stub_feature *const *at = stub_features; *at; at++)
        if ((*at)->wants_reply && (*at)->wants_reply(attention, call))
            return true;
    return false;
}

CUresult
stub_hooks_spare_before(struct stub_link *link, uint16_t call)
{
    CUresult result = CUDA_SUCCESS;
    uint32_t mode = stub_tls_relax();

    for (const struct stub_feature *const *at = stub_features; *at; at++)
        if ((*at)->spare_before && result == CUDA_SUCCESS)
            result = (*at)->spare_before(link, call);
    stub_tls_restore(mode);
    return result;
}

bool
stub_hooks_spare_is_freed(void)
{
    for (const struct stub_feature *const *at = stub_features; *at; at++)
        if ((*at)->spare_is_freed && (*at)->spare_is_freed())
            return true;
    return false;
}

CUresult
stub_hooks_spare_named(struct stub_link *link, uint16_t call)
{
    CUresult result = CUDA_SUCCESS;
    uint32_t mode = stub_tls_relax();

    for (const struct stub_feature *const *at = stub_features; *at; at++)
        if ((*at)->spare_named && result == CUDA_SUCCESS)
            result = (*at)->spare_named(link, call);
    stub_tls_restore(mode);
    return result;
}

void
stub_hooks_call_failed(struct stub_link *link, CUresult result)
{
    for (const struct stub_feature *const *at = stub_features; *at; at++)
        if ((*at)->call_failed)
            (*at)->call_failed(link, result);
}

void
stub_hooks_payload_moved(struct stub_link *link, uint64_t bytes)
{
    for (const struct stub_feature *const *at = stub_features; *at; at++)
        if ((*at)->payload_moved)
            (*at)->payload_moved(link, bytes);
}

void
stub_hooks_replaced(struct stub_link *link)
{
    for (const struct stub_feature *const *at = stub_features; *at; at++)
        if ((*at)->replaced)
            (*at)->replaced(link);
}

void
stub_hooks_unread(struct stub_link *link)
{
    for (const struct stub_feature *const *at = stub_features; *at; at++)
        if ((*at)->unread)
            (*at)->unread(link);
}

void
stub_hooks_drain(const void *addr, uint64_t len)
{
    uint32_t mode = stub_tls_relax();

    for (const struct stub_feature *const *at = stub_features; *at; at++)
        if ((*at)->drain)
            (*at)->drain(addr, len);
    stub_tls_restore(mode);
}

void
stub_hooks_drain_all(void)
{
    stub_hooks_drain(NULL, UINT64_MAX);
}

void
stub_hooks_await_arrived(struct stub_link *link, uint32_t arrived)
{
    for (const struct stub_feature *const *at = stub_features; *at; at++)
        if ((*at)->await_arrived)
            (*at)->await_arrived(link, arrived);
}

void
stub_hooks_ctx_end(struct stub_ctx *ctx)
{
    uint32_t mode = stub_tls_relax();

    for (const struct stub_feature *const *at = stub_features; *at; at++)
        if ((*at)->ctx_end)
            (*at)->ctx_end(ctx);
    stub_tls_restore(mode);
}

const struct stub_unsolicited *
stub_hooks_unsolicited(uint16_t kind)
{
    for (const struct stub_feature *const *at = stub_features; *at; at++)
        for (const struct stub_unsolicited *u = (*at)->unsolicited; u && u->kind; u++)
            if (u->kind == kind)
                return u;
    return NULL;
}
