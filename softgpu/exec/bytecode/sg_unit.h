/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A unit: one kernel and every function it can reach, as bytecode.
 *
 * Built once by sg_unit_build() (lower_unit.h) under the program's lock, then immutable
 * and shared by all launches.  The kernel is function 0 and has the lowest addresses.
 */
#ifndef SG_UNIT_H
#define SG_UNIT_H

#include "sg_insn.h"

#include "gp_base.h"

#include <stdbool.h>

struct ptx_func;
struct sg_native;

/* Caps against hostile modules: the largest kernels of vendor libraries hold about
 * 200,000 instructions; a frame is 128 bytes per 32-bit register and warp. */
#define SG_MAX_UNIT_OPS (8u << 20)
#define SG_MAX_FRAME_BYTES (4u << 20)
#define SG_MAX_CALL_DEPTH 1024u
#define SG_RESERVED_SHARED 1024u /* as cards have it; cooperative groups use 288 */
#define SG_MAX_STATIC_SHARED (1u << 24)

struct sg_unit_func {
    const struct ptx_func *ast;
    uint32_t entry, end; /* indexes into ops */
    uint32_t body;       /* likewise: where later CTAs of a launch start */
    struct sg_frame_size frame;
    uint32_t local_bytes; /* parameters, results and .local variables; 16-aligned */
    uint32_t out_bytes;   /* behind them: arguments of the largest call */
    struct sg_const *consts;
    uint32_t n_consts;
};

struct sg_unit {
    struct sg_insn *ops;
    uint32_t *lines;
    uint32_t n_ops;
    struct sg_unit_func *funcs;
    uint32_t n_funcs;
    uint32_t *tables; /* branch tables: op indexes */
    uint32_t n_tables;
    uint32_t *lists; /* long operand lists: byte offsets */
    uint32_t n_lists;

    uint32_t static_shared;
    uint32_t local_bytes; /* along the deepest direct call path */
    bool uses_dyn_stack;
    bool uses_grid_sync;
    bool uses_reserved;  /* the system part of shared memory behind the block's own */
    int32_t *func_by_id; /* ptx_func.id -> index in funcs, or -1; for CALLI */
    uint32_t n_func_ids;

    /* Machine code (sg_native.h): set up by whoever compiles, who also leaves what
     * frees it. */
    struct sg_native *native; /* NULL: none, or not yet */
    void (*native_end)(struct sg_unit *unit);
    uint64_t heat;  /* atomic: warp instructions executed so far, roughly */
    int native_try; /* atomic: nonzero once somebody has begun to compile it */
};

void sg_unit_free(struct sg_unit *unit); /* NULL is a no-op */
DEFINE_CLEANUP(struct sg_unit, sg_unit_free)

#endif
