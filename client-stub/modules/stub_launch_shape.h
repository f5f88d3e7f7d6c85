/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launch shapes: what launches of one kernel have in common, so that it need not be
 * sent again (gp_launch_shape, gp_launch_run).
 *
 * A shape is remembered when it is launched first, told to the worker when it is
 * launched again, and named by its number from then on.  Launches of one shape behind
 * each other are one frame, which grows until it is sent: each is its parameters and
 * nothing else, a third of a frame of its own with few parameters.  Each link has a
 * table of WIRE_LAUNCH_SHAPES, where a shape has one place by its hash; one that comes
 * to a taken place pushes the other out.  A shape is compared whole and says nothing
 * about what its handles mean, so nothing has to be forgotten when a kernel or a stream
 * goes.
 *
 * The table is under the lock of the link's queue, so it changes in the order of the
 * frames, as the worker's does.  A child of fork() that may attach for itself has never
 * launched anything (stub_fork.c).
 */
#ifndef STUB_LAUNCH_SHAPE_H
#define STUB_LAUNCH_SHAPE_H

#include "gp_base.h"
#include "stub_func.h"
#include "stub_link.h"
#include "wire_format.h"

#include <stdbool.h>
#include <stdint.h>

enum stub_launch_known {
    STUB_LAUNCH_NEW,   /* never launched, as far as the table knows */
    STUB_LAUNCH_ONCE,  /* launched, but the worker does not know it */
    STUB_LAUNCH_TOLD,  /* the worker knows it by the number of its place */
    STUB_LAUNCH_NEVER, /* the worker is one of a version that knows no shapes */
};

struct stub_launch_shape {
    _Alignas(64) uint64_t f; /* as in a frame; no kernel: the place is free */
    uint64_t stream;         /* the same */
    uint32_t grid[3], block[3], shared, n_params;
    uint32_t known; /* enum stub_launch_known */
};

/* A frame of launches does not grow beyond this: the worker begins when it has all. */
#define STUB_LAUNCH_RUN_MAX 2048u

extern struct stub_launch_shape stub_launch_shapes[STUB_LINKS_MAX][WIRE_LAUNCH_SHAPES];
/* Of the launches in the last frame that may be made longer (stub_post_open()). */
extern struct stub_launch_shape stub_launch_open[STUB_LINKS_MAX];

static GP_INLINE struct stub_launch_shape *
stub_launch_shape_at(const struct stub_link *link, uint32_t number)
{
    return &stub_launch_shapes[link->number][number];
}

/* Is @place that of this shape?  Arguments and no structure, and one comparison after
 * the other, so that a launch's stay in registers: through memory a wide read of narrow
 * writes would have to wait. */
static GP_INLINE bool
stub_launch_shape_is(const struct stub_launch_shape *place, uint64_t f, uint64_t stream,
                     const uint32_t *grid, const uint32_t *block, uint32_t shared,
                     uint32_t n_params)
{
    uint64_t differ = (place->f ^ f) | (place->stream ^ stream) |
                      (place->grid[0] ^ grid[0]) | (place->grid[1] ^ grid[1]) |
                      (place->grid[2] ^ grid[2]) | (place->block[0] ^ block[0]) |
                      (place->block[1] ^ block[1]) | (place->block[2] ^ block[2]) |
                      (place->shared ^ shared) | (place->n_params ^ n_params);

    return !differ;
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

/* The number of @shape of @func, and what is known of it.  Under send. */
static inline enum stub_launch_known
stub_launch_shape_find(const struct stub_link *link, struct stub_func *func,
                       const struct stub_launch_shape *shape, uint32_t *ret_number)
{
    uint32_t number = atomic_load_explicit(&func->shape, memory_order_relaxed);
    const struct stub_launch_shape *place = stub_launch_shape_at(link, number);

    if (!stub_launch_shape_same(place, shape)) {
        number = stub_launch_shape_number(shape);
        place = stub_launch_shape_at(link, number);
        atomic_store_explicit(&func->shape, (uint8_t)number, memory_order_relaxed);
        if (!stub_launch_shape_same(place, shape)) {
            *ret_number = number;
            return STUB_LAUNCH_NEW;
        }
    }
    *ret_number = number;
    return (enum stub_launch_known)place->known;
}

/* A whole frame of @shape, which is new, is about to be sent.  Under send. */
static inline void
stub_launch_shape_seen(const struct stub_link *link, uint32_t number,
                       const struct stub_launch_shape *shape)
{
    struct stub_launch_shape *place = stub_launch_shape_at(link, number);

    *place = *shape;
    place->known = STUB_LAUNCH_ONCE;
}

/* Tell the worker of the shape in place @number, which has been launched again, if
 * nobody has meanwhile.  Without locks. */
GP_COLD void stub_launch_shape_tell(struct stub_link *link, uint32_t number);

#endif
