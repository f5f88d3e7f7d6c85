/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_memory_end.h"

#include "stub_ctx.h"
#include "stub_hooks.h"
#include "stub_host_memory.h"
#include "stub_managed.h"
#include "stub_memory.h"
#include "stub_spare.h"
#include "stub_unified.h"

void
stub_memory_drop_ctx(uint64_t ctx_unique)
{
    struct stub_memory m;
    uint64_t pos = 0;

    while (stub_memory_end_of_ctx(ctx_unique, &pos, &m)) {
        stub_managed_drop(m.range.start);
        stub_spare_lost(&m);
        if (m.kind == STUB_MEMORY_HOST || m.kind == STUB_MEMORY_REGISTERED)
            stub_host_memory_end(&m);
        else if (stub_unified_holds(m.range.start))
            stub_host_memory_hide(&m);
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
