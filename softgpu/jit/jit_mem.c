/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads and stores, and scalar operations that are called lane by lane.
 *
 * In line is what a whole warp does to consecutive elements of one live range, or to
 * one element, under the same checks as in exec_lanes_mem.h; everything else, faults
 * included, is the interpreter's own function.  Memory of the device is read and
 * written as volatile: others see it.
 */
#include "jit.h"

#define B j->b

typedef LLVMValueRef val;

enum where { GLOBAL, SHARED32, SHARED64, OTHER };

struct access {
    enum where where;
    bool store, is_signed, wide, indexed, shaped;
    unsigned size; /* bytes of an element; 0: nothing in line */
};

#define CASES(sp, to)                                                                  \
    case SG_OP_LD##sp##_U8:                                                            \
        return (struct access){.where = to, .size = 1};                                \
    case SG_OP_LD##sp##_S8:                                                            \
        return (struct access){.where = to, .size = 1, .is_signed = true};             \
    case SG_OP_LD##sp##_U16:                                                           \
        return (struct access){.where = to, .size = 2};                                \
    case SG_OP_LD##sp##_S16:                                                           \
        return (struct access){.where = to, .size = 2, .is_signed = true};             \
    case SG_OP_LD##sp##_32:                                                            \
        return (struct access){.where = to, .size = 4};                                \
    case SG_OP_LD##sp##_64:                                                            \
        return (struct access){.where = to, .size = 8, .wide = true};                  \
    case SG_OP_ST##sp##_8:                                                             \
        return (struct access){.where = to, .size = 1, .store = true};                 \
    case SG_OP_ST##sp##_16:                                                            \
        return (struct access){.where = to, .size = 2, .store = true};                 \
    case SG_OP_ST##sp##_32:                                                            \
        return (struct access){.where = to, .size = 4, .store = true};                 \
    case SG_OP_ST##sp##_64:                                                            \
        return (struct access){.where = to, .size = 8, .store = true, .wide = true};

static struct access
access_of(unsigned code)
{
    switch (code) {
        CASES(G, GLOBAL)
        CASES(A, GLOBAL)
        CASES(S, SHARED32)
        CASES(T, SHARED64)
        CASES(L, OTHER)
    case SG_OP_LDGI_32:
        return (struct access){.where = GLOBAL, .size = 4, .indexed = true};
    case SG_OP_LDGI_64:
        return (struct access){
            .where = GLOBAL, .size = 8, .indexed = true, .wide = true};
    case SG_OP_STGI_32:
        return (struct access){
            .where = GLOBAL, .size = 4, .indexed = true, .store = true};
    case SG_OP_STGI_64:
        return (struct access){
            .where = GLOBAL, .size = 8, .indexed = true, .store = true, .wide = true};
    case SG_OP_LDSX_32:
    case SG_OP_LDSX2_FMA:
        return (struct access){.where = SHARED32, .size = 4, .shaped = true};
    case SG_OP_LDTX_32:
    case SG_OP_LDTX2_FMA:
        return (struct access){.where = SHARED64, .size = 4, .shaped = true};
    case SG_OP_LDF_64:
        return (struct access){.where = OTHER, .wide = true};
    case SG_OP_STF_8:
    case SG_OP_STF_16:
    case SG_OP_STF_32:
        return (struct access){.where = OTHER, .store = true};
    case SG_OP_STF_64:
        return (struct access){.where = OTHER, .store = true, .wide = true};
    default: /* LDF */
        return (struct access){.where = OTHER};
    }
}

static val
num(struct jit *j, uint64_t v)
{
    return LLVMConstInt(j->i64, v, 0);
}

static val
icmp(struct jit *j, LLVMIntPredicate how, val a, val b)
{
    return LLVMBuildICmp(B, how, a, b, "");
}

static val
both(struct jit *j, val a, val b)
{
    return LLVMBuildAnd(B, a, b, "");
}

static val
first_lane(struct jit *j, val v)
{
    return LLVMBuildExtractElement(B, v, LLVMConstInt(j->i32, 0, 0), "");
}

/* Each lane's value is lane 0's plus its number times @step. */
static val
in_steps(struct jit *j, val v, unsigned step)
{
    LLVMTypeRef t = LLVMTypeOf(v), of = LLVMGetElementType(t);
    val from[JIT_LANES], want = jit_splat(j, t, first_lane(j, v));

    for (unsigned i = 0; i < JIT_LANES; i++)
        from[i] = LLVMConstInt(of, (uint64_t)i * step, 0);
    want = LLVMBuildAdd(B, want, LLVMConstVector(from, JIT_LANES), "");
    return icmp(j, LLVMIntEQ, jit_mask(j, icmp(j, LLVMIntNE, v, want)),
                LLVMConstInt(j->i32, 0, 0));
}

static val
is_aligned(struct jit *j, const struct sg_insn *op, val at)
{
    return icmp(j, LLVMIntEQ, both(j, at, num(j, op->x)), num(j, 0));
}

/* @at, of @bytes, is in [lo, lo + len). */
static val
is_within(struct jit *j, val at, val lo, val len, uint64_t bytes)
{
    val off = LLVMBuildSub(B, at, lo, ""),
        room = LLVMBuildSub(B, len, num(j, bytes), "");

    return both(j, icmp(j, LLVMIntUGE, len, num(j, bytes)),
                icmp(j, LLVMIntULE, off, room));
}

/* A load whose result does not change while native code runs. */
static val
fixed(struct jit *j, LLVMTypeRef type, val base, size_t at)
{
    val v = jit_field(j, type, base, at);

    LLVMSetMetadata(v, LLVMGetMDKindIDInContext(j->ctx, "invariant.load", 14),
                    LLVMMetadataAsValue(j->ctx, LLVMMDNodeInContext2(j->ctx, NULL, 0)));
    return v;
}

/* ---------------------------------------------------------------------- bytes */

static LLVMTypeRef
element(const struct jit *j, unsigned size)
{
    return size == 1 ? j->i8 : size == 2 ? j->i16 : size == 4 ? j->i32 : j->i64;
}

static val
volatile_load(struct jit *j, LLVMTypeRef type, val p)
{
    val v;

    p = LLVMBuildBitCast(B, p, LLVMPointerType(type, 0), "");
    v = LLVMBuildLoad2(B, type, p, "");
    LLVMSetVolatile(v, 1);
    LLVMSetAlignment(v, 1);
    return v;
}

/* What was loaded, as wide as a register's lane. */
static val
widened(struct jit *j, const struct access *a, val v)
{
    if (a->size >= 4)
        return v;
    return a->is_signed ? LLVMBuildSExt(B, v, j->w, "") : LLVMBuildZExt(B, v, j->w, "");
}

static void
set_result(struct jit *j, const struct sg_insn *op, const struct access *a, val v)
{
    if (a->wide)
        jit_set_d(j, op->d, v);
    else
        jit_set_w(j, op->d, v);
}

static uint32_t
stored_register(const struct sg_insn *op, const struct access *a)
{
    return a->indexed ? op->c : op->b;
}

static val
stored_value(struct jit *j, const struct sg_insn *op, const struct access *a)
{
    const uint32_t off = stored_register(op, a);

    return a->wide ? jit_get_d(j, off) : jit_get_w(j, off);
}

/* All lanes, side by side, at pointer @p. */
static void
move_all(struct jit *j, const struct sg_insn *op, const struct access *a, val p)
{
    LLVMTypeRef t = LLVMVectorType(element(j, a->size), JIT_LANES);
    val guard = j->guard, v;

    j->guard = NULL; /* all lanes are at work */
    if (a->store) {
        v = stored_value(j, op, a);
        if (a->size < 4)
            v = LLVMBuildTrunc(B, v, t, "");
        p = LLVMBuildBitCast(B, p, LLVMPointerType(t, 0), "");
        v = LLVMBuildStore(B, v, p);
        LLVMSetVolatile(v, 1);
        LLVMSetAlignment(v, 1);
    } else {
        set_result(j, op, a, widened(j, a, volatile_load(j, t, p)));
    }
    j->guard = guard;
}

static void
load_one(struct jit *j, const struct sg_insn *op, const struct access *a, val p)
{
    val guard = j->guard, v = volatile_load(j, element(j, a->size), p);

    j->guard = NULL;
    if (a->size < 4)
        v = a->is_signed ? LLVMBuildSExt(B, v, j->i32, "")
                         : LLVMBuildZExt(B, v, j->i32, "");
    set_result(j, op, a, jit_splat(j, a->wide ? j->d : j->w, v));
    j->guard = guard;
}

/* ----------------------------------------------------------------- every case */

static val
buffer(struct jit *j, unsigned k, LLVMTypeRef as)
{
    return LLVMBuildBitCast(B, j->buf[k], LLVMPointerType(as, 0), "");
}

static val
keep(struct jit *j, unsigned k, val v)
{
    val s = LLVMBuildStore(B, v, buffer(j, k, LLVMTypeOf(v)));

    LLVMSetAlignment(s, 64);
    return LLVMBuildBitCast(B, j->buf[k], j->ptr, "");
}

static val
kept(struct jit *j, unsigned k, LLVMTypeRef type)
{
    val v = LLVMBuildLoad2(B, type, buffer(j, k, type), "");

    LLVMSetAlignment(v, 64);
    return v;
}

static LLVMTypeRef
function_type(struct jit *j, LLVMTypeRef result, LLVMTypeRef *in, unsigned n)
{
    (void)j;
    return LLVMFunctionType(result, in, n, 0);
}

/* The operation as it is called through the host: by its address in the unit. */
static val
insn_address(struct jit *j, uint32_t at)
{
    return jit_address(j, j->ptr, &j->unit->ops[at]);
}

static void
call_memory(struct jit *j, uint32_t at, const struct access *a, LLVMBasicBlockRef done)
{
    const struct sg_insn *op = &j->unit->ops[at];
    LLVMTypeRef in[8] = {j->ptr, j->ptr, j->ptr, j->i32,
                         j->ptr, j->ptr, j->ptr, j->i32};
    LLVMTypeRef t = function_type(j, j->i8, in, 8);
    LLVMBasicBlockRef fault = jit_block(j, "fault"), good = jit_block(j, "good");
    const bool frame = op->a == SG_OFF_NONE;
    const bool narrow = a->where == SHARED32 || a->indexed;
    const unsigned code = op->code == SG_OP_LDSX2_FMA   ? SG_OP_LDSX_32
                          : op->code == SG_OP_LDTX2_FMA ? SG_OP_LDTX_32
                                                        : op->code;
    val args[8] = {j->cta,
                   j->warp,
                   insn_address(j, at),
                   LLVMConstInt(j->i32, code, 0),
                   LLVMConstNull(j->ptr),
                   LLVMConstNull(j->ptr),
                   LLVMBuildBitCast(B, j->buf[2], j->ptr, ""),
                   j->m};
    val r;

    if (!frame)
        args[4] = keep(j, 0, narrow ? jit_get_w(j, op->a) : jit_get_d(j, op->a));
    if (a->indexed)
        args[5] = keep(j, 1, jit_get_d(j, op->b));
    if (a->store)
        keep(j, 2, stored_value(j, op, a));
    r = LLVMBuildCall2(
        B, t, jit_address(j, LLVMPointerType(t, 0), (const void *)j->host->mem), args,
        8, "");
    r = LLVMBuildTrunc(B, r, j->i1, "");
    jit_rarely(j, LLVMBuildNot(B, r, ""), fault, good);
    LLVMPositionBuilderAtEnd(B, fault);
    jit_leave(j, SG_NATIVE_FAULT, at);
    LLVMPositionBuilderAtEnd(B, good);
    if (!a->store)
        set_result(j, op, a, kept(j, 2, a->wide ? j->d : j->w));
    LLVMBuildBr(B, done);
}

/* ------------------------------------------------------------------- in line */

static val
tlb_field(struct jit *j, const struct sg_insn *op, LLVMTypeRef type, size_t at)
{
    return jit_field(j, type, j->cta,
                     offsetof(struct sg_cta, tlb) + op->n * sizeof(struct sg_tlb) + at);
}

struct place {
    val first; /* address of lane 0, i64 */
    val steps; /* boolean: all are side by side */
    val same;  /* boolean, or NULL: all are at one address */
    val lo, len, base;
};

static void
place_global(struct jit *j, const struct sg_insn *op, const struct access *a,
             struct place *p)
{
    val v = jit_get_d(j, op->a);

    p->first = LLVMBuildAdd(B, first_lane(j, v), num(j, (uint64_t)op->imm), "");
    p->steps = in_steps(j, v, a->size);
    if (!a->store)
        p->same = in_steps(j, v, 0);
}

/* index_runs() and index_address() of exec_lanes_form.h */
static void
place_indexed(struct jit *j, const struct sg_insn *op, struct place *p)
{
    const bool is_signed = op->f & SG_INDEX_SIGNED;
    val v = jit_get_w(j, op->a), i = first_lane(j, v);
    val wide =
        is_signed ? LLVMBuildSExt(B, i, j->i64, "") : LLVMBuildZExt(B, i, j->i64, "");
    val last =
        LLVMConstInt(j->i32, is_signed ? INT32_MAX - SG_LANES : (uint32_t)-SG_LANES, 0);

    p->first = LLVMBuildMul(B, wide, num(j, op->f & ~SG_INDEX_SIGNED), "");
    p->first = LLVMBuildAdd(B, p->first, first_lane(j, jit_get_d(j, op->b)), "");
    p->first = LLVMBuildAdd(B, p->first, num(j, (uint64_t)op->imm), "");
    p->steps = both(j, in_steps(j, v, 1),
                    icmp(j, is_signed ? LLVMIntSLT : LLVMIntULT, i, last));
}

static void
place_shared(struct jit *j, const struct sg_insn *op, const struct access *a,
             struct place *p)
{
    const bool narrow = a->where == SHARED32;
    val v = narrow ? jit_get_w(j, op->a) : jit_get_d(j, op->a), at = first_lane(j, v);

    at = LLVMBuildAdd(B, at,
                      LLVMConstInt(narrow ? j->i32 : j->i64, (uint64_t)op->imm, 0), "");
    p->first = narrow ? LLVMBuildZExt(B, at, j->i64, "") : at;
    p->steps = in_steps(j, v, a->size);
    if (!a->store)
        p->same = in_steps(j, v, 0);
}

/* The largest displacement with which the addresses of a shape are all in shared
 * memory, negative if there is none, or the warp is not whole, or a half is neither a
 * row nor one address.  The same for every access by this shape, so LLVM computes it
 * once in a region. */
static val
shape_room(struct jit *j, const struct sg_insn *op, size_t s, val stride[2])
{
    val min = fixed(j, j->i64, j->warp, s + offsetof(struct sg_shape, min));
    val max = fixed(j, j->i64, j->warp, s + offsetof(struct sg_shape, max));
    val low = fixed(j, j->i64, j->warp, s + offsetof(struct sg_shape, low));
    val bytes = fixed(j, j->i32, j->cta, offsetof(struct sg_cta, shared_bytes)), ok;

    bytes = LLVMBuildZExt(B, bytes, j->i64, "");
    ok = both(j, icmp(j, LLVMIntULE, min, max), is_within(j, max, num(j, 0), bytes, 4));
    ok = both(j, ok, is_aligned(j, op, low));
    ok = both(j, ok, icmp(j, LLVMIntEQ, j->m, LLVMConstInt(j->i32, UINT32_MAX, 0)));
    for (int h = 0; h < 2; h++) {
        val step = fixed(j, j->i64, j->warp,
                         s + offsetof(struct sg_shape, stride) + (size_t)h * 8);
        stride[h] = icmp(j, LLVMIntEQ, step, num(j, 4));
        ok = both(j, ok,
                  LLVMBuildOr(B, stride[h], icmp(j, LLVMIntEQ, step, num(j, 0)), ""));
    }
    max = LLVMBuildAdd(B, max, num(j, 4), "");
    return LLVMBuildSelect(B, ok, LLVMBuildSub(B, bytes, max, ""), num(j, UINT64_MAX),
                           "");
}

/* Shared memory whose addresses a SHAPE has noted: shape_fits_*() and shape_load_*() of
 * exec_lanes_form.h, by halves. */
static void
load_shaped(struct jit *j, uint32_t at, const struct access *a, LLVMBasicBlockRef slow,
            LLVMBasicBlockRef done)
{
    const struct sg_insn *op = &j->unit->ops[at];
    const size_t s = offsetof(struct sg_warp, shapes) + op->n * sizeof(struct sg_shape);
    const bool narrow = a->where == SHARED32;
    LLVMTypeRef t = narrow ? j->i32 : j->i64, half = LLVMVectorType(j->i32, 16);
    LLVMTypeRef masks = LLVMVectorType(j->i32, 16);
    val imm = LLVMConstInt(t, (uint64_t)op->imm, 0);
    val shared = fixed(j, j->ptr, j->cta, offsetof(struct sg_cta, shared));
    val part[2], stride[2], room;

    if (op->imm < 0 || (op->imm & op->x)) { /* hardly ever */
        LLVMBuildBr(B, slow);
        return;
    }
    room = shape_room(j, op, s, stride);
    LLVMBasicBlockRef fast = jit_block(j, "shaped");
    jit_rarely(j, icmp(j, LLVMIntSLT, room, num(j, (uint64_t)op->imm)), slow, fast);
    LLVMPositionBuilderAtEnd(B, fast);
    for (int h = 0; h < 2; h++) {
        LLVMBasicBlockRef from[2] = {jit_block(j, "row"), jit_block(j, "same")};
        LLVMBasicBlockRef next = jit_block(j, "half");
        val first = fixed(j, j->i64, j->warp,
                          s + offsetof(struct sg_shape, first) + (size_t)h * 8);
        val p, v[2];
        first = LLVMBuildAdd(B, LLVMBuildTrunc(B, first, t, ""), imm, "");
        if (narrow)
            first = LLVMBuildZExt(B, first, j->i64, "");
        p = jit_pointer(j, j->i8, shared, first);
        LLVMBuildCondBr(B, stride[h], from[0], from[1]);
        LLVMPositionBuilderAtEnd(B, from[0]);
        v[0] = volatile_load(j, half, p);
        LLVMBuildBr(B, next);
        LLVMPositionBuilderAtEnd(B, from[1]);
        v[1] =
            LLVMBuildInsertElement(B, LLVMGetUndef(half), volatile_load(j, j->i32, p),
                                   LLVMConstInt(j->i32, 0, 0), "");
        v[1] = LLVMBuildShuffleVector(B, v[1], LLVMGetUndef(half), LLVMConstNull(masks),
                                      "");
        LLVMBuildBr(B, next);
        LLVMPositionBuilderAtEnd(B, next);
        part[h] = LLVMBuildPhi(B, half, "");
        LLVMAddIncoming(part[h], v, from, 2);
    }
    val order[JIT_LANES], guard = j->guard;
    for (unsigned i = 0; i < JIT_LANES; i++)
        order[i] = LLVMConstInt(j->i32, i, 0);
    j->guard = NULL;
    jit_set_w(j, op->d,
              LLVMBuildShuffleVector(B, part[0], part[1],
                                     LLVMConstVector(order, JIT_LANES), ""));
    j->guard = guard;
    LLVMBuildBr(B, done);
}

static void
in_line(struct jit *j, uint32_t at, const struct access *a, LLVMBasicBlockRef slow,
        LLVMBasicBlockRef done)
{
    const struct sg_insn *op = &j->unit->ops[at];
    LLVMBasicBlockRef fast = jit_block(j, "fast"), other = slow;
    struct place p = {0};
    val ok, base;

    if (a->indexed)
        place_indexed(j, op, &p);
    else if (a->where == GLOBAL)
        place_global(j, op, a, &p);
    else
        place_shared(j, op, a, &p);
    if (a->where == GLOBAL) {
        p.lo = tlb_field(j, op, j->i64, offsetof(struct sg_tlb, lo));
        p.len = tlb_field(j, op, j->i64, offsetof(struct sg_tlb, len));
        base = LLVMConstNull(j->ptr);
    } else {
        p.lo = num(j, 0);
        p.len = LLVMBuildZExt(
            B, fixed(j, j->i32, j->cta, offsetof(struct sg_cta, shared_bytes)), j->i64,
            "");
        base = fixed(j, j->ptr, j->cta, offsetof(struct sg_cta, shared));
    }
    ok = both(j, icmp(j, LLVMIntEQ, j->m, LLVMConstInt(j->i32, UINT32_MAX, 0)),
              is_aligned(j, op, p.first));
    if (a->store && a->where == GLOBAL) {
        val flags = tlb_field(j, op, j->i32, offsetof(struct sg_tlb, flags));
        flags = both(j, flags, LLVMConstInt(j->i32, SG_RANGE_READ_ONLY, 0));
        ok = both(j, ok, icmp(j, LLVMIntEQ, flags, LLVMConstInt(j->i32, 0, 0)));
    }
    if (p.same)
        other = jit_block(j, "other");
    base = LLVMBuildGEP2(B, j->i8, base, &p.first, 1, "");
    jit_rarely(j,
               LLVMBuildNot(B,
                            both(j, both(j, ok, p.steps),
                                 is_within(j, p.first, p.lo, p.len,
                                           (uint64_t)a->size * JIT_LANES)),
                            ""),
               other, fast);
    LLVMPositionBuilderAtEnd(B, fast);
    move_all(j, op, a, base);
    LLVMBuildBr(B, done);
    if (!p.same)
        return;
    LLVMBasicBlockRef one = jit_block(j, "one");
    LLVMPositionBuilderAtEnd(B, other);
    LLVMBuildCondBr(
        B, both(j, both(j, ok, p.same), is_within(j, p.first, p.lo, p.len, a->size)),
        one, slow);
    LLVMPositionBuilderAtEnd(B, one);
    load_one(j, op, a, base);
    LLVMBuildBr(B, done);
}

/* Goes on where the operation has a lane to work for. */
static LLVMBasicBlockRef
begin(struct jit *j)
{
    LLVMBasicBlockRef done = jit_block(j, "done"), work;

    if (!j->guard)
        return done;
    work = jit_block(j, "work");
    LLVMBuildCondBr(B, icmp(j, LLVMIntEQ, j->m, LLVMConstInt(j->i32, 0, 0)), done,
                    work);
    LLVMPositionBuilderAtEnd(B, work);
    return done;
}

void
jit_memory(struct jit *j, uint32_t at)
{
    const struct sg_insn *op = &j->unit->ops[at];
    struct access a = access_of(op->code);
    LLVMBasicBlockRef done = begin(j), slow;

    if (a.indexed && (op->f & ~SG_INDEX_SIGNED) != a.size)
        a.size = 0;
    if (a.where != OTHER && a.size) {
        slow = jit_block(j, "slow");
        if (a.shaped)
            load_shaped(j, at, &a, slow, done);
        else
            in_line(j, at, &a, slow, done);
        LLVMPositionBuilderAtEnd(B, slow);
    }
    call_memory(j, at, &a, done);
    LLVMPositionBuilderAtEnd(B, done);
}

void
jit_scalar(struct jit *j, uint32_t at)
{
    const struct sg_insn *op = &j->unit->ops[at];
    const uint32_t off[4] = {op->d, op->a, op->b, op->c};
    LLVMTypeRef in[6] = {j->ptr, j->ptr, j->ptr, j->ptr, j->ptr, j->i32};
    LLVMTypeRef t = function_type(j, LLVMVoidTypeInContext(j->ctx), in, 6);
    LLVMBasicBlockRef done = begin(j);
    val args[6] = {insn_address(j, at),   LLVMBuildBitCast(B, j->buf[3], j->ptr, ""),
                   LLVMConstNull(j->ptr), LLVMConstNull(j->ptr),
                   LLVMConstNull(j->ptr), j->m};
    const unsigned cls = op->x & 3;

    for (unsigned k = 1; k < 4; k++) {
        const unsigned c = op->x >> 2 * k & 3;
        if (off[k] != SG_OFF_NONE)
            args[1 + k] = keep(j, k - 1,
                               c == SG_W   ? jit_get_w(j, off[k])
                               : c == SG_D ? jit_get_d(j, off[k])
                                           : jit_get_p(j, off[k]));
    }
    if (cls == SG_P)
        keep(j, 3, LLVMConstInt(j->i32, 0, 0));
    LLVMBuildCall2(B, t,
                   jit_address(j, LLVMPointerType(t, 0), (const void *)j->host->scalar),
                   args, 6, "");
    if (cls == SG_P)
        jit_set_p(j, op->d, kept(j, 3, j->i32));
    else if (cls == SG_D)
        jit_set_d(j, op->d, kept(j, 3, j->d));
    else
        jit_set_w(j, op->d, kept(j, 3, j->w));
    LLVMBuildBr(B, done);
    LLVMPositionBuilderAtEnd(B, done);
}
