/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A random kernel as PTX.
 *
 * Registers of the program: %ww, %dd, %hh, %pp.  Of one statement: %t, %u, %v, %q.  A
 * region that not all lanes of a warp enter gets a register with the mask of those that
 * do, %m, if an instruction inside needs it.
 */
#include "rk_kernel.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct printing {
    FILE *f;
    const struct rk_kernel *k;
    unsigned labels, mask, masks;
    bool function;
};

static const char *const reg_names[RK_N_CLASSES] = {"%ww", "%dd", "%hh", "%pp"};

static void
print_reg(struct printing *p, enum rk_class class, unsigned reg)
{
    fprintf(p->f, "%s%u", reg_names[class], reg);
}

static void
print_src(struct printing *p, const struct rk_src *s)
{
    if (s->constant)
        fprintf(p->f, "0x%" PRIx64, s->value);
    else
        print_reg(p, s->class, s->reg);
}

static void
print_guard(struct printing *p, const struct rk_stmt *s)
{
    if (s->guard >= 0)
        fprintf(p->f, "@%s%%pp%d ", s->guard_not ? "!" : "", s->guard);
}

/* ---- arithmetic --------------------------------------------------------------------
 */

static void
print_operand(struct printing *p, const struct rk_stmt *s, char which)
{
    if (which == 'd')
        print_reg(p, s->class, s->regs[0]);
    else if (which == 'b' && s->op->nonzero)
        fputs(s->op->bits == 64 ? "%u0" : s->op->bits == 32 ? "%t0" : "%v0", p->f);
    else
        print_src(p, &s->src[which - 'a']);
}

/* Each instruction of @form, with the guard in front of it. */
static void
print_form(struct printing *p, const struct rk_stmt *s, const char *form)
{
    bool starts = true;

    for (const char *c = form; *c; c++) {
        if (starts && *c != ' ')
            print_guard(p, s);
        starts = *c == ';' || (starts && *c == ' ');
        if (*c == '%' && strchr("abcd", c[1])) {
            print_operand(p, s, c[1]);
            c++;
        } else {
            fputc(*c, p->f);
        }
    }
    fputc('\n', p->f);
}

static void
print_nonzero(struct printing *p, const struct rk_stmt *s)
{
    print_guard(p, s);
    fprintf(p->f, "or.b%d %s, ", s->op->bits,
            s->op->bits == 64   ? "%u0"
            : s->op->bits == 32 ? "%t0"
                                : "%v0");
    print_src(p, &s->src[1]);
    fputs(", 1;\n", p->f);
}

static void
print_alu(struct printing *p, const struct rk_stmt *s)
{
    const struct rk_op *op = s->op;

    if (op->nonzero)
        print_nonzero(p, s);
    if (op->form) {
        print_form(p, s, op->form);
    } else {
        char form[80];
        int n = snprintf(form, sizeof(form), "%s %%d", op->name);
        for (unsigned i = 0; op->sig[i + 1]; i++)
            n += snprintf(form + n, sizeof(form) - (size_t)n, ", %%%c", 'a' + (int)i);
        snprintf(form + n, sizeof(form) - (size_t)n, ";");
        /* lop3's fourth source is a constant, bfi's a register: both are %d there. */
        if (op->sig[4]) {
            print_guard(p, s);
            fprintf(p->f, "%s ", op->name);
            print_reg(p, s->class, s->regs[0]);
            for (unsigned i = 0; i < 4; i++) {
                fputs(", ", p->f);
                print_src(p, &s->src[i]);
            }
            fputs(";\n", p->f);
        } else {
            print_form(p, s, form);
        }
    }
    if (op->any_nan)
        print_form(
            p, s,
            s->class == RK_D
                ? "testp.notanumber.f64 %q0, %d; selp.b64 %d, 0x7ff8000000000000, %d, "
                  "%q0;"
                : "testp.notanumber.f32 %q0, %d; selp.b32 %d, 0x7fffffff, %d, %q0;");
}

/* ---- memory ------------------------------------------------------------------------
 */

static unsigned
region_bytes(enum rk_region region)
{
    return region == RK_COL4 ? 4 : region == RK_COL8 ? 8 : region == RK_COL16 ? 16 : 64;
}

/* Computes what it has to and leaves the operand in @text: [register + constant]. */
static void
print_address(struct printing *p, const struct rk_mem *mem, char text[64])
{
    unsigned threads = p->k->block * (mem->space == RK_GLOBAL ? p->k->grid : 1);
    unsigned bytes = region_bytes(mem->region);
    size_t off = rk_mem_offset(mem, 0, threads);
    const char *number = mem->space == RK_GLOBAL ? "%gid" : "%tid_";
    const char *base = mem->space == RK_GLOBAL   ? "%own"
                       : mem->space == RK_SHARED ? "%sh64"
                                                 : "%loc64";
    const char *generic = mem->space == RK_GLOBAL   ? "%own"
                          : mem->space == RK_SHARED ? "%shgen"
                                                    : "%locgen";

    if (mem->space == RK_LOCAL) {
        snprintf(text, 64, "[%s+%zu]",
                 mem->how == 2   ? generic
                 : mem->how == 1 ? base
                                 : "loc",
                 off);
    } else if (mem->how == 0) {
        fprintf(p->f, "mad.wide.u32 %%u1, %s, %u, %s;\n", number, bytes, base);
        snprintf(text, 64, "[%%u1+%zu]", off);
    } else if (mem->how == 1) {
        fprintf(p->f, "mul.wide.u32 %%u1, %s, %u; add.s64 %%u1, %s, %%u1;\n", number,
                bytes, base);
        snprintf(text, 64, "[%%u1+%zu]", off);
    } else if (mem->how == 2) {
        fprintf(p->f, "cvt.u64.u32 %%u1, %s; mad.lo.s64 %%u1, %%u1, %u, %s;\n", number,
                bytes, generic);
        snprintf(text, 64, "[%%u1+%zu]", off);
    } else if (mem->space == RK_SHARED) {
        fprintf(p->f, "mad.lo.u32 %%t1, %s, %u, %%sh32;\n", number, bytes);
        snprintf(text, 64, "[%%t1+%zu]", off);
    } else {
        fprintf(p->f,
                "shl.b32 %%t1, %s, %d; cvt.u64.u32 %%u1, %%t1; add.s64 %%u1, %%u1, "
                "%%own;\n",
                number, __builtin_ctz(bytes));
        snprintf(text, 64, "[%%u1+%zu]", off);
    }
}

static const char *
space_word(const struct rk_mem *mem)
{
    if (mem->how == 2)
        return "";
    return mem->space == RK_GLOBAL   ? ".global"
           : mem->space == RK_SHARED ? ".shared"
                                     : ".local";
}

static void
print_list(struct printing *p, const struct rk_stmt *s)
{
    if (s->mem.n > 1)
        fputc('{', p->f);
    for (unsigned i = 0; i < s->mem.n; i++) {
        if (i)
            fputs(", ", p->f);
        print_reg(p, s->class, s->regs[i]);
    }
    if (s->mem.n > 1)
        fputc('}', p->f);
}

static void
print_access(struct printing *p, const struct rk_stmt *s)
{
    const char *vector = s->mem.n == 4 ? ".v4" : s->mem.n == 2 ? ".v2" : "";
    char where[64], type[8];

    print_address(p, &s->mem, where);
    rk_mem_type(&s->mem, type);
    print_guard(p, s);
    if (s->kind == RK_LOAD) {
        fprintf(p->f, "ld%s%s.%s ", space_word(&s->mem), vector, type);
        print_list(p, s);
        fprintf(p->f, ", %s;\n", where);
    } else {
        fprintf(p->f, "st%s%s.%s %s, ", space_word(&s->mem), vector, type, where);
        print_list(p, s);
        fputs(";\n", p->f);
    }
}

static void
print_gather(struct printing *p, const struct rk_stmt *s)
{
    static const char *const words[] = {".global", ".global.nc", "", ".const"};

    print_guard(p, s);
    fputs("and.b32 %t0, ", p->f);
    print_src(p, &s->src[0]);
    fputs(", 63;\n", p->f);
    print_guard(p, s);
    if (s->mode == 3)
        fputs("mul.wide.u32 %u0, %t0, 4; mov.u64 %u1, ctab; add.s64 %u0, %u0, %u1;\n",
              p->f);
    else
        fputs("mad.wide.u32 %u0, %t0, 8, %table;\n", p->f);
    print_guard(p, s);
    fprintf(p->f, "ld%s.u32 ", words[s->mode]);
    print_reg(p, RK_W, s->regs[0]);
    fputs(", [%u0];\n", p->f);
}

/* By rk_stmt.mode; the evaluator knows them by their numbers. */
static const char *const rk_atoms[][2] = {
    {"add", "u"}, {"min", "u"}, {"max", "u"}, {"min", "s"},  {"max", "s"},
    {"and", "b"}, {"or", "b"},  {"xor", "b"}, {"exch", "b"}, {"cas", "b"},
    {"inc", "u"}, {"dec", "u"}, {"add", "f"}};

static void
print_atom(struct printing *p, const struct rk_stmt *s)
{
    char where[64];

    print_address(p, &s->mem, where);
    print_guard(p, s);
    fprintf(p->f, "atom%s.%s.%s%u ", space_word(&s->mem), rk_atoms[s->mode][0],
            rk_atoms[s->mode][1], s->mem.size * 8);
    print_reg(p, s->class, s->regs[0]);
    fprintf(p->f, ", %s, ", where);
    print_src(p, &s->src[0]);
    if (s->mode == 9) {
        fputs(", ", p->f);
        print_src(p, &s->src[1]);
    }
    fputs(";\n", p->f);
}

static void
print_red(struct printing *p, const struct rk_stmt *s)
{
    print_guard(p, s);
    fprintf(p->f, "red.%s.%s.%s [%s+%u], ", s->mode ? "shared" : "global",
            rk_cells[s->n].op, rk_cells[s->n].type, s->mode ? "scells" : "%cells",
            s->n * 8);
    print_src(p, &s->src[0]);
    fputs(";\n", p->f);
}

/* ---- other threads -----------------------------------------------------------------
 */

static void
print_shuffle(struct printing *p, const struct rk_stmt *s)
{
    static const char *const modes[] = {"bfly", "idx", "up", "down", "idx"};
    FILE *f = p->f;

    if (s->mode == RK_SHFL_LAST)
        fprintf(f, "bfind.u32 %%t0, %%m%u;\n", p->mask);
    fprintf(f, "shfl.sync.%s.b32 ", modes[s->mode]);
    if (s->mode == RK_SHFL_BFLY)
        fputs("%t1", f);
    else
        print_reg(p, RK_W, s->regs[0]);
    fputs(", ", f);
    print_src(p, &s->src[0]);
    if (s->mode == RK_SHFL_LAST)
        fprintf(f, ", %%t0, 31, %%m%u;\n", p->mask);
    else if (s->mode == RK_SHFL_BFLY)
        fprintf(f, ", %u, 31, %%m%u;\n", s->n, p->mask);
    else
        fprintf(f, ", %u, 0x%x, %%m%u;\n", s->n,
                s->segment << 8 | (s->mode == RK_SHFL_UP ? 0 : 31), p->mask);
    if (s->mode == RK_SHFL_BFLY) {
        fprintf(f,
                "xor.b32 %%t0, %%lane, %u; shr.u32 %%t0, %%m%u, %%t0; "
                "and.b32 %%t0, %%t0, 1; setp.ne.u32 %%q0, %%t0, 0; selp.b32 ",
                s->n, p->mask);
        print_reg(p, RK_W, s->regs[0]);
        fputs(", %t1, ", f);
        print_src(p, &s->src[0]);
        fputs(", %q0;\n", f);
    }
}

static void
print_warp(struct printing *p, const struct rk_stmt *s)
{
    static const char *const votes[] = {"vote.sync.all.pred", "vote.sync.any.pred",
                                        "vote.sync.uni.pred", "vote.sync.ballot.b32",
                                        "match.any.sync.b32", "match.any.sync.b64",
                                        "match.all.sync.b32"};
    static const char *const sums[] = {"add.sync.u32", "add.sync.s32", "min.sync.u32",
                                       "max.sync.u32", "min.sync.s32", "max.sync.s32",
                                       "and.sync.b32", "or.sync.b32",  "xor.sync.b32"};

    if (s->mode <= RK_SHFL_IDX) {
        print_shuffle(p, s);
        return;
    }
    if (s->mode == RK_REDUX)
        fprintf(p->f, "redux.%s ", sums[s->n]);
    else
        fprintf(p->f, "%s ", votes[s->mode - RK_VOTE_ALL]);
    print_reg(p, s->class, s->regs[0]);
    if (s->mode == RK_MATCH_ALL)
        fprintf(p->f, "|%%pp%u", s->regs[1]);
    fputs(", ", p->f);
    print_src(p, &s->src[0]);
    fprintf(p->f, ", %%m%u;\n", p->mask);
}

static void
print_exchange(struct printing *p, const struct rk_stmt *s)
{
    static const char *const barriers[] = {"bar.sync 0", "barrier.sync 3",
                                           "barrier.cta.sync.aligned 1"};
    struct rk_mem mem = {.space = RK_SHARED, .region = RK_COL4, .off = 3, .how = 3};
    char where[64];

    print_address(p, &mem, where);
    fprintf(p->f, "st.shared.b32 %s, ", where);
    print_src(p, &s->src[0]);
    fprintf(p->f,
            ";\n%s;\nadd.u32 %%t2, %%tid_, %u; rem.u32 %%t2, %%t2, %u;\n"
            "mad.lo.u32 %%t1, %%t2, 4, %%sh32;\nld.shared.b32 ",
            barriers[s->mode], s->n, p->k->block);
    print_reg(p, RK_W, s->regs[0]);
    fprintf(p->f, ", %s;\n%s;\n", where, barriers[s->mode]);
}

static void
print_bar_red(struct printing *p, const struct rk_stmt *s)
{
    static const char *const words[] = {"bar.red.popc.u32", "bar.red.and.pred",
                                        "barrier.red.or.pred"};

    fprintf(p->f, "%s ", words[s->mode]);
    print_reg(p, s->class, s->regs[0]);
    fputs(", 2, ", p->f);
    print_src(p, &s->src[0]);
    fputs(";\n", p->f);
}

/* ---- regions -----------------------------------------------------------------------
 */

static void print_body(struct printing *p, const struct rk_list *list);

static bool
wants_mask(const struct rk_stmt *s)
{
    for (unsigned w = 0; w < RK_MAX_WAYS; w++)
        if (rk_list_has(&s->sub[w], RK_WARP, -1))
            return true;
    return false;
}

static void
print_if(struct printing *p, const struct rk_stmt *s)
{
    unsigned label = p->labels++, outside = p->mask, inside = outside;

    if (wants_mask(s)) {
        inside = ++p->masks;
        fprintf(p->f, "vote.sync.ballot.b32 %%m%u, %s%%pp%d, %%m%u;\n", inside,
                s->guard_not ? "!" : "", s->guard, outside);
    }
    fprintf(p->f, "@%s%%pp%d bra ELSE%u;\n", s->guard_not ? "" : "!", s->guard, label);
    p->mask = inside;
    print_body(p, &s->sub[0]);
    fprintf(p->f, "bra END%u;\nELSE%u:\n", label, label);
    if (inside != outside) {
        p->mask = ++p->masks;
        fprintf(p->f, "not.b32 %%m%u, %%m%u; and.b32 %%m%u, %%m%u, %%m%u;\n", p->mask,
                inside, p->mask, p->mask, outside);
    }
    print_body(p, &s->sub[1]);
    fprintf(p->f, "END%u:\n", label);
    p->mask = outside;
}

static void
print_loop(struct printing *p, const struct rk_stmt *s)
{
    unsigned label = p->labels++, outside = p->mask;
    bool mask = !s->n && wants_mask(s);
    FILE *f = p->f;

    if (s->n) {
        fprintf(f, "mov.u32 %%n%u, %u;\n", label, s->n);
    } else {
        fprintf(f, "and.b32 %%n%u, ", label);
        print_src(p, &s->src[0]);
        fputs(", 3;\n", f);
    }
    fprintf(f, "mov.u32 %%i%u, 0;\n", label);
    if (mask) {
        p->mask = ++p->masks;
        fprintf(f, "mov.b32 %%m%u, %%m%u;\n", p->mask, outside);
    }
    fprintf(f, "LOOP%u: setp.lt.u32 %%q1, %%i%u, %%n%u;\n", label, label, label);
    if (mask)
        fprintf(f, "vote.sync.ballot.b32 %%m%u, %%q1, %%m%u;\n", p->mask, p->mask);
    fprintf(f, "@!%%q1 bra DONE%u;\n", label);
    print_body(p, &s->sub[0]);
    fprintf(f, "add.u32 %%i%u, %%i%u, 1; bra LOOP%u;\nDONE%u:\n", label, label, label,
            label);
    p->mask = outside;
}

static void
print_switch(struct printing *p, const struct rk_stmt *s)
{
    unsigned label = p->labels++, outside = p->mask;
    bool mask = wants_mask(s);
    FILE *f = p->f;

    fprintf(f, "and.b32 %%s%u, ", label);
    print_src(p, &s->src[0]);
    fputs(", 3;\n", f);
    if (mask) { /* those that take the same way */
        p->mask = ++p->masks;
        fprintf(f, "match.any.sync.b32 %%m%u, %%s%u, %%m%u;\n", p->mask, label,
                outside);
    }
    fprintf(
        f,
        "WAYS%u: .branchtargets W%ux0, W%ux1, W%ux2, W%ux3;\nbrx.idx %%s%u, WAYS%u;\n",
        label, label, label, label, label, label, label);
    for (unsigned w = 0; w < RK_MAX_WAYS; w++) {
        fprintf(f, "W%ux%u:\n", label, w);
        print_body(p, &s->sub[w]);
        fprintf(f, "bra JOIN%u;\n", label);
    }
    fprintf(f, "JOIN%u:\n", label);
    p->mask = outside;
}

/* Every second function takes and returns registers, the others .param space. */
static bool
takes_registers(unsigned function)
{
    return function % 2;
}

static void
print_call_of_registers(struct printing *p, const struct rk_stmt *s)
{
    fputs("{ .reg .b32 a0; .reg .b64 a1, r0;\nmov.b32 a0, ", p->f);
    print_src(p, &s->src[0]);
    fputs("; mov.b64 a1, ", p->f);
    print_src(p, &s->src[1]);
    fprintf(p->f, ";\ncall (r0), f%u, (a0, a1);\nmov.b64 ", s->n);
    print_reg(p, RK_D, s->regs[0]);
    fputs(", r0; }\n", p->f);
}

static void
print_call(struct printing *p, const struct rk_stmt *s)
{
    if (takes_registers(s->n)) {
        print_call_of_registers(p, s);
        return;
    }
    fputs("{ .param .b32 a0; .param .b64 a1; .param .b64 r0;\nst.param.b32 [a0], ",
          p->f);
    print_src(p, &s->src[0]);
    fputs("; st.param.b64 [a1], ", p->f);
    print_src(p, &s->src[1]);
    fprintf(p->f, ";\ncall (r0), f%u, (a0, a1);\nld.param.b64 ", s->n);
    print_reg(p, RK_D, s->regs[0]);
    fputs(", [r0]; }\n", p->f);
}

static void
print_ret(struct printing *p, const struct rk_stmt *s)
{
    fprintf(p->f, "vote.sync.ballot.b32 %%m0, %s%%pp%d, %%m0;\n",
            s->guard_not ? "" : "!", s->guard);
    print_guard(p, s);
    fputs("ret;\n", p->f);
}

static void
print_stmt(struct printing *p, const struct rk_stmt *s)
{
    switch (s->kind) {
    case RK_ALU:
        print_alu(p, s);
        break;
    case RK_LOAD:
    case RK_STORE:
        print_access(p, s);
        break;
    case RK_GATHER:
        print_gather(p, s);
        break;
    case RK_ATOM:
        print_atom(p, s);
        break;
    case RK_RED:
        print_red(p, s);
        break;
    case RK_WARP:
        print_warp(p, s);
        break;
    case RK_EXCHANGE:
        print_exchange(p, s);
        break;
    case RK_BAR_RED:
        print_bar_red(p, s);
        break;
    case RK_IF:
        print_if(p, s);
        break;
    case RK_LOOP:
        print_loop(p, s);
        break;
    case RK_SWITCH:
        print_switch(p, s);
        break;
    case RK_CALL:
        print_call(p, s);
        break;
    case RK_RET:
        print_ret(p, s);
        break;
    }
}

static void
print_body(struct printing *p, const struct rk_list *list)
{
    for (unsigned i = 0; i < list->n; i++)
        if (!list->v[i].off)
            print_stmt(p, &list->v[i]);
}

/* ---- prologue and results ----------------------------------------------------------
 */

static unsigned
count_regions(const struct rk_list *list)
{
    unsigned n = 0;

    for (unsigned i = 0; i < list->n; i++) {
        const struct rk_stmt *s = &list->v[i];
        n += s->kind == RK_IF || s->kind == RK_LOOP || s->kind == RK_SWITCH;
        for (unsigned w = 0; w < RK_MAX_WAYS; w++)
            n += count_regions(&s->sub[w]);
    }
    return n;
}

static void
print_registers(struct printing *p, const struct rk_list *list)
{
    unsigned n = count_regions(list) + 1;

    fprintf(p->f,
            ".reg .b32 %%ww<%u>; .reg .b64 %%dd<%u>; .reg .b16 %%hh<%u>; "
            ".reg .pred %%pp<%u>;\n",
            rk_n_regs[RK_W], rk_n_regs[RK_D], rk_n_regs[RK_H], rk_n_regs[RK_P]);
    fprintf(p->f,
            ".reg .b32 %%t<3>; .reg .b64 %%u<2>; .reg .b16 %%v<1>; .reg .b16 %%h0; "
            ".reg .pred %%q<2>;\n"
            ".reg .b32 %%n<%u>; .reg .b32 %%i<%u>; .reg .b32 %%s<%u>; "
            ".reg .b32 %%m<%u>;\n",
            n, n, n, 2 * n + 1);
}

static void
print_halves_and_predicates(struct printing *p, unsigned shift)
{
    for (unsigned r = 0; r < rk_n_regs[RK_H]; r++)
        fprintf(p->f, "cvt.u16.u32 %%hh%u, %%ww%u;\n", r, r + shift);
    for (unsigned r = 0; r < rk_n_regs[RK_P]; r++)
        fprintf(p->f,
                "shr.u32 %%t0, %%ww%u, %u; and.b32 %%t0, %%t0, 1; "
                "setp.ne.u32 %%pp%u, %%t0, 0;\n",
                r + shift, r, r);
}

static void
print_function(struct printing *p, unsigned number)
{
    const char *space = takes_registers(number) ? ".reg" : ".param";
    FILE *f = p->f;

    p->labels = p->mask = p->masks = 0;
    fprintf(f, ".func (%s .b64 r0) f%u(%s .b32 a0, %s .b64 a1)\n{\n", space, number,
            space, space);
    print_registers(p, &p->k->functions[number]);
    fputs(".reg .b64 %table;\n", f);
    fputs("mov.u64 %table, gtab; ld.global.u64 %table, [%table];\n", f);
    fputs(takes_registers(number)
              ? "mov.b32 %ww0, a0; mov.b64 %dd0, a1;\n"
              : "ld.param.b32 %ww0, [a0]; ld.param.b64 %dd0, [a1];\n",
          f);
    for (unsigned r = 1; r < rk_n_regs[RK_W]; r++)
        fprintf(f, "xor.b32 %%ww%u, %%ww0, 0x%x;\n", r, r * 0x9e3779b9u);
    for (unsigned r = 1; r < rk_n_regs[RK_D]; r++)
        fprintf(f, "add.u64 %%dd%u, %%dd0, 0x%" PRIx64 ";\n", r,
                r * UINT64_C(0x9e3779b97f4a7c15));
    print_halves_and_predicates(p, 0);
    print_body(p, &p->k->functions[number]);
    fprintf(f,
            "cvt.u64.u32 %%u0, %%ww0; add.u64 %%u0, %%u0, %%dd0; %s, %%u0; ret;\n}\n",
            takes_registers(number) ? "mov.b64 r0" : "st.param.b64 [r0]");
}

static void
print_shared_start(struct printing *p)
{
    FILE *f = p->f;

    fprintf(f, ".shared .align 16 .b8 sh[%u]; .shared .align 8 .b8 scells[%u];\n",
            RK_OWN_BYTES * p->k->block, RK_CELLS * 8);
    fputs("mov.u64 %sh64, sh; cvta.shared.u64 %shgen, %sh64; mov.u32 %sh32, sh;\n"
          "mad.wide.u32 %u0, %tid_, 8, %sh64; mov.u64 %u1, 0;\n",
          f);
    for (unsigned i = 0; i < RK_OWN_BYTES / 8; i++)
        fprintf(f, "st.shared.u64 [%%u0+%u], %%u1;\n", i * 8 * p->k->block);
    fputs("setp.ne.u32 %q0, %tid_, 0; @%q0 bra STARTED;\n", f);
    for (unsigned i = 0; i < RK_CELLS; i++)
        fprintf(f, "mov.u64 %%u1, 0x%" PRIx64 "; st.shared.u64 [scells+%u], %%u1;\n",
                rk_cells[i].start, i * 8);
    fputs("STARTED: bar.sync 0;\n", f);
}

static void
print_start(struct printing *p)
{
    FILE *f = p->f;

    fputs(".reg .b64 %in, %table, %own, %out, %cells, %sh64, %shgen, %loc64, %locgen;\n"
          ".reg .b32 %tid_, %gid, %lane, %sh32;\n"
          ".local .align 16 .b8 loc[64];\n"
          "ld.param.u64 %in, [in]; ld.param.u64 %table, [table]; ld.param.u64 %own, "
          "[own];\n"
          "ld.param.u64 %out, [out]; ld.param.u64 %cells, [cells];\n"
          "mov.u32 %tid_, %tid.x; mov.u32 %lane, %laneid; mov.u32 %t0, %ctaid.x;\n"
          "mov.u32 %t1, %ntid.x; mad.lo.u32 %gid, %t0, %t1, %tid_;\n"
          "mov.u64 %loc64, loc; cvta.local.u64 %locgen, %loc64; mov.u64 %u0, 0;\n",
          f);
    for (unsigned i = 0; i < RK_LOCAL_BYTES / 8; i++)
        fprintf(f, "st.local.u64 [loc+%u], %%u0;\n", i * 8);
    if (rk_kernel_has_shared(p->k))
        print_shared_start(p);
    /* Which lanes of this warp there are. */
    fputs(
        "and.b32 %t0, %tid_, 0xffffffe0; mov.u32 %t1, %ntid.x; sub.u32 %t1, %t1, %t0;\n"
        "min.u32 %t1, %t1, 32; mov.u32 %t0, 1; shl.b32 %t0, %t0, %t1; "
        "sub.u32 %m0, %t0, 1;\n"
        "mul.wide.u32 %u0, %gid, 128; add.s64 %in, %in, %u0;\n",
        f);
    for (unsigned r = 0; r < rk_n_regs[RK_W]; r++)
        fprintf(f, "ld.global.u32 %%ww%u, [%%in+%u];\n", r, r * 8);
    for (unsigned r = 0; r < rk_n_regs[RK_D]; r++)
        fprintf(f, "ld.global.u64 %%dd%u, [%%in+%u];\n", r, (rk_n_regs[RK_W] + r) * 8);
    fputs("ld.param.u32 %t0, [word]; mad.lo.u32 %ww0, %tid_, 3, %t0; mov.u32 %ww1, "
          "%gid;\n"
          "ld.param.u64 %dd0, [long];\n",
          f);
    print_halves_and_predicates(p, 2);
}

static void
print_results(struct printing *p)
{
    FILE *f = p->f;
    unsigned at = 0;

    fprintf(f, "mad.wide.u32 %%out, %%gid, %u, %%out;\n", RK_OUT_WORDS * 8);
    for (unsigned r = 0; r < rk_n_regs[RK_W]; r++, at += 8)
        fprintf(f, "st.global.u32 [%%out+%u], %%ww%u;\n", at, r);
    for (unsigned r = 0; r < rk_n_regs[RK_D]; r++, at += 8)
        fprintf(f, "st.global.u64 [%%out+%u], %%dd%u;\n", at, r);
    for (unsigned r = 0; r < rk_n_regs[RK_H]; r++, at += 8)
        fprintf(f, "st.global.u16 [%%out+%u], %%hh%u;\n", at, r);
    for (unsigned r = 0; r < rk_n_regs[RK_P]; r++, at += 8)
        fprintf(f, "selp.u32 %%t0, 1, 0, %%pp%u; st.global.u32 [%%out+%u], %%t0;\n", r,
                at);
    if (rk_kernel_has_shared(p->k)) {
        fputs("bar.sync 0; mad.wide.u32 %u1, %tid_, 8, %sh64;\n", f);
        for (unsigned i = 0; i < RK_OWN_BYTES / 8; i++)
            fprintf(f,
                    "ld.shared.u64 %%u0, [%%u1+%u]; st.global.u64 [%%out+%u], %%u0;\n",
                    i * 8 * p->k->block, (RK_OUT_OWN + i) * 8);
        for (unsigned i = 0; i < RK_CELLS; i++)
            fprintf(
                f, "ld.shared.u64 %%u0, [scells+%u]; st.global.u64 [%%out+%u], %%u0;\n",
                i * 8, (RK_OUT_CELLS + i) * 8);
    }
    for (unsigned i = 0; i < RK_LOCAL_BYTES / 8; i++)
        fprintf(f, "ld.local.u64 %%u0, [loc+%u]; st.global.u64 [%%out+%u], %%u0;\n",
                i * 8, (RK_OUT_LOCAL + i) * 8);
}

char *
rk_print(const struct rk_kernel *k)
{
    struct printing p = {.k = k};
    size_t size;
    char *text = NULL;

    p.f = open_memstream(&text, &size);
    if (!p.f)
        abort();
    fprintf(p.f,
            "// seed %" PRIu64 ", grid %u, block %u, word 0x%x, long 0x%" PRIx64 "\n",
            k->seed, k->grid, k->block, k->param_word, k->param_long);
    fputs(".version 8.0\n.target sm_90\n.address_size 64\n.global .align 8 .u64 gtab;\n"
          ".const .align 4 .u32 ctab[64] = {",
          p.f);
    for (unsigned i = 0; i < RK_TABLE; i++)
        fprintf(p.f, "%s0x%x", i ? ", " : "", k->table[i]);
    fputs("};\n", p.f);
    for (unsigned i = 0; i < RK_FUNCTIONS; i++)
        if (rk_list_has(&k->body, RK_CALL, -1))
            print_function(&p, i);
    p.labels = p.mask = p.masks = 0;
    fputs(".visible .entry k(.param .u64 in, .param .u64 table, .param .u64 own,\n"
          "    .param .u64 out, .param .u64 cells, .param .u32 word, .param .u64 "
          "long)\n{\n",
          p.f);
    print_registers(&p, &k->body);
    print_start(&p);
    print_body(&p, &k->body);
    print_results(&p);
    fputs("ret;\n}\n", p.f);
    fclose(p.f);
    return text;
}
