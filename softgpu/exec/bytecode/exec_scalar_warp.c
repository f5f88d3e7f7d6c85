/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One lane of the functions that are computed over whole warps (exec_warp_fn.def): for
 * atomic operations and whoever else has one value.
 */
#include "exec_lane_fn.h"
#include "exec_scalar.h"

#include <math.h>

#define FROM_u32(v) (uint32_t)(v)
#define FROM_s32(v) (int32_t)(uint32_t)(v)
#define FROM_u64(v) (v)
#define FROM_s64(v) (int64_t)(v)
#define FROM_f32(v) lane_float((uint32_t)(v))
#define FROM_f64(v) lane_double(v)
#define TYPE_u32 uint32_t
#define TYPE_s32 int32_t
#define TYPE_u64 uint64_t
#define TYPE_s64 int64_t
#define TYPE_f32 float
#define TYPE_f64 double
#define BITS_u32(v) (uint32_t)(v)
#define BITS_u64(v) (uint64_t)(v)
#define BITS_f32(v) lane_bits32(v)
#define BITS_f64(v) lane_bits64(v)

#define W1(name, td, ta, expr)                                                         \
    uint64_t sg_fn_##name(uint64_t a_, uint64_t b_, uint64_t c_)                       \
    {                                                                                  \
        const TYPE_##ta a = FROM_##ta(a_);                                             \
        (void)b_, (void)c_;                                                            \
        return BITS_##td(expr);                                                        \
    }
#define W1_IF(name, td, ta, fits, expr, other)                                         \
    W1(name, td, ta, (fits) ? (expr) : (other))
#define W2(name, td, ta, tb, expr)                                                     \
    uint64_t sg_fn_##name(uint64_t a_, uint64_t b_, uint64_t c_)                       \
    {                                                                                  \
        const TYPE_##ta a = FROM_##ta(a_);                                             \
        const TYPE_##tb b = FROM_##tb(b_);                                             \
        (void)c_;                                                                      \
        return BITS_##td(expr);                                                        \
    }
#define W3(name, td, ta, tb, tc, expr)                                                 \
    uint64_t sg_fn_##name(uint64_t a_, uint64_t b_, uint64_t c_)                       \
    {                                                                                  \
        const TYPE_##ta a = FROM_##ta(a_);                                             \
        const TYPE_##tb b = FROM_##tb(b_);                                             \
        const TYPE_##tc c = FROM_##tc(c_);                                             \
        return BITS_##td(expr);                                                        \
    }
#include "exec_warp_fn.def"
