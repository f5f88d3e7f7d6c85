/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plug-in's one symbol: a unit's operations to functions.
 *
 * A region is a run of whole blocks of one function, cut where it gets long.  Its
 * entries are where jumps go, where the interpreter goes on behind an operation that
 * the compiler does not know, and where a kernel begins, provided that a few operations
 * follow.  A module, with a context and an engine of its own, per unit.
 */
#include "jit.h"

#include "gp_base.h"
#include "gp_err.h"

#include <errno.h>
#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/ExecutionEngine.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <llvm/Config/llvm-config.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Time to compile grows faster than a function. */
#define MAX_REGION 600u
/* Compiling takes some 2.5 ms for each; a kernel should be hot for longer than that. */
#define MAX_OPS 8000u
/* An entry costs reading and writing registers. */
#define MIN_RUN 4u

#define PASSES                                                                         \
    "function(sroa,early-cse<memssa>,instcombine,simplifycfg,loop-mssa(licm),"         \
    "instcombine,early-cse<memssa>,sink,dce,simplifycfg)"

struct code {
    LLVMContextRef ctx;
    LLVMExecutionEngineRef engine;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
llvm_init(void)
{
    LLVMLinkInMCJIT();
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
}

static void
code_free(void *code)
{
    struct code *c = code;

    if (c->engine)
        LLVMDisposeExecutionEngine(c->engine); /* and its module */
    if (c->ctx)
        LLVMContextDispose(c->ctx);
    free(c);
}

static void
types_init(struct jit *j)
{
    j->i1 = LLVMInt1TypeInContext(j->ctx);
    j->i8 = LLVMInt8TypeInContext(j->ctx);
    j->i16 = LLVMInt16TypeInContext(j->ctx);
    j->i32 = LLVMInt32TypeInContext(j->ctx);
    j->i64 = LLVMInt64TypeInContext(j->ctx);
    j->ptr = LLVMPointerType(j->i8, 0);
    j->w = LLVMVectorType(j->i32, JIT_LANES);
    j->d = LLVMVectorType(j->i64, JIT_LANES);
    j->f = LLVMVectorType(LLVMFloatTypeInContext(j->ctx), JIT_LANES);
    j->g = LLVMVectorType(LLVMDoubleTypeInContext(j->ctx), JIT_LANES);
    j->p = LLVMVectorType(j->i1, JIT_LANES);
}

static void
attribute(struct jit *j, const char *key, const char *value)
{
    LLVMAddAttributeAtIndex(j->fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(j->ctx, key,
                                                      (unsigned)strlen(key), value,
                                                      (unsigned)strlen(value)));
}

static void
function_new(struct jit *j, uint32_t lo)
{
    LLVMTypeRef in[1] = {j->ptr};
    char name[32];

    snprintf(name, sizeof(name), "region_%u", lo);
    j->fn = LLVMAddFunction(j->mod, name, LLVMFunctionType(j->i32, in, 1, 0));
    attribute(j, "target-cpu", j->host->level == 4 ? "x86-64-v4" : "x86-64-v3");
    attribute(j, "prefer-vector-width", j->host->level == 4 ? "512" : "256");
    attribute(j, "min-legal-vector-width", j->host->level == 4 ? "512" : "256");
}

/* ------------------------------------------------------------------- entries */

/* Operations that follow in a straight line and that the compiler knows. */
static uint32_t
known_run(const struct jit *j, uint32_t at, uint32_t hi)
{
    const struct sg_insn *ops = j->unit->ops;
    uint32_t n = 0;

    for (; at + n < hi && n < MIN_RUN && jit_known(&ops[at + n]); n++) {
        const struct sg_insn *op = &ops[at + n];
        if (op->code == SG_OP_GUARD && !jit_known(op + 1))
            break;
        if (op->code == SG_OP_BRA || (op->code == SG_OP_BRC && op->x <= at + n))
            return MIN_RUN; /* the rest is elsewhere */
    }
    return n;
}

/* The interpreter may come here from elsewhere. */
static bool
is_entry(const struct jit *j, uint32_t at, uint32_t hi)
{
    const struct sg_unit_func *func = j->flow.func;
    const struct sg_insn *ops = j->unit->ops;

    if (!j->flow.leads[at - func->entry] || !jit_known(&ops[at]) ||
        (at > func->entry && ops[at - 1].code == SG_OP_GUARD))
        return false;
    return known_run(j, at, hi) >= MIN_RUN &&
           (ops[at].code == SG_OP_JOIN || at == func->body || at == j->lo ||
            at == func->entry || !jit_known(&ops[at - 1]));
}

/* ------------------------------------------------------------------- regions */

struct region {
    uint32_t lo, hi, n;
    uint32_t *entries;
};

struct regions {
    struct region *all;
    uint32_t n, cap;
};

static int
regions_add(struct regions *rs, struct region r)
{
    struct region *all;

    if (rs->n == rs->cap) {
        rs->cap = rs->cap * 2 + 8;
        all = reallocarray(rs->all, rs->cap, sizeof(*all));
        if (!all)
            return -ENOMEM;
        rs->all = all;
    }
    rs->all[rs->n++] = r;
    return 0;
}

static void
regions_fini(struct regions *rs)
{
    for (uint32_t i = 0; i < rs->n; i++)
        free(rs->all[i].entries);
    free(rs->all);
}

/* The end of the region that begins at @lo. */
static uint32_t
region_end(const struct jit *j, uint32_t lo)
{
    const struct sg_unit_func *func = j->flow.func;
    uint32_t end = gp_min(func->end, lo + MAX_REGION);

    while (end < func->end && end > lo + 1 && !j->flow.leads[end - func->entry])
        end--;
    if (end > lo + 1)
        return end;
    for (end = gp_min(func->end, lo + MAX_REGION);
         end < func->end && !j->flow.leads[end - func->entry];)
        end++; /* one long block */
    return end;
}

static int
region_compile(struct jit *j, struct regions *rs, uint32_t lo, uint32_t hi)
{
    struct region r = {.lo = lo, .hi = hi};
    int e;

    r.entries = calloc(hi - lo, sizeof(*r.entries));
    if (!r.entries)
        return -ENOMEM;
    j->lo = lo;
    for (uint32_t at = lo; at < hi; at++)
        if (is_entry(j, at, hi))
            r.entries[r.n++] = at;
    if (r.n == 0) {
        free(r.entries);
        return 0;
    }
    function_new(j, lo);
    e = jit_region(j, lo, hi, r.entries, r.n);
    if (e == 0)
        e = regions_add(rs, r);
    if (e < 0)
        free(r.entries);
    return e;
}

/* Registers that hold constants of the unit, whatever instance runs it. */
static void
take_constants(struct jit *j)
{
    for (uint32_t i = 0; i < j->flow.func->n_consts; i++) {
        const struct sg_const *c = &j->flow.func->consts[i];
        if (c->kind == SG_CONST_VALUE)
            j->constant[jit_register(&j->flow, (enum sg_class)c->cls, c->off)] =
                jit_splat_int(c->cls == SG_W ? j->w : j->d, c->value);
    }
}

static int
function_compile(struct jit *j, struct regions *rs, const struct sg_unit_func *func)
{
    int r = jit_flow_init(&j->flow, j->unit, func);

    j->constant = calloc(j->flow.first[SG_N_CLASSES] + 1u, sizeof(LLVMValueRef));
    if (r == 0 && !j->constant)
        r = -ENOMEM;
    if (r == 0)
        take_constants(j);
    for (uint32_t lo = func->entry, hi; r == 0 && lo < func->end; lo = hi) {
        hi = region_end(j, lo);
        r = region_compile(j, rs, lo, hi);
    }
    free(j->constant);
    jit_flow_fini(&j->flow);
    return r;
}

/* --------------------------------------------------------------------- the unit */

static int
from_llvm(struct gp_err *err, const char *what, char *words)
{
    int r = gp_err_set(err, -EINVAL, "%s: %s", what, words ? words : "no reason given");

    if (words)
        LLVMDisposeMessage(words);
    return r;
}

static int
optimise(struct jit *j, struct gp_err *err)
{
    LLVMPassBuilderOptionsRef options;
    LLVMErrorRef e;
    char *words = NULL;

    if (getenv("SOFTGPU_JIT_IR")) /* for people who debug the compiler */
        LLVMDumpModule(j->mod);
    if (LLVMVerifyModule(j->mod, LLVMReturnStatusAction, &words))
        return from_llvm(err, "the code is not well formed", words);
    LLVMDisposeMessage(words);
    options = LLVMCreatePassBuilderOptions();
    e = LLVMRunPasses(j->mod, PASSES, NULL, options);
    LLVMDisposePassBuilderOptions(options);
    if (e) {
        int r = gp_err_set(err, -EINVAL, "LLVM refuses its passes");
        LLVMConsumeError(e);
        return r;
    }
    if (getenv("SOFTGPU_JIT_IR"))
        LLVMDumpModule(j->mod);
    return 0;
}

static int
generate(struct jit *j, struct code *code, const struct regions *rs,
         struct sg_native *native, struct gp_err *err)
{
    struct LLVMMCJITCompilerOptions options;
    char *words = NULL;

    LLVMInitializeMCJITCompilerOptions(&options, sizeof(options));
    options.OptLevel = 2;
    if (LLVMCreateMCJITCompilerForModule(&code->engine, j->mod, &options,
                                         sizeof(options), &words)) {
        LLVMDisposeModule(j->mod);
        return from_llvm(err, "no code generator", words);
    }
    for (uint32_t i = 0; i < rs->n; i++) {
        const struct region *r = &rs->all[i];
        char name[32];
        uint64_t fn;
        snprintf(name, sizeof(name), "region_%u", r->lo);
        fn = LLVMGetFunctionAddress(code->engine, name);
        if (!fn)
            return gp_err_set(err, -EINVAL, "the code generator lost %s", name);
        for (uint32_t k = 0; k < r->n; k++) {
            struct sg_native_entry *e = &native->entries[r->entries[k]];
            e->fn = (sg_native_fn *)(uintptr_t)fn;
            e->code = j->unit->ops[r->entries[k]].code;
            native->n_entries++;
        }
    }
    return 0;
}

static int
unit_compile(struct jit *j, struct code *code, struct sg_native *native,
             struct gp_err *err)
{
    struct regions rs = {0};
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < j->unit->n_funcs; i++)
        r = function_compile(j, &rs, &j->unit->funcs[i]);
    if (r == 0 && rs.n == 0)
        r = gp_err_set(err, -ENOENT, "nothing in it is worth compiling");
    if (r == 0)
        r = optimise(j, err);
    LLVMDisposeBuilder(j->b);
    if (r < 0)
        LLVMDisposeModule(j->mod);
    else
        r = generate(j, code, &rs, native, err);
    regions_fini(&rs);
    return r;
}

static int
compile(const struct sg_native_host *host, const struct sg_unit *unit,
        struct sg_native *native, struct gp_err *err)
{
    struct jit j = {.host = host, .unit = unit};
    struct code *code;
    int r;

    if (unit->n_ops > MAX_OPS)
        return gp_err_set(err, -E2BIG, "%u operations, at most %u", unit->n_ops,
                          MAX_OPS);
    pthread_once(&once, llvm_init);
    code = calloc(1, sizeof(*code));
    if (!code)
        return -ENOMEM;
    code->ctx = j.ctx = LLVMContextCreate();
    j.mod = LLVMModuleCreateWithNameInContext("unit", j.ctx);
    j.b = LLVMCreateBuilderInContext(j.ctx);
    LLVMSetTarget(j.mod, "x86_64-unknown-linux-gnu");
    types_init(&j);
    r = unit_compile(&j, code, native, err);
    if (r < 0) {
        code_free(code);
        return r;
    }
    native->code = code;
    native->free_code = code_free;
    return 0;
}

extern const struct sg_jit sg_jit __attribute__((visibility("default")));
const struct sg_jit sg_jit = {
    .abi = SG_NATIVE_ABI,
    .name = "LLVM " LLVM_VERSION_STRING,
    .compile = compile,
};
