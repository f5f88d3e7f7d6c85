/* SPDX-License-Identifier: Apache-2.0 */
/*
 * softgpu-run: a PTX kernel on the command line, for debugging the executor.
 *
 *     softgpu-run file.ptx kernel GX[,GY[,GZ]] BX[,BY[,BZ]] ARG...
 *
 * ARG: u32:N f32:X u64:N, or buf:BYTES (zeroed), idx:COUNT (0,1,2... as u32),
 * ramp:COUNT (0.0, 1.0, ... as f32).  After the run the first 16 words of every buffer
 * are printed.  --isa prints the instruction table; --check FILE... lowers every kernel
 * and says which cannot run and why.  One thread, no API above it.
 */
#include "gp_base.h"
#include "gp_err.h"
#include "ptx_ast.h"
#include "sg_exec.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define MAX_ARGS 64
#define ARG_FORMS "u32:N, f32:X, u64:N, buf:BYTES, idx:COUNT or ramp:COUNT"

struct run {
    struct sg_memview *view;
    uint8_t params[4096];
    struct {
        uint32_t *p;
        size_t bytes;
    } bufs[MAX_ARGS];
    unsigned n_bufs;
};

static void *
device_alloc(struct sg_memview *view, size_t bytes)
{
    static uint64_t next = 0x200000000000ull;
    size_t span = GP_ALIGN_UP(bytes + 1, (size_t)SG_GRANULE);
    void *p = mmap((void *)(uintptr_t)next, span, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    next += span + SG_GRANULE;
    if (p == MAP_FAILED || sg_memview_add(view, (uintptr_t)p, bytes, 0) < 0)
        return NULL;
    return p;
}

static void
print_hook(void *user, const char *text, size_t len)
{
    (void)user;
    fwrite(text, 1, len, stdout);
}

static bool
parse_dims(const char *s, uint32_t d[3])
{
    d[0] = d[1] = d[2] = 1;
    return sscanf(s, "%u,%u,%u", &d[0], &d[1], &d[2]) >= 1;
}

static bool
set_arg(struct run *run, const struct sg_param *param, const char *arg)
{
    const char *val = strchr(arg, ':');
    unsigned long long n;
    uint64_t addr;
    float f;

    if (!val || param->offset + param->size > sizeof(run->params))
        return false;
    n = strtoull(++val, NULL, 0);
    if (strncmp(arg, "u", 1) == 0) {
        memcpy(run->params + param->offset, &n, gp_min(param->size, 8u));
    } else if (strncmp(arg, "f32", 3) == 0) {
        f = strtof(val, NULL);
        memcpy(run->params + param->offset, &f, 4);
    } else {
        size_t bytes = strncmp(arg, "buf", 3) == 0 ? n : n * 4;
        uint32_t *p = device_alloc(run->view, bytes);
        if (!p || param->size != 8 || bytes == 0)
            return false;
        for (size_t i = 0; i < n && bytes == n * 4 && strncmp(arg, "buf", 3); i++) {
            f = (float)i;
            p[i] = (uint32_t)i;
            if (strncmp(arg, "ramp", 4) == 0)
                memcpy(&p[i], &f, 4);
        }
        addr = (uintptr_t)p;
        memcpy(run->params + param->offset, &addr, 8);
        run->bufs[run->n_bufs].p = p;
        run->bufs[run->n_bufs++].bytes = bytes;
    }
    return true;
}

static char *
read_file(const char *path, size_t *ret_len)
{
    FILE *f = fopen(path, "rb");
    char *text;

    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    *ret_len = (size_t)ftell(f);
    rewind(f);
    text = calloc(1, *ret_len + 1);
    if (text && fread(text, 1, *ret_len, f) != *ret_len)
        text[0] = '\0';
    fclose(f);
    return text;
}

static int
bind_globals(struct run *run, const struct sg_prog *prog, struct sg_inst **ret,
             struct gp_err *err)
{
    uint32_t n = sg_prog_n_globals(prog);
    CLEANUP_FREE uint64_t *addrs = calloc(n + 1, 8);
    int r;

    for (uint32_t i = 0; addrs && i < n; i++)
        addrs[i] =
            (uintptr_t)device_alloc(run->view, sg_prog_global(prog, i)->size + 1);
    r = addrs ? sg_inst_new(prog, addrs, n, ret, err) : -1;
    for (uint32_t i = 0; r == 0 && i < n; i++)
        r = sg_inst_init_global(*ret, i, (void *)(uintptr_t)addrs[i], err);
    return r;
}

static void
print_result(const struct run *run, const struct sg_launch *l, uint64_t insns, double s)
{
    if (l->fault.code)
        printf("fault %d: %s (line %u, cta %u,%u,%u thread %u,%u,%u)\n", l->fault.code,
               l->fault.what, l->fault.line, l->fault.cta[0], l->fault.cta[1],
               l->fault.cta[2], l->fault.thread[0], l->fault.thread[1],
               l->fault.thread[2]);
    for (unsigned i = 0; i < run->n_bufs; i++) {
        printf("buf%u:", i);
        for (size_t k = 0; k < 16 && k * 4 < run->bufs[i].bytes; k++)
            printf(" %08x", run->bufs[i].p[k]);
        putchar('\n');
    }
    printf("%s: %llu warp instructions, %.3f ms, %.2f G lane-ops/s\n", sg_exec_isa(),
           (unsigned long long)insns, s * 1e3, (double)insns * 32e-9 / s);
}

static int
launch_all(struct run *run, struct sg_launch *l)
{
    CLEANUP(sg_cta_freep) struct sg_cta *cta = NULL;
    struct timespec a, b;
    enum sg_cta_state st = SG_CTA_DONE;

    if (sg_cta_new(&cta) < 0)
        return -1;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    for (uint64_t i = 0; i < l->n_ctas && st == SG_CTA_DONE; i++) {
        if (sg_cta_start(cta, l, i, 0) < 0)
            return -1;
        do
            st = sg_cta_run(cta, 1u << 20);
        while (st == SG_CTA_YIELD || st == SG_CTA_STALLED);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    print_result(run, l, sg_cta_instructions(cta),
                 (double)(b.tv_sec - a.tv_sec) +
                     (double)(b.tv_nsec - a.tv_nsec) * 1e-9);
    return st == SG_CTA_DONE ? 0 : 1;
}

static int
run_main(char **argv, int argc, struct gp_err *err)
{
    CLEANUP(ptx_module_freep) struct ptx_module *mod = NULL;
    CLEANUP(sg_prog_freep) struct sg_prog *prog = NULL;
    CLEANUP(sg_inst_freep) struct sg_inst *inst = NULL;
    CLEANUP_FREE char *text = NULL;
    struct sg_target target = {8, 6, 1024, 100 << 10, 128, 512 << 10, 4096, 0};
    struct sg_hooks hooks = {.print = print_hook, .assert_failed = print_hook};
    struct sg_launch l = {.hooks = &hooks, .stack_bytes = 16384, .n_sms = 1};
    struct run run = {0};
    size_t len;
    int r;

    text = read_file(argv[1], &len);
    if (!text)
        return gp_err_set(err, -1, "cannot read %s", argv[1]);
    if ((r = sg_memview_new(&run.view)) < 0 ||
        (r = ptx_parse(text, len, &mod, err)) < 0 ||
        (r = sg_prog_new(mod, &target, &prog, err)) < 0)
        return r;
    l.kernel = sg_prog_find_kernel(prog, argv[2]);
    if (!l.kernel || !parse_dims(argv[3], l.grid) || !parse_dims(argv[4], l.block))
        return gp_err_set(err, -1, "no kernel %s, or bad dimensions", argv[2]);
    if ((r = sg_kernel_prepare(l.kernel, err)) < 0)
        return r;
    for (uint32_t i = 0; i < l.kernel->n_params; i++)
        if ((int)i + 5 >= argc || !set_arg(&run, &l.kernel->params[i], argv[5 + i]))
            return gp_err_set(err, -1, "argument %u of %u: " ARG_FORMS ", of %u bytes",
                              i + 1, l.kernel->n_params, l.kernel->params[i].size);
    if ((r = bind_globals(&run, prog, &inst, err)) < 0)
        return r;
    if (getenv("SOFTGPU_DUMP"))
        sg_kernel_dump(l.kernel, 1, err);
    l.inst = inst;
    l.view = run.view;
    l.params = run.params;
    if ((r = sg_launch_init(&l, err)) < 0)
        return r;
    return launch_all(&run, &l);
}

/* Lower every kernel of one file; returns how many cannot run. */
static unsigned
check_file(const char *path, unsigned *ret_kernels)
{
    CLEANUP(ptx_module_freep) struct ptx_module *mod = NULL;
    CLEANUP(sg_prog_freep) struct sg_prog *prog = NULL;
    CLEANUP_FREE char *text = NULL;
    struct sg_target target = {9, 0, 1024, 227 << 10, 128, 512 << 10, 32764, 0};
    struct gp_err err = {0};
    unsigned bad = 0;
    size_t len;
    int r;

    text = read_file(path, &len);
    r = text ? ptx_parse(text, len, &mod, &err) : -1;
    if (r == 0)
        r = sg_prog_new(mod, &target, &prog, &err);
    if (r < 0) {
        printf("%s: %s\n", path, gp_err_msg(&err, r));
        return 1;
    }
    *ret_kernels += sg_prog_n_kernels(prog);
    for (uint32_t i = 0; i < sg_prog_n_kernels(prog); i++) {
        memset(&err, 0, sizeof(err));
        r = sg_kernel_prepare(sg_prog_kernel(prog, i), &err);
        if (r < 0) {
            printf("%s: %s\n", path, gp_err_msg(&err, r));
            bad++;
        }
    }
    return bad;
}

static int
check_main(char **paths)
{
    unsigned bad = 0, kernels = 0;

    for (; *paths; paths++)
        bad += check_file(*paths, &kernels);
    printf("%u kernels, %u cannot run\n", kernels, bad);
    return bad != 0;
}

int
main(int argc, char **argv)
{
    struct gp_err err = {0};
    int r;

    if (argc == 2 && strcmp(argv[1], "--isa") == 0)
        return sg_isa_print(1) < 0;
    if (argc > 2 && strcmp(argv[1], "--check") == 0)
        return check_main(argv + 2);
    if (argc < 5) {
        fprintf(stderr, "usage: softgpu-run file.ptx kernel GRID BLOCK ARG...\n"
                        "an ARG is " ARG_FORMS "\n");
        return 2;
    }
    r = run_main(argv, argc, &err);
    if (r < 0)
        fprintf(stderr, "softgpu-run: %s\n", gp_err_msg(&err, r));
    return r != 0;
}
