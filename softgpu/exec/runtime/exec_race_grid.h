/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races on global memory within one launch (SOFTGPU_CHECK).
 *
 * Each word of memory remembers its last writer and its last two readers of different
 * warps.  Within a CTA the warps' clocks of exec_race.h say what is in order.  Two
 * accesses of different CTAs are in order when the earlier CTA has released something
 * since (an atomic, a strong store) and the later one has acquired something since (an
 * atomic, a strong load): what, and through whom, does not count.  So some races are
 * missed; none is reported that the rules allow.  Launches are in order with each
 * other.
 *
 * Belongs to its launch; CTAs that run on several threads lock it.
 */
#ifndef EXEC_RACE_GRID_H
#define EXEC_RACE_GRID_H

#include "exec_race.h"

#include <stdbool.h>
#include <stdint.h>

struct sg_race_grid;

/* NULL: no memory, or too many CTAs; then nothing is noted. */
struct sg_race_grid *sg_race_grid_new(uint64_t n_ctas);
void sg_race_grid_free(struct sg_race_grid *grid); /* NULL is a no-op */

/* Lanes of @warp access global memory in one instruction, at @pc; @race is their CTA's.
 * true: a conflict, the first. */
bool sg_race_grid_access(struct sg_race_grid *grid, const struct sg_race *race,
                         const struct sg_cta *cta, const struct sg_warp *warp,
                         const struct sg_race_access *list, uint32_t n, bool write,
                         bool strong, uint32_t pc, struct sg_race_conflict *ret);
/* The CTA is about to write, or to read, what orders threads.  What it reads, it has
 * read at its next access. */
void sg_race_grid_release(struct sg_race_grid *grid, const struct sg_cta *cta);
void sg_race_grid_acquire(struct sg_race_grid *grid, const struct sg_cta *cta);
/* The memory is another object's from now on. */
void sg_race_grid_forget(struct sg_race_grid *grid, uint64_t addr, uint64_t size);

#endif
