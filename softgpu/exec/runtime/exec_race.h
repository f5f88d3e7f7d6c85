/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races on the shared memory of one CTA (SOFTGPU_CHECK).
 *
 * Vector clocks by warp.  Each warp has a clock that moves on when the warp puts itself
 * in order with others, and knows how far it has been ordered behind each other warp:
 * barriers, mbarriers, atomics and strong accesses make it know.  A cell of memory
 * remembers its last writer and, for each warp, its last reader.  Two accesses of which
 * one writes are a race when the later warp does not know of the earlier access, and
 * within a warp when its lanes did not wait for each other in between.  An access that
 * is strong (volatile, relaxed, atomic, ...) races with weak ones only.
 *
 * What is counted as order goes beyond what PTX promises where programs rely on it: a
 * relaxed access orders as release and acquire do, a part of a warp as all of it.  So
 * some races are missed; none is reported that the rules allow.
 *
 * Belongs to its CTA, one thread at a time.  NULL stands for "no memory": nothing is
 * noted then.
 */
#ifndef EXEC_RACE_H
#define EXEC_RACE_H

#include "sg_cta.h"

#include <stdbool.h>
#include <stdint.h>

struct sg_race;

/* One lane's access. */
struct sg_race_access {
    uint32_t lane, size;
    uint64_t at;       /* offset in the CTA's shared memory, or a global address */
    const void *value; /* what is written; NULL: it is not known */
};

enum sg_race_kind {
    SG_RACE_READ_AFTER_WRITE,
    SG_RACE_WRITE_AFTER_READ,
    SG_RACE_WRITE_AFTER_WRITE,
    SG_RACE_SAME_INSTRUCTION, /* two lanes write different values to one place */
};

#define SG_RACE_LANES UINT32_MAX /* several of the warp */

struct sg_race_conflict {
    enum sg_race_kind kind;
    uint32_t lane, size;
    uint64_t at;
    uint64_t other_cta; /* its index */
    uint32_t other_warp, other_lane, other_pc;
};

/* The CTA's state, made or begun anew for the launch and CTA that run; NULL: no memory.
 */
struct sg_race *sg_race_of(struct sg_cta *cta);
void sg_race_free(struct sg_race *race); /* NULL is a no-op */

/* Lanes of @warp access memory in one instruction, at @pc.  true: a conflict, the
 * first.  Ranges are within the CTA's shared memory. */
bool sg_race_access(struct sg_race *race, const struct sg_cta *cta,
                    const struct sg_warp *warp, const struct sg_race_access *list,
                    uint32_t n, bool write, bool strong, uint32_t pc,
                    struct sg_race_conflict *ret);
/* Two lanes of one instruction of @warp write different values to the same bytes;
 * false: no two do. */
bool sg_race_within(const struct sg_race_access *list, uint32_t n,
                    const struct sg_cta *cta, const struct sg_warp *warp, uint32_t pc,
                    struct sg_race_conflict *ret);
/* The warp's clock, and what it knows of the other warps' (the array is the race's). */
uint32_t sg_race_clock(const struct sg_race *race, const struct sg_warp *warp,
                       const uint32_t **ret_known);
/* Nothing is known of all that was accessed before. */
void sg_race_forget(struct sg_race *race);

/* All lanes of the warp wait for each other. */
void sg_race_warp_sync(struct sg_race *race, const struct sg_warp *warp);
/* The warp reads or writes what orders threads: a word of shared memory, or (@off
 * UINT32_MAX) any elsewhere. */
void sg_race_acquire(struct sg_race *race, const struct sg_warp *warp, uint32_t off);
void sg_race_release(struct sg_race *race, const struct sg_warp *warp, uint32_t off);

/* The warp arrives at barrier @id; @first: nobody else has in this turn.  Returns the
 * place where another part of the warp has in the same turn, or UINT32_MAX. */
uint32_t sg_race_arrive(struct sg_race *race, const struct sg_warp *warp, uint32_t id,
                        bool first, uint32_t pc);
/* The same for the barrier of the CTA's cluster, which is in @phase. */
#define SG_RACE_CLUSTER SG_N_BARRIERS
void sg_race_arrive_cluster(struct sg_race *race, const struct sg_warp *warp,
                            bool phase, uint32_t pc);
/* It leaves the barrier, at which all have arrived; warps that have ended count. */
void sg_race_pass(struct sg_race *race, const struct sg_cta *cta,
                  const struct sg_warp *warp, uint32_t id);

#endif
