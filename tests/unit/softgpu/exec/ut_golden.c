/* SPDX-License-Identifier: Apache-2.0 */
#include "ut_golden.h"

#include "gp_err.h"
#include "ptx_ast.h"
#include "sg_exec.h"
#include "sg_ref.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define TUPLES 4096u
#define BLOCK 96u /* the last warps of a block are not always full */
#define UNTOUCHED 0xa5
#define SHOWN 5 /* differences printed per golden */

static const char kernel_text[] =
    ".version 8.6\n.target sm_86\n.address_size 64\n"
    ".visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 "
    "pd,\n"
    "                  .param .u32 n, .param .u32 mask)\n{\n"
    ".reg .pred %%q<4>, %%run; .reg .b32 %%t<4>, %%i, %%j, %%n; .reg .b64 %%p, %%o;\n"
    ".reg .b%d %%a; .reg .b%d %%b; .reg .b%d %%c; .reg .b%d %%d;\n"
    "mov.u32 %%i, %%ctaid.x; mov.u32 %%j, %%ntid.x; mov.u32 %%n, %%tid.x;\n"
    "mad.lo.u32 %%i, %%i, %%j, %%n; ld.param.u32 %%n, [n];\n"
    "setp.ge.u32 %%q0, %%i, %%n; @%%q0 exit;\n"
    "ld.param.u32 %%n, [mask]; and.b32 %%j, %%i, 31;\n"
    "shr.u32 %%j, %%n, %%j; and.b32 %%j, %%j, 1; setp.ne.u32 %%run, %%j, 0;\n"
    "@!%%run exit;\n"
    "mul.wide.u32 %%o, %%i, %d; ld.param.u64 %%p, [pa]; add.u64 %%p, %%p, %%o;\n"
    "ld.global.b%d %%a, [%%p];\n"
    "mul.wide.u32 %%o, %%i, %d; ld.param.u64 %%p, [pb]; add.u64 %%p, %%p, %%o;\n"
    "ld.global.b%d %%b, [%%p];\n"
    "mul.wide.u32 %%o, %%i, %d; ld.param.u64 %%p, [pc]; add.u64 %%p, %%p, %%o;\n"
    "ld.global.b%d %%c, [%%p];\n"
    "mov.b%d %%d, 0;\n%s\n"
    "mul.wide.u32 %%o, %%i, %d; ld.param.u64 %%p, [pd]; add.u64 %%p, %%p, %%o;\n"
    "st.global.b%d [%%p], %%d;\nexit;\n}\n";

/* ---- inputs ---- */

static uint64_t random_state;

static uint64_t
random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static uint64_t
pick_int(int bits)
{
    static const int64_t edges[] = {
        0,   1,   2,   3,  7,  8,  15, 16,  31,  32,  33,   63,     64,         65, 127,
        128, 255, 256, -1, -2, -7, -8, -31, -32, -33, -128, 0x7fff, 0x80000000, 100};
    uint64_t r = random_bits();

    switch (r % 8) {
    case 0:
        return random_bits();
    case 1:
        return UINT64_C(1) << (random_bits() % (unsigned)bits);
    case 2:
        return (UINT64_C(1) << (bits - 1)) - 1 + r / 8 % 3; /* around the signed edge */
    case 3:
        return random_bits() & 0xff;
    default:
        return (uint64_t)edges[r / 8 % ARRAY_SIZE(edges)];
    }
}

static uint64_t
pick_float(const struct ref_fmt *fmt)
{
    uint64_t r = random_bits(), man = (UINT64_C(1) << (fmt->precision - 1)) - 1;
    uint64_t one = (uint64_t)fmt->emax << (fmt->precision - 1);
    uint64_t inf = (uint64_t)(2 * fmt->emax + 1) << (fmt->precision - 1);
    uint64_t sign = (random_bits() & 1) << (fmt->bits - 1);
    uint64_t near =
        (random_bits() % 41 + (uint64_t)fmt->emax - 20) % (uint64_t)(2 * fmt->emax + 1);

    switch (r % 16) {
    case 0:
        return random_bits();
    case 1:
        return sign;
    case 2:
        return sign | (random_bits() & man); /* subnormal */
    case 3:
        return sign | inf;
    case 4:
        return sign | inf | (random_bits() & man); /* NaN, mostly */
    case 5:
        return sign | (man + 1 - 2 + r / 16 % 4); /* around the smallest normal */
    case 6:
        return sign | (inf - 1 - r / 16 % 3); /* around the largest */
    case 7:
        return sign | (one + (r / 16 % 5 - 2)); /* around one */
    case 8:                                     /* integers and halves */
        return sign | (near << (fmt->precision - 1)) |
               (random_bits() & man & ~(man >> 4));
    default:
        return sign | near << (fmt->precision - 1) | (random_bits() & man);
    }
}

static uint64_t
pick(char kind, int bits)
{
    const struct ref_fmt *half = kind == 'h' ? &ref_f16 : &ref_bf16;

    if (kind == 'i')
        return pick_int(bits);
    if (kind == 'f')
        return pick_float(bits == 64 ? &ref_f64 : bits == 32 ? &ref_f32 : &ref_f16);
    return (pick_float(half) & 0xffff) | pick_float(half) << 16;
}

/* ---- running ---- */

struct world {
    struct sg_memview *view;
    uint8_t *bufs[4];
};

static void
world_open(struct world *w)
{
    assert_int_equal(sg_memview_new(&w->view), 0);
    for (int i = 0; i < 4; i++) {
        w->bufs[i] = mmap(NULL, TUPLES * 8, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(w->bufs[i] != MAP_FAILED);
        assert_int_equal(
            sg_memview_add(w->view, (uint64_t)(uintptr_t)w->bufs[i], TUPLES * 8, 0), 0);
    }
}

static void
world_close(struct world *w)
{
    for (int i = 0; i < 4; i++) {
        sg_memview_remove(w->view, (uint64_t)(uintptr_t)w->bufs[i]);
        munmap(w->bufs[i], TUPLES * 8);
    }
    sg_memview_free(w->view);
}

static struct ptx_module *
golden_parse(const struct golden *g)
{
    struct ptx_module *mod = NULL;
    struct gp_err err = {0};
    char text[6000];
    int n;

    n = snprintf(text, sizeof(text), kernel_text, g->in[0], g->in[1], g->in[2], g->out,
                 g->in[0] / 8, g->in[0], g->in[1] / 8, g->in[1], g->in[2] / 8, g->in[2],
                 g->out, g->insn, g->out / 8, g->out);
    assert_in_range(n, 1, sizeof(text) - 1);
    if (ptx_parse(text, (size_t)n, &mod, &err) < 0)
        print_error("%s: %s\n", g->insn, err.msg);
    return mod;
}

struct params {
    uint64_t bufs[4];
    uint32_t n;
    uint32_t mask;
};

static int
run_ctas(struct sg_launch *launch, struct gp_err *err)
{
    CLEANUP(sg_cta_freep) struct sg_cta *cta = NULL;
    enum sg_cta_state state = SG_CTA_DONE;

    if (sg_cta_new(&cta) < 0)
        return gp_err_set(err, -ENOMEM, "no CTA");
    for (uint64_t i = 0; i < launch->n_ctas && state == SG_CTA_DONE; i++) {
        if (sg_cta_start(cta, launch, i, 0) < 0)
            return gp_err_set(err, -ENOMEM, "no memory for a CTA");
        do {
            state = sg_cta_run(cta, 1u << 20);
        } while (state == SG_CTA_YIELD || state == SG_CTA_STALLED);
    }
    if (state != SG_CTA_DONE)
        return gp_err_set(err, -EIO, "fault %d: %s", launch->fault.code,
                          launch->fault.what);
    return 0;
}

static int
launch(struct world *w, struct sg_inst *inst, const struct sg_kernel *kernel,
       uint32_t mask, struct gp_err *err)
{
    struct params params = {.n = TUPLES, .mask = mask};
    int cancel = 0, r;
    struct sg_launch l = {
        .inst = inst,
        .kernel = kernel,
        .grid = {(TUPLES + BLOCK - 1) / BLOCK, 1, 1},
        .block = {BLOCK, 1, 1},
        .params = &params,
        .view = w->view,
        .cancel = &cancel,
        .n_sms = 1,
    };

    for (int i = 0; i < 4; i++)
        params.bufs[i] = (uint64_t)(uintptr_t)w->bufs[i];
    memset(w->bufs[3], UNTOUCHED, TUPLES * 8);
    r = sg_launch_init(&l, err);
    return r < 0 ? r : run_ctas(&l, err);
}

/* ---- comparing ---- */

static uint64_t
get(const uint8_t *buf, int bits, uint32_t i)
{
    uint64_t v = 0;

    memcpy(&v, buf + (size_t)i * (size_t)bits / 8, (size_t)bits / 8);
    return v;
}

static uint64_t
width_mask(int bits)
{
    return bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

static const struct ref_fmt *
format_of(const struct golden *g)
{
    return g->out == 64     ? &ref_f64
           : g->out == 32   ? &ref_f32
           : g->kind == 'b' ? &ref_bf16
                            : &ref_f16;
}

static double
to_double(const struct ref_fmt *fmt, uint64_t bits)
{
    uint64_t raw = ref_pack(&ref_f64, ref_unpack(fmt, bits), REF_RN);
    double d;

    memcpy(&d, &raw, sizeof(d));
    return d;
}

static bool
near_enough(const struct golden *g, uint64_t got, uint64_t want)
{
    double x = to_double(format_of(g), got), y = to_double(format_of(g), want);
    double slack = g->bound * fmax(fabs(y), g->arg.is_signed ? 1.0 : 0.0);

    if (isnan(y) || isinf(y) || isnan(x) || isinf(x))
        return (isnan(x) && isnan(y)) || x == y;
    /* one step of the smallest subnormal is always allowed */
    return fabs(x - y) <= fmax(slack, to_double(format_of(g), 1));
}

static bool
matches(const struct golden *g, uint64_t got, uint64_t want)
{
    if (got == want)
        return true;
    if (g->match == GOLDEN_NAN)
        return ref_is_nan(format_of(g), got) && ref_is_nan(format_of(g), want);
    return g->match == GOLDEN_APPROX && near_enough(g, got, want);
}

static unsigned
compare(const struct golden *g, const struct world *w, uint32_t mask)
{
    unsigned bad = 0;

    for (uint32_t i = 0; i < TUPLES; i++) {
        uint64_t a = get(w->bufs[0], g->in[0], i), b = get(w->bufs[1], g->in[1], i);
        uint64_t c = get(w->bufs[2], g->in[2], i), got = get(w->bufs[3], g->out, i);
        uint64_t want = g->ref(&g->arg, a, b, c) & width_mask(g->out);

        if (!(mask >> (i & 31) & 1))
            want = UINT64_C(0x0101010101010101) * UNTOUCHED & width_mask(g->out);
        if (matches(g, got, want))
            continue;
        if (bad++ < SHOWN)
            print_error("%s: a=%llx b=%llx c=%llx: got %llx, want %llx\n", g->insn,
                        (unsigned long long)a, (unsigned long long)b,
                        (unsigned long long)c, (unsigned long long)got,
                        (unsigned long long)want);
    }
    return bad;
}

static void
fill_inputs(const struct golden *g, struct world *w)
{
    random_state = 0x9e3779b97f4a7c15;
    for (uint32_t i = 0; i < TUPLES; i++) {
        for (int k = 0; k < 3; k++) {
            uint64_t v = pick(g->kind ? g->kind : 'i', g->in[k]);

            memcpy(w->bufs[k] + (size_t)i * g->in[k] / 8, &v, g->in[k] / 8);
        }
    }
}

static bool
golden_one(const struct golden *g, struct world *w)
{
    static const struct sg_target target = {8, 6,         1024, 100 << 10,
                                            0, 512 << 10, 4096, 0};
    static const uint32_t masks[] = {UINT32_MAX, 0x5a3c00f1};
    CLEANUP(ptx_module_freep) struct ptx_module *mod = golden_parse(g);
    CLEANUP(sg_prog_freep) struct sg_prog *prog = NULL;
    CLEANUP(sg_inst_freep) struct sg_inst *inst = NULL;
    const struct sg_kernel *kernel;
    struct gp_err err = {0};
    unsigned bad = 0;
    int r;

    if (!mod)
        return false;
    r = sg_prog_new(mod, &target, &prog, &err);
    if (r == 0)
        r = sg_inst_new(prog, NULL, 0, &inst, &err);
    kernel = r == 0 ? sg_prog_find_kernel(prog, "k") : NULL;
    if (r == 0)
        r = sg_kernel_prepare(kernel, &err);
    fill_inputs(g, w);
    for (size_t i = 0; r == 0 && !bad && i < ARRAY_SIZE(masks); i++) {
        r = launch(w, inst, kernel, masks[i], &err);
        bad += r == 0 ? compare(g, w, masks[i]) : 0;
    }
    if (r < 0)
        print_error("%s: %s\n", g->insn, gp_err_msg(&err, r));
    if (bad)
        print_error("%s: %u of %u differ\n", g->insn, bad, TUPLES);
    return r == 0 && !bad;
}

void
golden_run(const struct golden *list, size_t n)
{
    struct world w;
    size_t bad = 0;

    world_open(&w);
    for (size_t i = 0; i < n; i++)
        bad += !golden_one(&list[i], &w);
    world_close(&w);
    if (bad)
        print_error("%zu of %zu instructions differ\n", bad, n);
    assert_int_equal(bad, 0);
}
