/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/softgpu-kernels [KERNEL]: the executor against gcc -O3 of the same per-thread
 * C, on one core, alternating, best of a few rounds of thread CPU time.
 *
 * Prints KEY VALUE lines for the runner and a table on standard error.  The results of
 * both sides are compared, so a fast wrong answer is no answer.
 */
#include "gp_base.h"
#include "gp_err.h"
#include "ptx_ast.h"
#include "ref.h"
#include "sg_exec.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define ROUNDS 5
#define MAX_BYTES (16u << 20)

__asm__(".section .rodata\n"
        ".global bench_ptx_start\nbench_ptx_start:\n"
        ".incbin \"softgpu-kernels.ptx\"\n.byte 0\n"
        ".previous\n");
extern const char bench_ptx_start[];

enum { N_BUFS = 4 };

struct bench {
    struct ptx_module *mod;
    struct sg_prog *prog;
    struct sg_inst *inst;
    struct sg_memview *view;
    struct sg_cta *cta;
    float *buf[N_BUFS]; /* device: two inputs, result; and the reference's result */
};

static double
cpu_seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static int
bench_open(struct bench *b, struct gp_err *err)
{
    static const struct sg_target target = {8, 6, 1024, 100 << 10, 512 << 10, 4096, 0};
    int r = sg_memview_new(&b->view);

    if (r == 0)
        r = ptx_parse(bench_ptx_start, strlen(bench_ptx_start), &b->mod, err);
    if (r == 0)
        r = sg_prog_new(b->mod, &target, &b->prog, err);
    if (r == 0)
        r = sg_inst_new(b->prog, NULL, 0, &b->inst, err);
    if (r == 0)
        r = sg_cta_new(&b->cta);
    for (int i = 0; r == 0 && i < N_BUFS; i++) {
        b->buf[i] = mmap(NULL, MAX_BYTES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (b->buf[i] == MAP_FAILED)
            return -ENOMEM;
        r = sg_memview_add(b->view, (uintptr_t)b->buf[i], MAX_BYTES, 0);
    }
    return r;
}

/* One launch; returns CPU seconds, or a negative number after words on stderr. */
static double
device_run(struct bench *b, const char *name, unsigned grid, const void *params,
           uint64_t *ret_insns)
{
    struct sg_launch l = {.inst = b->inst,
                          .view = b->view,
                          .params = params,
                          .grid = {grid, 1, 1},
                          .block = {256, 1, 1}};
    struct gp_err err = {0};
    uint64_t before = sg_cta_instructions(b->cta);
    double start;
    int r;

    l.kernel = sg_prog_find_kernel(b->prog, name);
    r = l.kernel ? sg_kernel_prepare(l.kernel, &err) : -ENOENT;
    if (r == 0)
        r = sg_launch_init(&l, &err);
    start = cpu_seconds();
    for (uint64_t i = 0; r == 0 && i < l.n_ctas; i++) {
        enum sg_cta_state st = SG_CTA_YIELD;
        r = sg_cta_start(b->cta, &l, i, 0);
        while (r == 0 && st == SG_CTA_YIELD)
            st = sg_cta_run(b->cta, UINT64_MAX);
        if (r == 0 && st != SG_CTA_DONE)
            r = gp_err_set(&err, -EFAULT, "%s", l.fault.what);
    }
    if (r < 0) {
        fprintf(stderr, "%s: %s\n", name, gp_err_msg(&err, r));
        return -1;
    }
    *ret_insns = sg_cta_instructions(b->cta) - before;
    return cpu_seconds() - start;
}

#define MATMUL_N 256
#define SAXPY_N (1 << 20)
#define PIXELS_W 512

static void
put(uint8_t *params, size_t at, const void *v, size_t n)
{
    memcpy(params + at, v, n);
}

/* Both sides of kernel number @k: the parameters of one and the call of the other. */
static double
one_kernel(struct bench *b, int k, double *ret_ref, uint64_t *ret_insns,
           size_t *ret_words)
{
    static const char *const names[] = {"fma_chain", "saxpy", "matmul", "collatz",
                                        "mandelbrot"};
    uint64_t p[3] = {(uintptr_t)b->buf[0], (uintptr_t)b->buf[1], (uintptr_t)b->buf[2]};
    uint8_t params[64] = {0};
    float a = 0.99f;
    int n, w = PIXELS_W, h = PIXELS_W, limit = 256;
    double start, dev;
    unsigned grid;

    switch (k) {
    case 0:
        n = 1000, grid = 64, *ret_words = grid * 256u;
        put(params, 0, &p[2], 8), put(params, 8, &a, 4), put(params, 12, &n, 4);
        break;
    case 1:
        n = SAXPY_N, grid = SAXPY_N / 256, *ret_words = SAXPY_N;
        memset(b->buf[2], 0, MAX_BYTES), memset(b->buf[3], 0, MAX_BYTES);
        put(params, 0, &p[0], 8), put(params, 8, &p[2], 8);
        put(params, 16, &a, 4), put(params, 20, &n, 4);
        break;
    case 2:
        n = MATMUL_N, grid = MATMUL_N * MATMUL_N / 256,
        *ret_words = MATMUL_N * MATMUL_N;
        put(params, 0, p, 24), put(params, 24, &n, 4);
        break;
    case 3:
        n = 1 << 18, grid = 1 << 10, *ret_words = 1 << 18;
        put(params, 0, &p[2], 8), put(params, 8, &n, 4);
        break;
    default:
        n = w * h, grid = (unsigned)n / 256, *ret_words = (size_t)n;
        put(params, 0, &p[2], 8), put(params, 8, &w, 4);
        put(params, 12, &h, 4), put(params, 16, &limit, 4);
        break;
    }
    dev = device_run(b, names[k], grid, params, ret_insns);
    start = cpu_seconds();
    switch (k) {
    case 0:
        ref_fma_chain(b->buf[3], (int)grid * 256, a, n);
        break;
    case 1:
        ref_saxpy(b->buf[0], b->buf[3], a, n);
        break;
    case 2:
        ref_matmul(b->buf[0], b->buf[1], b->buf[3], n);
        break;
    case 3:
        ref_collatz((unsigned *)b->buf[3], n);
        break;
    default:
        ref_mandelbrot((unsigned *)b->buf[3], w, h, limit);
        break;
    }
    *ret_ref = cpu_seconds() - start;
    return dev;
}

static bool
same_results(const struct bench *b, int k, size_t words)
{
    size_t bad = 0;

    for (size_t i = 0; i < words; i++) {
        float x = b->buf[2][i], y = b->buf[3][i];
        if (k == 3)
            bad += memcmp(&x, &y, 4) != 0;
        else if (k == 4) /* a count on the border may differ by contraction */
            bad += ((const unsigned *)b->buf[2])[i] != ((const unsigned *)b->buf[3])[i];
        else
            bad += !(fabsf(x - y) <= 1e-3f * fmaxf(1.0f, fabsf(y)));
    }
    return k == 4 ? bad < words / 50 : bad == 0;
}

int
main(int argc, char **argv)
{
    static const char *const keys[] = {"fma", "saxpy", "matmul", "collatz",
                                       "mandelbrot"};
    struct gp_err err = {0};
    struct bench b = {0};
    int r = bench_open(&b, &err), failed = 0;

    if (r < 0) {
        fprintf(stderr, "softgpu-kernels: %s\n", gp_err_msg(&err, r));
        return 1;
    }
    for (size_t i = 0; i < MAX_BYTES / 4; i++) {
        b.buf[0][i] = (float)(i % 13) * 0.25f - 1.0f;
        b.buf[1][i] = (float)(i % 7) * 0.5f - 1.5f;
    }
    fprintf(stderr, "executor %s\n%-12s %10s %10s %8s %14s\n", sg_exec_isa(), "kernel",
            "softgpu ms", "gcc -O3 ms", "ratio", "G lane slots/s");
    for (int k = 0; k < 5; k++) {
        double best_dev = 1e9, best_ref = 1e9;
        uint64_t insns = 0;
        if (argc > 1 && strcmp(argv[1], keys[k]) != 0)
            continue;
        for (int round = 0; round < ROUNDS; round++) {
            double ref, dev;
            size_t words;
            dev = one_kernel(&b, k, &ref, &insns, &words);
            if (dev < 0 || !same_results(&b, k, words)) {
                fprintf(stderr, "%s: results differ\n", keys[k]);
                failed = 1;
                break;
            }
            best_dev = gp_min(best_dev, dev);
            best_ref = gp_min(best_ref, ref);
        }
        printf("softgpu_%s_ratio %.4f\nsoftgpu_%s_gslots %.4f\n", keys[k],
               best_ref / best_dev, keys[k], (double)insns * 32e-9 / best_dev);
        fprintf(stderr, "%-12s %10.3f %10.3f %8.2f %14.2f\n", keys[k], best_dev * 1e3,
                best_ref * 1e3, best_ref / best_dev, (double)insns * 32e-9 / best_dev);
    }
    return failed;
}
