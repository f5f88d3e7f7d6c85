/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering cvt: the hot pairs are one operation, the rest goes through 64 bits.
 *
 * Integers pass through a sign- or zero-extended 64-bit value, floats through f64,
 * which holds every f16, bf16, f32 and 32-bit integer exactly, so each path rounds
 * once.
 */
#include "gp_err.h"
#include "lower.h"

#include <errno.h>

#define NONE SG_NOREG

/* The source as its type says, in its class: narrow integers extended. */
static int32_t
source(struct lower *l, const struct ptx_opd *opd, unsigned type)
{
    int32_t v = lo_src(l, opd, type);

    switch (type) {
    case PTX_W_u8:
        return lo_op(l, SG_OP_ZX8, NONE, v, NONE, NONE);
    case PTX_W_s8:
        return lo_op(l, SG_OP_SX8, NONE, v, NONE, NONE);
    case PTX_W_u16:
        return lo_op(l, SG_OP_ZX16, NONE, v, NONE, NONE);
    case PTX_W_s16:
        return lo_op(l, SG_OP_SX16, NONE, v, NONE, NONE);
    default:
        return v;
    }
}

/* A 32-bit result as an 8- or 16-bit type; signed ones stay sign-extended for wider
 * registers and are cut for 16-bit ones. */
static int32_t
narrow_int(struct lower *l, const struct ptx_opd *dst, unsigned type, int32_t v)
{
    bool half =
        dst->kind == PTX_OPD_REG && ptx_type_size(l->func->regs[dst->reg].type) <= 2;

    switch (type) {
    case PTX_W_u8:
        return lo_op(l, SG_OP_ZX8, NONE, v, NONE, NONE);
    case PTX_W_u16:
        return lo_op(l, SG_OP_ZX16, NONE, v, NONE, NONE);
    case PTX_W_s8:
        v = lo_op(l, SG_OP_SX8, NONE, v, NONE, NONE);
        return half ? lo_op(l, SG_OP_ZX16, NONE, v, NONE, NONE) : v;
    case PTX_W_s16:
        return lo_op(l, half ? SG_OP_ZX16 : SG_OP_SX16, NONE, v, NONE, NONE);
    default:
        return v;
    }
}

static void
deliver(struct lower *l, const struct ptx_opd *dst, unsigned type, int32_t v)
{
    int32_t d = lo_dst(l, dst, type);

    lo_op(l, lo_class(l, d) == SG_D ? SG_OP_MOV_D : SG_OP_MOV_W, d, v, NONE, NONE);
}

static void
int_to_int(struct lower *l, const struct ptx_insn *insn, unsigned to, unsigned from,
           int32_t v)
{
    static const struct {
        uint16_t type;
        uint16_t from_s, from_u;
    } sat[] = {
        {PTX_W_s8, SG_FN_s64_sat_s8, SG_FN_u64_sat_s8},
        {PTX_W_u8, SG_FN_s64_sat_u8, SG_FN_u64_sat_u8},
        {PTX_W_s16, SG_FN_s64_sat_s16, SG_FN_u64_sat_s16},
        {PTX_W_u16, SG_FN_s64_sat_u16, SG_FN_u64_sat_u16},
        {PTX_W_s32, SG_FN_s64_sat_s32, SG_FN_u64_sat_s32},
        {PTX_W_u32, SG_FN_s64_sat_u32, SG_FN_u64_sat_u32},
        {PTX_W_s64, SG_N_FNS, SG_FN_u64_sat_s64},
        {PTX_W_u64, SG_FN_s64_sat_u64, SG_N_FNS},
    };
    enum sg_class cls = lo_type_class(to);

    if (lo_has(insn, PTX_W_sat)) {
        for (size_t i = 0; i < ARRAY_SIZE(sat); i++) {
            int fn = lo_type_signed(from) ? sat[i].from_s : sat[i].from_u;
            if (sat[i].type != to || fn == SG_N_FNS)
                continue;
            v = lo_widen(l, v, SG_D, lo_type_signed(from));
            v = lo_call_fn(l, (enum sg_fn_id)fn, NONE, v, NONE, NONE);
        }
    }
    v = lo_widen(l, v, cls, lo_type_signed(from));
    deliver(l, &insn->opds[0], to, narrow_int(l, &insn->opds[0], to, v));
}

enum mode { M_RN, M_RZ, M_RM, M_RP };

static enum mode
rounding(const struct ptx_insn *insn)
{
    if (lo_has(insn, PTX_W_rz) || lo_has(insn, PTX_W_rzi))
        return M_RZ;
    if (lo_has(insn, PTX_W_rm) || lo_has(insn, PTX_W_rmi))
        return M_RM;
    if (lo_has(insn, PTX_W_rp) || lo_has(insn, PTX_W_rpi))
        return M_RP;
    return M_RN;
}

static int32_t
as_f64(struct lower *l, unsigned type, int32_t v)
{
    switch (type) {
    case PTX_W_f16:
        return lo_call_fn(l, SG_FN_f16_f64, NONE, v, NONE, NONE);
    case PTX_W_bf16:
        return lo_call_fn(l, SG_FN_bf16_f64, NONE, v, NONE, NONE);
    case PTX_W_f32:
        return lo_op(l, SG_OP_CVT_F64_F32, NONE, v, NONE, NONE);
    default:
        return v;
    }
}

static bool
integral_rounding(const struct ptx_insn *insn)
{
    return lo_has(insn, PTX_W_rni) || lo_has(insn, PTX_W_rzi) ||
           lo_has(insn, PTX_W_rmi) || lo_has(insn, PTX_W_rpi);
}

/* An f32 to an integral value. */
static int32_t
to_integral32(struct lower *l, enum mode mode, int32_t v)
{
    static const enum sg_opcode ops[] = {SG_OP_RINT_F32, SG_OP_TRUNC_F32,
                                         SG_OP_FLOOR_F32, SG_OP_CEIL_F32};

    return lo_op(l, ops[mode], NONE, v, NONE, NONE);
}

/* An f64 in which @from is, to an integral value. */
static int32_t
to_integral(struct lower *l, unsigned from, enum mode mode, int32_t v)
{
    static const enum sg_fn_id f64[] = {SG_FN_f64_rni, SG_FN_f64_rzi, SG_FN_f64_rmi,
                                        SG_FN_f64_rpi};
    static const enum sg_fn_id flt[] = {SG_FN_flt_rni, SG_FN_flt_rzi, SG_FN_flt_rmi,
                                        SG_FN_flt_rpi};

    return lo_call_fn(l, (from == PTX_W_f64 ? f64 : flt)[mode], NONE, v, NONE, NONE);
}

static void
float_to_int(struct lower *l, const struct ptx_insn *insn, unsigned to, unsigned from,
             int32_t v)
{
    /* A NaN gives the top bit, but of a narrower float to less than 64 bits 0. */
    static const struct {
        uint16_t type, of_f64, of_narrower;
    } map[] = {
        {PTX_W_s8, SG_FN_f64_s8, SG_FN_flt_s8},
        {PTX_W_u8, SG_FN_f64_u8, SG_FN_flt_u8},
        {PTX_W_s16, SG_FN_f64_s16, SG_FN_flt_s16},
        {PTX_W_u16, SG_FN_f64_u16, SG_FN_flt_u16},
        {PTX_W_s32, SG_FN_f64_s32, SG_FN_flt_s32},
        {PTX_W_u32, SG_FN_f64_u32, SG_FN_flt_u32},
        {PTX_W_s64, SG_FN_f64_s64, SG_FN_f64_s64},
        {PTX_W_u64, SG_FN_f64_u64, SG_FN_f64_u64},
    };
    enum mode mode = rounding(insn);

    if (from == PTX_W_f32 && lo_has(insn, PTX_W_ftz))
        v = lo_op(l, SG_OP_FTZ_F32, NONE, v, NONE, NONE);
    if (from == PTX_W_f32 && (to == PTX_W_s32 || to == PTX_W_u32)) {
        if (mode != M_RZ)
            v = to_integral32(l, mode, v);
        v = lo_op(l, to == PTX_W_s32 ? SG_OP_CVT_S32_F32 : SG_OP_CVT_U32_F32, NONE, v,
                  NONE, NONE);
        deliver(l, &insn->opds[0], to, v);
        return;
    }
    v = as_f64(l, from, v);
    if (mode != M_RZ)
        v = to_integral(l, from, mode, v);
    for (size_t i = 0; i < ARRAY_SIZE(map); i++) {
        uint16_t fn = from == PTX_W_f64 ? map[i].of_f64 : map[i].of_narrower;
        if (map[i].type == to)
            v = lo_call_fn(l, (enum sg_fn_id)fn, NONE, v, NONE, NONE);
    }
    deliver(l, &insn->opds[0], to, narrow_int(l, &insn->opds[0], to, v));
}

/* What .satfinite does first; 0 where the type has no such form. */
static enum sg_fn_id
clamp_fn(unsigned to)
{
    return to == PTX_W_f16    ? SG_FN_f64_clamp_f16
           : to == PTX_W_bf16 ? SG_FN_f64_clamp_bf16
           : to == PTX_W_tf32 ? SG_FN_f64_clamp_tf32
                              : 0;
}

/* f64 in which @from is, to any float type, one rounding.  A NaN becomes the one NaN of
 * the type; that of an f64 keeps its sign and as much of the payload as there is room
 * for. */
static int32_t
from_f64(struct lower *l, const struct ptx_insn *insn, unsigned to, unsigned from,
         int32_t v)
{
    static const enum sg_fn_id f16[] = {SG_FN_f64_f16_rn, SG_FN_f64_f16_rz,
                                        SG_FN_f64_f16_rm, SG_FN_f64_f16_rp};
    static const enum sg_fn_id bf16[] = {SG_FN_f64_bf16_rn, SG_FN_f64_bf16_rz,
                                         SG_FN_f64_bf16_rm, SG_FN_f64_bf16_rp};
    static const enum sg_fn_id f32[] = {SG_N_FNS, SG_FN_f64_f32_rz, SG_FN_f64_f32_rm,
                                        SG_FN_f64_f32_rp};
    enum mode mode = rounding(insn);
    int32_t r;

    if (lo_has(insn, PTX_W_satfinite))
        v = lo_call_fn(l, clamp_fn(to), NONE, v, NONE, NONE);
    switch (to) {
    case PTX_W_f16:
    case PTX_W_bf16:
        r = lo_call_fn(l, (to == PTX_W_f16 ? f16 : bf16)[mode], NONE, v, NONE, NONE);
        if (from != PTX_W_f64)
            return r;
        return lo_call_fn(l, to == PTX_W_f16 ? SG_FN_nan_f16 : SG_FN_nan_bf16, NONE, r,
                          v, NONE);
    case PTX_W_tf32:
        return lo_call_fn(l, mode == M_RZ ? SG_FN_f64_tf32_rz : SG_FN_f64_tf32_rn, NONE,
                          v, NONE, NONE);
    case PTX_W_f32:
        if (mode == M_RN || from != PTX_W_f64) /* a narrower one rounds no more */
            return lo_op(l, SG_OP_CVT_F32_F64, NONE, v, NONE, NONE);
        return lo_call_fn(l, f32[mode], NONE, v, NONE, NONE);
    default:
        return v;
    }
}

static void
int_to_float(struct lower *l, const struct ptx_insn *insn, unsigned to, unsigned from,
             int32_t v)
{
    static const enum sg_fn_id f64s[] = {SG_FN_s64_f64_rn, SG_FN_s64_f64_rz,
                                         SG_FN_s64_f64_rm, SG_FN_s64_f64_rp};
    static const enum sg_fn_id f64u[] = {SG_FN_u64_f64_rn, SG_FN_u64_f64_rz,
                                         SG_FN_u64_f64_rm, SG_FN_u64_f64_rp};
    static const enum sg_fn_id f32s[] = {SG_FN_s64_f32_rn, SG_FN_s64_f32_rz,
                                         SG_FN_s64_f32_rm, SG_FN_s64_f32_rp};
    static const enum sg_fn_id f32u[] = {SG_FN_u64_f32_rn, SG_FN_u64_f32_rz,
                                         SG_FN_u64_f32_rm, SG_FN_u64_f32_rp};
    bool sgn = lo_type_signed(from), wide = lo_type_class(from) == SG_D;
    enum mode mode = rounding(insn);

    if (!wide && to == PTX_W_f64)
        v = lo_op(l, sgn ? SG_OP_CVT_F64_S32 : SG_OP_CVT_F64_U32, NONE, v, NONE, NONE);
    else if (!wide && to == PTX_W_f32 && mode == M_RN)
        v = lo_op(l, sgn ? SG_OP_CVT_F32_S32 : SG_OP_CVT_F32_U32, NONE, v, NONE, NONE);
    else {
        v = lo_widen(l, v, SG_D, sgn);
        if (to == PTX_W_f32) {
            v = lo_call_fn(l, (sgn ? f32s : f32u)[mode], NONE, v, NONE, NONE);
        } else {
            /* halves: what f64 cannot hold goes to its odd neighbour, so that only the
             * second rounding counts */
            enum sg_fn_id odd = sgn ? SG_FN_s64_f64_odd : SG_FN_u64_f64_odd;
            v = lo_call_fn(l, to == PTX_W_f64 ? (sgn ? f64s : f64u)[mode] : odd, NONE,
                           v, NONE, NONE);
            v = from_f64(l, insn, to, from, v);
        }
    }
    if (lo_has(insn, PTX_W_sat)) {
        if (to == PTX_W_f32)
            v = lo_op(l, SG_OP_SAT_F32, NONE, v, NONE, NONE);
        else if (to == PTX_W_f64)
            v = lo_call_fn(l, SG_FN_f64_sat, NONE, v, NONE, NONE);
        else
            v = lo_call_fn(l, SG_FN_sat_f16x2, NONE, v, NONE, NONE);
    }
    deliver(l, &insn->opds[0], to, v);
}

/* A NaN of f32 becomes the one NaN, as where .ftz makes an operation of a move. */
static int32_t
one_nan(struct lower *l, int32_t v)
{
    return lo_op(l, SG_OP_MAX_F32, NONE, v, v, NONE);
}

/* Whether an f32 becomes the nearest half or bf16, and nothing else happens to it. */
static bool
narrows_at_once(const struct ptx_insn *insn, unsigned to)
{
    return (to == PTX_W_f16 || to == PTX_W_bf16) && rounding(insn) == M_RN &&
           !integral_rounding(insn) && !lo_has(insn, PTX_W_sat) &&
           !lo_has(insn, PTX_W_relu) && !lo_has(insn, PTX_W_satfinite);
}

static int32_t
narrow32(struct lower *l, unsigned to, int32_t v)
{
    return lo_op(l, to == PTX_W_f16 ? SG_OP_CVT_F16_F32 : SG_OP_CVT_BF16_F32, NONE, v,
                 NONE, NONE);
}

static void
float_to_float(struct lower *l, const struct ptx_insn *insn, unsigned to, unsigned from,
               int32_t v)
{
    bool ftz = lo_has(insn, PTX_W_ftz), sat = lo_has(insn, PTX_W_sat);
    bool relu = lo_has(insn, PTX_W_relu);

    /* A card does not flush what it narrows to f16. */
    if (ftz && from == PTX_W_f32 && to != PTX_W_f16)
        v = lo_op(l, SG_OP_FTZ_F32, NONE, v, NONE, NONE);
    if (ftz && from == PTX_W_f32 && to == PTX_W_f64)
        v = one_nan(l, v);
    if (from == PTX_W_f16 && to == PTX_W_f32 && !sat && !relu) {
        v = lo_op(l, SG_OP_CVT_F32_F16, NONE, v, NONE, NONE);
    } else if (from == PTX_W_bf16 && to == PTX_W_f32 && !sat && !relu) {
        v = lo_op(l, SG_OP_SHL_W, NONE, v, lo_const(l, SG_W, 16), NONE);
        if (ftz)
            v = one_nan(l, v);
    } else if (from == PTX_W_f16 && to == PTX_W_f64 && !sat) {
        v = lo_call_fn(l, SG_FN_f16_f64_nan, NONE, v, NONE, NONE);
    } else if (from == PTX_W_f32 && narrows_at_once(insn, to)) {
        v = narrow32(l, to, v);
    } else if (from == PTX_W_f32 && to == PTX_W_f32 && integral_rounding(insn) &&
               !sat && !relu) {
        v = to_integral32(l, rounding(insn), v);
    } else if (from == PTX_W_f32 && to == PTX_W_f32 && sat && !relu &&
               !integral_rounding(insn)) {
        v = lo_op(l, SG_OP_SAT_F32, NONE, v, NONE, NONE);
    } else if (from == PTX_W_f32 && to == PTX_W_f64 && !sat) {
        v = lo_op(l, SG_OP_CVT_F64_F32, NONE, v, NONE, NONE);
    } else if (from == PTX_W_f64 && to == PTX_W_f32 && rounding(insn) == M_RN && !sat) {
        v = lo_op(l, SG_OP_CVT_F32_F64, NONE, v, NONE, NONE);
    } else {
        v = as_f64(l, from, v);
        if (integral_rounding(insn))
            v = to_integral(l, from, rounding(insn), v);
        else if (from != PTX_W_f64 && to == PTX_W_f32)
            v = lo_call_fn(l, SG_FN_flt_nan, NONE, v, NONE, NONE);
        if (sat)
            v = lo_call_fn(l, SG_FN_f64_sat, NONE, v, NONE, NONE);
        if (relu)
            v = lo_call_fn(l, SG_FN_f64_relu, NONE, v, NONE, NONE);
        v = from_f64(l, insn, to, from, v);
    }
    if (ftz && to == PTX_W_f32)
        v = lo_op(l, SG_OP_FTZ_F32, NONE, v, NONE, NONE);
    deliver(l, &insn->opds[0], to, v);
}

/* Every value of an integer type is one of another, which cvt.sat does not take. */
static bool
fits(unsigned to, unsigned from)
{
    unsigned bits = ptx_type_size(to) * 8u - lo_type_signed(to);
    unsigned from_bits = ptx_type_size(from) * 8u - lo_type_signed(from);

    return bits >= from_bits && (lo_type_signed(to) || !lo_type_signed(from));
}

/* What ptxas (13.0) refuses of modifiers and types that exist in other forms; NULL: it
 * takes it. */
static const char *
refusal(const struct ptx_insn *insn, unsigned to, unsigned from)
{
    bool to_float = lo_type_float(to) || to == PTX_W_tf32;
    bool from_float = lo_type_float(from),
         bf16 = to == PTX_W_bf16 || from == PTX_W_bf16;
    bool narrow =
        from == PTX_W_f32 && (to == PTX_W_f16 || to == PTX_W_bf16 || to == PTX_W_tf32);
    bool rounds = lo_has(insn, PTX_W_rn) || lo_has(insn, PTX_W_rz) ||
                  lo_has(insn, PTX_W_rm) || lo_has(insn, PTX_W_rp);
    bool up_or_down = lo_has(insn, PTX_W_rm) || lo_has(insn, PTX_W_rp);

    if (bf16 && (ptx_type_size(to) == 1 || ptx_type_size(from) == 1))
        return "bf16 has no conversion to or from 8 bits";
    if (lo_has(insn, PTX_W_sat) &&
        (bf16 || (!to_float && !from_float && fits(to, from))))
        return ".sat is not for these types";
    if ((lo_has(insn, PTX_W_relu) || lo_has(insn, PTX_W_satfinite)) &&
        (!narrow || up_or_down || lo_has(insn, PTX_W_ftz)))
        return ".relu and .satfinite narrow f32, in .rn and .rz, without .ftz";
    if (lo_has(insn, PTX_W_relu) && lo_has(insn, PTX_W_rna))
        return ".relu is not for .rna";
    if (rounds && !to_float && !from_float)
        return "integers are not rounded";
    if (rounds && from_float && lo_type_float(to) && !bf16 &&
        ptx_type_size(to) > ptx_type_size(from))
        return "what becomes wider is not rounded";
    return NULL;
}

void
lower_cvt(struct lower *l, const struct ptx_insn *insn)
{
    const char *words;
    unsigned to = lo_type(insn, 0), from = lo_type(insn, 1);
    bool to_float = lo_type_float(to) || to == PTX_W_tf32;
    int32_t v;

    if (insn->n_opds != 2) {
        lo_fail(l, -EINVAL, "cvt: operands");
        return;
    }
    words = refusal(insn, to, from);
    if (words) {
        lo_fail(l, -EINVAL, "cvt: %s", words);
        return;
    }
    v = source(l, &insn->opds[1], from);
    if (to == PTX_W_tf32 && lo_has(insn, PTX_W_rna))
        deliver(l, &insn->opds[0], to,
                lo_call_fn(l,
                           lo_has(insn, PTX_W_satfinite) ? SG_FN_f32_tf32_rna_finite
                                                         : SG_FN_f32_tf32_rna,
                           NONE, v, NONE, NONE));
    else if (to_float && lo_type_float(from))
        float_to_float(l, insn, to, from, v);
    else if (to_float)
        int_to_float(l, insn, to, from, v);
    else if (lo_type_float(from))
        float_to_int(l, insn, to, from, v);
    else
        int_to_int(l, insn, to, from, v);
}

/* cvt.f16x2.f32 d, a, b: a becomes the high half. */
void
lower_cvt_pack(struct lower *l, const struct ptx_insn *insn)
{
    unsigned to = lo_type(insn, 0) == PTX_W_f16x2 ? PTX_W_f16 : PTX_W_bf16;
    int32_t half[2];

    if (insn->n_opds != 3) {
        lo_fail(l, -EINVAL, "cvt: operands");
        return;
    }
    for (int k = 0; k < 2; k++) {
        int32_t v = lo_src(l, &insn->opds[1 + k], PTX_W_f32);
        if (narrows_at_once(insn, to)) {
            half[k] = narrow32(l, to, v);
            continue;
        }
        v = as_f64(l, PTX_W_f32, v);
        if (lo_has(insn, PTX_W_relu))
            v = lo_call_fn(l, SG_FN_f64_relu, NONE, v, NONE, NONE);
        half[k] = from_f64(l, insn, to, PTX_W_f32, v);
    }
    lo_op(l, SG_OP_PACK32, lo_dst(l, &insn->opds[0], PTX_W_b32), half[1], half[0],
          NONE);
}

/* cvt.pack d, a, b{, c}: two integers, saturated, below the low bits of c. */
void
lower_cvt_integers(struct lower *l, const struct ptx_insn *insn)
{
    static const struct {
        uint16_t word;
        uint8_t bits;
        bool sgn;
    } types[] = {
        {PTX_W_s16, 16, true}, {PTX_W_u16, 16, false}, {PTX_W_s8, 8, true},
        {PTX_W_u8, 8, false},  {PTX_W_s4, 4, true},    {PTX_W_u4, 4, false},
        {PTX_W_s2, 2, true},   {PTX_W_u2, 2, false},
    };
    bool more = lo_type(insn, 2) != 0;
    unsigned bits = 0, i = 0;
    int32_t r = NONE;

    while (i + 1 < ARRAY_SIZE(types) && types[i].word != lo_type(insn, 0))
        i++;
    bits = types[i].bits;
    if (insn->n_opds != (more ? 4u : 3u)) {
        lo_fail(l, -EINVAL, "cvt.pack: operands");
        return;
    }
    if (more)
        r = lo_src(l, &insn->opds[3], PTX_W_b32);
    for (unsigned k = 1; k <= 2; k++) {
        int64_t top = (INT64_C(1) << (bits - types[i].sgn)) - 1;
        int32_t v = lo_src(l, &insn->opds[k], PTX_W_s32);
        v = lo_op(l, SG_OP_MAX_S32, NONE, v,
                  lo_const(l, SG_W, (uint32_t)(types[i].sgn ? -top - 1 : 0)), NONE);
        v = lo_op(l, SG_OP_MIN_S32, NONE, v, lo_const(l, SG_W, (uint32_t)top), NONE);
        v = lo_op(l, SG_OP_AND_W, NONE, v,
                  lo_const(l, SG_W, (uint32_t)((UINT64_C(1) << bits) - 1)), NONE);
        if (r != NONE)
            r = lo_op(l, SG_OP_SHL_W, NONE, r, lo_const(l, SG_W, bits), NONE);
        r = r == NONE ? v : lo_op(l, SG_OP_OR_W, NONE, r, v, NONE);
    }
    lo_op(l, SG_OP_MOV_W, lo_dst(l, &insn->opds[0], PTX_W_b32), r, NONE, NONE);
}
