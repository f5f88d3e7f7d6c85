/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wgmma.mma_async against plain loops: 64 x 64 x (128 bytes of k), four instructions
 * that move along k, with both operands in every layout that a descriptor can say.
 * The layouts are written down here from the other side: where tensor copies put
 * things.
 */
#include "ut_sgx.h"

#include "ut.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ROWS 64
#define TILE 8192 /* 64 rows of 128 bytes */

/* One operand: @swizzle 0..3 is 16 << swizzle bytes, @trans: rows side by side. */
struct layout {
    unsigned swizzle, bits;
    bool trans;
};

static unsigned
elements(const struct layout *l)
{
    return 128 * 8 / l->bits;
}

/* Byte of the tile where the element (row, k) begins. */
static unsigned
place(const struct layout *l, unsigned row, unsigned k)
{
    unsigned width = 16u << l->swizzle, line, at, chunk, block;

    if (l->trans) { /* a line is one k, of rows */
        line = k;
        at = row * l->bits / 8;
        block = at / width * (elements(l) * width);
    } else {
        line = row;
        at = k * l->bits / 8;
        block = at / width * (ROWS * width);
    }
    chunk = at % width / 16;
    chunk ^= line * width / 128 & ((1u << l->swizzle) - 1);
    return block + line * width + chunk * 16 + at % 16;
}

/* Where instruction number @i, 32 bytes of k on, begins, before pieces change places.
 */
static unsigned
start(const struct layout *l, unsigned i)
{
    unsigned width = 16u << l->swizzle, k = 32 * 8 / l->bits * i;

    if (l->trans)
        return k * width;
    return i * 32 / width * (ROWS * width) + i * 32 % width;
}

/* The descriptor but for its address. */
static uint64_t
descriptor(const struct layout *l)
{
    static const uint64_t mode[] = {0, 3, 2, 1};
    unsigned width = 16u << l->swizzle, leading, stride;

    if (l->trans) {
        stride = 8 * width; /* the next eight of k */
        leading = elements(l) * width;
        if (l->swizzle == 0) { /* the two change names */
            leading = 8 * width;
            stride = elements(l) * width;
        }
    } else {
        stride = 8 * width;
        leading = ROWS * width;
    }
    return mode[l->swizzle] << 62 | (uint64_t)(stride >> 4) << 32 |
           (uint64_t)(leading >> 4) << 16;
}

struct text {
    char s[32768];
    size_t n;
};

static void GP_PRINTF(2, 3) say(struct text *t, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    t->n += (size_t)vsnprintf(t->s + t->n, sizeof(t->s) - t->n, fmt, ap);
    va_end(ap);
    assert_true(t->n < sizeof(t->s));
}

struct form {
    const char *types; /* .f32.f16.f16 */
    const char *k;     /* of one instruction */
    bool transposes, integers, a_regs;
};

static void
instruction(struct text *t, const struct form *f, const struct layout l[2], unsigned i)
{
    for (int o = f->a_regs; o < 2; o++) {
        say(t, "mov.u32 %%r1, s; add.u32 %%r1, %%r1, %u; shr.u32 %%r1, %%r1, 4;\n",
            o * TILE + start(&l[o], i));
        say(t, "cvt.u64.u32 %%rd%d, %%r1; or.b64 %%rd%d, %%rd%d, 0x%llxU;\n", 8 + o,
            8 + o, 8 + o, (unsigned long long)descriptor(&l[o]));
    }
    if (f->a_regs) /* row 16 warp + quad (+ 8), words of k: as mma's A */
        for (int r = 0; r < 4; r++)
            say(t, "ld.shared.b32 %%a%d, [%%r9+%u];\n", r,
                (r & 1) * 8 * 128 + i * 32 + r / 2 * 16);
    say(t, "wgmma.mma_async.sync.aligned.m64n64%s%s {", f->k, f->types);
    for (int r = 0; r < 32; r++)
        say(t, "%s%%d%d", r ? "," : "", r);
    if (f->a_regs)
        say(t, "}, {%%a0,%%a1,%%a2,%%a3}, %%rd9, %s", i ? "1" : "%p1");
    else
        say(t, "}, %%rd8, %%rd9, %s", i ? "1" : "%p1");
    if (!f->integers)
        say(t, ", 1, %s", i == 3 ? "-1" : "1");
    if (f->transposes && !f->a_regs)
        say(t, ", %d", l[0].trans);
    if (f->transposes)
        say(t, ", %d", l[1].trans);
    say(t, ";\n");
}

static void
kernel(struct text *t, const struct form *f, const struct layout l[2])
{
    say(t,
        ".version 8.0\n.target sm_90a\n.address_size 64\n"
        ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
        ".reg .pred %%p<4>; .reg .b32 %%r<12>; .reg .b64 %%rd<12>; .reg .b32 %%a<4>;"
        ".reg .b32 %%d<32>; .shared .align 1024 .b8 s[16384];\n"
        "ld.param.u64 %%rd1, [in]; ld.param.u64 %%rd2, [out]; mov.u32 %%r2, %%tid.x;\n"
        "shl.b32 %%r3, %%r2, 2; mov.u32 %%r4, s; add.u32 %%r4, %%r4, %%r3;\n"
        "cvt.u64.u32 %%rd3, %%r3; add.u64 %%rd1, %%rd1, %%rd3; mov.u32 %%r5, 0;\n"
        "COPY: ld.global.b32 %%r6, [%%rd1]; st.shared.b32 [%%r4], %%r6;\n"
        "add.u64 %%rd1, %%rd1, 512; add.u32 %%r4, %%r4, 512; add.u32 %%r5, %%r5, 1;\n"
        "setp.lt.u32 %%p2, %%r5, 32; @%%p2 bra COPY;\n"
        "bar.sync 0; wgmma.fence.sync.aligned; setp.ne.u32 %%p1, %%r2, %%r2;\n"
        /* row 16 warp + quad of 128 bytes, four bytes for each lane of the quad */
        "shr.u32 %%r7, %%r2, 5; shl.b32 %%r7, %%r7, 4; and.b32 %%r8, %%r2, 31;\n"
        "shr.u32 %%r10, %%r8, 2; add.u32 %%r7, %%r7, %%r10; shl.b32 %%r7, %%r7, 7;\n"
        "and.b32 %%r8, %%r8, 3; shl.b32 %%r8, %%r8, 2; add.u32 %%r7, %%r7, %%r8;\n"
        "mov.u32 %%r9, s; add.u32 %%r9, %%r9, %%r7;\n");
    for (unsigned i = 0; i < 4; i++)
        instruction(t, f, l, i);
    say(t, "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n"
           "mul.wide.u32 %%rd4, %%r2, 128; add.u64 %%rd2, %%rd2, %%rd4;\n");
    for (int r = 0; r < 32; r++)
        say(t, "st.global.b32 [%%rd2+%d], %%d%d;\n", 4 * r, r);
    say(t, "ret;\n}\n");
}

static int
value(unsigned operand, unsigned row, unsigned k)
{
    return (int)((row * 7 + k * 5 + operand * 3 + row * k) % 7) - 3;
}

static uint32_t
coded(int v, const struct form *f, unsigned bits)
{
    static const uint16_t half[] = {0, 0x3c00, 0x4000, 0x4200};
    static const uint16_t bfloat[] = {0, 0x3f80, 0x4000, 0x4040};
    static const uint8_t e4m3[] = {0, 0x38, 0x40, 0x44}, e5m2[] = {0, 0x3c, 0x40, 0x42};
    unsigned mag = (unsigned)(v < 0 ? -v : v);
    float single = (float)v;
    uint32_t word;

    if (f->integers)
        return (uint32_t)v & 0xff;
    if (bits == 32) {
        memcpy(&word, &single, 4);
        return word;
    }
    if (bits == 8)
        return (strstr(f->types, "e4m3") ? e4m3[mag] : e5m2[mag]) | (v < 0 ? 0x80u : 0);
    return (strstr(f->types, "bf16") ? bfloat[mag] : half[mag]) | (v < 0 ? 0x8000u : 0);
}

static void
check(const struct form *f, const struct layout l[2])
{
    static struct text t;
    struct ut_sgx u;
    uint8_t *in;
    uint32_t *out;

    t.n = 0;
    kernel(&t, f, l);
    ut_sgx_open(&u, t.s);
    in = ut_sgx_buf(&u, 2 * TILE);
    out = ut_sgx_buf(&u, 128 * 128);
    for (unsigned o = 0; o < 2; o++)
        for (unsigned row = 0; row < ROWS; row++)
            for (unsigned k = 0; k < elements(&l[o]); k++) {
                uint32_t v = coded(value(o, row, k), f, l[o].bits);
                unsigned at = f->a_regs && o == 0 ? row * 128 + k * l[o].bits / 8
                                                  : place(&l[o], row, k);
                memcpy(in + o * TILE + at, &v, l[o].bits / 8);
            }
    ut_sgx_param(&u, 0, (uintptr_t)in);
    ut_sgx_param(&u, 1, (uintptr_t)out);
    ut_sgx_shape(&u, 1, 128);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    for (unsigned tid = 0; tid < 128; tid++) {
        for (unsigned i = 0; i < 32; i++) {
            unsigned row = tid / 32 * 16 + tid % 32 / 4 + i / 2 % 2 * 8;
            unsigned col = i / 4 * 8 + tid % 4 * 2 + i % 2, n = elements(&l[0]);
            int sum = 0;
            float single;
            uint32_t want;
            for (unsigned k = 0; k < n; k++) /* the last instruction subtracts */
                sum += value(0, row, k) * value(1, col, k) *
                       (k >= n / 4 * 3 && !f->integers ? -1 : 1);
            single = (float)sum;
            memcpy(&want, &single, 4);
            assert_int_equal(out[tid * 32 + i], f->integers ? (uint32_t)sum : want);
        }
    }
    ut_sgx_close(&u);
}

static void
halves_in_every_layout(void **state)
{
    struct form f = {".f32.f16.f16", "k16", true, false, false};

    (void)state;
    for (unsigned i = 0; i < 64; i++) {
        struct layout l[2] = {{i & 3, 16, i >> 2 & 1}, {i >> 3 & 3, 16, i >> 5 & 1}};
        check(&f, l);
    }
}

static void
other_types_in_every_swizzle(void **state)
{
    static const struct form forms[] = {
        {".f32.bf16.bf16", "k16", true, false, false},
        {".f32.tf32.tf32", "k8", false, false, false},
        {".f32.e4m3.e4m3", "k32", false, false, false},
        {".f32.e5m2.e5m2", "k32", false, false, false},
        {".s32.s8.s8", "k32", false, true, false},
    };
    static const uint8_t bits[] = {16, 32, 8, 8, 8};

    (void)state;
    for (unsigned i = 0; i < ARRAY_SIZE(forms); i++)
        for (unsigned s = 0; s < 4; s++) {
            struct layout l[2] = {{s, bits[i], false}, {3 - s, bits[i], false}};
            check(&forms[i], l);
        }
}

static void
the_first_matrix_may_be_in_registers(void **state)
{
    static const struct form forms[] = {
        {".f32.f16.f16", "k16", true, false, true},
        {".f32.tf32.tf32", "k8", false, false, true},
        {".s32.s8.s8", "k32", false, true, true},
    };
    static const uint8_t bits[] = {16, 32, 8};

    (void)state;
    for (unsigned i = 0; i < ARRAY_SIZE(forms); i++) {
        struct layout l[2] = {{0, bits[i], false}, {3, bits[i], false}};
        check(&forms[i], l);
    }
}

static void
a_tile_beyond_shared_memory_is_a_fault(void **state)
{
    static const char text[] =
        ".version 8.0\n.target sm_90a\n.address_size 64\n"
        ".visible .entry k()\n{\n.reg .b64 %rd<2>; .reg .b32 %d<4>;\n"
        ".shared .align 16 .b8 s[64];\n"
        "mov.u64 %rd1, 0x4000003000000100;\n"
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%d0,%d1,%d2,%d3}, %rd1, "
        "%rd1, "
        "0;\nret;\n}\n";
    struct ut_sgx u;

    (void)state;
    ut_sgx_open(&u, text);
    ut_sgx_shape(&u, 1, 128);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_FAULT);
    assert_int_equal(u.launch.fault.code, 700);
    ut_sgx_close(&u);
}

static void
a_form_that_is_none_names_itself(void **state)
{
    static const char text[] =
        ".version 8.0\n.target sm_90a\n.address_size 64\n"
        ".visible .entry k()\n{\n.reg .b64 %rd<2>; .reg .b32 %d<4>;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.s32.s8.s8 {%d0,%d1,%d2,%d3}, %rd1, "
        "%rd1, "
        "0;\nret;\n}\n";
    char words[200];

    (void)state;
    assert_int_not_equal(ut_sgx_prepare_error(text, words, sizeof(words)), 0);
    assert_non_null(strstr(words, "wgmma"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_in_every_layout),
        cmocka_unit_test(other_types_in_every_swizzle),
        cmocka_unit_test(the_first_matrix_may_be_in_registers),
        cmocka_unit_test(a_tile_beyond_shared_memory_is_a_fault),
        cmocka_unit_test(a_form_that_is_none_names_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
