/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions over whole warps: loops over the lanes, which the compiler makes vectors
 * of.
 *
 * Included by exec_fn_v2.c, _v3.c and _v4.c alone, compiled for those levels as the
 * interpreter is.
 */
#include "exec_lane_fn.h"
#include "exec_level.h"
#include "exec_warp_fn.h"
#include "sg_insn.h"

#include <math.h>

#define ROW(T, p) ((T *)__builtin_assume_aligned(p, 64))

/* Registers are whole rows, so an operand that is the result as well is that row. */
#define LOOP(td, load, expr)                                                           \
    td *const d = ROW(td, to);                                                         \
    if (__builtin_expect(m == UINT32_MAX, 1)) {                                        \
        _Pragma("GCC ivdep") for (int i = 0; i < SG_LANES; i++)                        \
        {                                                                              \
            load;                                                                      \
            d[i] = (td)(expr);                                                         \
        }                                                                              \
    } else {                                                                           \
        _Pragma("GCC ivdep") for (int i = 0; i < SG_LANES; i++)                        \
        {                                                                              \
            load;                                                                      \
            const td v = (td)(expr);                                                   \
            d[i] = (m >> i & 1) ? v : d[i];                                            \
        }                                                                              \
    }

#define HEAD(name)                                                                     \
    static void warp_##name(void *to, const void *pa, const void *pb, const void *pc,  \
                            uint32_t m)
#define W1(name, td, ta, expr)                                                         \
    HEAD(name)                                                                         \
    {                                                                                  \
        const ta *const ra = ROW(const ta, pa);                                        \
        (void)pb, (void)pc;                                                            \
        LOOP(td, const ta a = ra[i], expr)                                             \
    }
/* Vectors if all lanes of the mask fulfil the condition, else each by itself, for a
 * lane's result does not depend on the others. */
#define W1_IF(name, td, ta, fits, expr, other)                                         \
    HEAD(name)                                                                         \
    {                                                                                  \
        const ta *const ra = ROW(const ta, pa);                                        \
        uint32_t bad = 0;                                                              \
        (void)pb, (void)pc;                                                            \
        for (int i = 0; i < SG_LANES; i++) {                                           \
            const ta a = ra[i];                                                        \
            bad |= (uint32_t) !(fits) << i;                                            \
        }                                                                              \
        if (__builtin_expect((bad & m) != 0, 0)) {                                     \
            for (uint32_t left = m; left; left &= left - 1) {                          \
                const int i = __builtin_ctz(left);                                     \
                const ta a = ra[i];                                                    \
                ROW(td, to)[i] = (fits) ? (expr) : (other);                            \
            }                                                                          \
            return;                                                                    \
        }                                                                              \
        LOOP(td, const ta a = ra[i], expr)                                             \
    }
#define W2(name, td, ta, tb, expr)                                                     \
    HEAD(name)                                                                         \
    {                                                                                  \
        const ta *const ra = ROW(const ta, pa);                                        \
        const tb *const rb = ROW(const tb, pb);                                        \
        (void)pc;                                                                      \
        LOOP(td, const ta a = ra[i]; const tb b = rb[i], expr)                         \
    }
#define W3(name, td, ta, tb, tc, expr)                                                 \
    HEAD(name)                                                                         \
    {                                                                                  \
        const ta *const ra = ROW(const ta, pa);                                        \
        const tb *const rb = ROW(const tb, pb);                                        \
        const tc *const rc = ROW(const tc, pc);                                        \
        LOOP(td, const ta a = ra[i]; const tb b = rb[i]; const tc c = rc[i], expr)     \
    }
#include "exec_warp_fn.def"
#undef W1
#undef W1_IF
#undef W2
#undef W3

#define W1(name, ...) [SG_FN_##name] = warp_##name,
#define W1_IF W1
#define W2 W1
#define W3 W1
sg_warp_fn *const CAT(sg_warp_fns_, SG_ISA)[SG_N_FNS] = {
#include "exec_warp_fn.def"
};
