/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomics on 128 bits.
 *
 * Where the processor has a compare-and-swap of that width it is used, so that other
 * processes on the card are met as well; elsewhere one lock stands for it.
 */
#include "sg_cta.h"

typedef unsigned __int128 u128;

#if defined(__x86_64__)
__attribute__((target("cx16"))) static u128
swap_if(u128 *p, u128 expected, u128 to)
{
    return __sync_val_compare_and_swap(p, expected, to);
}
#else
static u128
swap_if(u128 *p, u128 expected, u128 to)
{
    static bool locked;
    u128 old;

    while (__atomic_test_and_set(&locked, __ATOMIC_ACQUIRE))
        ;
    old = *p;
    if (old == expected)
        *p = to;
    __atomic_clear(&locked, __ATOMIC_RELEASE);
    return old;
}
#endif

static u128
pair(const struct sg_warp *warp, const uint32_t *list, unsigned lane)
{
    return (u128)sg_reg_d(warp, list[1])[lane] << 64 | sg_reg_d(warp, list[0])[lane];
}

enum sg_stop
sg_op_atom_q(struct sg_cta *cta, struct sg_warp *warp, const struct sg_op *op,
             uint32_t m)
{
    const uint32_t *list = cta->unit->lists + op->f;
    const uint64_t *a = sg_reg_d(warp, op->a);

    SG_FOR_LANES(i, m)
    {
        u128 b = pair(warp, list + 2, i), c = pair(warp, list + 4, i), old, seen;
        u128 *p = sg_mem_resolve(cta, warp, i, a[i] + (uint64_t)op->imm, 16, 15, op->x,
                                 SG_ACCESS_WRITE);
        if (!p)
            return SG_STOP_FAULT;
        old = swap_if(p, 0, 0); /* a read that nobody can tear */
        if (op->n == SG_ATOM_CAS) {
            old = swap_if(p, b, c);
        } else {
            while ((seen = swap_if(p, old, b)) != old)
                old = seen;
        }
        sg_reg_d(warp, list[0])[i] = (uint64_t)old;
        sg_reg_d(warp, list[1])[i] = (uint64_t)(old >> 64);
    }
    return SG_STOP_NONE;
}
