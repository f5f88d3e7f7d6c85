/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter loop: one dispatch executes one operation for the lanes of a
 * fragment.
 *
 * Included by exec_interp_v2.c, _v3.c and _v4.c alone, which are compiled for those
 * levels of x86-64 (elsewhere v2 is the only one) and define SG_ISA;
 * sg_interp_choose() picks one.  It holds what is hot: arithmetic, branches,
 * loads and stores.  Everything that may block, split a fragment or call the outside is
 * in other files and compiled once.
 *
 * The running fragment is warp->frags[0]; mask, register bases and the operation
 * pointer live in locals and are written back (SAVE) before anyone else looks.
 */
#include "exec_lane.h"
#include "sg_native.h"

#include "exec_lanes_form.h"
#include "exec_level.h"
#include "exec_warp_fn.h"

#define BASE_uint32_t wb
#define BASE_uint64_t db
#define BASE_u32 wb
#define BASE_s32 wb
#define BASE_f32 wb
#define BASE_u64 db
#define BASE_s64 db
#define BASE_f64 db

#define REG(type, off) ((type *)__builtin_assume_aligned(BASE_##type + (off), 64))
#define PRED(off) (*(uint32_t *)(void *)(pb + (off)))
#define BIT(i) ((m >> (i)) & 1)

#define NEXT                                                                           \
    do {                                                                               \
        m = mask;                                                                      \
        op++;                                                                          \
        goto *labels[op->code];                                                        \
    } while (0)

#define SAVE() (warp->frags[0].pc = (uint32_t)(op - ops))
#define JUMP(to)                                                                       \
    do {                                                                               \
        executed += (uint64_t)(op - start) + 1;                                        \
        op = ops + (to);                                                               \
        start = op;                                                                    \
        m = mask;                                                                      \
        goto *labels[op->code];                                                        \
    } while (0)

/* An operation that lives elsewhere. */
#define OUT(name, call)                                                                \
    L_##name : SAVE();                                                                 \
    stop = call;                                                                       \
    if (likely(stop == SG_STOP_NONE))                                                  \
        NEXT;                                                                          \
    goto stopped;
#define OUT_OP(name, fn) OUT(name, fn(cta, warp, op, m))

#define LOAD(name, type, out, fn, areg)                                                \
    L_##name : if (unlikely(!fn(cta, warp, op, areg, (type *)(void *)REG(out, op->d),  \
                                m, ops))) goto fault;                                  \
    NEXT;
#define STORE(name, type, in, fn, areg)                                                \
    L_##name : if (unlikely(!fn(cta, warp, op, areg,                                   \
                                (const type *)(const void *)REG(in, op->b), m,         \
                                ops))) goto fault;                                     \
    NEXT;

#define LOAD_INDEXED(name, type, fn)                                                   \
    L_##name : if (unlikely(!fn(cta, warp, op, REG(u32, op->a), REG(u64, op->b),       \
                                REG(type, op->d), m, ops))) goto fault;                \
    NEXT;
#define STORE_INDEXED(name, type, fn)                                                  \
    L_##name : if (unlikely(!fn(cta, warp, op, REG(u32, op->a), REG(u64, op->b),       \
                                REG(type, op->c), m, ops))) goto fault;                \
    NEXT;

#define RUN_FITS(AT, op)                                                               \
    (shape_fits_##AT(cta, &warp->shapes[(op)[0].n], (op)) &&                           \
     shape_fits_##AT(cta, &warp->shapes[(op)[1].n], (op) + 1))

/* Shared memory at addresses of which a SHAPE knows how they lie; what does not fit it
 * is done by the operation that asks. */
#define SHAPED(sp, AT)                                                                 \
    L_LD##sp##X2_FMA : if (likely(m == UINT32_MAX && RUN_FITS(AT, op)))                \
    {                                                                                  \
        sum_part sum[SUM_PARTS];                                                       \
        uint32_t carried;                                                              \
        sum_load(sum, REG(f32, op[2].c));                                              \
        do {                                                                           \
            for (int k = 0; k < 2; k++, op++)                                          \
                shape_load_##AT(cta, &warp->shapes[op->n], op, REG(AT, op->a),         \
                                REG(u32, op->d));                                      \
            carried = op->d;                                                           \
            sum_step(sum, REG(f32, op->d), REG(f32, op->a), REG(f32, op->b));          \
            op++;                                                                      \
        } while (op->code == SG_OP_LD##sp##X2_FMA && op[2].c == carried &&             \
                 op[0].d != carried && op[1].d != carried && RUN_FITS(AT, op));        \
        m = mask;                                                                      \
        goto *labels[op->code];                                                        \
    }                                                                                  \
    L_LD##sp##X_32:                                                                    \
    {                                                                                  \
        const struct sg_shape *s = &warp->shapes[op->n];                               \
        if (likely(m == UINT32_MAX && shape_fits_##AT(cta, s, op)))                    \
            shape_load_##AT(cta, s, op, REG(AT, op->a), REG(u32, op->d));              \
        else if (unlikely(!lanes_ld##sp##_32(cta, warp, op, REG(AT, op->a),            \
                                             REG(u32, op->d), m, ops)))                \
            goto fault;                                                                \
    }                                                                                  \
    NEXT;

#define PARAM(name, type, out)                                                         \
    L_##name:                                                                          \
    {                                                                                  \
        const char *src = (const char *)cta->launch->params + op->imm;                 \
        type v;                                                                        \
        memcpy(&v, src, sizeof(v));                                                    \
        const out val = (out)v;                                                        \
        out *d = REG(out, op->d);                                                      \
        if (likely(m == full)) {                                                       \
            IVDEP for (int i = 0; i < SG_LANES; i++) d[i] = val;                       \
        } else {                                                                       \
            IVDEP for (int i = 0; i < SG_LANES; i++) d[i] = BIT(i) ? val : d[i];       \
        }                                                                              \
    }                                                                                  \
    NEXT;

/* Local memory at a fixed offset of the frame: in bounds by construction of the unit,
 * whose local sizes are checked when a frame is entered. */
#define FRAME_LD(name, type, out)                                                      \
    L_##name:                                                                          \
    {                                                                                  \
        const uint8_t *src = cta->local + (uint64_t)warp->index * SG_LANES * stride +  \
                             warp->frags[0].local + op->imm;                           \
        out *d = REG(out, op->d);                                                      \
        if (likely(m == full)) {                                                       \
            for (int i = 0; i < SG_LANES; i++, src += stride)                          \
                d[i] = (out) * (const type *)(const void *)src;                        \
        } else {                                                                       \
            SG_FOR_LANES(i, m)                                                         \
            d[i] = (out) * (const type *)(const void *)(src + (uint64_t)i * stride);   \
        }                                                                              \
    }                                                                                  \
    NEXT;
#define FRAME_ST(name, type, in)                                                       \
    L_##name:                                                                          \
    {                                                                                  \
        uint8_t *dst = cta->local + (uint64_t)warp->index * SG_LANES * stride +        \
                       warp->frags[0].local + op->imm;                                 \
        const in *v = REG(in, op->b);                                                  \
        if (likely(m == full)) {                                                       \
            for (int i = 0; i < SG_LANES; i++, dst += stride)                          \
                *(type *)(void *)dst = (type)v[i];                                     \
        } else {                                                                       \
            SG_FOR_LANES(i, m)                                                         \
            *(type *)(void *)(dst + (uint64_t)i * stride) = (type)v[i];                \
        }                                                                              \
    }                                                                                  \
    NEXT;

#define LANE_LOOP(td, load, expr)                                                      \
    td *d = REG(td, op->d);                                                            \
    if (likely(m == full)) {                                                           \
        IVDEP for (int i = 0; i < SG_LANES; i++)                                       \
        {                                                                              \
            load;                                                                      \
            d[i] = (td)(expr);                                                         \
        }                                                                              \
    } else {                                                                           \
        IVDEP for (int i = 0; i < SG_LANES; i++)                                       \
        {                                                                              \
            load;                                                                      \
            const td v = (td)(expr);                                                   \
            d[i] = BIT(i) ? v : d[i];                                                  \
        }                                                                              \
    }
#define WARP_LOOP1(td, ta, expr) LANE_LOOP(td, const ta a = ra[i], expr)
#define WARP_LOOP2(td, ta, tb, expr)                                                   \
    LANE_LOOP(td, const ta a = ra[i]; const tb b = rb[i], expr)
#define WARP_LOOP3(td, ta, tb, tc, expr)                                               \
    LANE_LOOP(td, const ta a = ra[i]; const tb b = rb[i]; const tc c = rc[i], expr)

/* A function of words, which most are. */
static void
run_fn_w(const struct sg_insn *op, const char *wb, uint32_t m)
{
    static const uint32_t none[SG_LANES];
    const uint32_t off[3] = {op->a, op->b, op->c};
    uint32_t *d = (uint32_t *)(void *)(uintptr_t)(wb + op->d);
    sg_fn *fn = sg_fns[op->imm].fn;
    const uint32_t *in[3];

    for (int k = 0; k < 3; k++)
        in[k] = off[k] == SG_OFF_NONE ? none : (const void *)(wb + off[k]);
    SG_FOR_LANES(i, m)
    d[i] = (uint32_t)fn(in[0][i], in[1][i], in[2][i]);
}

static void
run_fn(const struct sg_insn *op, const char *wb, const char *db, char *pb, uint32_t m)
{
    const unsigned cls[4] = {op->x & 3, op->x >> 2 & 3, op->x >> 4 & 3, op->x >> 6 & 3};
    const uint32_t off[4] = {op->d, op->a, op->b, op->c};
    sg_fn *fn = sg_fns[op->imm].fn;

    SG_FOR_LANES(i, m)
    {
        uint64_t in[4] = {0}, r;
        for (int k = 1; k < 4; k++) {
            if (off[k] == SG_OFF_NONE)
                continue;
            if (cls[k] == SG_W)
                in[k] = ((const uint32_t *)(const void *)(wb + off[k]))[i];
            else if (cls[k] == SG_D)
                in[k] = ((const uint64_t *)(const void *)(db + off[k]))[i];
            else
                in[k] = *(const uint32_t *)(const void *)(pb + off[k]) >> i & 1;
        }
        r = fn(in[1], in[2], in[3]);
        if (cls[0] == SG_W) {
            ((uint32_t *)(void *)(uintptr_t)(wb + off[0]))[i] = (uint32_t)r;
        } else if (cls[0] == SG_D) {
            ((uint64_t *)(void *)(uintptr_t)(db + off[0]))[i] = r;
        } else {
            uint32_t *p = (uint32_t *)(void *)(pb + off[0]);
            *p = (*p & ~(1u << i)) | (uint32_t)(r & 1) << i;
        }
    }
}

/* The same for the functions of exec_warp_fn.h. */
static void
run_warp_fn(sg_warp_fn *fn, const struct sg_insn *op, char *wb, char *db, uint32_t m)
{
    char *const base[] = {[SG_W] = wb, [SG_D] = db};
    const uint32_t off[3] = {op->a, op->b, op->c};
    const void *in[3];

    for (int k = 0; k < 3; k++)
        in[k] = off[k] == SG_OFF_NONE ? NULL : base[op->x >> (2 * k + 2) & 1] + off[k];
    fn(base[op->x & 1] + op->d, in[0], in[1], in[2], m);
}

enum sg_stop
CAT(sg_interp_, SG_ISA)(struct sg_cta *cta, struct sg_warp *warp)
{
    static const void *const labels[] = {
#define OP(name, sig) &&L_##name,
#include "sg_insns.def"
#undef OP
    };
    const struct sg_insn *const ops = cta->unit->ops;
    const uint64_t stride = cta->local_stride;
    const struct sg_insn *op, *limit, *start;
    uint32_t mask, m, full, turns = SG_WARP_QUANTUM;
    uint64_t executed = 0;
    enum sg_stop stop;
    char *wb, *db, *pb;

pick:
    if (!sg_warp_pick(cta, warp)) {
        cta->executed += executed;
        return warp->live ? SG_STOP_BLOCKED : SG_STOP_DONE;
    }
reload:
    mask = m = warp->frags[0].mask;
    full = warp->live;
    wb = warp->area[SG_W] + warp->frags[0].base[SG_W];
    db = warp->area[SG_D] + warp->frags[0].base[SG_D];
    pb = warp->area[SG_P] + warp->frags[0].base[SG_P];
    limit = ops + sg_warp_limit(warp);
    op = start = ops + warp->frags[0].pc;
    /* the pick has merged whoever waited here */
    if (op->code == SG_OP_JOIN ||
        (op->code == SG_OP_NATIVE && op >= limit &&
         cta->unit->native->entries[op - ops].code == SG_OP_JOIN))
        op++;
    goto *labels[op->code];

stopped:
    executed += (uint64_t)(op - start) + 1;
    if (stop == SG_STOP_PICK)
        goto pick;
    cta->executed += executed;
    return stop;

fault:
    cta->executed += executed;
    return SG_STOP_FAULT;

poll:
    /* A back edge was taken and the fragment's budget is used up; op = its target. */
    SAVE();
    executed += (uint64_t)(op - start);
    cta->executed += executed;
    executed = 0;
    stop = sg_warp_poll(cta, warp, &turns);
    if (stop == SG_STOP_NONE)
        goto reload;
    if (stop == SG_STOP_PICK)
        goto pick;
    return stop;

L_JOIN:
    if (unlikely(op >= limit)) {
        SAVE();
        executed += (uint64_t)(op - start);
        goto pick;
    }
    NEXT;

L_NATIVE : {
    const struct sg_native_entry *entries = cta->unit->native->entries;
    struct sg_native_run run = {.cta = cta,
                                .warp = warp,
                                .wb = wb,
                                .db = db,
                                .pb = pb,
                                .mask = mask,
                                .limit = (uint32_t)(limit - ops),
                                .pc = (uint32_t)(op - ops)};
    executed += (uint64_t)(op - start);
    const uint32_t end = entries[run.pc].fn(&run);
    executed += run.executed;
    op = start = ops + run.pc;
    m = mask;
    if (likely(end == SG_NATIVE_STEP))
        goto *labels[entries[run.pc].fn ? entries[run.pc].code : op->code];
    if (end == SG_NATIVE_GO)
        goto *labels[op->code];
    if (end == SG_NATIVE_POLL)
        goto poll;
    SAVE();
    if (end == SG_NATIVE_PICK)
        goto pick;
    goto fault;
}

L_GUARD : {
    uint32_t p = PRED(op->a);
    m = mask & (op->n ? ~p : p);
    op += m ? 1 : 2;
    if (!m)
        m = mask;
    goto *labels[op->code];
}

L_BRA : {
    const struct sg_insn *to = ops + op->x;
    if (to <= op) {
        executed += (uint64_t)(op - start) + 1;
        op = start = to;
        if (unlikely(--warp->edges == 0))
            goto poll;
        m = mask;
        goto *labels[op->code];
    }
    JUMP(op->x);
}

L_BRC : {
    uint32_t p = PRED(op->a);
    uint32_t taken = mask & (op->n ? ~p : p);
    if (taken == 0)
        NEXT;
    const struct sg_insn *to = ops + op->x;
    if (unlikely(taken != mask)) {
        SAVE();
        if (to > op) {
            sg_warp_split(cta, warp, taken, op->x);
            op++;
            executed += (uint64_t)(op - start);
        } else {
            sg_warp_split(cta, warp, mask & ~taken, warp->frags[0].pc + 1);
            executed += (uint64_t)(op - start) + 1;
            op = to;
        }
        mask = m = warp->frags[0].mask;
        limit = warp->frags[0].fair ? limit : ops + sg_warp_limit(warp);
        start = op;
        if (to <= op && unlikely(--warp->edges == 0))
            goto poll;
        goto *labels[op->code];
    }
    if (to <= op) {
        executed += (uint64_t)(op - start) + 1;
        op = start = to;
        if (unlikely(--warp->edges == 0))
            goto poll;
        m = mask;
        goto *labels[op->code];
    }
    JUMP(op->x);
}

    OUT_OP(BRX, sg_op_brx)
    OUT(CALL, sg_op_call(cta, warp, op->x, m))
    OUT_OP(CALLI, sg_op_calli)
    OUT(RET, sg_op_ret(cta, warp, m))
    OUT(EXIT, sg_op_exit(cta, warp, m))
    OUT_OP(TRAP, sg_op_trap)
    OUT_OP(NO_SUCH, sg_op_no_such)
    OUT_OP(BAR, sg_op_bar)
    OUT_OP(BAR_RED_POPC, sg_op_bar)
    OUT_OP(BAR_WARP, CAT(sg_bar_warp_, SG_ISA))
    OUT_OP(CLUSTER_ARRIVE, sg_op_cluster_arrive)
    OUT_OP(CLUSTER_WAIT, sg_op_cluster_wait)
    OUT(YIELD, sg_op_yield(cta, warp))

L_POLL:
    warp->polled = true;
    NEXT;

L_FENCE:
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    NEXT;

    OUT_OP(SHAPE_W, sg_op_shape)
    OUT_OP(SHAPE_D, sg_op_shape)
L_READY:
    warp->consts_of = cta->fill_serial;
    NEXT;

L_PAND : {
    uint32_t r = PRED(op->a) & PRED(op->b);
    PRED(op->d) = (PRED(op->d) & ~m) | (r & m);
    NEXT;
}
L_POR : {
    uint32_t r = PRED(op->a) | PRED(op->b);
    PRED(op->d) = (PRED(op->d) & ~m) | (r & m);
    NEXT;
}
L_PXOR : {
    uint32_t r = PRED(op->a) ^ PRED(op->b);
    PRED(op->d) = (PRED(op->d) & ~m) | (r & m);
    NEXT;
}
L_PNOT:
    PRED(op->d) = (PRED(op->d) & ~m) | (~PRED(op->a) & m);
    NEXT;
L_MOV_P:
    PRED(op->d) = (PRED(op->d) & ~m) | (PRED(op->a) & m);
    NEXT;
L_PSET:
    PRED(op->d) = (PRED(op->d) & ~m) | (op->n ? m : 0);
    NEXT;

L_FN : {
    sg_warp_fn *const fn = CAT(sg_warp_fns_, SG_ISA)[op->imm];

    if (fn)
        run_warp_fn(fn, op, wb, db, m == full ? UINT32_MAX : m);
    else if (op->x == 0)
        run_fn_w(op, wb, m);
    else
        run_fn(op, wb, db, pb, m);
    NEXT;
}

    /* %tid, and what is the same for every thread of the block */
L_SREG_W : {
    if (likely(op->n <= SG_SREG_TID_Z)) {
        const u32 *ra = (const u32 *)__builtin_assume_aligned(warp->tid[op->n], 64);
        WARP_LOOP1(u32, u32, a)
        NEXT;
    }
    if (likely(op->n <= SG_SREG_NCTAID_Z)) {
        const u32 val = cta->dims[op->n - SG_SREG_NTID_X];
        LANE_LOOP(u32, (void)0, val)
        NEXT;
    }
    SAVE();
    stop = sg_op_sreg(cta, warp, op, m);
    if (likely(stop == SG_STOP_NONE))
        NEXT;
    goto stopped;
}
    OUT_OP(SREG_D, sg_op_sreg)
    OUT_OP(FRAME_W, sg_op_frame)
    OUT_OP(FRAME_D, sg_op_frame)

    PARAM(LDP_U8, uint8_t, u32)
    PARAM(LDP_S8, int8_t, s32)
    PARAM(LDP_U16, uint16_t, u32)
    PARAM(LDP_S16, int16_t, s32)
    PARAM(LDP_32, uint32_t, u32)
    PARAM(LDP_64, uint64_t, u64)

#define MEM_GROUP(sp, areg)                                                            \
    LOAD(LD##sp##_U8, u32, u32, lanes_ld##sp##_u8, areg)                               \
    LOAD(LD##sp##_S8, u32, u32, lanes_ld##sp##_s8, areg)                               \
    LOAD(LD##sp##_U16, u32, u32, lanes_ld##sp##_u16, areg)                             \
    LOAD(LD##sp##_S16, u32, u32, lanes_ld##sp##_s16, areg)                             \
    LOAD(LD##sp##_32, u32, u32, lanes_ld##sp##_32, areg)                               \
    LOAD(LD##sp##_64, u64, u64, lanes_ld##sp##_64, areg)                               \
    STORE(ST##sp##_8, u32, u32, lanes_st##sp##_8, areg)                                \
    STORE(ST##sp##_16, u32, u32, lanes_st##sp##_16, areg)                              \
    STORE(ST##sp##_32, u32, u32, lanes_st##sp##_32, areg)                              \
    STORE(ST##sp##_64, u64, u64, lanes_st##sp##_64, areg)
    MEM_GROUP(G, REG(u64, op->a))
    MEM_GROUP(S, REG(u32, op->a))
    MEM_GROUP(T, REG(u64, op->a))
    MEM_GROUP(L, REG(u64, op->a))
    MEM_GROUP(A, REG(u64, op->a))

#define VECTOR_GROUP(sp)                                                               \
    OUT_OP(LD##sp##_2X32, CAT(sg_vector_, SG_ISA))                                     \
    OUT_OP(LD##sp##_4X32, CAT(sg_vector_, SG_ISA))                                     \
    OUT_OP(LD##sp##_2X64, CAT(sg_vector_, SG_ISA))                                     \
    OUT_OP(ST##sp##_2X32, CAT(sg_vector_, SG_ISA))                                     \
    OUT_OP(ST##sp##_4X32, CAT(sg_vector_, SG_ISA))                                     \
    OUT_OP(ST##sp##_2X64, CAT(sg_vector_, SG_ISA))
    VECTOR_GROUP(G)
    VECTOR_GROUP(A)
    VECTOR_GROUP(S)
    VECTOR_GROUP(T)

    SHAPED(S, uint32_t)
    SHAPED(T, uint64_t)

    LOAD_INDEXED(LDGI_32, u32, lanes_ldGI_32)
    LOAD_INDEXED(LDGI_64, u64, lanes_ldGI_64)
    STORE_INDEXED(STGI_32, u32, lanes_stGI_32)
    STORE_INDEXED(STGI_64, u64, lanes_stGI_64)

    FRAME_LD(LDF_U8, uint8_t, u32)
    FRAME_LD(LDF_S8, int8_t, s32)
    FRAME_LD(LDF_U16, uint16_t, u32)
    FRAME_LD(LDF_S16, int16_t, s32)
    FRAME_LD(LDF_32, uint32_t, u32)
    FRAME_LD(LDF_64, uint64_t, u64)
    FRAME_ST(STF_8, uint8_t, u32)
    FRAME_ST(STF_16, uint16_t, u32)
    FRAME_ST(STF_32, uint32_t, u32)
    FRAME_ST(STF_64, uint64_t, u64)

    OUT_OP(ATOM_W, sg_op_atom)
    OUT_OP(ATOM_D, sg_op_atom)
    OUT_OP(ATOM_H, sg_op_atom)
    OUT_OP(ATOM_Q, sg_op_atom_q)
    OUT_OP(ISSPACE, sg_op_isspace)
    OUT_OP(CHECK, sg_op_check)
    OUT_OP(MMA, CAT(sg_mma_, SG_ISA))
    OUT_OP(MMA_QUADS, sg_op_mma_quads)
    OUT_OP(WGMMA, CAT(sg_wgmma_, SG_ISA))
    OUT_OP(WMMA_LD, sg_op_wmma_ld)
    OUT_OP(WMMA_ST, sg_op_wmma_st)
    OUT_OP(LDMATRIX, sg_op_ldmatrix)
    OUT_OP(STMATRIX, sg_op_stmatrix)
    OUT_OP(MOVMATRIX, sg_op_movmatrix)
    OUT_OP(CPASYNC, sg_op_cpasync)
    OUT_OP(BULK, sg_op_bulk)
    OUT_OP(BULK_TENSOR, sg_op_bulk_tensor)
    OUT_OP(TMAP_REPLACE, sg_op_tmap_replace)
    OUT_OP(MBAR, sg_op_mbar)
    OUT_OP(TEX, sg_op_tex)
    OUT_OP(TXQ, sg_op_txq)
    OUT_OP(SULD, sg_op_surf)
    OUT_OP(SUST, sg_op_surf)
    OUT_OP(SURED, sg_op_sured)
    OUT_OP(SHFL, CAT(sg_shfl_, SG_ISA))
    OUT_OP(VOTE, CAT(sg_vote_, SG_ISA))
    OUT_OP(BALLOT, CAT(sg_vote_, SG_ISA))
    OUT_OP(MATCH_W, CAT(sg_match_, SG_ISA))
    OUT_OP(MATCH_D, CAT(sg_match_, SG_ISA))
    OUT_OP(REDUX, CAT(sg_redux_, SG_ISA))
    OUT_OP(ELECT, CAT(sg_elect_, SG_ISA))
    OUT_OP(STACK, sg_op_stack)
    OUT_OP(VPRINTF, sg_op_vprintf)
    OUT_OP(MALLOC, sg_op_malloc)
    OUT_OP(FREE, sg_op_free)
    OUT_OP(SETCOND, sg_op_setcond)
    OUT_OP(LAUNCH, sg_op_launch)
    OUT_OP(ASSERTFAIL, sg_op_assertfail)

L_ACTIVEMASK : {
    u32 *d = REG(u32, op->d);
    SG_FOR_LANES(i, m)
    d[i] = m;
    NEXT;
}

L_LOP3 : {
    const u32 *ra = REG(u32, op->a), *rb = REG(u32, op->b), *rc = REG(u32, op->c);
    u32 t[8];
    for (int k = 0; k < 8; k++)
        t[k] = 0u - (op->n >> k & 1u);
    WARP_LOOP3(
        u32, u32, u32, u32,
        (a & ((b & ((c & t[7]) | (~c & t[6]))) | (~b & ((c & t[5]) | (~c & t[4]))))) |
            (~a &
             ((b & ((c & t[3]) | (~c & t[2]))) | (~b & ((c & t[1]) | (~c & t[0]))))))
    NEXT;
}
L_MOV_W : {
    const u32 *ra = REG(u32, op->a);
    WARP_LOOP1(u32, u32, a)
    NEXT;
}
L_MOV_D : {
    const u64 *ra = REG(u64, op->a);
    WARP_LOOP1(u64, u64, a)
    NEXT;
}

#define OP(name, sig)
#define V1(name, td, ta, expr)                                                         \
    L_##name:                                                                          \
    {                                                                                  \
        const ta *ra = REG(ta, op->a);                                                 \
        WARP_LOOP1(td, ta, expr)                                                       \
    }                                                                                  \
    NEXT;
#define V2(name, td, ta, tb, expr)                                                     \
    L_##name:                                                                          \
    {                                                                                  \
        const ta *ra = REG(ta, op->a);                                                 \
        const tb *rb = REG(tb, op->b);                                                 \
        WARP_LOOP2(td, ta, tb, expr)                                                   \
    }                                                                                  \
    NEXT;
#define V3(name, td, ta, tb, tc, expr)                                                 \
    L_##name:                                                                          \
    {                                                                                  \
        const ta *ra = REG(ta, op->a);                                                 \
        const tb *rb = REG(tb, op->b);                                                 \
        const tc *rc = REG(tc, op->c);                                                 \
        WARP_LOOP3(td, ta, tb, tc, expr)                                               \
    }                                                                                  \
    NEXT;
#define CMP(name, ta, expr)                                                            \
    L_##name:                                                                          \
    {                                                                                  \
        const ta *ra = REG(ta, op->a);                                                 \
        const ta *rb = REG(ta, op->b);                                                 \
        int32_t t[SG_LANES] __attribute__((aligned(64)));                              \
        IVDEP for (int i = 0; i < SG_LANES; i++)                                       \
        {                                                                              \
            const ta a = ra[i], b = rb[i];                                             \
            (void)a, (void)b;                                                          \
            t[i] = -(int32_t)(expr);                                                   \
        }                                                                              \
        uint32_t r = lanes_signs(t);                                                   \
        PRED(op->d) = (PRED(op->d) & ~m) | (r & m);                                    \
    }                                                                                  \
    NEXT;
#define SEL(name, td)                                                                  \
    L_##name:                                                                          \
    {                                                                                  \
        const td *ra = REG(td, op->a);                                                 \
        const td *rb = REG(td, op->b);                                                 \
        const uint32_t sel = PRED(op->c);                                              \
        WARP_LOOP2(td, td, td, ((sel >> i) & 1) ? a : b)                               \
    }                                                                                  \
    NEXT;
#include "exec_alu.def"
}
