/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launch shapes: what launches of one kernel have in common, so that it need not be
 * sent again (gp_launch_shape, gp_launch_run).
 *
 * A shape that is launched twice in a row is told to the worker and named by its number
 * from then on.  Launches of one shape behind each other are one frame, which grows
 * until it is sent: each is its parameters and nothing else, a third of a frame of its
 * own with few parameters.  Each link has a table of WIRE_LAUNCH_SHAPES, where a shape
 * has one place by its hash; one that comes to a taken place pushes the other out.  A
 * shape is compared whole and says nothing about what its handles mean, so nothing has
 * to be forgotten when a kernel or a stream goes.  Launches of other shapes each time
 * pay one comparison.
 *
 * All of it is under the lock of the link's queue, so it changes in the order of the
 * frames, as the worker's table does.  A child of fork() that may attach for itself has
 * never launched anything (stub_fork.c).
 */
#ifndef STUB_LAUNCH_SHAPE_H
#define STUB_LAUNCH_SHAPE_H

#include "gp_base.h"
#include "stub_link.h"
#include "wire_format.h"

#include <stdbool.h>
#include <stdint.h>

struct stub_launch_shape {
    _Alignas(64) uint64_t f; /* as in a frame; no kernel: none */
    uint64_t stream;         /* the same */
    uint32_t grid[3], block[3], shared, n_params;
};

/* Under send. */
struct stub_launch_shapes {
    struct stub_launch_shape last; /* of the launch before */
    bool never;                    /* the worker is of a version that knows no shapes */
    struct stub_launch_shape told[WIRE_LAUNCH_SHAPES];
};

extern struct stub_launch_shapes stub_launch_shapes[STUB_LINKS_MAX];

/* A frame of launches does not grow beyond this: the worker begins when it has all. */
#define STUB_LAUNCH_RUN_MAX 2048u

static inline struct stub_launch_shapes *
stub_launch_shapes_of(const struct stub_link *link)
{
    return &stub_launch_shapes[link->number];
}

/* Is @shape this one?  Arguments and no structure, and one difference instead of many
 * comparisons, which compilers join to wide reads: of what was just written narrowly
 * those would have to wait. */
static GP_INLINE bool
stub_launch_shape_is(const struct stub_launch_shape *shape, uint64_t f, uint64_t stream,
                     const uint32_t *grid, const uint32_t *block, uint32_t shared,
                     uint32_t n_params)
{
    uint64_t differ = (shape->f ^ f) | (shape->stream ^ stream) |
                      (shape->grid[0] ^ grid[0]) | (shape->grid[1] ^ grid[1]) |
                      (shape->grid[2] ^ grid[2]) | (shape->block[0] ^ block[0]) |
                      (shape->block[1] ^ block[1]) | (shape->block[2] ^ block[2]) |
                      (shape->shared ^ shared) | (shape->n_params ^ n_params);

    return !differ;
}

/* @shape becomes this one. */
static GP_INLINE void
stub_launch_shape_set(struct stub_launch_shape *shape, uint64_t f, uint64_t stream,
                      const uint32_t *grid, const uint32_t *block, uint32_t shared,
                      uint32_t n_params)
{
    shape->f = f;
    shape->stream = stream;
    shape->grid[0] = grid[0];
    shape->grid[1] = grid[1];
    shape->grid[2] = grid[2];
    shape->block[0] = block[0];
    shape->block[1] = block[1];
    shape->block[2] = block[2];
    shape->shared = shared;
    shape->n_params = n_params;
}

static inline bool
stub_launch_shape_same(const struct stub_launch_shape *place,
                       const struct stub_launch_shape *shape)
{
    return stub_launch_shape_is(place, shape->f, shape->stream, shape->grid,
                                shape->block, shape->shared, shape->n_params);
}

/* The number of its place, which is its number on the wire as well. */
static inline uint32_t
stub_launch_shape_number(const struct stub_launch_shape *shape)
{
    uint64_t x = shape->f ^ shape->stream << 18;
    uint64_t y = shape->grid[0] ^ (uint64_t)shape->grid[1] << 32 ^
                 (uint64_t)shape->grid[2] << 16;
    uint64_t z = shape->block[0] ^ (uint64_t)shape->block[1] << 32 ^
                 (uint64_t)shape->block[2] << 20 ^ (uint64_t)shape->shared << 11;
    uint64_t hash = x * UINT64_C(0x9e3779b97f4a7c15) +
                    y * UINT64_C(0xc2b2ae3d27d4eb4f) + z * UINT64_C(0xd6e8feb86659fd93);

    static_assert(WIRE_LAUNCH_SHAPES == 256, "the hash's highest bits");
    return (uint32_t)(hash >> 56);
}

/* Does the worker know the last shape, by its number? */
static inline bool
stub_launch_shape_told(const struct stub_launch_shapes *shapes)
{
    return stub_launch_shape_same(
        &shapes->told[stub_launch_shape_number(&shapes->last)], &shapes->last);
}

/* Tell the worker of the last shape.  Without locks. */
GP_COLD void stub_launch_shape_tell(struct stub_link *link);

#endif
