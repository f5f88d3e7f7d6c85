/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering cvt to and from floats of 8, 6 and 4 bits, two to a register, and redux
 * over floats.
 *
 * All of them go through f64, which holds every value of both sides exactly.
 */
#include "gp_err.h"
#include "lower.h"

#include <errno.h>

#define NONE SG_NOREG

struct pair {
    uint16_t word;
    uint8_t bits; /* of one of the two in their register */
    uint16_t dec, enc;
};

static const struct pair pairs[] = {
    {PTX_W_e4m3x2, 8, SG_FN_e4m3_f64, SG_FN_f64_e4m3},
    {PTX_W_e5m2x2, 8, SG_FN_e5m2_f64, SG_FN_f64_e5m2},
    {PTX_W_e2m3x2, 8, SG_FN_e2m3_f64, SG_FN_f64_e2m3},
    {PTX_W_e3m2x2, 8, SG_FN_e3m2_f64, SG_FN_f64_e3m2},
    {PTX_W_e2m1x2, 4, SG_FN_e2m1_f64, SG_FN_f64_e2m1},
    {PTX_W_ue8m0x2, 8, SG_FN_ue8m0_f64, SG_N_FNS},
    {PTX_W_f16x2, 16, SG_FN_f16_f64, SG_FN_f64_f16_rn},
    {PTX_W_bf16x2, 16, SG_FN_bf16_f64, SG_FN_f64_bf16_rn},
};

static const struct pair *
pair_of(unsigned word)
{
    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
        if (pairs[i].word == word)
            return &pairs[i];
    return NULL;
}

static uint16_t
encoder(const struct ptx_insn *insn, const struct pair *to)
{
    bool sat = lo_has(insn, PTX_W_satfinite);

    if (to->word != PTX_W_ue8m0x2)
        return to->enc;
    if (lo_has(insn, PTX_W_rp))
        return sat ? SG_FN_f64_ue8m0_rp_sat : SG_FN_f64_ue8m0_rp;
    return sat ? SG_FN_f64_ue8m0_rz_sat : SG_FN_f64_ue8m0_rz;
}

/* The two source values, low half first, as f64.  Of two f32 the first is the high
 * half. */
static bool
pair_sources(struct lower *l, const struct ptx_insn *insn, unsigned from, int32_t v[2])
{
    const struct pair *src = pair_of(from);
    int32_t a, word;

    if (insn->n_opds != (src ? 2u : 3u)) {
        lo_fail(l, -EINVAL, "cvt: operands");
        return false;
    }
    if (!src) {
        for (int k = 0; k < 2; k++)
            v[k] = lo_op(l, SG_OP_CVT_F64_F32, NONE,
                         lo_src(l, &insn->opds[2 - k], PTX_W_f32), NONE, NONE);
        return true;
    }
    a = lo_src(l, &insn->opds[1], PTX_W_b32);
    for (int k = 0; k < 2; k++) {
        word = k ? lo_op(l, SG_OP_SHR_U32, NONE, a, lo_const(l, SG_W, src->bits), NONE)
                 : a;
        v[k] = lo_call_fn(l, (enum sg_fn_id)src->dec, NONE, word, NONE, NONE);
    }
    return true;
}

void
lower_cvt_narrow(struct lower *l, const struct ptx_insn *insn)
{
    const struct pair *to = pair_of(lo_type(insn, 0));
    int32_t v[2], d;

    if (!to || !pair_sources(l, insn, lo_type(insn, 1), v))
        return;
    for (int k = 0; k < 2; k++) {
        if (lo_has(insn, PTX_W_relu))
            v[k] = lo_call_fn(l, SG_FN_f64_relu, NONE, v[k], NONE, NONE);
        v[k] = lo_call_fn(l, (enum sg_fn_id)encoder(insn, to), NONE, v[k], NONE, NONE);
    }
    d = lo_dst(l, &insn->opds[0], PTX_W_b32);
    v[1] = lo_op(l, SG_OP_SHL_W, NONE, v[1], lo_const(l, SG_W, to->bits), NONE);
    lo_op(l, SG_OP_OR_W, d, v[0], v[1], NONE);
}
