/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accesses of whole warps for native code: the interpreter's own functions behind one
 * that takes the operation.
 *
 * Included by exec_native_v3.c and _v4.c alone, which define SG_ISA.  Files of their
 * own, because what the compiler inlines into the interpreter's function depends on how
 * much else is in its file.
 */
#include "exec_lanes_form.h"
#include "exec_level.h"
#include "exec_warp_fn.h"
#include "sg_native.h"

#define CASE(name, fn, A, V)                                                           \
    case SG_OP_##name:                                                                 \
        return fn(cta, warp, op, (const A *)a, (V *)v, m, ops);
#define GROUP(sp, A)                                                                   \
    CASE(LD##sp##_U8, lanes_ld##sp##_u8, A, uint32_t)                                  \
    CASE(LD##sp##_S8, lanes_ld##sp##_s8, A, uint32_t)                                  \
    CASE(LD##sp##_U16, lanes_ld##sp##_u16, A, uint32_t)                                \
    CASE(LD##sp##_S16, lanes_ld##sp##_s16, A, uint32_t)                                \
    CASE(LD##sp##_32, lanes_ld##sp##_32, A, uint32_t)                                  \
    CASE(LD##sp##_64, lanes_ld##sp##_64, A, uint64_t)                                  \
    CASE(ST##sp##_8, lanes_st##sp##_8, A, uint32_t)                                    \
    CASE(ST##sp##_16, lanes_st##sp##_16, A, uint32_t)                                  \
    CASE(ST##sp##_32, lanes_st##sp##_32, A, uint32_t)                                  \
    CASE(ST##sp##_64, lanes_st##sp##_64, A, uint64_t)
#define INDEXED(name, fn, V)                                                           \
    case SG_OP_##name:                                                                 \
        return fn(cta, warp, op, (const uint32_t *)a, (const uint64_t *)b, (V *)v, m,  \
                  ops);
#define FRAME_LD(name, type, out)                                                      \
    case SG_OP_##name: {                                                               \
        const uint8_t *src = local + op->imm;                                          \
        for (int i = 0; m == UINT32_MAX && i < SG_LANES; i++, src += stride)           \
            ((out *)v)[i] = (out) * (const type *)(const void *)src;                   \
        SG_FOR_LANES(i, m == UINT32_MAX ? 0 : m)                                       \
        ((out *)v)[i] = (out) * (const type *)(const void *)(src + i * stride);        \
        return true;                                                                   \
    }
#define FRAME_ST(name, type, in)                                                       \
    case SG_OP_##name: {                                                               \
        uint8_t *dst = local + op->imm;                                                \
        for (int i = 0; m == UINT32_MAX && i < SG_LANES; i++, dst += stride)           \
            *(type *)(void *)dst = (type)((const in *)v)[i];                           \
        SG_FOR_LANES(i, m == UINT32_MAX ? 0 : m)                                       \
        *(type *)(void *)(dst + i * stride) = (type)((const in *)v)[i];                \
        return true;                                                                   \
    }

bool
CAT(sg_native_mem_, SG_ISA)(struct sg_cta *cta, struct sg_warp *warp,
                            const struct sg_insn *op, uint32_t code, const void *a,
                            const void *b, void *v, uint32_t m)
{
    const struct sg_insn *const ops = cta->unit->ops;
    const uint64_t stride = cta->local_stride;
    uint8_t *const local =
        cta->local + (uint64_t)warp->index * SG_LANES * stride + warp->frags[0].local;

    switch (code) {
        GROUP(G, uint64_t)
        GROUP(A, uint64_t)
        GROUP(S, uint32_t)
        GROUP(T, uint64_t)
        GROUP(L, uint64_t)
        CASE(LDSX_32, lanes_ldS_32, uint32_t, uint32_t)
        CASE(LDTX_32, lanes_ldT_32, uint64_t, uint32_t)
        INDEXED(LDGI_32, lanes_ldGI_32, uint32_t)
        INDEXED(LDGI_64, lanes_ldGI_64, uint64_t)
        INDEXED(STGI_32, lanes_stGI_32, const uint32_t)
        INDEXED(STGI_64, lanes_stGI_64, const uint64_t)
        FRAME_LD(LDF_U8, uint8_t, uint32_t)
        FRAME_LD(LDF_S8, int8_t, int32_t)
        FRAME_LD(LDF_U16, uint16_t, uint32_t)
        FRAME_LD(LDF_S16, int16_t, int32_t)
        FRAME_LD(LDF_32, uint32_t, uint32_t)
        FRAME_LD(LDF_64, uint64_t, uint64_t)
        FRAME_ST(STF_8, uint8_t, uint32_t)
        FRAME_ST(STF_16, uint16_t, uint32_t)
        FRAME_ST(STF_32, uint32_t, uint32_t)
        FRAME_ST(STF_64, uint64_t, uint64_t)
    default:
        return false;
    }
}

void
CAT(sg_native_scalar_, SG_ISA)(const struct sg_insn *op, void *d, const void *a,
                               const void *b, const void *c, uint32_t m)
{
    sg_warp_fn *const whole = CAT(sg_warp_fns_, SG_ISA)[op->imm];

    if (whole)
        whole(d, a, b, c, m);
    else
        sg_native_scalar(op, d, a, b, c, m);
}
