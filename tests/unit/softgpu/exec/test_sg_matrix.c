/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mma.sync and ldmatrix against the fragment tables of the language, written down here
 * element by element, and wmma through memory, where its layout is invisible.
 */
#include "ut_sgx.h"

#include "ut.h"

#include <stdio.h>
#include <string.h>

#define DECL                                                                           \
    ".reg .pred %p<8>;.reg .b32 %r<32>;.reg .b64 %rd<32>;.reg .f32 %f<32>;.reg .f64 "  \
    "%d<8>;\n"
/* Fragments come from memory: lane i owns 64 bytes of each of a, b, c, d. */
#define FRAGS                                                                          \
    UT_SGX_HEAD ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, "      \
                ".param .u64 o)\n{\n" DECL                                             \
                "mov.u32 %r31, %tid.x; mul.wide.u32 %rd31, "                           \
                "%r31, 64;\n"                                                          \
                "ld.param.u64 %rd1, [a]; add.u64 %rd1, %rd1, %rd31;\n"                 \
                "ld.param.u64 %rd2, [b]; add.u64 %rd2, %rd2, %rd31;\n"                 \
                "ld.param.u64 %rd3, [c]; add.u64 %rd3, %rd3, %rd31;\n"                 \
                "ld.param.u64 %rd4, [o]; add.u64 %rd4, %rd4, %rd31;\n"

struct frags {
    struct ut_sgx u;
    uint32_t *a, *b, *c, *o; /* [32][16] words */
};

static void
frags_open(struct frags *f, const char *text)
{
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

/* Small integers as f16: exact in every sum here. */
static uint16_t
half_of(int v)
{
    static const uint16_t table[] = {0,      0x3c00, 0x4000, 0x4200, 0x4400,
                                     0x4500, 0x4600, 0x4700, 0x4800};

    return v < 0 ? table[-v] | 0x8000 : table[v];
}

static uint32_t
float_bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    return u;
}

static int
value(int row, int col, int salt)
{
    return (row * 7 + col * 3 + salt) % 17 - 8;
}

static void
mma_m16n8k16_halves_follow_the_tables(void **state)
{
    static const char text[] =
        FRAGS "ld.global.v4.b32 {%r1,%r2,%r3,%r4}, [%rd1]; ld.global.v2.b32 {%r5,%r6}, "
              "[%rd2];\n"
              "ld.global.v4.f32 {%f1,%f2,%f3,%f4}, [%rd3];\n"
              "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, "
              "{%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};\n"
              "st.global.v4.f32 [%rd4], {%f1,%f2,%f3,%f4}; ret;\n}\n";
    struct frags f;

    (void)state;
    frags_open(&f, text);
    for (int lane = 0; lane < 32; lane++) {
        int g = lane >> 2, t = lane & 3;
        uint16_t *a = (uint16_t *)(f.a + lane * 16), *b = (uint16_t *)(f.b + lane * 16);
        for (int i = 0; i < 8; i++) {
            int row = i < 2 || (i >= 4 && i < 6) ? g : g + 8;
            int col = i < 4 ? t * 2 + (i & 1) : t * 2 + (i & 1) + 8;
            a[i] = half_of(value(row, col, 1));
        }
        for (int i = 0; i < 4; i++) {
            int row = i < 2 ? t * 2 + (i & 1) : t * 2 + (i & 1) + 8;
            b[i] = half_of(value(row, g, 5));
        }
        for (int i = 0; i < 4; i++)
            f.c[lane * 16 + i] = float_bits((float)(lane * 4 + i));
    }
    assert_int_equal(ut_sgx_run(&f.u), SG_CTA_DONE);
    for (int lane = 0; lane < 32; lane++) {
        for (int i = 0; i < 4; i++) {
            int row = i < 2 ? lane >> 2 : (lane >> 2) + 8,
                col = (lane & 3) * 2 + (i & 1);
            int sum = lane * 4 + i;
            for (int k = 0; k < 16; k++)
                sum += value(row, k, 1) * value(k, col, 5);
            assert_int_equal(f.o[lane * 16 + i], float_bits((float)sum));
        }
    }
    ut_sgx_close(&f.u);
}

static void
mma_m16n8k32_bytes_follow_the_tables(void **state)
{
    static const char text[] =
        FRAGS "ld.global.v4.b32 {%r1,%r2,%r3,%r4}, [%rd1]; ld.global.v2.b32 {%r5,%r6}, "
              "[%rd2];\n"
              "ld.global.v4.b32 {%r7,%r8,%r9,%r10}, [%rd3];\n"
              "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%r7,%r8,%r9,%r10}, "
              "{%r1,%r2,%r3,%r4}, {%r5,%r6}, {%r7,%r8,%r9,%r10};\n"
              "st.global.v4.b32 [%rd4], {%r7,%r8,%r9,%r10}; ret;\n}\n";
    struct frags f;

    (void)state;
    frags_open(&f, text);
    for (int lane = 0; lane < 32; lane++) {
        int g = lane >> 2, t = lane & 3;
        int8_t *a = (int8_t *)(f.a + lane * 16);
        uint8_t *b = (uint8_t *)(f.b + lane * 16);
        for (int i = 0; i < 16; i++) {
            int row = i < 4 || (i >= 8 && i < 12) ? g : g + 8;
            int col = i < 8 ? t * 4 + (i & 3) : t * 4 + (i & 3) + 16;
            a[i] = (int8_t)(row * 31 + col * 17 - 100);
        }
        for (int i = 0; i < 8; i++) {
            int row = i < 4 ? t * 4 + (i & 3) : t * 4 + (i & 3) + 16;
            b[i] = (uint8_t)(row * 13 + g * 29);
        }
        for (int i = 0; i < 4; i++)
            f.c[lane * 16 + i] = (uint32_t)(lane - 16 * i);
    }
    assert_int_equal(ut_sgx_run(&f.u), SG_CTA_DONE);
    for (int lane = 0; lane < 32; lane++) {
        for (int i = 0; i < 4; i++) {
            int row = i < 2 ? lane >> 2 : (lane >> 2) + 8,
                col = (lane & 3) * 2 + (i & 1);
            int sum = lane - 16 * i;
            for (int k = 0; k < 32; k++)
                sum += (int8_t)(row * 31 + k * 17 - 100) * (uint8_t)(k * 13 + col * 29);
            assert_int_equal((int32_t)f.o[lane * 16 + i], sum);
        }
    }
    ut_sgx_close(&f.u);
}

static void
mma_m8n8k4_doubles_follow_the_tables(void **state)
{
    static const char text[] =
        FRAGS "ld.global.f64 %d1, [%rd1]; ld.global.f64 %d2, [%rd2];\n"
              "ld.global.v2.f64 {%d3, %d4}, [%rd3];\n"
              "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d3,%d4}, {%d1}, "
              "{%d2}, {%d3,%d4};\n"
              "st.global.v2.f64 [%rd4], {%d3, %d4}; ret;\n}\n";
    struct frags f;

    (void)state;
    frags_open(&f, text);
    for (int lane = 0; lane < 32; lane++) {
        *(double *)(f.a + lane * 16) = value(lane >> 2, lane & 3, 2);
        *(double *)(f.b + lane * 16) = value(lane & 3, lane >> 2, 9);
        for (int i = 0; i < 2; i++)
            ((double *)(f.c + lane * 16))[i] = lane + 0.5 * i;
    }
    assert_int_equal(ut_sgx_run(&f.u), SG_CTA_DONE);
    for (int lane = 0; lane < 32; lane++) {
        for (int i = 0; i < 2; i++) {
            double sum = lane + 0.5 * i;
            for (int k = 0; k < 4; k++)
                sum += value(lane >> 2, k, 2) * value(k, (lane & 3) * 2 + i, 9);
            assert_true(((double *)(f.o + lane * 16))[i] == sum);
        }
    }
    ut_sgx_close(&f.u);
}

/* Rows of a 16x16 matrix by ldmatrix.x4 are exactly mma's A fragment. */
static void
ldmatrix_delivers_rows_and_transposes(void **state)
{
    static const char fmt[] =
        ".shared .align 16 .b8 s[512];\n"
        "mov.u32 %r20, s; shl.b32 %r21, %r31, 4; add.u32 %r21, %r20, %r21;\n"
        "ld.global.v4.b32 {%r1,%r2,%r3,%r4}, [%rd1]; st.shared.v4.b32 [%r21], "
        "{%r1,%r2,%r3,%r4};\n"
        "bar.warp.sync -1;\n";
    static const char tail[] = ".shared.b16 {%r5,%r6,%r7,%r8}, [%r21];\n"
                               "st.global.v4.b32 [%rd4], {%r5,%r6,%r7,%r8}; ret;\n}\n";
    (void)state;
    for (int trans = 0; trans < 2; trans++) {
        char text[4096];
        struct frags f;
        snprintf(text, sizeof(text), "%s%sldmatrix.sync.aligned.m8n8.x4%s%s", FRAGS,
                 fmt, trans ? ".trans" : "", tail);
        frags_open(&f, text);
        /* matrix m, row r, column c holds m * 64 + r * 8 + c; lane 8 * m + r has the
         * row */
        for (int lane = 0; lane < 32; lane++)
            for (int c = 0; c < 8; c++)
                ((uint16_t *)(f.a + lane * 16))[c] = (uint16_t)(lane * 8 + c);
        assert_int_equal(ut_sgx_run(&f.u), SG_CTA_DONE);
        for (int lane = 0; lane < 32; lane++) {
            for (int m = 0; m < 4; m++) {
                for (int j = 0; j < 2; j++) {
                    int r = lane / 4, c = lane % 4 * 2 + j;
                    int want = trans ? m * 64 + c * 8 + r : m * 64 + r * 8 + c;
                    assert_int_equal(((uint16_t *)(f.o + lane * 16))[m * 2 + j], want);
                }
            }
        }
        ut_sgx_close(&f.u);
    }
}

#define H8(p) "{" p "1," p "2," p "3," p "4," p "5," p "6," p "7," p "8}"

static void
wmma_multiplies_through_memory(void **state)
{
    static const char *const layouts[] = {"row", "col"};
    (void)state;
    for (int la = 0; la < 2; la++) {
        for (int lb = 0; lb < 2; lb++) {
            char text[4096];
            struct frags f;
            uint16_t *a, *b;
            snprintf(
                text, sizeof(text),
                "%swmma.load.a.sync.aligned.%s.m16n16k16.global.f16 %s, [%s], %s;\n"
                "wmma.load.b.sync.aligned.%s.m16n16k16.global.f16 %s, [%s], "
                "%s;\n%s%s.%s%s",
                UT_SGX_HEAD
                ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, "
                ".param .u64 o)\n{\n.reg .b32 %x<9>;.reg .b32 %y<9>;.reg .f32 %f<9>;"
                ".reg .b64 %rd<8>;.reg .b32 %r<4>;\n"
                "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, "
                "[c];\n"
                "ld.param.u64 %rd4, [o]; mov.u32 %r1, 16;\n",
                layouts[la], H8("%x"), "%rd1", "%r1", layouts[lb], H8("%y"), "%rd2",
                "%r1",
                "wmma.load.c.sync.aligned.row.m16n16k16.global.f32 " H8(
                    "%f") ", [%rd3], %r1;\nwmma.mma.sync.aligned.",
                layouts[la], layouts[lb],
                ".m16n16k16.f32.f32 " H8("%f") ", " H8("%x") ", " H8("%y") ", " H8(
                    "%f") ";\nwmma.store.d.sync.aligned.row.m16n16k16.global.f32 "
                          "[%rd4], " H8("%f") ", %r1;\nret;\n}\n");
            frags_open(&f, text);
            a = (uint16_t *)f.a;
            b = (uint16_t *)f.b;
            for (int i = 0; i < 16; i++) {
                for (int j = 0; j < 16; j++) {
                    a[la ? j * 16 + i : i * 16 + j] = half_of(value(i, j, 3));
                    b[lb ? j * 16 + i : i * 16 + j] = half_of(value(i, j, 11));
                    f.c[i * 16 + j] = float_bits((float)(i - j));
                }
            }
            assert_int_equal(ut_sgx_run(&f.u), SG_CTA_DONE);
            for (int i = 0; i < 16; i++) {
                for (int j = 0; j < 16; j++) {
                    int sum = i - j;
                    for (int k = 0; k < 16; k++)
                        sum += value(i, k, 3) * value(k, j, 11);
                    assert_int_equal(f.o[i * 16 + j], float_bits((float)sum));
                }
            }
            ut_sgx_close(&f.u);
        }
    }
}

/* Arrivals flip the phase; a copy of part of the bytes leaves zeros behind. */
static void
mbarriers_and_async_copies_complete(void **state)
{
    static const char text[] = FRAGS
        ".shared .align 8 .b8 bar[8]; .shared .align 16 .b8 s[2048];\n"
        "mov.u32 %r1, bar; setp.eq.u32 %p1, %r31, 0; @%p1 mbarrier.init.shared.b64 "
        "[%r1], 64;\n"
        "bar.sync 0; mov.u32 %r2, s; shl.b32 %r3, %r31, 5; add.u32 %r3, %r2, %r3;\n"
        "cp.async.cg.shared.global [%r3], [%rd1], 16; cp.async.ca.shared.global "
        "[%r3+16], [%rd1+16], 8, 4;\n"
        "cp.async.commit_group; cp.async.wait_group 0;\n"
        "setp.lt.u32 %p2, %r31, 32; @%p2 bra A;\n"
        "mbarrier.arrive.shared.b64 %rd10, [%r1]; bra W;\n"
        "A: cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];\n"
        "W: mbarrier.try_wait.parity.shared.b64 %p3, [%r1], 0; @!%p3 bra W;\n"
        "mbarrier.test_wait.parity.shared.b64 %p4, [%r1], 1;\n"
        "xor.b32 %r4, %r3, 1024; ld.shared.v4.b32 {%r5,%r6,%r7,%r8}, [%r4];\n"
        "ld.shared.v2.b32 {%r9,%r10}, [%r4+16]; selp.u32 %r11, 1, 0, %p4;\n"
        "st.global.v4.b32 [%rd4], {%r5,%r6,%r7,%r8}; st.global.v2.b32 [%rd4+16], "
        "{%r9,%r10};\n"
        "st.global.b32 [%rd4+24], %r11; ret;\n}\n";
    struct ut_sgx u;
    uint32_t *a, *o;

    (void)state;
    ut_sgx_open(&u, text);
    a = ut_sgx_buf(&u, 4096);
    o = ut_sgx_buf(&u, 4096);
    for (uint32_t i = 0; i < 1024; i++)
        a[i] = i * 3 + 1;
    memset(o, 0xff, 4096);
    ut_sgx_param(&u, 0, (uintptr_t)a);
    ut_sgx_param(&u, 3, (uintptr_t)o);
    ut_sgx_shape(&u, 1, 64);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t from = (i ^ 32) * 16;
        for (uint32_t k = 0; k < 5; k++)
            assert_int_equal(o[i * 16 + k], (from + k) * 3 + 1);
        assert_int_equal(o[i * 16 + 5], 0);
        assert_int_equal(o[i * 16 + 6], 0);
    }
    ut_sgx_close(&u);
}

/* Sixteen rows of bytes, of which row i has i * 16 + k at place k. */
#define ROWS                                                                           \
    FRAGS ".shared .align 16 .b8 s[512];\n"                                            \
          "mov.u32 %r20, s; shl.b32 %r21, %r31, 4; add.u32 %r21, %r20, %r21;\n"        \
          "ld.global.v4.b32 {%r1,%r2,%r3,%r4}, [%rd1];\n"                              \
          "st.shared.v4.b32 [%r21], {%r1,%r2,%r3,%r4}; bar.warp.sync -1;\n"

static void
fill_rows(struct frags *f)
{
    for (int i = 0; i < 32; i++)
        for (int k = 0; k < 16; k++)
            ((uint8_t *)(f->a + i * 16))[k] = (uint8_t)(i * 16 + k);
}

static void
matrices_of_bytes_are_loaded_and_stored(void **state)
{
    static const char load[] = ROWS
        "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {%r5,%r6,%r7,%r8}, [%r21];\n"
        "st.global.v4.b32 [%rd4], {%r5,%r6,%r7,%r8};\n"
        "ldmatrix.sync.aligned.m8n16.x2.shared.b8x16.b6x16_p32 {%r5,%r6}, [%r21];\n"
        "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64 {%r7}, [%r21];\n"
        "st.global.v4.b32 [%rd4+16], {%r5,%r6,%r7,%r8}; ret;\n}\n";
    static const char store[] =
        ROWS "stmatrix.sync.aligned.m16n8.x2.trans.shared.b8 [%r21], {%r1,%r2};\n"
             "bar.warp.sync -1; ld.shared.v4.b32 {%r5,%r6,%r7,%r8}, [%r21];\n"
             "st.global.v4.b32 [%rd4], {%r5,%r6,%r7,%r8}; ret;\n}\n";
    struct frags f;

    (void)state;
    frags_open(&f, load);
    fill_rows(&f);
    assert_int_equal(ut_sgx_run(&f.u), SG_CTA_DONE);
    for (int lane = 0; lane < 32; lane++)
        for (int j = 0; j < 4; j++) {
            const uint8_t *o = (uint8_t *)(f.o + lane * 16);
            const uint8_t *row = (uint8_t *)(f.a + lane / 4 * 16);
            int col = lane % 4 * 4 + j;
            for (int r = 0; r < 4; r++) /* two matrices, two registers each */
                assert_int_equal(o[4 * r + j], (uint8_t)((col + r / 2 * 16) * 16 +
                                                         lane / 4 + r % 2 * 8));
            assert_int_equal(
                o[16 + j],
                (row[col * 6 / 8] | row[col * 6 / 8 + 1] << 8) >> (col * 6 % 8) & 63);
            assert_int_equal(o[24 + j], row[col / 2] >> (col % 2 * 4) & 15);
        }
    ut_sgx_close(&f.u);
    frags_open(&f, store);
    fill_rows(&f);
    assert_int_equal(ut_sgx_run(&f.u), SG_CTA_DONE);
    for (int i = 0; i < 16; i++) /* column i % 8 of matrix i / 8 */
        for (int row = 0; row < 16; row++) {
            int lane = row % 8 * 4 + i % 8 / 2, j = i % 2 + row / 8 * 2;
            assert_int_equal(((uint8_t *)(f.o + i * 16))[row],
                             (uint8_t)(lane * 16 + i / 8 * 4 + j));
        }
    ut_sgx_close(&f.u);
}

/* The executor takes as many registers as it is told: too many would be read, and
 * written, outside of what there is. */
static void
matrices_of_other_sizes_than_the_shape_are_refused(void **state)
{
    static const char *const bad[] = {
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r0,%r1,%r2,%r3},"
        "{%r4,%r5,%r6,%r7},{%r8,%r9},{%r10,%r11};",
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r0,%r1},"
        "{%r4,%r5,%r6,%r7},{%r8,%r9},{%r10,%r11,%r12,%r13};",
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r0,%r1},"
        "{%r4,%r5,%r6,%r7,%r12,%r13,%r14,%r15},{%r8,%r9},{%r10,%r11};",
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r0,%r1},"
        "{%r4,%r5,%r6,%r7},{%r8,%r9,%r16,%r17},{%r10,%r11};",
        "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16 "
        "{%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7},{%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7},"
        "{%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7},{%r0,%r1,%r2,%r3};",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char ptx[1024], words[256];

        snprintf(ptx, sizeof(ptx), "%s%s%s", UT_SGX_HEAD ".visible .entry k(){" DECL,
                 bad[i], "ret;}");
        assert_true(ut_sgx_prepare_error(ptx, words, sizeof(words)) < 0);
        assert_non_null(strstr(words, "registers"));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mma_m16n8k16_halves_follow_the_tables),
        cmocka_unit_test(mma_m16n8k32_bytes_follow_the_tables),
        cmocka_unit_test(mma_m8n8k4_doubles_follow_the_tables),
        cmocka_unit_test(ldmatrix_delivers_rows_and_transposes),
        cmocka_unit_test(wmma_multiplies_through_memory),
        cmocka_unit_test(mbarriers_and_async_copies_complete),
        cmocka_unit_test(matrices_of_bytes_are_loaded_and_stored),
        cmocka_unit_test(matrices_of_other_sizes_than_the_shape_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
