/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rare forms of textures and surfaces: offsets in texels, a module's own samplers,
 * halves, levels asked for, kinds of handles; formatted stores and reductions.
 */
#include "ut_sgx.h"

#include "sg_tex.h"
#include "ut.h"

#include <stdio.h>
#include <string.h>

#define W 6
#define H 4

/* %rd1 = the handle, %rd2 = where this thread's 32 bytes go, %r1 = its number */
#define KERNEL(decl, body)                                                             \
    ".version 8.8\n.target sm_75\n.address_size 64\n" decl                             \
    ".visible .entry k(.param .u64 t, .param .u64 out)\n{\n"                           \
    ".reg .pred %p<4>; .reg .b32 %r<24>; .reg .b64 %rd<8>; .reg .f32 %f<8>;\n"         \
    "mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 32; ld.param.u64 %rd1, [t];\n"       \
    "ld.param.u64 %rd2, [out]; add.u64 %rd2, %rd2, %rd3;\n"                            \
    "rem.u32 %r2, %r1, 6; div.u32 %r3, %r1, 6;\n"                                      \
    "cvt.rn.f32.u32 %f1, %r2; cvt.rn.f32.u32 %f2, %r3;\n" body "ret;\n}\n"

struct run {
    struct ut_sgx u;
    uint32_t *data, *out; /* [H][W], [W * H][8] */
    uint64_t handle;
};

static void
run_open(struct run *r, const char *text, struct sg_tex tex)
{
    ut_sgx_open(&r->u, text);
    r->data = ut_sgx_buf(&r->u, W * H * 16);
    r->out = ut_sgx_buf(&r->u, W * H * 32);
    tex.dims = 2;
    tex.n_levels = tex.n_levels ? tex.n_levels : 1;
    for (unsigned i = 0; i < tex.n_levels; i++)
        tex.level[i] = (struct sg_tex_level){(uintptr_t)r->data, W >> i,    H >> i, 1,
                                             W * 16 >> i,        W * H * 16};
    assert_int_equal(sg_tex_register(&tex, &r->handle), 0);
    ut_sgx_param(&r->u, 0, r->handle);
    ut_sgx_param(&r->u, 1, (uintptr_t)r->out);
    ut_sgx_shape(&r->u, 1, W * H);
}

static void
run_close(struct run *r)
{
    sg_tex_unregister(r->handle);
    ut_sgx_close(&r->u);
}

static float
as_float(uint32_t u)
{
    float f;

    memcpy(&f, &u, 4);
    return f;
}

/* Rows of data are W * 16 bytes apart. */
static float *
texel(const struct run *r, int x, int y)
{
    return (float *)(void *)((char *)r->data + y * W * 16) + x;
}

static int
clamped(int i, int n)
{
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

static void
offsets_count_texels(void **state)
{
    static const char text[] = KERNEL(
        "", "mov.u32 %r4, -2; mov.u32 %r5, 1;\n"
            "tex.2d.v4.f32.f32 {%f3,%f4,%f5,%f6}|%p1, [%rd1, {%f1,%f2}], {%r4,%r5};\n"
            "st.global.f32 [%rd2], %f3;\n"
            "tex.level.2d.v4.f32.f32 {%f3,%f4,%f5,%f6}, [%rd1, {%f1,%f2}], %f7, "
            "{%r4,%r5};\n"
            "st.global.f32 [%rd2+4], %f3; selp.u32 %r6, 7, 8, %p1;\n"
            "tex.2d.v4.f32.s32 {%f3,%f4,%f5,%f6}, [%rd1, {%r2,%r3}], {%r4,%r5};\n"
            "st.global.u32 [%rd2+8], %r6; st.global.f32 [%rd2+12], %f3;\n");
    struct sg_tex tex = {
        .format = SG_TEX_F32, .channels = 1, .address = {SG_TEX_CLAMP, SG_TEX_CLAMP}};
    struct run r;

    (void)state;
    run_open(&r, text, tex);
    for (int i = 0; i < W * H; i++)
        *texel(&r, i % W, i / W) = (float)i;
    assert_int_equal(ut_sgx_run(&r.u), SG_CTA_DONE);
    for (int i = 0; i < W * H; i++) {
        float want = *texel(&r, clamped(i % W - 2, W), clamped(i / W + 1, H));
        assert_true(as_float(r.out[i * 8]) == want);
        assert_true(as_float(r.out[i * 8 + 1]) == want);
        assert_int_equal(r.out[i * 8 + 2], 7); /* it is all there */
        assert_true(as_float(r.out[i * 8 + 3]) == want);
    }
    run_close(&r);
}

static void
a_sampler_of_the_module_rules(void **state)
{
    static const char text[] = KERNEL(
        ".global .samplerref edge = { addr_mode_0 = clamp_to_border, addr_mode_1 = "
        "wrap, "
        "filter_mode = nearest };\n"
        ".global .samplerref soft = { addr_mode_0 = clamp_to_edge, addr_mode_1 = "
        "clamp_to_edge, filter_mode = linear, force_unnormalized_coords = 1 };\n",
        "sub.f32 %f1, %f1, 0f40000000; mul.f32 %f3, %f1, 0f3E2AAAAB;\n" /* x - 2; / 6 */
        "fma.rn.f32 %f4, %f2, 0f3E800000, 0f40A00000;\n"                /* y / 4 + 5 */
        "add.f32 %f3, %f3, 0f3DAAAAAB; add.f32 %f4, %f4, 0f3E000000;\n"
        "tex.2d.v4.f32.f32 {%f3,%f4,%f5,%f6}, [%rd1, edge, {%f3,%f4}];\n"
        "st.global.f32 [%rd2], %f3; add.f32 %f2, %f2, 0f3F000000;\n"
        "add.f32 %f1, %f1, 0f3F800000;\n" /* x - 1: between two texels */
        "tex.2d.v4.f32.f32 {%f3,%f4,%f5,%f6}, [%rd1, soft, {%f1,%f2}];\n"
        "st.global.f32 [%rd2+4], %f3;\n");
    struct sg_tex tex = {.format = SG_TEX_F32,
                         .channels = 1,
                         .normalized = true,
                         .border = {-5},
                         .address = {SG_TEX_MIRROR, SG_TEX_MIRROR}};
    struct run r;

    (void)state;
    run_open(&r, text, tex);
    for (int i = 0; i < W * H; i++)
        *texel(&r, i % W, i / W) = (float)(2 * i);
    assert_int_equal(ut_sgx_run(&r.u), SG_CTA_DONE);
    for (int i = 0; i < W * H; i++) {
        int x = i % W - 2, y = i / W;
        float want = x < 0 ? -5 : *texel(&r, x, y);
        float a = *texel(&r, clamped(x, W), y), b = *texel(&r, clamped(x + 1, W), y);
        assert_true(as_float(r.out[i * 8]) == want);
        assert_true(as_float(r.out[i * 8 + 1]) == (a + b) / 2);
    }
    run_close(&r);
}

static void
halves_levels_and_kinds_of_handles(void **state)
{
    static const char text[] = KERNEL(
        "",
        "tex.2d.v2.f16x2.s32 {%r4,%r5}, [%rd1, {%r2,%r3}];\n"
        "st.global.v2.u32 [%rd2], {%r4,%r5}; mov.u32 %r6, 1;\n"
        "txq.level.width.b32 %r4, [%rd1], %r6; txq.level.height.b32 %r5, [%rd1], 0;\n"
        "st.global.v2.u32 [%rd2+8], {%r4,%r5};\n"
        "istypep.texref %p1, %rd1; istypep.surfref %p2, %rd1; mov.u64 %rd4, 12345;\n"
        "istypep.texref %p3, %rd4; selp.u32 %r4, 1, 0, %p1; selp.u32 %r5, 2, 0, %p2;\n"
        "or.b32 %r4, %r4, %r5; selp.u32 %r5, 4, 0, %p3; or.b32 %r4, %r4, %r5;\n"
        "istypep.samplerref %p3, %rd1; selp.u32 %r5, 8, 0, %p3;\n"
        "or.b32 %r4, %r4, %r5; st.global.u32 [%rd2+16], %r4;\n");
    struct sg_tex tex = {.format = SG_TEX_F32, .channels = 2, .n_levels = 2};
    struct run r;

    (void)state;
    run_open(&r, text, tex);
    for (int i = 0; i < W * H; i++) {
        *texel(&r, i % W * 2, i / W) = 1.5f;
        *texel(&r, i % W * 2 + 1, i / W) = -2.0f;
    }
    assert_int_equal(ut_sgx_run(&r.u), SG_CTA_DONE);
    for (int i = 0; i < W * H; i++) {
        assert_int_equal(r.out[i * 8], 0xc0003e00);
        assert_int_equal(r.out[i * 8 + 1], 0x3c000000); /* 0, 1 */
        assert_int_equal(r.out[i * 8 + 2], W / 2);
        assert_int_equal(r.out[i * 8 + 3], H);
        assert_int_equal(r.out[i * 8 + 4], 1);
    }
    run_close(&r);
}

static void
queries_answer_in_the_driver_apis_numbers(void **state)
{
    static const char text[] = KERNEL(
        ".global .samplerref own = { addr_mode_0 = mirror, filter_mode = linear, "
        "force_unnormalized_coords = 1 };\n",
        "txq.channel_data_type.b32 %r4, [%rd1]; txq.channel_order.b32 %r5, [%rd1];\n"
        "txq.num_samples.b32 %r6, [%rd1]; txq.filter_mode.b32 %r7, [%rd1];\n"
        "st.global.v4.u32 [%rd2], {%r4,%r5,%r6,%r7};\n"
        "txq.addr_mode_0.b32 %r4, [%rd1]; txq.addr_mode_1.b32 %r5, [%rd1];\n"
        "txq.force_unnormalized_coords.b32 %r6, [own]; txq.filter_mode.b32 %r7, "
        "[own];\n"
        "shl.b32 %r6, %r6, 4; or.b32 %r6, %r6, %r7; txq.addr_mode_0.b32 %r7, [own];\n"
        "st.global.v4.u32 [%rd2+16], {%r4,%r5,%r6,%r7};\n");
    static const char surface[] = KERNEL(
        "",
        "suq.channel_data_type.b32 %r4, [%rd1]; suq.channel_order.b32 %r5, [%rd1];\n"
        "suq.memory_layout.b32 %r6, [%rd1]; mov.u32 %r7, 77;\n"
        "st.global.v4.u32 [%rd2], {%r4,%r5,%r6,%r7};\n");
    static const uint32_t want[] = {
        16, 2, 1, 1, SG_TEX_BORDER, SG_TEX_WRAP, 0x11, SG_TEX_MIRROR};
    static const uint32_t formats[] = {1, 2, 3, 8, 9, 10, 16, 32}; /* CU_AD_FORMAT_* */
    struct sg_tex tex = {.format = SG_TEX_F16,
                         .channels = 2,
                         .linear = true,
                         .address = {SG_TEX_BORDER, SG_TEX_WRAP}};
    struct run r;

    (void)state;
    run_open(&r, text, tex);
    assert_int_equal(ut_sgx_run(&r.u), SG_CTA_DONE);
    assert_memory_equal(r.out, want, sizeof(want));
    run_close(&r);
    for (unsigned f = SG_TEX_U8; f <= SG_TEX_F32; f++) {
        uint32_t said[] = {formats[f], 4, 0, 77};
        struct sg_tex surf = {
            .format = (enum sg_tex_format)f, .channels = 4, .surface = true};
        run_open(&r, surface, surf);
        assert_int_equal(ut_sgx_run(&r.u), SG_CTA_DONE);
        assert_memory_equal(r.out, said, sizeof(said));
        run_close(&r);
    }
}

/* The sampler of a second texture, whose memory is not looked at. */
static void
a_sampler_by_its_handle_rules(void **state)
{
    static const char text[] =
        KERNEL("", "ld.param.u64 %rd5, [out]; ld.global.u64 %rd4, [%rd5]; bar.sync 0;\n"
                   "add.f32 %f1, %f1, 0fC0000000;\n" /* x - 2 */
                   "tex.2d.v4.f32.f32 {%f3,%f4,%f5,%f6}, [%rd1, %rd4, {%f1,%f2}];\n"
                   "st.global.f32 [%rd2+4], %f3;\n");
    struct sg_tex tex = {.format = SG_TEX_F32,
                         .channels = 1,
                         .linear = true,
                         .address = {SG_TEX_CLAMP, SG_TEX_CLAMP}};
    struct sg_tex other = {.format = SG_TEX_U8,
                           .channels = 1,
                           .dims = 1,
                           .n_levels = 1,
                           .border = {-5},
                           .level = {{16, 1, 1, 1, 1, 1}},
                           .address = {SG_TEX_BORDER, SG_TEX_CLAMP}};
    uint64_t handle;
    struct run r;

    (void)state;
    run_open(&r, text, tex);
    assert_int_equal(sg_tex_register(&other, &handle), 0);
    memcpy(r.out, &handle, sizeof(handle));
    for (int i = 0; i < W * H; i++)
        *texel(&r, i % W, i / W) = (float)(2 * i);
    assert_int_equal(ut_sgx_run(&r.u), SG_CTA_DONE);
    for (int i = 0; i < W * H; i++) {
        int x = i % W - 2, y = i / W;
        assert_true(as_float(r.out[i * 8 + 1]) == (x < 0 ? -5 : *texel(&r, x, y)));
    }
    sg_tex_unregister(handle);
    memcpy(r.out, &handle, sizeof(handle));
    assert_int_equal(ut_sgx_run(&r.u), SG_CTA_FAULT);
    assert_non_null(strstr(r.u.launch.fault.what, "sampler handle is not alive"));
    run_close(&r);
}

static void
a_texture_has_one_sample_per_texel(void **state)
{
    static const char text[] =
        KERNEL("", "mov.u32 %r4, 0; mov.u32 %r5, 99;\n"
                   "tex.2dms.v4.f32.s32 {%f3,%f4,%f5,%f6}, [%rd1, {%r4,%r2,%r3,%r5}];\n"
                   "st.global.f32 [%rd2], %f3;\n");
    static const char layers[] = KERNEL(
        "", "mov.u32 %r4, 1; mov.u32 %r5, 0;\n"
            "tex.a2dms.v4.f32.s32 {%f3,%f4,%f5,%f6}, [%rd1, {%r4,%r5,%r2,%r3}];\n"
            "st.global.f32 [%rd2], %f3;\n");
    struct sg_tex tex = {
        .format = SG_TEX_F32, .channels = 1, .address = {SG_TEX_CLAMP, SG_TEX_CLAMP}};
    struct run r;

    (void)state;
    for (int layered = 0; layered < 2; layered++) {
        run_open(&r, layered ? layers : text, tex);
        if (layered) { /* the second layer begins a row below the first */
            struct sg_tex two = tex;
            sg_tex_unregister(r.handle);
            two.dims = 2;
            two.layered = true;
            two.n_levels = 1;
            two.level[0] =
                (struct sg_tex_level){(uintptr_t)r.data, W, H - 1, 2, W * 16, W * 16};
            assert_int_equal(sg_tex_register(&two, &r.handle), 0);
            ut_sgx_param(&r.u, 0, r.handle);
        }
        for (int i = 0; i < W * H; i++)
            *texel(&r, i % W, i / W) = (float)(3 * i);
        assert_int_equal(ut_sgx_run(&r.u), SG_CTA_DONE);
        for (int i = 0; i < W * H; i++) {
            int y = layered ? clamped(i / W, H - 1) + 1 : i / W;
            assert_true(as_float(r.out[i * 8]) == *texel(&r, i % W, y));
        }
        run_close(&r);
    }
}

/* A kernel that holds them runs, as long as it does not get there. */
static void
what_no_driver_makes_ends_the_kernel_that_gets_there(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {KERNEL("", "setp.ge.u32 %p1, %r1, 8; @!%p1 bra DONE;\n"
                    "tex.2d.v4.f32.f32 {%f3,%f4,%f5,%f6}, [%rd1, {%f1,%f2}], %f7;\n"
                    "DONE: st.global.u32 [%rd2], %r1;\n"),
         "a depth is compared with a texture that has none"},
        {KERNEL("", "setp.ge.u32 %p1, %r1, 8; @!%p1 bra DONE;\n"
                    "multimem.ld_reduce.relaxed.sys.global.add.v4.f32 "
                    "{%f3,%f4,%f5,%f6}, [%rd2];\n"
                    "multimem.st.global.u32 [%rd2+4], %r1;\n"
                    "multimem.red.global.add.f32 [%rd2], %f3;\n"
                    "DONE: st.global.u32 [%rd2], %r1;\n"),
         "the address belongs to no multicast object"},
    };
    struct sg_tex tex = {.format = SG_TEX_F32, .channels = 1};
    struct run r;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        run_open(&r, cases[i].text, tex);
        ut_sgx_shape(&r.u, 1, 8);
        assert_int_equal(ut_sgx_run(&r.u), SG_CTA_DONE);
        assert_int_equal(r.out[7 * 8], 7);
        ut_sgx_shape(&r.u, 1, W * H);
        assert_int_equal(ut_sgx_run(&r.u), SG_CTA_FAULT);
        assert_int_equal(r.u.launch.fault.code, SG_FAULT_ILLEGAL_ADDRESS);
        assert_int_equal(r.u.launch.fault.thread[0], 8);
        assert_non_null(strstr(r.u.launch.fault.what, cases[i].words));
        run_close(&r);
    }
}

static void
formatted_stores_convert_and_clamp(void **state)
{
    static const char text[] = KERNEL(
        "",
        "add.u32 %r4, %r1, 250; sub.u32 %r5, 3, %r1; mov.u32 %r6, 9; mov.u32 %r7, 0;\n"
        "sust.p.2d.v4.b32.trap [%rd1, {%r2,%r3}], {%r4,%r5,%r6,%r7};\n");
    struct sg_tex tex = {.format = SG_TEX_U8, .channels = 4, .surface = true};
    static const char floats[] = KERNEL(
        "", "sust.p.2d.v2.b32.zero [%rd1, {%r2,%r3}], {%f1,%f2};\n"
            "mov.u32 %r2, 6; sust.p.2d.v2.b32.zero [%rd1, {%r2,%r3}], {%f1,%f2};\n");
    struct run r;

    (void)state;
    run_open(&r, text, tex);
    assert_int_equal(ut_sgx_run(&r.u), SG_CTA_DONE);
    for (int i = 0; i < W * H; i++) {
        const uint8_t *p = (uint8_t *)r.data + i / W * W * 16 + i % W * 4;
        assert_int_equal(p[0], i + 250 > 255 ? 255 : i + 250);
        assert_int_equal(p[1], i > 3 ? 255 : 3 - i);
        assert_int_equal(p[2], 9);
    }
    run_close(&r);
    tex.format = SG_TEX_F16;
    tex.channels = 2;
    run_open(&r, floats, tex);
    assert_int_equal(ut_sgx_run(&r.u), SG_CTA_DONE);
    for (int i = 0; i < W * H; i++) {
        uint32_t v;
        _Float16 want[2] = {(_Float16)(i % W), (_Float16)(i / W)};
        memcpy(&v, (char *)r.data + i / W * W * 16 + i % W * 4, 4);
        assert_memory_equal(&v, want, 4);
    }
    run_close(&r);
}

static void
reductions_meet_in_a_surface(void **state)
{
    static const char text[] = KERNEL(
        "", "mov.u32 %r4, 4; mov.u32 %r5, 0; shl.b32 %r6, %r1, 28; mov.u32 %r7, 1;\n"
            "sured.b.add.2d.u32.trap [%rd1, {%r4,%r5}], %r1;\n" /* byte 4: texel 1 */
            "sured.p.max.2d.b32.trap [%rd1, {%r4,%r5}], %r6;\n" /* texel 4 */
            "sured.b.or.2d.b32.clamp [%rd1, {%r5,%r7}], %r1;\n"
            "mov.u32 %r5, 99; sured.b.add.2d.u32.zero [%rd1, {%r4,%r5}], %r1;\n"
            "cvt.u64.u32 %rd4, %r1; mov.u32 %r5, 2; mov.u32 %r4, 8;\n"
            "sured.b.min.2d.s64.trap [%rd1, {%r4,%r5}], %rd4;\n");
    struct sg_tex tex = {.format = SG_TEX_S32, .channels = 1, .surface = true};
    struct run r;
    uint32_t sum = 0, bits = 0;
    int64_t least = 5;

    (void)state;
    run_open(&r, text, tex);
    r.data[4] = 0x80000000;
    memcpy((char *)r.data + 2 * W * 16 + 8, &least, 8);
    for (uint32_t i = 0; i < W * H; i++) {
        sum += i;
        bits |= i;
    }
    assert_int_equal(ut_sgx_run(&r.u), SG_CTA_DONE);
    assert_int_equal(r.data[1], sum);
    assert_int_equal(r.data[4], 7u << 28); /* signed, as the surface is */
    assert_int_equal(r.data[W * 4], bits);
    memcpy(&least, (char *)r.data + 2 * W * 16 + 8, 8);
    assert_int_equal(least, 0);
    run_close(&r);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_count_texels),
        cmocka_unit_test(a_sampler_of_the_module_rules),
        cmocka_unit_test(halves_levels_and_kinds_of_handles),
        cmocka_unit_test(queries_answer_in_the_driver_apis_numbers),
        cmocka_unit_test(a_sampler_by_its_handle_rules),
        cmocka_unit_test(a_texture_has_one_sample_per_texel),
        cmocka_unit_test(what_no_driver_makes_ends_the_kernel_that_gets_there),
        cmocka_unit_test(formatted_stores_convert_and_clamp),
        cmocka_unit_test(reductions_meet_in_a_surface),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
