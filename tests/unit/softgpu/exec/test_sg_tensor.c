/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk copies that do more than copy: reductions, byte masks, columns of pixels, rows
 * wherever they are; and maps that a kernel edits.  One CTA of one thread does it all.
 */
#include "ut_sgx.h"

#include "sg_tmap.h"
#include "ut.h"

#include <stdio.h>
#include <string.h>

/* %rd1 = in, %rd2 = out, %r1.. free; s: 4 KiB of shared memory, bar: an mbarrier */
#define HEAD                                                                           \
    ".version 8.8\n.target sm_100a\n.address_size 64\n"                                \
    ".shared .align 1024 .b8 s[4096];\n.shared .align 8 .b64 bar;\n"                   \
    ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"                          \
    ".reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .b16 %h<8>;\n"         \
    ".reg .b128 %q<2>;\n"                                                              \
    "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];\n"                             \
    "mbarrier.init.shared::cta.b64 [bar], 1;\n"
#define LOAD(bytes)                                                                    \
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], " bytes ";\n"                 \
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], "          \
    "[%rd1], " bytes ", [bar];\n" WAIT("0")
#define WAIT(phase)                                                                    \
    "{ WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], " phase ";\n"        \
    "@!%p1 bra WAIT; }\n"
#define STORE(bytes)                                                                   \
    "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [s], " bytes ";\n"
#define TAIL "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret;\n}\n"

struct run {
    struct ut_sgx u;
    void *in, *out;
};

static void
run_open(struct run *r, const char *text, size_t in, size_t out)
{
    ut_sgx_open(&r->u, text);
    r->in = ut_sgx_buf(&r->u, in);
    r->out = ut_sgx_buf(&r->u, out);
    ut_sgx_param(&r->u, 0, (uintptr_t)r->in);
    ut_sgx_param(&r->u, 1, (uintptr_t)r->out);
    ut_sgx_shape(&r->u, 1, 1);
}

static void
reductions_join_what_is_there(void **state)
{
    static const struct {
        const char *op;
        uint32_t want; /* of 0x40000001 + i there and 0x80000000 + 3 * i that comes */
        uint32_t slope;
    } forms[] = {
        {"add.u32", 0xc0000001, 4}, {"min.u32", 0x40000001, 1},
        {"max.u32", 0x80000000, 3}, {"min.s32", 0x80000000, 3},
        {"max.s32", 0x40000001, 1}, {"inc.u32", 0x40000002, 1},
    };

    (void)state;
    for (size_t f = 0; f < ARRAY_SIZE(forms); f++) {
        char text[4096];
        struct run r;
        uint32_t *in, *out;
        snprintf(text, sizeof(text), "%s%s %s",
                 HEAD LOAD("64") "cp.reduce.async.bulk.global.shared::cta.bulk_group.",
                 forms[f].op, "[%rd2], [s], 64;\n" TAIL);
        run_open(&r, text, 64, 64);
        in = r.in;
        out = r.out;
        for (uint32_t i = 0; i < 16; i++) {
            in[i] = 0x80000000 + 3 * i;
            out[i] = 0x40000001 + i;
        }
        assert_int_equal(ut_sgx_run(&r.u), SG_CTA_DONE);
        for (uint32_t i = 0; i < 16; i++)
            assert_int_equal(out[i], forms[f].want + forms[f].slope * i);
        ut_sgx_close(&r.u);
    }
}

static void
halves_are_added_and_shared_memory_reduced(void **state)
{
    static const char text[] = HEAD LOAD(
        "32") "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16"
              " [%rd2], [s], 16;\n"
              "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;\n"
              "mov.u32 %r1, s; add.u32 %r2, %r1, 16;\n"
              "cp.reduce.async.bulk.shared::cluster.shared::cta"
              ".mbarrier::complete_tx::bytes.or.b32 [%r1], [%r2], 16, [bar];\n"
              "{ AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 1;\n"
              "@!%p1 bra AGAIN; }\n"
              "add.u64 %rd2, %rd2, 16;\n" STORE("16") TAIL;
    struct run r;
    uint32_t *in, *out;

    (void)state;
    run_open(&r, text, 32, 32);
    in = r.in;
    out = r.out;
    for (int i = 0; i < 4; i++) {
        in[i] = 0x3c004000;  /* 1, 2 */
        out[i] = 0x42004400; /* 3, 4 */
        in[4 + i] = 0x00010100;
    }
    assert_int_equal(ut_sgx_run(&r.u), SG_CTA_DONE);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(out[i], 0x44004600); /* 4, 6 */
        assert_int_equal(out[4 + i], 0x3c014100);
    }
    ut_sgx_close(&r.u);
}

static void
masks_fills_and_remote_sums(void **state)
{
    static const char text[] = HEAD LOAD(
        "32") "mov.u16 %h1, 0x8001;\n"
              "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd2], [s], 32, "
              "%h1;\n"
              "mov.u32 %r1, s; cvt.u64.u32 %rd3, %r1; cvta.shared.u64 %rd3, %rd3;\n"
              "st.bulk.weak.shared::cta [s], 24, 0;\n"
              "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 4; mov.u32 %r3, "
              "bar;\n"
              "mov.u32 %r4, 77; add.u32 %r5, %r1, 24;\n"
              "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes."
              "add.u32 "
              "[%r5], %r4, [%r3];\n"
              "{ AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 1;\n"
              "@!%p1 bra AGAIN; }\n"
              "add.u64 %rd2, %rd2, 32;\n" STORE("32") TAIL;
    struct run r;
    uint8_t *in, *out;
    uint32_t word;

    (void)state;
    run_open(&r, text, 32, 64);
    in = r.in;
    out = r.out;
    for (int i = 0; i < 32; i++)
        in[i] = (uint8_t)(i + 1);
    assert_int_equal(ut_sgx_run(&r.u), SG_CTA_DONE);
    for (int i = 0; i < 32; i++)
        assert_int_equal(out[i], i % 16 == 0 || i % 16 == 15 ? i + 1 : 0);
    for (int i = 0; i < 24; i++)
        assert_int_equal(out[32 + i], 0);
    memcpy(&word, out + 56, 4);
    assert_int_equal(word, 0x1c1b1a19 + 77);
    ut_sgx_close(&r.u);
}

static void
no_launch_is_cancelled(void **state)
{
    static const char text[] = HEAD
        "mov.u32 %r1, s; mov.u32 %r2, bar; cvt.u64.u32 %rd3, %r1;\n"
        "st.shared.u32 [s], 5;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;\n"
        "clusterlaunchcontrol.try_cancel.async.shared::cta"
        ".mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [s], "
        "[bar];\n" WAIT(
            "0") "ld.shared.b128 %q0, [s];\n"
                 "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %q0;\n"
                 "selp.u32 %r3, 1, 2, %p2; st.global.u32 [%rd2], %r3;\n"
                 "ld.shared.u32 %r4, [s]; st.global.u32 [%rd2+4], %r4;\n" TAIL;
    struct run r;

    (void)state;
    run_open(&r, text, 16, 8);
    assert_int_equal(ut_sgx_run(&r.u), SG_CTA_DONE);
    assert_int_equal(((uint32_t *)r.out)[0], 2);
    assert_int_equal(((uint32_t *)r.out)[1], 0);
    ut_sgx_close(&r.u);
}

/* ------------------------------------------------------------------------- tensors */

#define TENSOR(coords, more, form, bytes)                                              \
    HEAD "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], " bytes ";\n"            \
         "cp.async.bulk.tensor." form                                                  \
         ".mbarrier::complete_tx::bytes [s], [%rd1, {" coords "}], [bar]" more         \
         ";\n" WAIT("0") STORE(bytes) TAIL

/* 4 channels of words, 5 wide, 4 high, 2 images. */
static struct sg_tmap
image(const void *base)
{
    return (struct sg_tmap){.magic = SG_TMAP_MAGIC,
                            .mode = SG_TMAP_IM2COL,
                            .type = 2,
                            .rank = 4,
                            .base = (uintptr_t)base,
                            .stride = {16, 80, 320},
                            .last = {3, 4, 3, 1},
                            .step = {1, 1, 1, 1, 1},
                            .lower = {-1, -1},
                            .upper = {-1, -1},
                            .channels = 4,
                            .pixels = 24};
}

static uint32_t
texel(int c, int w, int h, int n)
{
    if (w < 0 || w > 4 || h < 0 || h > 3 || n < 0 || n > 1)
        return 0;
    return (uint32_t)(1 + c + 4 * w + 20 * h + 80 * n);
}

/* The pixels under one tap of a 3 x 3 filter with a border of one. */
static void
columns_of_pixels_wrap_between_their_corners(void **state)
{
    /* the offsets: one to the right, two down */
    static const char text[] =
        TENSOR("0, 3, 1, 0", ", {1, 2}", "4d.shared::cluster.global.im2col", "384");
    struct run r;
    uint32_t *data, *out;
    struct sg_tmap map;
    int w = 3, h = 1, n = 0;

    (void)state;
    run_open(&r, text, 128, 384);
    data = ut_sgx_buf(&r.u, 640);
    out = r.out;
    for (int i = 0; i < 160; i++)
        data[i] = texel(i % 4, i / 4 % 5, i / 20 % 4, i / 80);
    map = image(data);
    memcpy(r.in, &map, sizeof(map));
    assert_int_equal(ut_sgx_run(&r.u), SG_CTA_DONE);
    for (int p = 0; p < 24; p++) {
        for (int c = 0; c < 4; c++)
            assert_int_equal(out[p * 4 + c], texel(c, w + 1, h + 2, n));
        if (++w > 4 - 1) { /* corners: -1 .. width - 2, as high */
            w = -1;
            if (++h > 3 - 1) {
                h = -1;
                n++;
            }
        }
    }
    ut_sgx_close(&r.u);
}

static struct sg_tmap
table(const void *base)
{
    return (struct sg_tmap){.magic = SG_TMAP_MAGIC,
                            .mode = SG_TMAP_TILED,
                            .type = 2,
                            .rank = 2,
                            .base = (uintptr_t)base,
                            .stride = {64},
                            .last = {15, 9},
                            .box = {4, 1, 1, 1, 1},
                            .step = {1, 1, 1, 1, 1}};
}

static void
rows_are_gathered_from_where_they_are(void **state)
{
    static const char text[] =
        TENSOR("2, 7, 0, 30, 5", "", "2d.shared::cta.global.tile::gather4", "64");
    static const unsigned rows[4] = {7, 0, 30, 5};
    struct run r;
    uint32_t *data, *out;
    struct sg_tmap map;

    (void)state;
    run_open(&r, text, 128, 64);
    data = ut_sgx_buf(&r.u, 640);
    out = r.out;
    for (uint32_t i = 0; i < 160; i++)
        data[i] = i + 1;
    map = table(data);
    memcpy(r.in, &map, sizeof(map));
    assert_int_equal(ut_sgx_run(&r.u), SG_CTA_DONE);
    for (unsigned i = 0; i < 16; i++)
        assert_int_equal(out[i],
                         rows[i / 4] > 9 ? 0 : rows[i / 4] * 16 + 2 + i % 4 + 1);
    ut_sgx_close(&r.u);
}

/* A map is copied to shared memory, edited, put back and used to add a tile. */
static void
a_kernel_edits_a_map_and_adds_through_it(void **state)
{
    static const char text[] =
        HEAD LOAD("128") /* s: the map; the tile is ones at s + 1024 */
        "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [s], 0, 3;\n"
        "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [s], 1, 2;\n"
        "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [s], 7;\n"
        "ld.global.u64 %rd3, [%rd1+128];\n"
        "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [s], %rd3;\n"
        "mov.u32 %r1, 0; mov.u32 %r2, s; add.u32 %r2, %r2, 1024;\n"
        "{ FILL: st.shared.f32 [%r2], 0f3F800000; add.u32 %r2, %r2, 4;\n"
        "add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 8; @%p2 bra FILL; }\n"
        "mov.u32 %r2, s; cvt.u64.u32 %rd4, %r2; cvta.shared.u64 %rd5, %rd4;\n"
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync"
        ".aligned [%rd1], [s], 128;\n"
        "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;\n"
        "add.u32 %r2, %r2, 1024;\n"
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group "
        "[%rd1, {1, 8}], [%r2];\n" TAIL;
    struct run r;
    float *data;
    uint64_t at;
    struct sg_tmap map;

    (void)state;
    run_open(&r, text, 256, 64);
    data = ut_sgx_buf(&r.u, 640);
    map = table(r.out); /* not where it will write */
    memcpy(r.in, &map, sizeof(map));
    at = (uintptr_t)data;
    memcpy((char *)r.in + 128, &at, 8);
    for (int round = 1; round <= 2; round++) {
        assert_int_equal(ut_sgx_run(&r.u), SG_CTA_DONE);
        for (int i = 0; i < 160; i++) { /* columns 1 and 2 of rows 8 and 9 */
            bool hit = i / 16 >= 8 && (i % 16 == 1 || i % 16 == 2);
            assert_true(data[i] == (hit ? (float)round : 0.0f));
        }
    }
    ut_sgx_close(&r.u);
}

static void
maps_that_do_not_fit_are_named(void **state)
{
    static const char text[] =
        TENSOR("0, 0, 0, 0", ", {0, 0}", "4d.shared::cluster.global.im2col", "384");
    struct run r;
    struct sg_tmap map;

    (void)state;
    run_open(&r, text, 128, 384);
    map = image(r.out);
    map.mode = SG_TMAP_TILED;
    for (int i = 0; i < 5; i++)
        map.box[i] = 1;
    memcpy(r.in, &map, sizeof(map));
    assert_int_equal(ut_sgx_run(&r.u), SG_CTA_FAULT);
    assert_int_equal(r.u.launch.fault.code, 715);
    assert_non_null(strstr(r.u.launch.fault.what, "another kind"));
    ut_sgx_close(&r.u);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions_join_what_is_there),
        cmocka_unit_test(halves_are_added_and_shared_memory_reduced),
        cmocka_unit_test(masks_fills_and_remote_sums),
        cmocka_unit_test(no_launch_is_cancelled),
        cmocka_unit_test(columns_of_pixels_wrap_between_their_corners),
        cmocka_unit_test(rows_are_gathered_from_where_they_are),
        cmocka_unit_test(a_kernel_edits_a_map_and_adds_through_it),
        cmocka_unit_test(maps_that_do_not_fit_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
