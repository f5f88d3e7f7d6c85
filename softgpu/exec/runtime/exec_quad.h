/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sixteen aligned bytes of memory in one access, which no other thread sees in parts.
 *
 * x86-64: a processor with AVX reads and writes 16 aligned bytes at once, as Intel and
 * AMD document; older ones promise that for `lock cmpxchg16b` alone, so the accesses
 * become compare-and-swaps there (sg_quad_by_swap).  AArch64: a pair of 64-bit
 * registers moves at once from Armv8.4 on (FEAT_LSE2); before, only an exclusive pair
 * that is stored back does.
 *
 * A read by compare-and-swap writes what it has read, so memory that the host maps for
 * reading alone must be read plainly: @swap is false then, and the two halves are
 * single accesses each.  Any thread.
 */
#ifndef EXEC_QUAD_H
#define EXEC_QUAD_H

#include <stdbool.h>
#include <stdint.h>

typedef uint32_t sg_quad __attribute__((vector_size(16), may_alias));
typedef uint64_t sg_pair __attribute__((vector_size(16), may_alias));

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "how does this processor access 16 bytes at once?"
#endif

/* Whether this processor needs a compare-and-swap for it; set by sg_interp_choose(),
 * before any kernel runs. */
extern bool sg_quad_by_swap;

/* Replace *@p by @to if it is *@seen; otherwise *@seen becomes what is there.  A full
 * barrier. */
#if defined(__x86_64__)
static inline bool
sg_quad_swap(void *p, sg_pair *seen, sg_pair to)
{
    uint64_t lo = (*seen)[0], hi = (*seen)[1];
    bool done;

    __asm__ volatile("lock cmpxchg16b %1"
                     : "=@ccz"(done), "+m"(*(sg_pair *)p), "+a"(lo), "+d"(hi)
                     : "b"(to[0]), "c"(to[1])
                     : "memory");
    *seen = (sg_pair){lo, hi};
    return done;
}
#else
static inline bool
sg_quad_swap(void *p, sg_pair *seen, sg_pair to)
{
    const uint64_t want_lo = (*seen)[0], want_hi = (*seen)[1];
    uint64_t lo, hi, put_lo, put_hi;
    uint32_t failed;

    /* What differs is stored back: only then has the pair been read at once. */
    __asm__ volatile(
        "1: ldaxp %[lo], %[hi], %[m]\n"
        "   cmp %[lo], %[wlo]\n"
        "   ccmp %[hi], %[whi], #0, eq\n"
        "   csel %[plo], %[tlo], %[lo], eq\n"
        "   csel %[phi], %[thi], %[hi], eq\n"
        "   stlxp %w[failed], %[plo], %[phi], %[m]\n"
        "   cbnz %w[failed], 1b\n"
        : [lo] "=&r"(lo), [hi] "=&r"(hi), [plo] "=&r"(put_lo), [phi] "=&r"(put_hi),
          [failed] "=&r"(failed), [m] "+Q"(*(sg_pair *)p)
        : [wlo] "r"(want_lo), [whi] "r"(want_hi), [tlo] "r"(to[0]), [thi] "r"(to[1])
        : "cc", "memory");
    *seen = (sg_pair){lo, hi};
    return lo == want_lo && hi == want_hi;
}
#endif

static inline sg_quad
sg_quad_load(const void *p, bool swap)
{
    sg_pair v = {0, 0};

    if (__builtin_expect(swap, 0)) {
        sg_quad_swap((void *)(uintptr_t)p, &v, v);
        return (sg_quad)v;
    }
#if defined(__aarch64__)
    uint64_t lo, hi;
    __asm__ volatile("ldp %0, %1, %2"
                     : "=r"(lo), "=r"(hi)
                     : "Q"(*(const volatile sg_pair *)p));
    return (sg_quad)(sg_pair){lo, hi};
#else
    return *(const volatile sg_quad *)p;
#endif
}

static inline void
sg_quad_store(void *p, sg_quad v, bool swap)
{
    sg_pair seen = {0, 0};

    if (__builtin_expect(swap, 0)) {
        while (!sg_quad_swap(p, &seen, (sg_pair)v))
            ;
        return;
    }
#if defined(__aarch64__)
    __asm__ volatile("stp %1, %2, %0"
                     : "=Q"(*(volatile sg_pair *)p)
                     : "r"(((sg_pair)v)[0]), "r"(((sg_pair)v)[1]));
#else
    *(volatile sg_quad *)p = v;
#endif
}

#endif
