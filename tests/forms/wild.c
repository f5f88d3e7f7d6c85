/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wild FILE...: kernels that try to get at memory which is not theirs.
 *
 * Every kernel (u64 wild, u32 near, u64 out) of the files is run with @wild pointing
 * into memory of this process, at the edges of the kernel's own buffer and beyond
 * every address; once with one content of that memory and once with another, without
 * and with the checks of SOFTGPU_CHECK.  The process must live, the memory must be as
 * it was, and nothing that a kernel leaves may depend on what it held.  One thread, no
 * API above the executor.
 */
#include "gp_base.h"
#include "gp_err.h"
#include "gp_file.h"
#include "ptx_ast.h"
#include "sg_exec.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum {
    OWN = 4096, /* the kernel's buffer; ours begins right behind it */
    SECRET = 65536,
    THREADS = 128, /* a warpgroup */
    SHARED = 8192,
    PIECE = 20000,    /* instructions in a turn */
    PIECES = 20,      /* then it is cancelled, */
    PIECES_MORE = 20, /* and has to end */
    CHECK_ALL = SG_CHECK_FAULTS | SG_CHECK_INIT | SG_CHECK_RACES | SG_CHECK_BARRIERS
};

struct world {
    struct sg_memview *view;
    uint8_t *own, *secret, *spare; /* [OWN], [SECRET]; spare: what own was */
    struct {
        char text[4096];
        size_t n;
    } printed;
    unsigned runs, faults;
};

/* What can be seen of a run afterwards. */
struct seen {
    uint8_t own[OWN];
    char printed[4096];
    size_t n_printed;
    int fault;
    uint32_t line;
};

static void
hear(void *user, const char *text, size_t len)
{
    struct world *w = user;

    for (size_t i = 0; i < len && w->printed.n < sizeof(w->printed.text); i++)
        w->printed.text[w->printed.n++] = text[i];
}

static int
world_open(struct world *w)
{
    uint8_t *p = mmap(NULL, 2 * SECRET, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED || sg_memview_new(&w->view) < 0)
        return -1;
    w->own = p + SECRET - OWN;
    w->secret = p + SECRET;
    return sg_memview_add(w->view, (uintptr_t)w->own, OWN, 0);
}

static void
fill(struct world *w, unsigned content)
{
    for (unsigned i = 0; i < SECRET; i++)
        w->secret[i] = (uint8_t)(content ? 0x35 + i * 7 : 0xca - i * 5);
}

static bool
is_filled(const struct world *w, unsigned content)
{
    for (unsigned i = 0; i < SECRET; i++)
        if (w->secret[i] != (uint8_t)(content ? 0x35 + i * 7 : 0xca - i * 5))
            return false;
    return true;
}

/* To its end, or until it is cancelled; false: it did not end even then. */
static bool
run_cta(struct sg_cta *cta, int *cancel)
{
    for (unsigned n = 0; n < PIECES + PIECES_MORE; n++) {
        enum sg_cta_state state = sg_cta_run(cta, PIECE);

        if (state != SG_CTA_YIELD && state != SG_CTA_STALLED)
            return true;
        *cancel = n + 1 >= PIECES;
    }
    return false;
}

/* NULL, or what it did that it must not. */
static const char *
run_once(struct world *w, struct sg_cta *cta, const struct sg_inst *inst,
         const struct sg_kernel *kernel, const uint64_t params[3], unsigned content,
         struct seen *seen)
{
    const struct sg_hooks hooks = {.user = w, .print = hear, .assert_failed = hear};
    int cancel = 0;
    struct sg_launch launch = {
        .inst = inst,
        .kernel = kernel,
        .grid = {1, 1, 1},
        .block = {THREADS, 1, 1},
        .dyn_shared = SHARED,
        .stack_bytes = 1024,
        .params = params,
        .view = w->view,
        .hooks = &hooks,
        .cancel = &cancel,
        .n_sms = 1,
    };
    struct gp_err err = {0};

    fill(w, content);
    memset(w->own, 0, OWN);
    w->printed.n = 0;
    if (sg_launch_init(&launch, &err) < 0 || sg_cta_start(cta, &launch, 0, 0) < 0)
        return "could not be started";
    if (!run_cta(cta, &cancel))
        return "goes on after it was cancelled";
    memset(seen, 0, sizeof(*seen));
    memcpy(seen->own, w->own, OWN);
    memcpy(seen->printed, w->printed.text, w->printed.n);
    seen->n_printed = w->printed.n;
    seen->fault = launch.fault.code;
    seen->line = launch.fault.line;
    w->runs++;
    w->faults += launch.fault.code != SG_FAULT_NONE;
    return is_filled(w, content) ? NULL : "wrote memory that is not its own";
}

static const char *
run_both(struct world *w, struct sg_cta *cta, const struct sg_inst *inst,
         const struct sg_kernel *kernel, const uint64_t params[3])
{
    static struct seen one, other, again;
    const char *bad = run_once(w, cta, inst, kernel, params, 0, &one);

    if (!bad)
        bad = run_once(w, cta, inst, kernel, params, 1, &other);
    if (bad || memcmp(&one, &other, sizeof(one)) == 0)
        return bad;
    /* Registers begin as the run before left them, and clocks go on: only what is the
     * same for the same content in another order is a leak. */
    bad = run_once(w, cta, inst, kernel, params, 1, &again);
    if (bad || memcmp(&other, &again, sizeof(again)) != 0)
        return bad;
    bad = run_once(w, cta, inst, kernel, params, 0, &again);
    if (bad || memcmp(&one, &again, sizeof(again)) != 0)
        return bad;
    return "shows what memory that is not its own held";
}

/* Every way of pointing; returns how many went wrong. */
static unsigned
run_kernel(struct world *w, struct sg_cta *cta, const struct sg_inst *inst,
           const struct sg_kernel *kernel)
{
    const uint64_t own = (uintptr_t)w->own, secret = (uintptr_t)w->secret;
    const uint64_t wilds[] = {secret,   secret + 1024, own + OWN - 16, own + OWN - 4,
                              own - 16, (uintptr_t)&w, UINT64_MAX - 15};
    const uint32_t nears[] = {0, 1024, SHARED - 16, UINT32_MAX - 15};

    for (size_t i = 0; i < ARRAY_SIZE(wilds); i++) {
        for (size_t k = 0; k < ARRAY_SIZE(nears); k++) {
            const uint64_t params[3] = {wilds[i], nears[k], own};
            const char *bad = run_both(w, cta, inst, kernel, params);

            if (!bad)
                continue;
            printf("%s(0x%llx, 0x%x): %s\n", kernel->name, (unsigned long long)wilds[i],
                   nears[k], bad);
            return 1;
        }
    }
    return 0;
}

/* @check: what SOFTGPU_CHECK looks for. */
static int
run_file(struct world *w, struct sg_cta *cta, const char *text, size_t len,
         unsigned check, unsigned *ret_bad, struct gp_err *err)
{
    const struct sg_target target = {9, 0, 1024, 64 << 10, 128, 64 << 10, 4096, check};
    CLEANUP(ptx_module_freep) struct ptx_module *mod = NULL;
    CLEANUP(sg_prog_freep) struct sg_prog *prog = NULL;
    CLEANUP(sg_inst_freep) struct sg_inst *inst = NULL;
    int r = ptx_parse(text, len, &mod, err);

    if (r == 0)
        r = sg_prog_new(mod, &target, &prog, err);
    if (r == 0)
        r = sg_inst_new(prog, NULL, 0, &inst, err);
    for (uint32_t i = 0; r == 0 && i < sg_prog_n_kernels(prog); i++) {
        const struct sg_kernel *kernel = sg_prog_kernel(prog, i);

        if (sg_kernel_prepare(kernel, NULL) == 0) /* else it is poisoned */
            *ret_bad += run_kernel(w, cta, inst, kernel);
    }
    return r;
}

int
main(int argc, char **argv)
{
    CLEANUP(sg_cta_freep) struct sg_cta *cta = NULL;
    struct gp_err err = {0};
    struct world w = {0};
    unsigned bad = 0;

    if (world_open(&w) < 0 || sg_cta_new(&cta) < 0)
        return 2;
    for (int i = 1; i < argc; i++) {
        CLEANUP_FREE char *text = NULL;
        size_t len;
        int r = gp_file_read(argv[i], 1 << 26, &text, &len, &err);

        if (r == 0)
            r = run_file(&w, cta, text, len, 0, &bad, &err);
        if (r == 0)
            r = run_file(&w, cta, text, len, CHECK_ALL, &bad, &err);
        if (r < 0) {
            fprintf(stderr, "%s: %s\n", argv[i], gp_err_msg(&err, r));
            return 2;
        }
    }
    printf("%u runs, %u ended by a fault, %u kernels did what they must not\n", w.runs,
           w.faults, bad);
    sg_memview_free(w.view);
    return bad != 0;
}
