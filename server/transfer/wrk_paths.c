/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_paths.h"

#include "gp_base.h"
#include "gp_log.h"

#include <inttypes.h>

/* A path whose bytes another module moves has no functions here: d2h_async in
 * wrk_d2h_async.c, shared_pinned in wrk_shared_pinned.c. */
const struct wrk_path wrk_paths[] = {
    {.name = "shared_pinned",
     .needs = WRK_FACT_H2D | WRK_FACT_BOTH_MAP,
     .why = "the client named memory that both processes map"},
    {.name = "inline",
     .needs = WRK_FACT_H2D | WRK_FACT_IN_FRAME,
     .why = "the bytes came inside the frame",
     .h2d = wrk_path_inline_h2d},
    {.name = "registered_window",
     .needs = WRK_FACT_H2D | WRK_FACT_RANGE | WRK_FACT_WINDOW | WRK_FACT_IDLE,
     .why = "the adapter reaches the GPU's memory and the stream is idle",
     .h2d = wrk_path_registered_window_h2d},
    {.name = "ring",
     .needs = WRK_FACT_H2D | WRK_FACT_ANY_CUT | WRK_FACT_LONG | WRK_FACT_RING |
              WRK_FACT_IDLE,
     .why = "the ring is mapped, the copy is long and the stream is idle",
     .h2d = wrk_path_ring_h2d},
    {.name = "staging",
     .needs = WRK_FACT_H2D,
     .why = "no other path fits",
     .h2d = wrk_path_staging_h2d},

    {.name = "shared_pinned",
     .needs = WRK_FACT_D2H | WRK_FACT_BOTH_MAP,
     .why = "the client named memory that both processes map"},
    {.name = "d2h_async",
     .needs = WRK_FACT_D2H | WRK_FACT_ASYNC,
     .why = "the client does not wait for it"},
    {.name = "registered_window",
     .needs = WRK_FACT_D2H | WRK_FACT_RANGE | WRK_FACT_WINDOW,
     .why = "the adapter reaches the GPU's memory",
     .d2h_begin = wrk_path_registered_window_d2h_begin,
     .d2h_send = wrk_path_registered_window_d2h_send},
    {.name = "ring",
     .needs = WRK_FACT_D2H | WRK_FACT_ANY_CUT | WRK_FACT_LONG | WRK_FACT_RING,
     .why = "the ring is mapped and the copy is long",
     .d2h_whole = wrk_path_ring_d2h_whole,
     .d2h_begin = wrk_path_staging_d2h_begin,
     .d2h_send = wrk_path_ring_d2h_send},
    {.name = "staging",
     .needs = WRK_FACT_D2H,
     .why = "no other path fits",
     .d2h_begin = wrk_path_staging_d2h_begin,
     .d2h_send = wrk_path_staging_d2h_send},
};
const size_t wrk_n_paths = ARRAY_SIZE(wrk_paths);

GP_HOT const struct wrk_path *
wrk_path_choose(uint32_t facts)
{
    for (size_t i = 0; i < wrk_n_paths; i++)
        if ((wrk_paths[i].needs & ~facts) == 0)
            return &wrk_paths[i];
    return NULL;
}

bool
wrk_path_asks_idle(uint32_t facts)
{
    return wrk_path_choose(facts | WRK_FACT_IDLE) != wrk_path_choose(facts);
}

bool
wrk_path_asks_ring(uint32_t facts)
{
    facts |= WRK_FACT_IDLE;
    return wrk_path_choose(facts | WRK_FACT_RING) != wrk_path_choose(facts);
}

void
wrk_path_log(const struct wrk_path *path, uint64_t len)
{
    gp_log_debug("copy", "%s %" PRIu64 " bytes: path %s, because %s",
                 path->needs & WRK_FACT_H2D ? "h2d" : "d2h", len, path->name,
                 path->why);
}
