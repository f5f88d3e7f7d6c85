/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_memory_end.h"

#include "stub_ctx.h"
#include "stub_hooks.h"
#include "stub_managed.h"
#include "stub_memory.h"
#include "stub_pinned.h"
#include "stub_unified.h"

#include <sys/mman.h>

void
stub_memory_drop_ctx(uint64_t ctx_unique)
{
    struct stub_memory m;
    uint64_t pos = 0;

    while (stub_memory_end_of_ctx(ctx_unique, &pos, &m)) {
        stub_managed_drop(m.range.start);
        if (m.kind == STUB_MEMORY_HOST && m.reach != STUB_REACH_NONE)
            stub_unified_release(m.range.start, m.mapped);
        else if (m.kind == STUB_MEMORY_HOST)
            munmap((void *)(uintptr_t)m.range.start, m.mapped);
        if (m.pinned)
            stub_pinned_drop(m.pinned_link, m.pinned);
    }
}

static void
memory_ctx_end(struct stub_ctx *ctx)
{
    stub_memory_drop_ctx(atomic_load(&ctx->unique));
}

const struct stub_feature stub_memory_feature = {
    .name = "memory of contexts",
    .ctx_end = memory_ctx_end,
};
