/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers of the bytecode as LLVM values.
 *
 * Each register that a region touches is a variable, which LLVM turns into values;
 * constants of the unit are constants of the code.  Guarded operations keep the lanes
 * that they are not for.
 *
 * The interpreter makes every NaN that float arithmetic gives the one NaN at once.
 * Arithmetic takes any NaN for a NaN, so here that is done when somebody looks at the
 * bits: a register's `odd` variable tells whether its value has yet to be looked at.
 * It becomes a constant nearly everywhere.
 */
#include "jit.h"

LLVMValueRef
jit_splat_int(LLVMTypeRef vec, uint64_t v)
{
    LLVMTypeRef of = LLVMGetElementType(vec);
    LLVMValueRef c[JIT_LANES];

    for (int i = 0; i < JIT_LANES; i++)
        c[i] = LLVMConstInt(of, v, 0);
    return LLVMConstVector(c, JIT_LANES);
}

LLVMValueRef
jit_splat(struct jit *j, LLVMTypeRef vec, LLVMValueRef scalar)
{
    LLVMTypeRef masks = LLVMVectorType(j->i32, JIT_LANES);
    LLVMValueRef v = LLVMBuildInsertElement(j->b, LLVMGetUndef(vec), scalar,
                                            LLVMConstInt(j->i32, 0, 0), "");

    return LLVMBuildShuffleVector(j->b, v, LLVMGetUndef(vec), LLVMConstNull(masks), "");
}

LLVMValueRef
jit_mask(struct jit *j, LLVMValueRef lanes)
{
    return LLVMBuildBitCast(j->b, lanes, j->i32, "");
}

LLVMValueRef
jit_lanes(struct jit *j, LLVMValueRef mask)
{
    return LLVMBuildBitCast(j->b, mask, j->p, "");
}

/* @base, a pointer to bytes, and an offset, as a pointer to @to. */
LLVMValueRef
jit_pointer(struct jit *j, LLVMTypeRef to, LLVMValueRef base, LLVMValueRef bytes)
{
    LLVMValueRef p = LLVMBuildGEP2(j->b, j->i8, base, &bytes, 1, "");

    return LLVMBuildBitCast(j->b, p, LLVMPointerType(to, 0), "");
}

LLVMValueRef
jit_field(struct jit *j, LLVMTypeRef type, LLVMValueRef base, size_t at)
{
    LLVMValueRef p = jit_pointer(j, type, base, LLVMConstInt(j->i64, at, 0));

    return LLVMBuildLoad2(j->b, type, p, "");
}

LLVMValueRef
jit_address(struct jit *j, LLVMTypeRef type, const void *p)
{
    return LLVMConstIntToPtr(LLVMConstInt(j->i64, (uintptr_t)p, 0), type);
}

LLVMBasicBlockRef
jit_block(struct jit *j, const char *name)
{
    return LLVMAppendBasicBlockInContext(j->ctx, j->fn, name);
}

void
jit_rarely(struct jit *j, LLVMValueRef cond, LLVMBasicBlockRef rare,
           LLVMBasicBlockRef usual)
{
    LLVMValueRef br = LLVMBuildCondBr(j->b, cond, rare, usual);
    LLVMMetadataRef parts[3] = {
        LLVMMDStringInContext2(j->ctx, "branch_weights", 14),
        LLVMValueAsMetadata(LLVMConstInt(j->i32, 1, 0)),
        LLVMValueAsMetadata(LLVMConstInt(j->i32, 2000, 0)),
    };
    LLVMMetadataRef md = LLVMMDNodeInContext2(j->ctx, parts, 3);

    LLVMSetMetadata(br, LLVMGetMDKindIDInContext(j->ctx, "prof", 4),
                    LLVMMetadataAsValue(j->ctx, md));
}

static LLVMTypeRef
type_of(const struct jit *j, uint32_t reg)
{
    return reg < j->flow.first[SG_D] ? j->w : reg < j->flow.first[SG_P] ? j->d : j->i32;
}

/* The one NaN for every NaN, where @odd (a boolean, or NULL for yes). */
static LLVMValueRef
one_nan(struct jit *j, LLVMValueRef bits, LLVMValueRef odd)
{
    LLVMValueRef f = LLVMBuildBitCast(j->b, bits, j->f, "");
    LLVMValueRef nan = LLVMBuildFCmp(j->b, LLVMRealUNO, f, f, "");

    if (odd)
        nan = LLVMBuildAnd(j->b, nan, jit_splat(j, j->p, odd), "");
    return LLVMBuildSelect(j->b, nan, jit_splat_int(j->w, 0x7fffffff), bits, "");
}

static LLVMValueRef
get(struct jit *j, uint32_t reg, bool exact)
{
    LLVMValueRef v;

    if (j->constant[reg])
        return j->constant[reg];
    v = LLVMBuildLoad2(j->b, type_of(j, reg), j->var[reg], "");
    if (exact && j->odd[reg])
        v = one_nan(j, v, LLVMBuildLoad2(j->b, j->i1, j->odd[reg], ""));
    return v;
}

LLVMValueRef
jit_get_exact(struct jit *j, uint32_t reg)
{
    return get(j, reg, true);
}

LLVMValueRef
jit_get_w(struct jit *j, uint32_t off)
{
    return get(j, (uint32_t)jit_register(&j->flow, SG_W, off), true);
}

LLVMValueRef
jit_get_d(struct jit *j, uint32_t off)
{
    return get(j, (uint32_t)jit_register(&j->flow, SG_D, off), true);
}

LLVMValueRef
jit_get_f(struct jit *j, uint32_t off)
{
    LLVMValueRef v = get(j, (uint32_t)jit_register(&j->flow, SG_W, off), false);

    return LLVMBuildBitCast(j->b, v, j->f, "");
}

LLVMValueRef
jit_get_g(struct jit *j, uint32_t off)
{
    return LLVMBuildBitCast(j->b, jit_get_d(j, off), j->g, "");
}

LLVMValueRef
jit_get_p(struct jit *j, uint32_t off)
{
    return get(j, (uint32_t)jit_register(&j->flow, SG_P, off), true);
}

LLVMValueRef
jit_get_lanes(struct jit *j, uint32_t off)
{
    return jit_lanes(j, jit_get_p(j, off));
}

static void
set_odd(struct jit *j, uint32_t reg, bool odd)
{
    if (j->odd[reg])
        LLVMBuildStore(j->b, LLVMConstInt(j->i1, odd, 0), j->odd[reg]);
}

void
jit_set_w(struct jit *j, uint32_t off, LLVMValueRef v)
{
    const uint32_t reg = (uint32_t)jit_register(&j->flow, SG_W, off);

    v = LLVMBuildBitCast(j->b, v, j->w, "");
    if (j->guard)
        v = LLVMBuildSelect(j->b, j->guard, v, get(j, reg, true), "");
    LLVMBuildStore(j->b, v, j->var[reg]);
    set_odd(j, reg, false);
}

void
jit_set_d(struct jit *j, uint32_t off, LLVMValueRef v)
{
    const uint32_t reg = (uint32_t)jit_register(&j->flow, SG_D, off);

    v = LLVMBuildBitCast(j->b, v, j->d, "");
    if (j->guard)
        v = LLVMBuildSelect(j->b, j->guard, v, get(j, reg, true), "");
    LLVMBuildStore(j->b, v, j->var[reg]);
}

void
jit_set_p(struct jit *j, uint32_t off, LLVMValueRef v)
{
    const uint32_t reg = (uint32_t)jit_register(&j->flow, SG_P, off);

    if (LLVMTypeOf(v) != j->i32)
        v = jit_mask(j, v);
    if (j->guard) {
        LLVMValueRef g = jit_mask(j, j->guard);
        v = LLVMBuildOr(
            j->b, LLVMBuildAnd(j->b, v, g, ""),
            LLVMBuildAnd(j->b, get(j, reg, true), LLVMBuildNot(j->b, g, ""), ""), "");
    }
    LLVMBuildStore(j->b, v, j->var[reg]);
}

void
jit_set_f(struct jit *j, uint32_t off, LLVMValueRef v)
{
    const uint32_t reg = (uint32_t)jit_register(&j->flow, SG_W, off);

    v = LLVMBuildBitCast(j->b, v, j->w, "");
    if (j->guard || !j->odd[reg]) {
        jit_set_w(j, off, one_nan(j, v, NULL));
        return;
    }
    LLVMBuildStore(j->b, v, j->var[reg]);
    set_odd(j, reg, true);
}
