/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_history.h"

#include "gp_time.h"
#include "sched_pool.h"

#define HOUR_STEP_NS (10 * GP_NS_PER_S)
#define WEEK_STEP_NS (28 * 60 * GP_NS_PER_S)

void
sched_history_clear(struct sched_history_span *span)
{
    span->n = 0;
}

void
sched_history_put(struct sched_history_span *span, const struct sched_sample *sample)
{
    span->samples[span->n++ % SCHED_HISTORY_SAMPLES] = *sample;
}

static void
add(struct sched_history_span *span, const struct sched_sample *sample, uint64_t now_ns,
    uint64_t step_ns)
{
    if (now_ns < span->next_ns)
        return;
    sched_history_put(span, sample);
    span->next_ns = now_ns + step_ns;
}

void
sched_history_tick(struct sched_history *history, const struct sched_pool *pool,
                   uint32_t sessions, uint32_t waiting, uint64_t now_ns)
{
    const struct sched_sample sample = {
        .unix_s = gp_wall_ns() / GP_NS_PER_S,
        .core = pool->core,
        .core_given = pool->sums.core_given,
        .busy = pool->sums.busy,
        .memory = pool->sums.memory,
        .memory_given = pool->sums.memory_given,
        .memory_used = pool->sums.memory_used,
        .sessions = sessions,
        .waiting = waiting,
    };

    add(&history->hour, &sample, now_ns, HOUR_STEP_NS);
    add(&history->week, &sample, now_ns, WEEK_STEP_NS);
}

size_t
sched_history_count(const struct sched_history_span *span)
{
    return (size_t)gp_min(span->n, (uint64_t)SCHED_HISTORY_SAMPLES);
}

const struct sched_sample *
sched_history_at(const struct sched_history_span *span, size_t index)
{
    uint64_t first = span->n - sched_history_count(span);

    return &span->samples[(first + index) % SCHED_HISTORY_SAMPLES];
}
