/* SPDX-License-Identifier: Apache-2.0 */
/* See ut_sgx.h. */
#include "ut_sgx.h"

#include "gp_err.h"
#include "ptx_ast.h"
#include "ut.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static const struct sg_target target = {8, 6, 1024, 100 << 10, 0, 512 << 10, 4096, 0};

static void
print_hook(void *user, const char *text, size_t len)
{
    struct ut_sgx *u = user;

    len = gp_min(len, sizeof(u->printed) - 1 - u->n_printed);
    memcpy(u->printed + u->n_printed, text, len);
    u->n_printed += len;
}

static void
found_hook(void *user, const struct sg_finding *finding)
{
    struct ut_sgx *u = user;

    if (u->n_found < ARRAY_SIZE(u->found))
        u->found[u->n_found] = *finding;
    u->n_found++;
}

static struct ptx_module *
parsed(const char *ptx)
{
    struct ptx_module *mod = NULL;
    struct gp_err err = {0};

    if (ptx_parse(ptx, strlen(ptx), &mod, &err) < 0)
        fail_msg("%s", err.msg);
    return mod;
}

void
ut_sgx_open(struct ut_sgx *u, const char *ptx)
{
    ut_sgx_open_module(u, parsed(ptx));
}

static void
open_module(struct ut_sgx *u, struct ptx_module *mod, unsigned check)
{
    struct sg_target card = target;
    struct gp_err err = {0};
    uint64_t addrs[64];
    int r;

    memset(u, 0, sizeof(*u));
    u->mod = mod;
    assert_int_equal(sg_memview_new(&u->view), 0);
    card.check = check;
    r = sg_prog_new(u->mod, &card, &u->prog, &err);
    if (r == 0) {
        u->launch.kernel = sg_prog_find_kernel(u->prog, "k");
        assert_non_null(u->launch.kernel);
        r = sg_kernel_prepare(u->launch.kernel, &err);
    }
    if (r < 0)
        fail_msg("%s", gp_err_msg(&err, r));
    assert_in_range(sg_prog_n_globals(u->prog), 0, ARRAY_SIZE(addrs));
    for (uint32_t i = 0; i < sg_prog_n_globals(u->prog); i++)
        addrs[i] = (uintptr_t)ut_sgx_buf(u, sg_prog_global(u->prog, i)->size);
    r = sg_inst_new(u->prog, addrs, sg_prog_n_globals(u->prog), &u->inst, &err);
    assert_int_equal(r, 0);
    for (uint32_t i = 0; i < sg_prog_n_globals(u->prog); i++)
        assert_int_equal(
            sg_inst_init_global(u->inst, i, (void *)(uintptr_t)addrs[i], &err), 0);
    u->hooks = (struct sg_hooks){.user = u,
                                 .print = print_hook,
                                 .assert_failed = print_hook,
                                 .found = found_hook};
    u->launch.hooks = &u->hooks;
    u->launch.inst = u->inst;
    u->launch.view = u->view;
    u->launch.params = u->params;
    u->launch.cancel = &u->cancel;
    u->launch.stack_bytes = 65536;
    ut_sgx_shape(u, 1, 32);
}

void
ut_sgx_open_module(struct ut_sgx *u, struct ptx_module *mod)
{
    open_module(u, mod, 0);
}

void
ut_sgx_open_checked(struct ut_sgx *u, const char *ptx, unsigned check)
{
    open_module(u, parsed(ptx), check);
}

void
ut_sgx_close(struct ut_sgx *u)
{
    sg_launch_end(&u->launch);
    sg_inst_free(u->inst);
    sg_prog_free(u->prog);
    ptx_module_free(u->mod);
    sg_memview_free(u->view);
}

void
ut_sgx_is_clean(struct ut_sgx *u, const char *ptx)
{
    char text[1024] = "";

    if (u->n_found)
        sg_finding_print(&u->found[0], text, sizeof(text));
    if (u->n_found)
        fail_msg("found in a kernel that keeps to the rules: %s\n%s", text, ptx);
    ut_sgx_close(u);
}

void
ut_sgx_has(struct ut_sgx *u, enum sg_finding_kind kind, const char *words)
{
    char text[1024] = "";
    bool found = false;

    for (size_t i = 0; i < gp_min(u->n_found, ARRAY_SIZE(u->found)) && !found; i++) {
        sg_finding_print(&u->found[i], text, sizeof(text));
        found = u->found[i].kind == kind && strstr(text, words);
    }
    if (!found)
        fail_msg("expected \"%s\", found %zu, the last:\n%s", words, u->n_found, text);
    ut_sgx_close(u);
}

void *
ut_sgx_buf(struct ut_sgx *u, size_t bytes)
{
    size_t span = GP_ALIGN_UP(bytes, (size_t)SG_GRANULE) + SG_GRANULE;
    uint64_t p = (uintptr_t)mmap(NULL, span + SG_GRANULE, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    p = GP_ALIGN_UP(p, (uint64_t)SG_GRANULE);
    assert_int_equal(sg_memview_add(u->view, p, bytes, 0), 0);
    return (void *)(uintptr_t)p;
}

void
ut_sgx_param(struct ut_sgx *u, unsigned index, uint64_t value)
{
    const struct sg_param *p = &u->launch.kernel->params[index];

    assert_true(index < u->launch.kernel->n_params);
    memcpy((char *)u->params + p->offset, &value, gp_min(p->size, 8u));
}

void
ut_sgx_shape(struct ut_sgx *u, unsigned grid, unsigned block)
{
    u->launch.grid[0] = grid;
    u->launch.block[0] = block;
    u->launch.grid[1] = u->launch.grid[2] = 1;
    u->launch.block[1] = u->launch.block[2] = 1;
}

static void
init(struct ut_sgx *u)
{
    struct gp_err err = {0};

    sg_launch_end(&u->launch);
    if (sg_launch_init(&u->launch, &err) < 0)
        fail_msg("%s", err.msg);
    u->launch.grid_id++;
}

static enum sg_cta_state
run_one(struct sg_cta *cta)
{
    enum sg_cta_state st;

    do
        st = sg_cta_run(cta, 10000);
    while (st == SG_CTA_YIELD || st == SG_CTA_STALLED);
    return st;
}

enum sg_cta_state
ut_sgx_run(struct ut_sgx *u)
{
    CLEANUP(sg_cta_freep) struct sg_cta *cta = NULL;
    enum sg_cta_state st = SG_CTA_DONE;

    init(u);
    assert_int_equal(sg_cta_new(&cta), 0);
    for (uint64_t i = 0; i < u->launch.n_ctas && st == SG_CTA_DONE; i++) {
        assert_int_equal(sg_cta_start(cta, &u->launch, i, 0), 0);
        st = run_one(cta);
    }
    return st;
}

struct worker {
    struct ut_sgx *u;
    unsigned number;
    uint64_t *next;
    enum sg_cta_state st;
    pthread_t thread;
};

/* The calling thread stays on one of the processors that this process may use, its
 * @number-th: a busy machine runs two threads of a test on one processor otherwise, and
 * never at once. */
static void
stay_apart(unsigned number)
{
    cpu_set_t may, one;

    if (sched_getaffinity(0, sizeof(may), &may) < 0 || CPU_COUNT(&may) < 2)
        return;
    number %= (unsigned)CPU_COUNT(&may);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &may) || number--)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof(one), &one);
        return;
    }
}

static void *
worker_main(void *arg)
{
    CLEANUP(sg_cta_freep) struct sg_cta *cta = NULL;
    struct worker *w = arg;
    uint64_t i;

    stay_apart(w->number);
    w->st = SG_CTA_DONE;
    if (sg_cta_new(&cta) < 0)
        return NULL;
    while (w->st == SG_CTA_DONE &&
           (i = __atomic_fetch_add(w->next, 1, __ATOMIC_RELAXED)) <
               w->u->launch.n_ctas) {
        if (sg_cta_start(cta, &w->u->launch, i, 0) < 0)
            return NULL;
        w->st = run_one(cta);
    }
    return NULL;
}

enum sg_cta_state
ut_sgx_run_threads(struct ut_sgx *u, unsigned threads)
{
    struct worker w[8];
    enum sg_cta_state st = SG_CTA_DONE;
    uint64_t next = 0;

    assert_in_range(threads, 1, 8);
    init(u);
    for (unsigned i = 0; i < threads; i++) {
        w[i] = (struct worker){.u = u, .number = i, .next = &next};
        assert_int_equal(pthread_create(&w[i].thread, NULL, worker_main, &w[i]), 0);
    }
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(w[i].thread, NULL);
        if (w[i].st != SG_CTA_DONE)
            st = w[i].st;
    }
    return st;
}

enum sg_cta_state
ut_sgx_run_resident(struct ut_sgx *u, uint64_t budget)
{
    struct sg_cta *ctas[16] = {0};
    enum sg_cta_state st = SG_CTA_DONE, one;
    bool left = true;

    init(u);
    assert_in_range(u->launch.n_ctas, 1, 16);
    for (uint64_t i = 0; i < u->launch.n_ctas; i++) {
        assert_int_equal(sg_cta_new(&ctas[i]), 0);
        assert_int_equal(sg_cta_start(ctas[i], &u->launch, i, 0), 0);
    }
    while (left && st == SG_CTA_DONE) {
        left = false;
        for (uint64_t i = 0; i < u->launch.n_ctas; i++) {
            one = sg_cta_run(ctas[i], budget);
            left |= one == SG_CTA_YIELD || one == SG_CTA_STALLED;
            if (one == SG_CTA_FAULT || one == SG_CTA_CANCELLED)
                st = one;
        }
    }
    for (uint64_t i = 0; i < u->launch.n_ctas; i++)
        sg_cta_free(ctas[i]);
    return st;
}

int
ut_sgx_prepare_error(const char *ptx, char *words, size_t size)
{
    struct ptx_module *mod = NULL;
    struct sg_prog *prog = NULL;
    struct gp_err err = {0};
    int r = ptx_parse(ptx, strlen(ptx), &mod, &err);

    if (r == 0)
        r = sg_prog_new(mod, &target, &prog, &err);
    if (r == 0)
        r = sg_kernel_prepare(sg_prog_find_kernel(prog, "k"), &err);
    snprintf(words, size, "%s", err.msg);
    sg_prog_free(prog);
    ptx_module_free(mod);
    return r;
}
