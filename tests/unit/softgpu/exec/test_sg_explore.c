/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Litmus tests of the memory model, exhaustively: every order in which the threads'
 * accesses can reach memory on the processors that the executor runs on.
 *
 * Threads are CTAs, run by the real executor, from the bytecode that lowering makes of
 * the PTX, one access at a time (SG_CHECK_STEPS); the test chooses who goes on.  What a
 * thread stores goes into a store buffer of its own, which the thread sees and the
 * others do not, until the test chooses to let a store through: the oldest (total store
 * order, as x86-64 has it), or the oldest to any one variable (partial store order).
 * Fences and atomics wait until the buffer is empty.  All choices are tried, so what is
 * never seen cannot happen on such a machine; what is allowed and can happen is seen.
 *
 * Loads are done in the order of the program: an Arm processor may do otherwise.
 */
#include "litmus.h"
#include "ut_sgx.h"

#include "ut.h"

#include "insn_watch.h"
#include "sg_cta.h"

#include <stdlib.h>

#define N_VARS 3
#define VAR_STRIDE 64
#define MAX_BUFFER 4
#define MAX_CHOICES 64

enum order { TOTAL_STORE_ORDER, PARTIAL_STORE_ORDER };

struct store {
    unsigned var;
    uint32_t value;
};

struct thread {
    struct sg_cta *cta;
    bool done;
    struct store buffer[MAX_BUFFER]; /* the oldest first */
    unsigned n_buffer;
};

struct explorer {
    struct ut_sgx u;
    enum order order;
    unsigned n;
    struct thread threads[MAX_THREADS];
    uint32_t memory[N_VARS]; /* as all see it */
    char *vars;              /* as the thread sees it that runs */
    uint32_t *out;
    struct {
        unsigned taken, of;
    } choices[MAX_CHOICES];
    unsigned n_choices, at;
};

static char *
kernel_text(const struct litmus *l, const char *scope)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    assert_non_null(to);
    fprintf(to,
            ".version 7.0\n.target sm_70\n.address_size 64\n"
            ".visible .entry k(.param .u64 vars, .param .u64 out)\n{\n"
            ".reg .pred %%p<4>; .reg .b32 %%t, %%v, %%a, %%b, %%c;\n"
            ".reg .b64 %%x, %%y, %%z, %%o;\n"
            "ld.param.u64 %%x, [vars]; ld.param.u64 %%o, [out];\n"
            "add.u64 %%y, %%x, %u; add.u64 %%z, %%x, %u; mov.u32 %%t, %%ctaid.x;\n"
            "mov.u32 %%a, 0; mov.u32 %%b, 0; mov.u32 %%c, 0;\n",
            VAR_STRIDE, 2 * VAR_STRIDE);
    for (unsigned t = 0; t < litmus_threads(l); t++) {
        fprintf(to, "setp.ne.u32 %%p0, %%t, %u; @%%p0 bra NOT%u;\n", t, t);
        litmus_code(to, l->code[t], scope);
        fprintf(to, "bra JOIN;\nNOT%u:\n", t);
    }
    fputs("JOIN: mad.wide.u32 %o, %t, 16, %o;\n"
          "st.global.v4.u32 [%o], {%a, %b, %c, %t};\nret;\n}\n",
          to);
    fclose(to);
    return text;
}

/* ------------------------------------------------------------------------ choices */

/* One of @of ways to go on; all of them, from one run to the next. */
static unsigned
choose(struct explorer *e, unsigned of)
{
    assert_in_range(e->at, 0, MAX_CHOICES - 1);
    if (e->at == e->n_choices) {
        e->choices[e->n_choices].taken = 0;
        e->choices[e->n_choices++].of = of;
    }
    assert_int_equal(e->choices[e->at].of, of); /* a run is repeated as it was */
    return e->choices[e->at++].taken;
}

/* Whether there is another run. */
static bool
next_run(struct explorer *e)
{
    while (e->n_choices) {
        if (++e->choices[e->n_choices - 1].taken < e->choices[e->n_choices - 1].of)
            return true;
        e->n_choices--;
    }
    return false;
}

/* ------------------------------------------------------------------------ threads */

/* The operation at which the thread was stopped. */
static const struct sg_insn *
pending(const struct thread *t)
{
    const struct sg_insn *op = &t->cta->unit->ops[t->cta->warps[0]->frags[0].pc];

    return op->code == SG_OP_GUARD ? op + 1 : op;
}

/* Which variable it is about; N_VARS: none. */
static unsigned
pending_var(const struct explorer *e, const struct thread *t)
{
    const struct sg_insn *op = pending(t);
    uint64_t addr;

    if (sg_watches[op->code].kind == SG_WATCH_FENCE)
        return N_VARS;
    addr = sg_reg_d(t->cta->warps[0], op->a)[0] + (uint64_t)op->imm;
    addr = (addr - (uintptr_t)e->vars) / VAR_STRIDE;
    return addr < N_VARS ? (unsigned)addr : N_VARS;
}

static uint32_t *
seen_var(const struct explorer *e, unsigned var)
{
    return (uint32_t *)(void *)(e->vars + var * VAR_STRIDE);
}

/* Runs the operation at which the thread was stopped, and on to the next one. */
static void
step(struct explorer *e, struct thread *t, const struct sg_insn *op, unsigned var)
{
    enum sg_cta_state st;

    for (unsigned v = 0; v < N_VARS; v++)
        *seen_var(e, v) = e->memory[v];
    for (unsigned i = 0; i < t->n_buffer; i++)
        *seen_var(e, t->buffer[i].var) = t->buffer[i].value;
    st = sg_cta_run(t->cta, 1u << 20);
    t->done = st == SG_CTA_DONE;
    assert_true(t->done || st == SG_CTA_YIELD);
    if (var == N_VARS)
        return;
    if (sg_watches[op->code].kind == SG_WATCH_ATOM) {
        e->memory[var] = *seen_var(e, var);
    } else if (sg_watches[op->code].store) {
        assert_in_range(t->n_buffer, 0, MAX_BUFFER - 1);
        t->buffer[t->n_buffer++] = (struct store){var, *seen_var(e, var)};
    }
}

static bool
can_step(const struct thread *t)
{
    const enum sg_watch_kind kind =
        t->done ? SG_WATCH_NONE : sg_watches[pending(t)->code].kind;

    return !t->done &&
           (t->n_buffer == 0 || (kind != SG_WATCH_FENCE && kind != SG_WATCH_ATOM));
}

/* What no other thread notices happens at once. */
static void
run_quietly(struct explorer *e, struct thread *t)
{
    while (can_step(t) && pending_var(e, t) == N_VARS)
        step(e, t, pending(t), N_VARS);
}

/* Which stores may reach memory now, as a mask. */
static unsigned
ripe(const struct explorer *e, const struct thread *t)
{
    unsigned mask = 0, vars = 0;

    for (unsigned i = 0; i < t->n_buffer; i++) {
        if (e->order == TOTAL_STORE_ORDER ? i == 0 : !(vars >> t->buffer[i].var & 1))
            mask |= 1u << i;
        vars |= 1u << t->buffer[i].var;
    }
    return mask;
}

static void
let_through(struct explorer *e, struct thread *t, unsigned i)
{
    e->memory[t->buffer[i].var] = t->buffer[i].value;
    t->n_buffer--;
    memmove(&t->buffer[i], &t->buffer[i + 1], (t->n_buffer - i) * sizeof(t->buffer[0]));
}

/* One of the things that can happen next; false: nothing can. */
static bool
happen(struct explorer *e)
{
    struct {
        struct thread *t;
        int store; /* -1: the thread's next operation */
    } ways[MAX_THREADS * (MAX_BUFFER + 1)];
    unsigned n = 0, k;

    for (unsigned i = 0; i < e->n; i++) {
        struct thread *t = &e->threads[i];
        unsigned mask = ripe(e, t);
        if (can_step(t))
            ways[n].t = t, ways[n++].store = -1;
        for (unsigned s = 0; s < t->n_buffer; s++)
            if (mask >> s & 1)
                ways[n].t = t, ways[n++].store = (int)s;
    }
    if (n == 0)
        return false;
    k = n > 1 ? choose(e, n) : 0;
    if (ways[k].store >= 0)
        let_through(e, ways[k].t, (unsigned)ways[k].store);
    else
        step(e, ways[k].t, pending(ways[k].t), pending_var(e, ways[k].t));
    run_quietly(e, ways[k].t);
    return true;
}

static bool
run_once(struct explorer *e, const struct litmus *l)
{
    struct outcome o = {0};

    e->at = 0;
    memset(e->memory, 0, sizeof(e->memory));
    for (unsigned i = 0; i < e->n; i++) {
        struct thread *t = &e->threads[i];
        assert_int_equal(sg_cta_start(t->cta, &e->u.launch, i, 0), 0);
        t->done = false;
        t->n_buffer = 0;
        step(e, t, NULL, N_VARS);
        run_quietly(e, t);
    }
    while (happen(e))
        ;
    for (unsigned i = 0; i < e->n; i++)
        assert_true(e->threads[i].done);
    for (unsigned i = 0; i < MAX_THREADS; i++)
        o.r[i] = e->out + (size_t)i * 4;
    o.x = e->memory[0];
    o.y = e->memory[1];
    o.z = e->memory[2];
    return l->seen(&o);
}

/* In how many of *ret_runs runs the outcome was seen. */
static unsigned
explore(const struct litmus *l, const char *scope, enum order order, unsigned *ret_runs)
{
    struct explorer e = {.order = order, .n = litmus_threads(l)};
    CLEANUP_FREE char *text = kernel_text(l, scope);
    unsigned seen = 0;

    ut_sgx_open_checked(&e.u, text, SG_CHECK_STEPS);
    e.vars = ut_sgx_buf(&e.u, N_VARS * VAR_STRIDE);
    e.out = ut_sgx_buf(&e.u, MAX_THREADS * 16);
    ut_sgx_param(&e.u, 0, (uintptr_t)e.vars);
    ut_sgx_param(&e.u, 1, (uintptr_t)e.out);
    ut_sgx_shape(&e.u, e.n, 1);
    assert_int_equal(sg_launch_init(&e.u.launch, NULL), 0);
    for (unsigned i = 0; i < e.n; i++)
        assert_int_equal(sg_cta_new(&e.threads[i].cta), 0);
    *ret_runs = 0;
    do {
        seen += run_once(&e, l);
        ++*ret_runs;
    } while (next_run(&e));
    for (unsigned i = 0; i < e.n; i++)
        sg_cta_free(e.threads[i].cta);
    ut_sgx_close(&e.u);
    return seen;
}

static void
check(enum order order)
{
    static const char *const scopes[] = {"gpu", "sys"};
    unsigned wrong = 0, runs, all = 0;

    for (size_t i = 0; i < ARRAY_SIZE(litmus_tests); i++) {
        const struct litmus *l = &litmus_tests[i];
        for (size_t s = 0; s < ARRAY_SIZE(scopes); s++) {
            unsigned seen = explore(l, scopes[s], order, &runs);
            all += runs;
            if (l->allowed || seen)
                print_message("%s, %s: %s, seen in %u of %u orders\n", l->name,
                              scopes[s], l->allowed ? "allowed" : "forbidden", seen,
                              runs);
            wrong += !l->allowed && seen;
        }
    }
    print_message("%u orders\n", all);
    assert_int_equal(wrong, 0);
}

static void
no_total_store_order_shows_what_is_forbidden(void **state)
{
    (void)state;
    check(TOTAL_STORE_ORDER);
}

static void
no_partial_store_order_shows_what_is_forbidden(void **state)
{
    (void)state;
    check(PARTIAL_STORE_ORDER);
}

static unsigned
seen_in(const char *name, enum order order)
{
    unsigned runs;

    for (size_t i = 0; i < ARRAY_SIZE(litmus_tests); i++)
        if (strcmp(litmus_tests[i].name, name) == 0)
            return explore(&litmus_tests[i], "gpu", order, &runs);
    fail_msg("no litmus test \"%s\"", name);
    return 0;
}

/* The search finds what store buffers are known for, and nothing that they cannot do.
 */
static void
what_store_buffers_allow_is_seen(void **state)
{
    (void)state;
    assert_true(seen_in("SB, relaxed", TOTAL_STORE_ORDER) > 0);
    assert_true(seen_in("SB, release and acquire", TOTAL_STORE_ORDER) > 0);
    assert_true(seen_in("MP, relaxed", PARTIAL_STORE_ORDER) > 0);
    assert_int_equal(seen_in("MP, relaxed", TOTAL_STORE_ORDER), 0);
    assert_int_equal(seen_in("IRIW, relaxed", TOTAL_STORE_ORDER), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_total_store_order_shows_what_is_forbidden),
        cmocka_unit_test(no_partial_store_order_shows_what_is_forbidden),
        cmocka_unit_test(what_store_buffers_allow_is_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
