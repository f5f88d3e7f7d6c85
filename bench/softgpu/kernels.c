/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/softgpu-kernels [KERNEL]: the executor against gcc -O3 of the same per-thread
 * C, on one core, alternating, best of a few rounds of thread CPU time.
 *
 * Prints KEY VALUE lines for the runner and a table on standard error, which has the
 * best C beside: with -ffast-math, and tiled.  Results are compared with those of the
 * plain C, so a fast wrong answer is no answer.
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
    static const struct sg_target target = {.cc_major = 8,
                                            .cc_minor = 6,
                                            .max_threads_per_cta = 1024,
                                            .max_shared_per_cta = 100 << 10,
                                            .shared_unit = 128,
                                            .max_local_per_thread = 512 << 10,
                                            .max_param_bytes = 4096};
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
#define PIXELS_LIMIT 256
#define COLLATZ_N (1 << 18)
#define FMA_GRID 64
#define FMA_ROUNDS 1000
#define FACTOR 0.99f

static void
put(uint8_t *params, size_t at, const void *v, size_t n)
{
    memcpy(params + at, v, n);
}

/* Kernel number @k in C; @tiled: as who wants it fast writes it. */
static double
reference_run(struct bench *b, int k, const struct ref *ref, bool tiled)
{
    double start = cpu_seconds();

    switch (k) {
    case 0:
        ref->fma_chain(b->buf[3], FMA_GRID * 256, FACTOR, FMA_ROUNDS);
        break;
    case 1:
        ref->saxpy(b->buf[0], b->buf[3], FACTOR, SAXPY_N);
        break;
    case 2:
        (tiled ? ref->matmul_tiled : ref->matmul)(b->buf[0], b->buf[1], b->buf[3],
                                                  MATMUL_N);
        break;
    case 3:
        ref->collatz((unsigned *)b->buf[3], COLLATZ_N);
        break;
    default:
        ref->mandelbrot((unsigned *)b->buf[3], PIXELS_W, PIXELS_W, PIXELS_LIMIT);
        break;
    }
    return cpu_seconds() - start;
}

/* Kernel number @k on the software card. */
static double
one_kernel(struct bench *b, int k, uint64_t *ret_insns, size_t *ret_words)
{
    static const char *const names[] = {"fma_chain", "saxpy", "matmul", "collatz",
                                        "mandelbrot"};
    uint64_t p[3] = {(uintptr_t)b->buf[0], (uintptr_t)b->buf[1], (uintptr_t)b->buf[2]};
    uint8_t params[64] = {0};
    float a = FACTOR;
    int n, w = PIXELS_W, h = PIXELS_W, limit = PIXELS_LIMIT;
    unsigned grid;

    switch (k) {
    case 0:
        n = FMA_ROUNDS, grid = FMA_GRID, *ret_words = grid * 256u;
        put(params, 0, &p[2], 8), put(params, 8, &a, 4), put(params, 12, &n, 4);
        break;
    case 1:
        n = SAXPY_N, grid = SAXPY_N / 256, *ret_words = SAXPY_N;
        memset(b->buf[2], 0, MAX_BYTES);
        put(params, 0, &p[0], 8), put(params, 8, &p[2], 8);
        put(params, 16, &a, 4), put(params, 20, &n, 4);
        break;
    case 2:
        n = MATMUL_N, grid = MATMUL_N * MATMUL_N / 256,
        *ret_words = MATMUL_N * MATMUL_N;
        put(params, 0, p, 24), put(params, 24, &n, 4);
        break;
    case 3:
        n = COLLATZ_N, grid = COLLATZ_N / 256, *ret_words = COLLATZ_N;
        put(params, 0, &p[2], 8), put(params, 8, &n, 4);
        break;
    default:
        n = w * h, grid = (unsigned)n / 256, *ret_words = (size_t)n;
        put(params, 0, &p[2], 8), put(params, 8, &w, 4);
        put(params, 12, &h, 4), put(params, 16, &limit, 4);
        break;
    }
    return device_run(b, names[k], grid, params, ret_insns);
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

/* Best of a few rounds.  The best C is the faster one of -ffast-math and, for matrices,
 * tiles. */
static bool
measure(struct bench *b, int k, const char *key)
{
    double dev = 1e9, ref = 1e9, best = 1e9;
    uint64_t insns = 0;
    size_t words;

    for (int round = 0; round < ROUNDS; round++) {
        double d = one_kernel(b, k, &insns, &words);
        memset(b->buf[3], 0, MAX_BYTES);
        best = gp_min(best, reference_run(b, k, &ref_fast, true));
        memset(b->buf[3], 0, MAX_BYTES);
        ref = gp_min(ref, reference_run(b, k, &ref_plain, false));
        if (d < 0 || !same_results(b, k, words)) {
            fprintf(stderr, "%s: results differ\n", key);
            return false;
        }
        dev = gp_min(dev, d);
    }
    printf("softgpu_%s_ratio %.4f\nsoftgpu_%s_best_ratio %.4f\n", key, ref / dev, key,
           gp_min(best, ref) / dev);
    printf("softgpu_%s_gslots %.4f\nsoftgpu_%s_us %.2f\n", key,
           (double)insns * 32e-9 / dev, key, dev * 1e6);
    fprintf(stderr, "%-12s %10.3f %10.3f %8.2f %10.3f %14.2f\n", key, dev * 1e3,
            ref * 1e3, ref / dev, best * 1e3, (double)insns * 32e-9 / dev);
    return true;
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
    fprintf(stderr, "executor %s\n%-12s %10s %10s %8s %10s %14s\n", sg_exec_isa(),
            "kernel", "softgpu ms", "gcc -O3 ms", "ratio", "best C ms",
            "G lane slots/s");
    for (int k = 0; k < 5; k++)
        if (argc < 2 || strcmp(argv[1], keys[k]) == 0)
            failed |= !measure(&b, k, keys[k]);
    return failed;
}
