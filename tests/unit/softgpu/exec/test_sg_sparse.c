/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rare forms of mma.sync against tables written down here: sparse matrices, the four
 * small products of m8n8k4, matrices with scales, narrow floats.
 */
#include "ut_sgx.h"

#include "ut.h"

#include <stdio.h>
#include <string.h>

/* Lane i owns 16 words of each of a, b, c and of the result. */
#define FRAGS                                                                          \
    ".version 8.7\n.target sm_120a\n.address_size 64\n"                                \
    ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 o)\n"  \
    "{\n.reg .b32 %r<64>;.reg .b64 %rd<8>;.reg .b16 %h<8>;\n"                          \
    "mov.u32 %r60, %tid.x; mul.wide.u32 %rd5, %r60, 64;\n"                             \
    "ld.param.u64 %rd1, [a]; add.u64 %rd1, %rd1, %rd5;\n"                              \
    "ld.param.u64 %rd2, [b]; add.u64 %rd2, %rd2, %rd5;\n"                              \
    "ld.param.u64 %rd3, [c]; add.u64 %rd3, %rd3, %rd5;\n"                              \
    "ld.param.u64 %rd4, [o]; add.u64 %rd4, %rd4, %rd5;\n"                              \
    "ld.global.v4.b32 {%r0,%r1,%r2,%r3}, [%rd1];\n"                                    \
    "ld.global.v4.b32 {%r10,%r11,%r12,%r13}, [%rd2];\n"                                \
    "ld.global.v4.b32 {%r20,%r21,%r22,%r23}, [%rd3];\n"                                \
    "ld.global.v4.b32 {%r24,%r25,%r26,%r27}, [%rd3+16];\n"                             \
    "ld.global.b32 %r30, [%rd1+60]; ld.global.b32 %r31, [%rd2+60];\n"                  \
    "ld.global.b32 %r32, [%rd1+56];\n"
#define TAIL                                                                           \
    "st.global.v4.b32 [%rd4], {%r20,%r21,%r22,%r23};\n"                                \
    "st.global.v4.b32 [%rd4+16], {%r24,%r25,%r26,%r27}; ret;\n}\n"
#define A4 "{%r0,%r1,%r2,%r3}"
#define B4 "{%r10,%r11,%r12,%r13}"
#define C4 "{%r20,%r21,%r22,%r23}"
#define C8 "{%r20,%r21,%r22,%r23,%r24,%r25,%r26,%r27}"

struct frags {
    struct ut_sgx u;
    uint32_t *a, *b, *c, *o; /* [32][16] */
};

static void
frags_open(struct frags *f, const char *insn)
{
    static char text[4096];

    assert_true((size_t)snprintf(text, sizeof(text), "%s%s%s", FRAGS, insn, TAIL) <
                sizeof(text));
    ut_sgx_open(&f->u, text);
    f->a = ut_sgx_buf(&f->u, 2048);
    f->b = ut_sgx_buf(&f->u, 2048);
    f->c = ut_sgx_buf(&f->u, 2048);
    f->o = ut_sgx_buf(&f->u, 2048);
    ut_sgx_param(&f->u, 0, (uintptr_t)f->a);
    ut_sgx_param(&f->u, 1, (uintptr_t)f->b);
    ut_sgx_param(&f->u, 2, (uintptr_t)f->c);
    ut_sgx_param(&f->u, 3, (uintptr_t)f->o);
}

static uint32_t
float_bits(double d)
{
    float f = (float)d;
    uint32_t u;

    memcpy(&u, &f, 4);
    return u;
}

static uint16_t
half_of(int v)
{
    static const uint16_t table[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500};

    return v < 0 ? table[-v] | 0x8000 : table[v];
}

static int
value(int row, int col, int salt)
{
    return (row * 7 + col * 3 + salt + row * col) % 11 - 5;
}

/* Element number @i of @bits bits among a lane's words. */
static void
put(uint32_t *words, int i, int bits, uint32_t v)
{
    int per = 32 / bits;

    words[i / per] |= v << (i % per * bits);
}

struct sparse {
    const char *insn;
    int k, bits; /* of the full row; of an element */
    int selector;
};

/* Which of a group of four (of 32 bits: two; of 4 bits: four pairs) are there. */
static const uint8_t pairs[6][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};

static void
sparse_row(const struct sparse *s, int row, int *dense, int *stored, uint8_t *nibbles)
{
    int n = 0, size = s->bits == 32 ? 2 : s->bits == 4 ? 8 : 4;

    memset(dense, 0, 256 * sizeof(*dense));
    for (int group = 0; group < s->k / size; group++) {
        const uint8_t *p = pairs[(row * 5 + group * 3 + row * group) % 6];
        if (s->bits == 32) {
            int at = group * 2 + (p[0] & 1);
            nibbles[group] = p[0] & 1 ? 0xe : 0x4;
            stored[n++] = dense[at] = value(row, at, 1);
            continue;
        }
        nibbles[group] = (uint8_t)(p[0] | p[1] << 2);
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < size / 4; j++) {
                int at = group * size + p[i] * (size / 4) + j;
                stored[n++] = dense[at] = value(row, at, 1);
            }
    }
}

static uint32_t
coded(const struct sparse *s, int v)
{
    if (s->bits == 32)
        return float_bits(v);
    if (s->bits == 16)
        return half_of(v);
    return (uint32_t)v & ((1u << s->bits) - 1);
}

static void
check_sparse(const struct sparse *s)
{
    int dense[16][256], stored[16][128], per = 32 / s->bits;
    int size = s->bits == 32 ? 2 : s->bits == 4 ? 8 : 4, groups = s->k / size;
    uint8_t nibbles[16][64];
    struct frags f;

    frags_open(&f, s->insn);
    for (int row = 0; row < 16; row++)
        sparse_row(s, row, dense[row], stored[row], nibbles[row]);
    for (int lane = 0; lane < 32; lane++) {
        int g = lane / 4, t = lane % 4, mine;
        int a_regs = 16 * s->k / 2 * s->bits / 1024, b_regs = 8 * s->k * s->bits / 1024;
        for (int r = 0; r < a_regs; r++)
            for (int j = 0; j < per; j++)
                put(f.a + lane * 16, r * per + j, s->bits,
                    coded(s, stored[g + r % 2 * 8][(t + r / 2 * 4) * per + j]));
        for (int r = 0; r < b_regs; r++)
            for (int j = 0; j < per; j++)
                put(f.b + lane * 16, r * per + j, s->bits,
                    coded(s, value((t + r * 4) * per + j, g, 5)));
        f.a[lane * 16 + 15] = 0xcccccccc; /* of lanes that are not asked */
        mine = (t - s->selector * (groups / 4) + 4) % 4;
        for (int i = 0; mine < groups / 4 && i < 4; i++) {
            uint32_t *meta = &f.a[lane * 16 + 15];
            if (i == 0)
                *meta = 0;
            *meta |= (uint32_t)nibbles[g][mine * 4 + i] << (4 * i) |
                     (uint32_t)nibbles[g + 8][mine * 4 + i] << (16 + 4 * i);
        }
    }
    assert_int_equal(ut_sgx_run(&f.u), SG_CTA_DONE);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            int row = lane / 4 + i / 2 * 8, col = lane % 4 * 2 + i % 2, sum = 0;
            for (int k = 0; k < s->k; k++)
                sum += dense[row][k] * value(k, col, 5);
            assert_int_equal(f.o[lane * 16 + i],
                             s->bits >= 16 ? float_bits(sum) : (uint32_t)sum);
        }
    ut_sgx_close(&f.u);
}

static void
sparse_matrices_stand_where_their_metadata_says(void **state)
{
    static const struct sparse forms[] = {
        {"mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 " C4 ", {%r0,%r1}, "
         "{%r10,%r11}, " C4 ", %r30, 2;\n",
         16, 16, 2},
        {"mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 " C4
         ", " A4 ", " B4 ", " C4 ", %r30, 1;\n",
         32, 16, 1},
        {"mma.sp.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 " C4 ", {%r0,%r1}, "
         "{%r10,%r11}, " C4 ", %r30, 1;\n",
         8, 32, 1},
        {"mma.sp.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32 " C4 ", " A4 ", " B4
         ", " C4 ", %r30, 0;\n",
         16, 32, 0},
        {"mma.sp.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 " C4 ", {%r0,%r1}, "
         "{%r10,%r11}, " C4 ", %r30, 1;\n",
         32, 8, 1},
        {"mma.sp.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32 " C4 ", " A4 ", " B4
         ", " C4 ", %r30, 0;\n",
         64, 8, 0},
        {"mma.sp.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 " C4 ", {%r0,%r1}, "
         "{%r10,%r11}, " C4 ", %r30, 1;\n",
         64, 4, 1},
        {"mma.sp.sync.aligned.m16n8k128.row.col.s32.s4.s4.s32 " C4 ", " A4 ", " B4
         ", " C4 ", %r30, 0;\n",
         128, 4, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
        check_sparse(&forms[i]);
}

/* Lane q*4 + i and the one 16 above it belong to product q. */
static void
check_quads(bool a_col, bool b_row, bool wide)
{
    struct frags f;
    char insn[400];

    snprintf(insn, sizeof(insn),
             "mma.sync.aligned.m8n8k4.%s.%s.%s.f16.f16.%s %s, {%%r0,%%r1}, "
             "{%%r10,%%r11}, %s;\n",
             a_col ? "col" : "row", b_row ? "row" : "col", wide ? "f32" : "f16",
             wide ? "f32" : "f16", wide ? C8 : C4, wide ? C8 : C4);
    frags_open(&f, insn);
    for (int lane = 0; lane < 32; lane++) {
        int q = lane % 16 / 4, up = lane >= 16 ? 4 : 0;
        for (int i = 0; i < 4; i++) {
            int ar = a_col ? i + up : lane % 4 + up, ak = a_col ? lane % 4 : i;
            int bc = b_row ? i + up : lane % 4 + up, bk = b_row ? lane % 4 : i;
            put(f.a + lane * 16, i, 16, half_of(value(ar, ak, q)));
            put(f.b + lane * 16, i, 16, half_of(value(bk, bc, q + 4)));
        }
    }
    assert_int_equal(ut_sgx_run(&f.u), SG_CTA_DONE);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 8; i++) {
            int q = lane % 16 / 4, up = lane >= 16 ? 4 : 0, sum = 0;
            int row = wide ? (lane & 1) + (i & 2) + up : lane % 4 + up;
            int col = wide ? (i & 4) + (lane & 2) + (i & 1) : i;
            for (int k = 0; k < 4; k++)
                sum += value(row, k, q) * value(k, col, q + 4);
            if (wide) {
                assert_int_equal(f.o[lane * 16 + i], float_bits(sum));
            } else {
                uint16_t got = (uint16_t)(f.o[lane * 16 + i / 2] >> (16 * (i % 2)));
                _Float16 want = (_Float16)sum;
                assert_memory_equal(&got, &want, 2);
            }
        }
    ut_sgx_close(&f.u);
}

static void
four_small_products_are_made_by_quads(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        check_quads(i & 1, i & 2, i & 4);
}

/* 1.0 times a power of two per row of A and column of B; all elements are 1. */
static void
rows_and_columns_have_scales(void **state)
{
    struct frags f;

    (void)state;
    frags_open(&f, "mov.u16 %h1, 2; mov.u16 %h2, 1; mov.u16 %h3, 1; mov.u16 %h4, 3;\n"
                   "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32"
                   ".e4m3.e2m1.f32.ue8m0 " C4 ", " A4 ", {%r10,%r11}, " C4
                   ", %r30, {%h1,%h2}, %r31, {%h3,%h4};\n");
    for (int lane = 0; lane < 32; lane++) {
        int g = lane / 4, t = lane % 4;
        for (int r = 0; r < 4; r++)
            f.a[lane * 16 + r] = 0x38383838; /* e4m3: 1.0 */
        for (int r = 0; r < 2; r++)
            f.b[lane * 16 + r] = 0x08080808; /* e2m1 1.0, two bits up */
        /* a: byte 2, the second pair of each quad; b: byte 1, the last lane */
        f.a[lane * 16 + 15] = t >= 2 ? (uint32_t)(120 + g + (t & 1) * 8) << 16 : 0;
        f.b[lane * 16 + 15] = t == 3 ? (uint32_t)(127 + g) << 8 : 0;
    }
    assert_int_equal(ut_sgx_run(&f.u), SG_CTA_DONE);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            int row = lane / 4 + i / 2 * 8, col = lane % 4 * 2 + i % 2;
            double want = 32;
            for (int e = 120 + row - 127; e != 0; e += e < 0 ? 1 : -1)
                want = e < 0 ? want / 2 : want * 2;
            want *= 1 << col;
            assert_int_equal(f.o[lane * 16 + i], float_bits(want));
        }
    ut_sgx_close(&f.u);
}

/* Four bits to an element, a scale for every sixteen of k. */
static void
blocks_of_a_row_have_scales_of_their_own(void **state)
{
    static const double scale[4] = {1, 0.5, 2, 4};
    struct frags f;

    (void)state;
    frags_open(&f, "mov.u16 %h1, 0; mov.u16 %h2, 0;\n"
                   "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale"
                   ".scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 " C4 ", " A4
                   ", {%r10,%r11}, " C4 ", %r30, {%h1,%h2}, %r31, {%h1,%h2};\n");
    for (int lane = 0; lane < 32; lane++) {
        for (int r = 0; r < 4; r++)
            f.a[lane * 16 + r] = 0x22222222; /* 1.0 */
        for (int r = 0; r < 2; r++)
            f.b[lane * 16 + r] = lane % 4 ? 0x22222222 : 0x44444444; /* 2.0: k%32 < 8 */
        f.a[lane * 16 + 15] = 0x48403038;                            /* 4, 2, 0.5, 1 */
        f.b[lane * 16 + 15] = 0x38383838;
    }
    assert_int_equal(ut_sgx_run(&f.u), SG_CTA_DONE);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            double want = 0;
            for (int k = 0; k < 64; k++)
                want += scale[k / 16] * (k % 32 < 8 ? 2 : 1);
            assert_int_equal(f.o[lane * 16 + i], float_bits(want));
        }
    ut_sgx_close(&f.u);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sparse_matrices_stand_where_their_metadata_says),
        cmocka_unit_test(four_small_products_are_made_by_quads),
        cmocka_unit_test(rows_and_columns_have_scales),
        cmocka_unit_test(blocks_of_a_row_have_scales_of_their_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
