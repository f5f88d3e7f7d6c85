/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One region: blocks, jumps, entries and ends.
 *
 * A fragment's lanes stay together while it is in native code: where they would part,
 * the interpreter splits them.  Back edges and operations are counted as the
 * interpreter counts them, so that budgets, fairness and accounting are the same.
 */
#include "jit.h"

#include "gp_base.h"

#include <errno.h>
#include <stdlib.h>

#define B j->b

typedef LLVMValueRef val;

static val
number(struct jit *j, uint32_t v)
{
    return LLVMConstInt(j->i32, v, 0);
}

static val
slot_address(struct jit *j, uint32_t reg)
{
    static const uint32_t bytes[] = {SG_SLOT_W, SG_SLOT_D, SG_SLOT_P};
    const LLVMTypeRef types[] = {j->w, j->d, j->i32};
    const uint32_t *first = j->flow.first;
    const unsigned c = reg < first[SG_D] ? SG_W : reg < first[SG_P] ? SG_D : SG_P;

    return jit_pointer(j, types[c], j->frame[c],
                       LLVMConstInt(j->i64, (uint64_t)(reg - first[c]) * bytes[c], 0));
}

static bool
is_predicate(const struct jit *j, uint32_t reg)
{
    return reg >= j->flow.first[SG_P];
}

/* To the register file, for the lanes that run. */
static void
write_back(struct jit *j, uint32_t reg)
{
    val p = slot_address(j, reg), v = jit_get_exact(j, reg), old;
    LLVMTypeRef t = LLVMTypeOf(v);

    old = LLVMBuildLoad2(B, t, p, "");
    if (is_predicate(j, reg)) {
        v = LLVMBuildOr(B, LLVMBuildAnd(B, v, j->mask, ""),
                        LLVMBuildAnd(B, old, LLVMBuildNot(B, j->mask, ""), ""), "");
        LLVMBuildStore(B, v, p);
        return;
    }
    LLVMSetAlignment(old, 64);
    v = LLVMBuildStore(B, LLVMBuildSelect(B, j->lanes, v, old, ""), p);
    LLVMSetAlignment(v, 64);
}

static void
store_field(struct jit *j, val v, val base, size_t at)
{
    LLVMBuildStore(B, v,
                   jit_pointer(j, LLVMTypeOf(v), base, LLVMConstInt(j->i64, at, 0)));
}

/* Out of the native code, the interpreter to go on at @pc.  Ends the block. */
void
jit_leave(struct jit *j, enum sg_native_end end, uint32_t pc)
{
    const uint64_t *live = jit_flow_live(&j->flow, pc);
    const bool at_block =
        live && j->flow.blocks[j->flow.block_of[pc - j->flow.func->entry]] == pc;

    for (uint32_t reg = 0; end != SG_NATIVE_FAULT && reg < j->flow.first[SG_N_CLASSES];
         reg++)
        if (j->written[reg] && (!at_block || jit_in(live, reg)))
            write_back(j, reg);
    store_field(j, number(j, pc), j->run, offsetof(struct sg_native_run, pc));
    store_field(j, LLVMBuildLoad2(B, j->i64, j->executed, ""), j->run,
                offsetof(struct sg_native_run, executed));
    store_field(j, LLVMBuildLoad2(B, j->i32, j->edges, ""), j->warp,
                offsetof(struct sg_warp, edges));
    LLVMBuildRet(B, number(j, end));
}

static bool
inside(const struct jit *j, uint32_t at)
{
    return at >= j->lo && at < j->hi;
}

/* The interpreter counts a straight run of operations when it ends. */
static void
count(struct jit *j, uint32_t more)
{
    val v;

    j->span += more;
    if (!j->span)
        return;
    v = LLVMBuildLoad2(B, j->i64, j->executed, "");
    LLVMBuildStore(B, LLVMBuildAdd(B, v, LLVMConstInt(j->i64, j->span, 0), ""),
                   j->executed);
    j->span = 0;
}

static void
leave_from(struct jit *j, enum sg_native_end end, uint32_t pc)
{
    count(j, 0);
    jit_leave(j, end, pc);
}

/* To another block, by no jump or by one forward. */
static void
go(struct jit *j, uint32_t to)
{
    if (inside(j, to) && j->at[to - j->lo])
        LLVMBuildBr(B, j->at[to - j->lo]);
    else
        jit_leave(j, SG_NATIVE_GO, to);
}

/* The jump at @from, whose operations are counted. */
static void
jump(struct jit *j, uint32_t from, uint32_t to)
{
    LLVMBasicBlockRef over = jit_block(j, "budget"), on = jit_block(j, "on");
    val left;

    if (to > from) {
        LLVMDeleteBasicBlock(over);
        LLVMBuildBr(B, on);
        LLVMPositionBuilderAtEnd(B, on);
        go(j, to);
        return;
    }
    left = LLVMBuildSub(B, LLVMBuildLoad2(B, j->i32, j->edges, ""), number(j, 1), "");
    LLVMBuildStore(B, left, j->edges);
    jit_rarely(j, LLVMBuildICmp(B, LLVMIntEQ, left, number(j, 0), ""), over, on);
    LLVMPositionBuilderAtEnd(B, over);
    jit_leave(j, SG_NATIVE_POLL, to);
    LLVMPositionBuilderAtEnd(B, on);
    go(j, to);
}

static void
branch(struct jit *j, uint32_t at)
{
    const struct sg_insn *op = &j->unit->ops[at];
    LLVMBasicBlockRef some = jit_block(j, "some"), all = jit_block(j, "all");
    LLVMBasicBlockRef none = jit_block(j, "none"), split = jit_block(j, "split");
    val p = jit_get_p(j, op->a), taken;

    taken = LLVMBuildAnd(B, j->mask, op->n ? LLVMBuildNot(B, p, "") : p, "");
    LLVMBuildCondBr(B, LLVMBuildICmp(B, LLVMIntEQ, taken, j->mask, ""), all, some);
    LLVMPositionBuilderAtEnd(B, some);
    LLVMBuildCondBr(B, LLVMBuildICmp(B, LLVMIntEQ, taken, number(j, 0), ""), none,
                    split);
    const uint32_t span = j->span;
    LLVMPositionBuilderAtEnd(B, split);
    leave_from(j, SG_NATIVE_STEP, at);
    LLVMPositionBuilderAtEnd(B, all);
    j->span = span;
    count(j, 1);
    jump(j, at, op->x);
    LLVMPositionBuilderAtEnd(B, none);
    j->span = span;
    count(j, 1);
    go(j, at + 1);
}

static void
join(struct jit *j, uint32_t at)
{
    LLVMBasicBlockRef stop = jit_block(j, "stop"), on = jit_block(j, "joined");
    val others = LLVMBuildICmp(B, LLVMIntUGE, number(j, at), j->limit, "");
    const uint32_t span = j->span;

    jit_rarely(j, others, stop, on);
    LLVMPositionBuilderAtEnd(B, stop);
    leave_from(j, SG_NATIVE_PICK, at);
    LLVMPositionBuilderAtEnd(B, on);
    j->span = span + 1;
}

static void
poll(struct jit *j)
{
    store_field(j, LLVMConstInt(j->i8, 1, 0), j->warp,
                offsetof(struct sg_warp, polled));
}

/* The operation behind a GUARD, if the compiler knows it there. */
static bool
known_guarded(const struct sg_insn *op)
{
    return jit_known(op) && op->code != SG_OP_BRA && op->code != SG_OP_BRC &&
           op->code != SG_OP_JOIN && op->code != SG_OP_POLL && op->code != SG_OP_GUARD;
}

/* Operations that do not end a block. */
static void
straight(struct jit *j, uint32_t at)
{
    const struct sg_insn *op = &j->unit->ops[at];

    if (op->code == SG_OP_POLL)
        poll(j);
    else if (op->code == SG_OP_FN)
        jit_scalar(j, at);
    else if (jit_is_memory(op->code))
        jit_memory(j, at);
    else
        jit_alu(j, op);
    j->span++;
}

static void
guarded(struct jit *j, uint32_t at)
{
    const struct sg_insn *op = &j->unit->ops[at];
    val p = jit_get_p(j, op->a);

    if (op->n)
        p = LLVMBuildNot(B, p, "");
    j->guard = jit_lanes(j, p);
    j->m = LLVMBuildAnd(B, j->mask, p, "");
    j->span++;
    straight(j, at + 1);
    j->guard = NULL;
    j->m = j->mask;
}

/* An operation that only the interpreter knows: without lanes to work for it is
 * skipped. */
static void
guarded_unknown(struct jit *j, uint32_t at)
{
    const struct sg_insn *op = &j->unit->ops[at];
    LLVMBasicBlockRef do_it = jit_block(j, "unknown"), skip = jit_block(j, "skip");
    const uint32_t span = j->span;
    val p = jit_get_p(j, op->a);

    if (op->n)
        p = LLVMBuildNot(B, p, "");
    p = LLVMBuildAnd(B, j->mask, p, "");
    LLVMBuildCondBr(B, LLVMBuildICmp(B, LLVMIntEQ, p, number(j, 0), ""), skip, do_it);
    LLVMPositionBuilderAtEnd(B, do_it);
    leave_from(j, SG_NATIVE_STEP, at);
    LLVMPositionBuilderAtEnd(B, skip);
    j->span = span;
    count(j, 2);
    go(j, at + 2);
}

/* All of the block that begins at @at. */
static void
block(struct jit *j, uint32_t at)
{
    const struct sg_insn *ops = j->unit->ops;

    j->span = 0;
    j->guard = NULL;
    j->m = j->mask;
    LLVMPositionBuilderAtEnd(B, j->at[at - j->lo]);
    do {
        const struct sg_insn *op = &ops[at];
        if (op->code == SG_OP_BRA) {
            count(j, 1);
            jump(j, at, op->x);
            return;
        }
        if (op->code == SG_OP_BRC) {
            branch(j, at);
            return;
        }
        if (!jit_known(op)) {
            leave_from(j, SG_NATIVE_STEP, at);
            return;
        }
        if (op->code == SG_OP_JOIN) {
            join(j, at++);
        } else if (op->code != SG_OP_GUARD) {
            straight(j, at++);
        } else if (known_guarded(op + 1)) {
            guarded(j, at);
            at += 2;
        } else {
            guarded_unknown(j, at);
            return;
        }
    } while (at < j->hi && !j->at[at - j->lo]);
    count(j, 0);
    if (at < j->flow.func->end)
        go(j, at);
    else
        jit_leave(j, SG_NATIVE_STEP, at);
}

/* ------------------------------------------------------------------------ ends */

static void
note(struct jit *j, bool *used, int32_t reg, bool write)
{
    if (reg < 0 || j->constant[reg])
        return;
    used[reg] = true;
    j->written[reg] |= write;
}

static bool
gives_odd(unsigned code)
{
    return (code >= SG_OP_ADD_F32 && code <= SG_OP_RCP_F32_FTZ) ||
           code == SG_OP_NEG_F32 || code == SG_OP_ABS_F32 ||
           code == SG_OP_CVT_F32_S32 || code == SG_OP_CVT_F32_U32;
}

static val
variable(struct jit *j, LLVMTypeRef type)
{
    val v = LLVMBuildAlloca(B, type, "");

    return v;
}

/* Which registers the region touches; each gets a variable. */
static void
variables(struct jit *j, bool *used)
{
    const uint32_t n = j->flow.first[SG_N_CLASSES];

    for (uint32_t at = j->lo; at < j->hi; at++) {
        const struct sg_insn *op = &j->unit->ops[at];
        struct jit_operands o;
        if (!jit_known(op))
            continue;
        jit_operands(&j->flow, op, &o);
        for (int k = 0; k < 2; k++)
            note(j, used, o.write[k], true);
        for (int k = 0; k < 4; k++)
            note(j, used, o.read[k], false);
    }
    for (uint32_t reg = 0; reg < n; reg++) {
        if (!used[reg])
            continue;
        j->var[reg] = variable(j, reg < j->flow.first[SG_D]   ? j->w
                                  : reg < j->flow.first[SG_P] ? j->d
                                                              : j->i32);
    }
    for (uint32_t at = j->lo; at < j->hi; at++) {
        const struct sg_insn *op = &j->unit->ops[at];
        const int32_t reg =
            gives_odd(op->code) ? jit_register(&j->flow, SG_W, op->d) : -1;
        if (reg >= 0 && !j->odd[reg])
            j->odd[reg] = variable(j, j->i1);
    }
}

/* What the function begins with, whatever the entry. */
static void
prologue(struct jit *j)
{
    const size_t frames[] = {offsetof(struct sg_native_run, wb),
                             offsetof(struct sg_native_run, db),
                             offsetof(struct sg_native_run, pb)};
    LLVMTypeRef many = LLVMVectorType(j->i64, JIT_LANES);

    j->run = LLVMGetParam(j->fn, 0);
    for (int k = 0; k < 4; k++) {
        j->buf[k] = LLVMBuildAlloca(B, many, "");
        LLVMSetAlignment(j->buf[k], 64);
    }
    j->edges = variable(j, j->i32);
    j->executed = variable(j, j->i64);
    j->cta = jit_field(j, j->ptr, j->run, offsetof(struct sg_native_run, cta));
    j->warp = jit_field(j, j->ptr, j->run, offsetof(struct sg_native_run, warp));
    for (int c = 0; c < SG_N_CLASSES; c++)
        j->frame[c] = jit_field(j, j->ptr, j->run, frames[c]);
    j->mask = jit_field(j, j->i32, j->run, offsetof(struct sg_native_run, mask));
    j->limit = jit_field(j, j->i32, j->run, offsetof(struct sg_native_run, limit));
    j->lanes = jit_lanes(j, j->mask);
    LLVMBuildStore(B, LLVMConstInt(j->i64, 0, 0), j->executed);
    LLVMBuildStore(B, jit_field(j, j->i32, j->warp, offsetof(struct sg_warp, edges)),
                   j->edges);
}

static void
read_register(struct jit *j, uint32_t reg)
{
    const uint32_t *first = j->flow.first;
    LLVMTypeRef t = reg < first[SG_D] ? j->w : reg < first[SG_P] ? j->d : j->i32;
    val v = LLVMBuildLoad2(B, t, slot_address(j, reg), "");

    if (!is_predicate(j, reg))
        LLVMSetAlignment(v, 64);
    LLVMBuildStore(B, v, j->var[reg]);
}

/* From the register file, what is live at the entry. */
static void
enter(struct jit *j, uint32_t at)
{
    const uint64_t *live = jit_flow_live(&j->flow, at);

    for (uint32_t reg = 0; reg < j->flow.first[SG_N_CLASSES]; reg++) {
        if (!j->var[reg])
            continue;
        if (jit_in(live, reg))
            read_register(j, reg);
        if (j->odd[reg])
            LLVMBuildStore(B, LLVMConstInt(j->i1, 0, 0), j->odd[reg]);
    }
    LLVMBuildBr(B, j->at[at - j->lo]);
}

static void
entries_of(struct jit *j, const uint32_t *entries, uint32_t n)
{
    val pc = jit_field(j, j->i32, j->run, offsetof(struct sg_native_run, pc));
    LLVMBasicBlockRef none = jit_block(j, "none");
    val which = LLVMBuildSwitch(B, pc, none, n);

    LLVMPositionBuilderAtEnd(B, none);
    LLVMBuildUnreachable(B);
    for (uint32_t k = 0; k < n; k++) {
        LLVMBasicBlockRef in = jit_block(j, "enter");
        LLVMAddCase(which, number(j, entries[k]), in);
        LLVMPositionBuilderAtEnd(B, in);
        enter(j, entries[k]);
    }
}

/* The function of operations [@lo, @hi), which blocks begin and end; @entries lead
 * blocks of it. */
int
jit_region(struct jit *j, uint32_t lo, uint32_t hi, const uint32_t *entries,
           uint32_t n_entries)
{
    const uint32_t n = j->flow.first[SG_N_CLASSES];
    CLEANUP_FREE bool *used = calloc(n + 1u, sizeof(*used));
    CLEANUP_FREE val *var = calloc(n + 1u, sizeof(val));
    CLEANUP_FREE val *odd = calloc(n + 1u, sizeof(val));
    CLEANUP_FREE bool *written = calloc(n + 1u, sizeof(*written));
    CLEANUP_FREE LLVMBasicBlockRef *at =
        calloc(hi - lo + 1u, sizeof(LLVMBasicBlockRef));

    if (!used || !var || !odd || !written || !at)
        return -ENOMEM;
    j->lo = lo;
    j->hi = hi;
    j->var = var;
    j->odd = odd;
    j->written = written;
    j->at = at;
    LLVMPositionBuilderAtEnd(B, jit_block(j, "prologue"));
    prologue(j);
    variables(j, used);
    for (uint32_t i = lo; i < hi; i++)
        if (j->flow.leads[i - j->flow.func->entry])
            at[i - lo] = jit_block(j, "block");
    entries_of(j, entries, n_entries);
    for (uint32_t i = lo; i < hi; i++)
        if (at[i - lo])
            block(j, i);
    j->var = j->odd = NULL;
    j->written = NULL;
    j->at = NULL;
    return 0;
}
