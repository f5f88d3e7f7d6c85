/* SPDX-License-Identifier: Apache-2.0 */
/* See rk_run.h. */
#include "rk_run.h"

#include "gp_err.h"
#include "ptx_ast.h"
#include "rk_card.h"
#include "sg_exec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A kernel makes some ten thousand warp instructions; one that takes as many turns does
 * not end. */
#define TURN 20000
#define MAX_TURNS 2000

struct rk_run {
    struct sg_memview *view;
    struct rk_memory got, want;
    uint64_t *gtab, *ctab; /* the modules' variables */
    const char *broken;
    struct rk_card *card; /* NULL: the executor */
    unsigned check;       /* SG_CHECK_* */
    char accused[1024];   /* what a check has found */
};

void *
rk_run_memory(struct rk_run *run, size_t bytes)
{
    size_t span = GP_ALIGN_UP(bytes, (size_t)SG_GRANULE) + 2 * SG_GRANULE;
    uint64_t p = (uintptr_t)mmap(NULL, span, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    p = GP_ALIGN_UP(p, (uint64_t)SG_GRANULE);
    if (sg_memview_add(run->view, p, bytes, 0) < 0)
        abort();
    return (void *)(uintptr_t)p;
}

static void *
host_memory(struct rk_run *run, size_t bytes)
{
    void *p = calloc(1, bytes);

    (void)run;
    if (!p)
        abort();
    return p;
}

static void
make_memory(struct rk_run *run, struct rk_memory *m,
            void *(*allocate)(struct rk_run *run, size_t bytes))
{
    m->in = allocate(run, sizeof(uint64_t) * RK_MAX_THREADS * RK_IN_WORDS);
    m->table = allocate(run, sizeof(uint64_t) * RK_TABLE);
    m->own = allocate(run, (size_t)RK_MAX_THREADS * RK_OWN_BYTES);
    m->out = allocate(run, sizeof(uint64_t) * RK_MAX_THREADS * RK_OUT_WORDS);
    m->cells = allocate(run, sizeof(uint64_t) * RK_CELLS);
}

struct rk_run *
rk_run_new(void)
{
    struct rk_run *run = calloc(1, sizeof(*run));

    if (!run || sg_memview_new(&run->view) < 0)
        abort();
    make_memory(run, &run->got, rk_run_memory);
    make_memory(run, &run->want, host_memory);
    run->gtab = rk_run_memory(run, 8);
    run->ctab = rk_run_memory(run, 4 * RK_TABLE);
    return run;
}

void
rk_run_free(struct rk_run *run)
{
    if (!run)
        return;
    sg_memview_free(run->view);
    free(run->want.in);
    free(run->want.table);
    free(run->want.own);
    free(run->want.out);
    free(run->want.cells);
    free(run);
}

void
rk_run_break_reference(struct rk_run *run, const char *op)
{
    run->broken = op;
}

void
rk_run_on_card(struct rk_run *run, struct rk_card *card)
{
    run->card = card;
}

void
rk_run_check(struct rk_run *run, unsigned check)
{
    run->check = check;
}

/* ---- the executor ------------------------------------------------------------------
 */

static void
print_hook(void *user, const char *text, size_t len)
{
    (void)user;
    fwrite(text, 1, len, stderr);
}

static void
found_hook(void *user, const struct sg_finding *finding)
{
    struct rk_run *run = user;

    if (!run->accused[0])
        sg_finding_print(finding, run->accused, sizeof(run->accused));
}

static void
set_params(const struct sg_kernel *kernel, uint8_t *params, const uint64_t *values,
           unsigned n_values)
{
    for (uint32_t i = 0; i < kernel->n_params && i < n_values; i++)
        memcpy(params + kernel->params[i].offset, &values[i], kernel->params[i].size);
}

static enum sg_cta_state
run_cta(struct sg_cta *cta)
{
    enum sg_cta_state st = SG_CTA_YIELD;

    for (unsigned i = 0; i < MAX_TURNS && (st == SG_CTA_YIELD || st == SG_CTA_STALLED);
         i++)
        st = sg_cta_run(cta, TURN);
    return st;
}

static int
launch(struct sg_launch *l, struct gp_err *err)
{
    CLEANUP(sg_cta_freep) struct sg_cta *cta = NULL;
    enum sg_cta_state st = SG_CTA_DONE;
    int r = sg_launch_init(l, err);

    if (r < 0 || (r = sg_cta_new(&cta)) < 0)
        return r;
    for (uint64_t i = 0; i < l->n_ctas && st == SG_CTA_DONE; i++) {
        if ((r = sg_cta_start(cta, l, i, 0)) < 0)
            return r;
        st = run_cta(cta);
    }
    if (st == SG_CTA_FAULT)
        return gp_err_set(err, -1, "fault %d: %s, line %u", l->fault.code,
                          l->fault.what, l->fault.line);
    return st == SG_CTA_DONE ? 0 : gp_err_set(err, -1, "the kernel does not end");
}

static int
bind(struct rk_run *run, const struct sg_prog *prog, struct sg_inst **ret,
     struct gp_err *err)
{
    uint32_t n = sg_prog_n_globals(prog);
    uint64_t addrs[2];
    int r;

    for (uint32_t i = 0; i < n && i < 2; i++)
        addrs[i] =
            (uintptr_t)(strcmp(sg_prog_global(prog, i)->name, "gtab") == 0 ? run->gtab
                                                                           : run->ctab);
    r = sg_inst_new(prog, addrs, n, ret, err);
    for (uint32_t i = 0; r == 0 && i < n; i++)
        r = sg_inst_init_global(*ret, i, (void *)(uintptr_t)addrs[i], err);
    *run->gtab = (uintptr_t)run->got.table;
    return r;
}

/* The kernel k of @text; its parameters get @values. */
static int
run_text(struct rk_run *run, const char *text, unsigned grid, unsigned block,
         uint64_t order, const uint64_t *values, unsigned n_values, struct gp_err *err)
{
    struct sg_target target = {9, 0, 1024, 100 << 10, 128, 512 << 10, 4096, run->check};
    struct sg_hooks hooks = {.user = run,
                             .print = print_hook,
                             .assert_failed = print_hook,
                             .found = found_hook};
    CLEANUP(ptx_module_freep) struct ptx_module *mod = NULL;
    CLEANUP(sg_prog_freep) struct sg_prog *prog = NULL;
    CLEANUP(sg_inst_freep) struct sg_inst *inst = NULL;
    uint8_t params[256] = {0};
    struct sg_launch l = {.grid = {grid, 1, 1},
                          .block = {block, 1, 1},
                          .hooks = &hooks,
                          .stack_bytes = 16384,
                          .n_sms = 1,
                          .view = run->view,
                          .params = params,
                          .seed = order};
    int r;

    if ((r = ptx_parse(text, strlen(text), &mod, err)) < 0 ||
        (r = sg_prog_new(mod, &target, &prog, err)) < 0)
        return r;
    l.kernel = sg_prog_find_kernel(prog, "k");
    if ((r = sg_kernel_prepare(l.kernel, err)) < 0 ||
        (r = bind(run, prog, &inst, err)) < 0)
        return r;
    l.inst = inst;
    set_params(l.kernel, params, values, n_values);
    run->accused[0] = 0;
    r = launch(&l, err);
    sg_launch_end(&l);
    return r == 0 && run->accused[0] ? gp_err_set(err, -1, "%s", run->accused) : r;
}

int
rk_run_text(struct rk_run *run, const char *text, unsigned grid, unsigned block,
            const uint64_t *values, unsigned n_values, struct gp_err *err)
{
    return run_text(run, text, grid, block, 0, values, n_values, err);
}

static int
execute(struct rk_run *run, const struct rk_kernel *k, uint64_t order,
        struct gp_err *err)
{
    CLEANUP_FREE char *text = rk_print(k);
    const uint64_t values[] = {(uintptr_t)run->got.in,
                               (uintptr_t)run->got.table,
                               (uintptr_t)run->got.own,
                               (uintptr_t)run->got.out,
                               (uintptr_t)run->got.cells,
                               k->param_word,
                               k->param_long};

    return run_text(run, text, k->grid, k->block, order, values, ARRAY_SIZE(values),
                    err);
}

/* ---- the comparison ----------------------------------------------------------------
 */

static bool
same(const char *name, const void *got, const void *want, size_t n, size_t row,
     char *words, size_t size)
{
    const uint64_t *g = got, *w = want;

    for (size_t i = 0; i < n / 8; i++) {
        if (g[i] == w[i])
            continue;
        snprintf(words, size,
                 "%s[%zu] word %zu: %016" PRIx64 ", the reference %016" PRIx64, name,
                 i / row, i % row, g[i], w[i]);
        return false;
    }
    return true;
}

static bool
uses(const struct rk_list *list, const char *op)
{
    for (unsigned i = 0; i < list->n; i++) {
        const struct rk_stmt *s = &list->v[i];
        if (!s->off && s->kind == RK_ALU && strcmp(s->op->name, op) == 0)
            return true;
        for (unsigned w = 0; !s->off && w < RK_MAX_WAYS; w++)
            if (uses(&s->sub[w], op))
                return true;
    }
    return false;
}

bool
rk_run_agrees(struct rk_run *run, const struct rk_kernel *k, uint64_t order,
              char *words, size_t size)
{
    struct gp_err err = {0};
    int r;

    rk_memory_fill(k, &run->got);
    rk_memory_fill(k, &run->want);
    rk_eval(k, &run->want);
    if (run->broken && uses(&k->body, run->broken))
        run->want.out[0] ^= 1;
    r = run->card ? rk_card_run(run->card, k, &run->got, &err)
                  : execute(run, k, order, &err);
    if (r < 0) {
        snprintf(words, size, "%s", gp_err_msg(&err, r));
        return false;
    }
    return same("results of thread ", run->got.out, run->want.out, run->got.n_out * 8,
                RK_OUT_WORDS, words, size) &&
           same("memory", run->got.own, run->want.own, run->got.n_own, 16, words,
                size) &&
           same("cells", run->got.cells, run->want.cells, RK_CELLS * 8, RK_CELLS, words,
                size);
}

/* ---- the shortest ------------------------------------------------------------------
 */

struct all {
    struct rk_stmt *v[512];
    unsigned n;
};

static void
collect(struct all *all, struct rk_list *list)
{
    for (unsigned i = 0; i < list->n; i++) {
        if (all->n < 512)
            all->v[all->n++] = &list->v[i];
        for (unsigned w = 0; w < RK_MAX_WAYS; w++)
            collect(all, &list->v[i].sub[w]);
    }
}

/* Without the statements from @at on, if the difference stays. */
static bool
leave_out(struct rk_run *run, struct rk_kernel *k, uint64_t order, struct all *all,
          unsigned at, unsigned n)
{
    bool was[512], any = false;
    char words[256];

    for (unsigned i = at; i < at + n && i < all->n; i++) {
        was[i] = all->v[i]->off;
        any |= !was[i];
        all->v[i]->off = true;
    }
    if (any && !rk_run_agrees(run, k, order, words, sizeof(words)))
        return true;
    for (unsigned i = at; i < at + n && i < all->n; i++)
        all->v[i]->off = was[i];
    return false;
}

void
rk_run_shrink(struct rk_run *run, struct rk_kernel *k, uint64_t order)
{
    struct all all = {{NULL}, 0};
    bool changed = true;

    collect(&all, &k->body);
    for (unsigned i = 0; i < RK_FUNCTIONS; i++)
        collect(&all, &k->functions[i]);
    for (unsigned size = all.n; size && (size > 1 || changed);
         size = size > 1 ? size / 2 : 1) {
        changed = false;
        for (unsigned at = 0; at < all.n; at += size)
            changed |= leave_out(run, k, order, &all, at, size);
    }
}
