/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering cvt to and from floats of 8, 6 and 4 bits, two to a register, and cvt.rs,
 * which rounds by random bits that the kernel brings.
 *
 * All but cvt.rs go through f64, which holds every value of both sides exactly.
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

/* The random bits of source @k of @n, counted from the lowest place of the result. */
static int32_t
random_bits(struct lower *l, int32_t rbits, unsigned k, unsigned n, unsigned bits)
{
    int32_t low, high;

    if (bits != 4) /* a half for each, or for two */
        return lo_op(l, SG_OP_SHR_U32, NONE, rbits,
                     lo_const(l, SG_W, k >= n / 2 ? 16 : 0), NONE);
    /* a byte of each half makes sixteen */
    rbits =
        lo_op(l, SG_OP_SHR_U32, NONE, rbits, lo_const(l, SG_W, k >= 2 ? 8 : 0), NONE);
    low = lo_op(l, SG_OP_ZX8, NONE, rbits, NONE, NONE);
    high = lo_op(l, SG_OP_SHR_U32, NONE, rbits, lo_const(l, SG_W, 8), NONE);
    high = lo_op(l, SG_OP_AND_W, NONE, high, lo_const(l, SG_W, 0xff00), NONE);
    return lo_op(l, SG_OP_OR_W, NONE, high, low, NONE);
}

/* cvt.rs d, a, b, rbits and cvt.rs d, {a, b, e, f}, rbits: the first is the highest. */
void
lower_cvt_rs(struct lower *l, const struct ptx_insn *insn)
{
    static const struct {
        uint16_t word;
        uint8_t n, bits, place;
        uint16_t fn;
    } forms[] = {
        {PTX_W_f16x2, 2, 16, 16, SG_FN_rs_f16},
        {PTX_W_bf16x2, 2, 16, 16, SG_FN_rs_bf16},
        {PTX_W_e4m3x4, 4, 8, 8, SG_FN_rs_e4m3},
        {PTX_W_e5m2x4, 4, 8, 8, SG_FN_rs_e5m2},
        {PTX_W_e2m3x4, 4, 6, 8, SG_FN_rs_e2m3},
        {PTX_W_e3m2x4, 4, 6, 8, SG_FN_rs_e3m2},
        {PTX_W_e2m1x4, 4, 4, 4, SG_FN_rs_e2m1},
    };
    unsigned i = 0, n, flags;
    const struct ptx_opd *from = &insn->opds[1];
    int32_t rbits, r = NONE;

    while (i + 1 < ARRAY_SIZE(forms) && forms[i].word != lo_type(insn, 0))
        i++;
    n = forms[i].n;
    if (insn->n_opds != (n == 2 ? 4u : 3u) ||
        (n == 4 && (from->kind != PTX_OPD_VEC || from->n != 4))) {
        lo_fail(l, -EINVAL, "cvt.rs: operands");
        return;
    }
    flags = (lo_has(insn, PTX_W_satfinite) ? SG_RS_SATFINITE : 0) |
            (lo_has(insn, PTX_W_relu) ? SG_RS_RELU : 0);
    rbits = lo_src(l, &insn->opds[insn->n_opds - 1], PTX_W_b32);
    for (unsigned k = 0; k < n; k++) {
        const struct ptx_opd *o = n == 2 ? &insn->opds[1 + k] : &from->sub[k];
        int32_t v =
            lo_call_fn(l, (enum sg_fn_id)forms[i].fn, NONE, lo_src(l, o, PTX_W_f32),
                       random_bits(l, rbits, n - 1 - k, n, forms[i].bits),
                       lo_const(l, SG_W, flags));
        if (r != NONE)
            r = lo_op(l, SG_OP_SHL_W, NONE, r, lo_const(l, SG_W, forms[i].place), NONE);
        r = r == NONE ? v : lo_op(l, SG_OP_OR_W, NONE, r, v, NONE);
    }
    lo_op(l, SG_OP_MOV_W, lo_dst(l, &insn->opds[0], PTX_W_b32), r, NONE, NONE);
}
