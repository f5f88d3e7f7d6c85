/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering f32 arithmetic in other shapes: two to a register (.f32x2), with halves
 * among the sources (.f32.f16), and min, max of three.
 */
#include "gp_err.h"
#include "lower.h"

#include <errno.h>

#define NONE SG_NOREG

enum { ADD, SUB, MUL, FMA, N_ARITH };

static unsigned
arith_of(unsigned word)
{
    return word == PTX_W_add   ? ADD
           : word == PTX_W_sub ? SUB
           : word == PTX_W_mul ? MUL
                               : FMA;
}

static int32_t
flush(struct lower *l, int32_t v, bool ftz)
{
    return ftz && v != NONE ? lo_op(l, SG_OP_FTZ_F32, NONE, v, NONE, NONE) : v;
}

/* One f32 operation as the instruction's rounding and .ftz say. */
static int32_t
arith(struct lower *l, const struct ptx_insn *insn, const int32_t s[3])
{
    static const uint16_t nearest[N_ARITH] = {SG_OP_ADD_F32, SG_OP_SUB_F32,
                                              SG_OP_MUL_F32, SG_OP_FMA_F32};
    static const uint16_t flushed[N_ARITH] = {SG_OP_ADD_F32_FTZ, SG_OP_SUB_F32_FTZ,
                                              SG_OP_MUL_F32_FTZ, SG_OP_FMA_F32_FTZ};
    static const uint16_t directed[3][N_ARITH] = {
        {SG_FN_add_f32_rz, SG_FN_sub_f32_rz, SG_FN_mul_f32_rz, SG_FN_fma_f32_rz},
        {SG_FN_add_f32_rm, SG_FN_sub_f32_rm, SG_FN_mul_f32_rm, SG_FN_fma_f32_rm},
        {SG_FN_add_f32_rp, SG_FN_sub_f32_rp, SG_FN_mul_f32_rp, SG_FN_fma_f32_rp},
    };
    int mode = lo_has(insn, PTX_W_rz)   ? 0
               : lo_has(insn, PTX_W_rm) ? 1
               : lo_has(insn, PTX_W_rp) ? 2
                                        : -1;
    unsigned what = arith_of(insn->op);
    bool ftz = lo_has(insn, PTX_W_ftz);
    int32_t r;

    if (mode < 0)
        return lo_op(l, (enum sg_opcode)(ftz ? flushed : nearest)[what], NONE, s[0],
                     s[1], s[2]);
    r = lo_call_fn(l, (enum sg_fn_id)directed[mode][what], NONE, flush(l, s[0], ftz),
                   flush(l, s[1], ftz), flush(l, s[2], ftz));
    return flush(l, r, ftz);
}

void
lower_f32x2(struct lower *l, const struct ptx_insn *insn)
{
    unsigned n = insn->op == PTX_W_fma ? 3 : 2;
    int32_t v[3], half[2];

    if (insn->n_opds != n + 1) {
        lo_fail(l, -EINVAL, "wrong number of operands");
        return;
    }
    for (unsigned i = 0; i < n; i++)
        v[i] = lo_src(l, &insn->opds[i + 1], PTX_W_b64);
    for (int k = 0; k < 2; k++) {
        int32_t s[3] = {NONE, NONE, NONE};
        for (unsigned i = 0; i < n; i++)
            s[i] = lo_op(l, k ? SG_OP_HI32 : SG_OP_LO32, NONE, v[i], NONE, NONE);
        half[k] = arith(l, insn, s);
    }
    lo_op(l, SG_OP_PACK64, lo_dst(l, &insn->opds[0], PTX_W_b64), half[0], half[1],
          NONE);
}

/* add.f32.f16 d, a, c and fma.f32.f16 d, a, b, c: all but the last are halves, which
 * f32 holds exactly. */
void
lower_mixed(struct lower *l, const struct ptx_insn *insn)
{
    unsigned n = insn->op == PTX_W_fma ? 3 : 2, type = lo_type(insn, 1);
    int32_t s[3] = {NONE, NONE, NONE}, d, r;

    if (insn->n_opds != n + 1) {
        lo_fail(l, -EINVAL, "wrong number of operands");
        return;
    }
    for (unsigned i = 0; i + 1 < n; i++)
        s[i] = lo_half_as_f32(l, lo_src(l, &insn->opds[i + 1], PTX_W_b16), type, false);
    s[n - 1] = lo_src(l, &insn->opds[n], PTX_W_f32);
    r = arith(l, insn, s);
    d = lo_dst(l, &insn->opds[0], PTX_W_f32);
    lo_op(l, lo_has(insn, PTX_W_sat) ? SG_OP_SAT_F32 : SG_OP_MOV_W, d, r, NONE, NONE);
}

/* min.f32 d, a, b, c */
void
lower_minmax3(struct lower *l, const struct ptx_insn *insn)
{
    bool max = insn->op == PTX_W_max, ftz = lo_has(insn, PTX_W_ftz);
    enum sg_fn_id fn = lo_has(insn, PTX_W_NaN)
                           ? (max ? SG_FN_max_nan_f32 : SG_FN_min_nan_f32)
                           : (max ? SG_FN_max_f32 : SG_FN_min_f32);
    int32_t s[3];

    if (insn->n_opds != 4) {
        lo_fail(l, -EINVAL, "wrong number of operands");
        return;
    }
    for (int i = 0; i < 3; i++) {
        s[i] = flush(l, lo_src(l, &insn->opds[i + 1], PTX_W_f32), ftz);
        if (lo_has(insn, PTX_W_abs))
            s[i] = lo_op(l, SG_OP_ABS_F32, NONE, s[i], NONE, NONE);
    }
    s[0] = lo_call_fn(l, fn, NONE, s[0], s[1], NONE);
    lo_call_fn(l, fn, lo_dst(l, &insn->opds[0], PTX_W_f32), s[0], s[2], NONE);
}
