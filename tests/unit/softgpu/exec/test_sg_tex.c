/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Textures and surfaces: address modes, filters and formats against a plain model, and
 * accesses outside that must trap, clamp or read zero.
 */
#include "ut_sgx.h"

#include "sg_tex.h"
#include "ut.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define W 7
#define H 5

/* out[tid] = tex(u[tid], v[tid]) */
static const char sample[] = UT_SGX_HEAD
    ".visible .entry k(.param .u64 t, .param .u64 u, .param .u64 v, .param .u64 o)\n{\n"
    ".reg .b32 %r<8>;.reg .b64 %rd<8>;.reg .f32 %f<8>;\n"
    "mov.u32 %r1, %tid.x; mul.wide.u32 %rd5, %r1, 4; ld.param.u64 %rd1, [t];\n"
    "ld.param.u64 %rd2, [u]; add.u64 %rd2, %rd2, %rd5; ld.global.f32 %f1, [%rd2];\n"
    "ld.param.u64 %rd3, [v]; add.u64 %rd3, %rd3, %rd5; ld.global.f32 %f2, [%rd3];\n"
    "tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [%rd1, {%f1, %f2}];\n"
    "ld.param.u64 %rd4, [o]; add.u64 %rd4, %rd4, %rd5; st.global.f32 [%rd4], %f3; "
    "ret;\n}\n";

static struct sg_tex
texture(const float *data)
{
    return (struct sg_tex){
        .format = SG_TEX_F32,
        .channels = 1,
        .dims = 2,
        .n_levels = 1,
        .border = {0.5f, 0, 0, 0},
        .level = {{(uintptr_t)data, W, H, 1, W * 4, W * H * 4}},
    };
}

static int
model_index(int mode, int i, int n)
{
    if (mode == SG_TEX_CLAMP)
        return i < 0 ? 0 : i >= n ? n - 1 : i;
    if (mode == SG_TEX_BORDER)
        return i < 0 || i >= n ? -1 : i;
    if (mode == SG_TEX_WRAP) {
        while (i < 0)
            i += n;
        return i % n;
    }
    while (i < 0)
        i += 2 * n;
    i %= 2 * n;
    return i < n ? i : 2 * n - 1 - i;
}

static float
model_texel(const float *data, int mode, int x, int y)
{
    x = model_index(mode, x, W);
    y = model_index(mode, y, H);
    return x < 0 || y < 0 ? 0.5f : data[y * W + x];
}

static float
model_sample(const float *data, int mode, bool linear, float x, float y)
{
    float fx, fy, a, b;
    int i, j;

    if (!linear)
        return model_texel(data, mode, (int)floorf(x), (int)floorf(y));
    fx = x - 0.5f;
    fy = y - 0.5f;
    i = (int)floorf(fx);
    j = (int)floorf(fy);
    a = roundf((fx - (float)i) * 256) / 256;
    b = roundf((fy - (float)j) * 256) / 256;
    return (1 - a) * (1 - b) * model_texel(data, mode, i, j) +
           a * (1 - b) * model_texel(data, mode, i + 1, j) +
           (1 - a) * b * model_texel(data, mode, i, j + 1) +
           a * b * model_texel(data, mode, i + 1, j + 1);
}

static void
address_modes_and_filters_follow_the_model(void **state)
{
    float *data, *u, *v, *o;
    struct ut_sgx s;

    (void)state;
    ut_sgx_open(&s, sample);
    data = ut_sgx_buf(&s, W * H * sizeof(*data));
    for (int i = 0; i < W * H; i++)
        data[i] = (float)(i * i % 29) - 7.0f;
    u = ut_sgx_buf(&s, 4096);
    v = ut_sgx_buf(&s, 4096);
    o = ut_sgx_buf(&s, 4096);
    for (int i = 0; i < 1024; i++) {
        u[i] = (float)((i * 37) % 400 - 130) / 17.0f;
        v[i] = (float)((i * 91) % 300 - 110) / 13.0f;
    }
    ut_sgx_param(&s, 1, (uintptr_t)u);
    ut_sgx_param(&s, 2, (uintptr_t)v);
    ut_sgx_param(&s, 3, (uintptr_t)o);
    ut_sgx_shape(&s, 1, 1024);
    for (int k = 0; k < 16; k++) {
        struct sg_tex t = texture(data);
        int mode = k >> 2;
        uint64_t handle;
        t.address[0] = t.address[1] = (enum sg_tex_address)mode;
        t.linear = k & 1;
        t.normalized = k & 2;
        assert_int_equal(sg_tex_register(&t, &handle), 0);
        ut_sgx_param(&s, 0, handle);
        assert_int_equal(ut_sgx_run(&s), SG_CTA_DONE);
        for (int i = 0; i < 1024; i++) {
            float x = t.normalized ? u[i] * W : u[i],
                  y = t.normalized ? v[i] * H : v[i];
            int m = !t.normalized && (mode == SG_TEX_WRAP || mode == SG_TEX_MIRROR)
                        ? SG_TEX_CLAMP
                        : mode;
            float want = model_sample(data, m, t.linear, x, y);
            if (fabsf(o[i] - want) > 1e-4f)
                fail_msg("mode %d linear %d normalised %d at %g %g: %g, not %g", mode,
                         t.linear, t.normalized, (double)x, (double)y, (double)o[i],
                         (double)want);
        }
        sg_tex_unregister(handle);
        assert_int_equal(ut_sgx_run(&s), SG_CTA_FAULT); /* the handle is dead */
        assert_int_equal(s.launch.fault.code, 700);
    }
    ut_sgx_close(&s);
}

/* The kernel, about to read with what lies in the memory that is the result. */
static float *
sample_open(struct ut_sgx *s)
{
    float *in;

    ut_sgx_open(s, sample);
    in = ut_sgx_buf(s, 4096);
    for (unsigned i = 1; i < 4; i++)
        ut_sgx_param(s, i, (uintptr_t)in);
    ut_sgx_shape(s, 1, 32);
    return in;
}

static void
memory_that_the_kernel_may_not_touch_is_a_fault(void **state)
{
    static float strange[W * H];
    struct sg_tex t = texture(strange);
    uint64_t handle;
    struct ut_sgx s;
    float *in;

    (void)state;
    in = sample_open(&s);
    assert_int_equal(sg_tex_register(&t, &handle), 0);
    ut_sgx_param(&s, 0, handle);
    assert_int_equal(ut_sgx_run(&s), SG_CTA_FAULT);
    assert_int_equal(s.launch.fault.code, SG_FAULT_ILLEGAL_ADDRESS);
    sg_tex_unregister(handle);
    /* The last texel one byte behind the end. */
    t.level[0].base = (uintptr_t)in + 4096 - W * H * 4 + 1;
    assert_int_equal(sg_tex_register(&t, &handle), 0);
    ut_sgx_param(&s, 0, handle);
    assert_int_equal(ut_sgx_run(&s), SG_CTA_FAULT);
    sg_tex_unregister(handle);
    t.level[0].base--;
    assert_int_equal(sg_tex_register(&t, &handle), 0);
    ut_sgx_param(&s, 0, handle);
    assert_int_equal(ut_sgx_run(&s), SG_CTA_DONE);
    sg_tex_unregister(handle);
    ut_sgx_close(&s);
}

/* As on a card, until others have been put in its place. */
static void
a_retired_handle_is_read_until_it_expires(void **state)
{
    struct sg_tex t;
    uint64_t handle, others[SG_TEX_RETIRED_MAX];
    struct ut_sgx s;
    float *in;

    (void)state;
    in = sample_open(&s);
    t = texture(in);
    assert_int_equal(sg_tex_register(&t, &handle), 0);
    ut_sgx_param(&s, 0, handle);
    for (unsigned i = 0; i < SG_TEX_RETIRED_MAX; i++)
        assert_int_equal(sg_tex_register(&t, &others[i]), 0);
    assert_false(sg_tex_retire(handle));
    assert_false(sg_tex_retire(handle)); /* once */
    sg_tex_unregister(handle);
    for (unsigned i = 0; i < SG_TEX_RETIRED_MAX - 1; i++)
        assert_false(sg_tex_retire(others[i]));
    assert_int_equal(ut_sgx_run(&s), SG_CTA_DONE);
    assert_true(sg_tex_retire(others[SG_TEX_RETIRED_MAX - 1]));
    sg_tex_reuse(sg_tex_expire());
    assert_int_equal(ut_sgx_run(&s), SG_CTA_FAULT);
    assert_int_equal(s.launch.fault.code, SG_FAULT_ILLEGAL_ADDRESS);
    assert_null(sg_tex_find(handle));
    assert_null(sg_tex_find(others[0]));
    assert_non_null(sg_tex_find(others[SG_TEX_RETIRED_MAX - 1]));
    /* Slots are used again, and none of them under an old handle. */
    assert_int_equal(sg_tex_register(&t, &handle), 0);
    assert_true(handle >> 20 > 1);
    sg_tex_unregister(handle);
    ut_sgx_close(&s);
}

static void
formats_are_read_as_floats_or_integers(void **state)
{
    static const char fetch[] = UT_SGX_HEAD
        ".visible .entry k(.param .u64 t, .param .u64 o)\n{\n"
        ".reg .b32 %r<8>;.reg .b64 %rd<8>;.reg .f32 %f<8>;\n"
        "mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [t]; ld.param.u64 %rd2, [o];\n"
        "mul.wide.u32 %rd3, %r1, 32; add.u64 %rd2, %rd2, %rd3;\n"
        "tex.1d.v4.s32.s32 {%r2, %r3, %r4, %r5}, [%rd1, {%r1}];\n"
        "tex.1d.v4.f32.s32 {%f2, %f3, %f4, %f5}, [%rd1, {%r1}];\n"
        "st.global.v4.b32 [%rd2], {%r2, %r3, %r4, %r5};\n"
        "st.global.v4.f32 [%rd2+16], {%f2, %f3, %f4, %f5}; ret;\n}\n";
    static const uint8_t bytes[8] = {0, 255, 128, 127, 1, 129, 254, 51};
    struct sg_tex t = {.format = SG_TEX_U8,
                       .channels = 2,
                       .dims = 1,
                       .n_levels = 1,
                       .address = {SG_TEX_CLAMP, SG_TEX_CLAMP, SG_TEX_CLAMP},
                       .level = {{0, 4, 1, 1, 8, 8}}};
    uint64_t handle;
    struct ut_sgx s;
    uint32_t *o;
    void *texels;
    float f;

    (void)state;
    ut_sgx_open(&s, fetch);
    texels = ut_sgx_buf(&s, sizeof(bytes));
    memcpy(texels, bytes, sizeof(bytes));
    t.level[0].base = (uintptr_t)texels;
    o = ut_sgx_buf(&s, 32 * 32);
    ut_sgx_param(&s, 1, (uintptr_t)o);
    for (int k = 0; k < 4; k++) {
        t.format = k & 1 ? SG_TEX_S8 : SG_TEX_U8;
        t.read_float = k & 2;
        assert_int_equal(sg_tex_register(&t, &handle), 0);
        ut_sgx_param(&s, 0, handle);
        ut_sgx_shape(&s, 1, 6);
        assert_int_equal(ut_sgx_run(&s), SG_CTA_DONE);
        for (int i = 0; i < 6; i++) {
            for (int c = 0; c < 2; c++) {
                uint8_t raw = bytes[(i < 4 ? i : 3) * 2 + c];
                if (!t.read_float) {
                    assert_int_equal((int32_t)o[i * 8 + c], k & 1 ? (int8_t)raw : raw);
                    continue;
                }
                memcpy(&f, &o[i * 8 + 4 + c], 4);
                assert_true(f == (k & 1 ? fmaxf((float)(int8_t)raw / 127.0f, -1.0f)
                                        : (float)raw / 255.0f));
            }
        }
        sg_tex_unregister(handle);
    }
    ut_sgx_close(&s);
}

/* One thread writes at (x, y), byte coordinates; then reads it back. */
static void
surfaces_trap_clamp_or_read_zero(void **state)
{
    static const char *const modes[] = {"trap", "clamp", "zero"};
    static const struct {
        int x, y;
        bool in;
        int cx, cy;
    } at[] = {{0, 0, true, 0, 0},        {24, 4, true, 24, 4}, {28, 0, false, 24, 0},
              {-4, 2, false, 0, 2},      {8, 5, false, 8, 4},  {8, -1, false, 8, 0},
              {1 << 30, 1, false, 24, 1}};

    (void)state;
    for (int m = 0; m < 3; m++) {
        char text[2048];
        uint32_t *data, *o;
        uint64_t handle;
        struct sg_tex t;
        struct ut_sgx s;
        snprintf(
            text, sizeof(text), "%s%s.trap [%s%s.%s %s",
            UT_SGX_HEAD
            ".visible .entry k(.param .u64 t, .param .u32 x, .param .u32 y, .param "
            ".u64 o)\n{\n"
            ".reg .b32 %r<8>;.reg .b64 %rd<8>;\n"
            "ld.param.u64 %rd1, [t]; ld.param.u32 %r1, [x]; ld.param.u32 %r2, [y];\n"
            "ld.param.u64 %rd2, [o]; mov.u32 %r3, 0; suq.width.b32 %r6, [%rd1];\n",
            "sust.b.2d.b32", "%rd1, {%r3, %r3}], %r6;\n", "suld.b.2d.b32", modes[m],
            "%r4, [%rd1, {%r1, %r2}]; st.global.u32 [%rd2], %r4; ret;\n}\n");
        ut_sgx_open(&s, text);
        data = ut_sgx_buf(&s, W * H * 4);
        o = ut_sgx_buf(&s, 4);
        for (uint32_t i = 0; i < W * H; i++)
            data[i] = i + 100;
        t = texture((const float *)data);
        t.format = SG_TEX_U32;
        t.surface = true;
        assert_int_equal(sg_tex_register(&t, &handle), 0);
        ut_sgx_shape(&s, 1, 1);
        for (size_t k = 0; k < sizeof(at) / sizeof(at[0]); k++) {
            enum sg_cta_state st;
            ut_sgx_param(&s, 0, handle);
            ut_sgx_param(&s, 1, (uint32_t)at[k].x);
            ut_sgx_param(&s, 2, (uint32_t)at[k].y);
            ut_sgx_param(&s, 3, (uintptr_t)o);
            st = ut_sgx_run(&s);
            assert_int_equal(data[0], W); /* what suq said */
            if (!at[k].in && m == 0) {
                assert_int_equal(st, SG_CTA_FAULT);
                assert_int_equal(s.launch.fault.code, 700);
                continue;
            }
            assert_int_equal(st, SG_CTA_DONE);
            assert_int_equal(
                *o, !at[k].in && m == 2 ? 0 : data[at[k].cy * W + at[k].cx / 4]);
        }
        sg_tex_unregister(handle);
        ut_sgx_close(&s);
    }
}

static void
senseless_descriptions_are_refused(void **state)
{
    float data[W * H];
    struct sg_tex t = texture(data);
    uint64_t handle;

    (void)state;
    t.channels = 3;
    assert_int_equal(sg_tex_register(&t, &handle), -EINVAL);
    t = texture(data);
    t.level[0].width = 0;
    assert_int_equal(sg_tex_register(&t, &handle), -EINVAL);
    t = texture(NULL);
    assert_int_equal(sg_tex_register(&t, &handle), -EINVAL);
    assert_null(sg_tex_find(0));
    assert_null(sg_tex_find(UINT64_MAX));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(address_modes_and_filters_follow_the_model),
        cmocka_unit_test(memory_that_the_kernel_may_not_touch_is_a_fault),
        cmocka_unit_test(a_retired_handle_is_read_until_it_expires),
        cmocka_unit_test(formats_are_read_as_floats_or_integers),
        cmocka_unit_test(surfaces_trap_clamp_or_read_zero),
        cmocka_unit_test(senseless_descriptions_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
