/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomics on 128 bits.
 *
 * The processor's own compare-and-swap of that width does them, so they are atomic with
 * respect to other processes on the card as well.
 */
#include "exec_quad.h"
#include "sg_cta.h"

static sg_pair
pair(const struct sg_warp *warp, const uint32_t *list, unsigned lane)
{
    return (sg_pair){sg_reg_d(warp, list[0])[lane], sg_reg_d(warp, list[1])[lane]};
}

enum sg_stop
sg_op_atom_q(struct sg_cta *cta, struct sg_warp *warp, const struct sg_insn *op,
             uint32_t m)
{
    const uint32_t *list = cta->unit->lists + op->f;
    const uint64_t *a = sg_reg_d(warp, op->a);

    SG_FOR_LANES(i, m)
    {
        sg_pair b = pair(warp, list + 2, i), c = pair(warp, list + 4, i), old = b;
        void *p = sg_mem_resolve(cta, warp, i, a[i] + (uint64_t)op->imm, 16, 15, op->x,
                                 SG_ACCESS_WRITE);
        if (!p)
            return SG_STOP_FAULT;
        if (op->n == SG_ATOM_CAS)
            sg_quad_swap(p, &old, c);
        else
            while (!sg_quad_swap(p, &old, b))
                ;
        sg_reg_d(warp, list[0])[i] = old[0];
        sg_reg_d(warp, list[1])[i] = old[1];
    }
    return SG_STOP_NONE;
}
