/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of the pool was given and used over the last hour and the last week, as
 * samples in memory.
 *
 * A sample is a moment, not a mean: the sums that the pool keeps, read when the time
 * comes.  It starts empty with the scheduler; Prometheus keeps longer histories.  Part
 * of struct sched; event loop thread only.
 */
#ifndef SCHED_HISTORY_H
#define SCHED_HISTORY_H

#include "gp_base.h"

#include <stdint.h>

struct sched_pool;

#define SCHED_HISTORY_SAMPLES 360

struct sched_sample {
    uint64_t unix_s;
    uint64_t core, core_given, busy; /* percent of cards */
    uint64_t memory, memory_given, memory_used;
    uint32_t sessions, waiting;
};

struct sched_history_span {
    struct sched_sample samples[SCHED_HISTORY_SAMPLES]; /* a ring */
    uint64_t n;                                         /* that ever were */
    uint64_t next_ns;                                   /* when the next is due */
};

struct sched_history {
    struct sched_history_span hour, week;
};

/* Each tick: takes the samples that are due. */
void sched_history_tick(struct sched_history *history, const struct sched_pool *pool,
                        uint32_t sessions, uint32_t waiting, uint64_t now_ns);
/* Of another scheduler: forget all samples, and add one behind the others. */
void sched_history_clear(struct sched_history_span *span);
void sched_history_put(struct sched_history_span *span,
                       const struct sched_sample *sample);
/* How many there are, and the one at @index of them, oldest first. */
size_t sched_history_count(const struct sched_history_span *span);
const struct sched_sample *sched_history_at(const struct sched_history_span *span,
                                            size_t index);

#endif
