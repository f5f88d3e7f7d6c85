/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory safety: every access is inside a live range or a reported fault, whatever the
 * shape of the addresses; windows, alignment, removal while kernels run.
 */
#include "ut_sgx.h"

#include "ut.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define BODY(decl, body)                                                               \
    UT_SGX_HEAD                                                                        \
    ".visible .entry k(.param .u64 a, .param .u64 s, .param .u64 o)\n{\n"              \
    ".reg .pred %p<8>;.reg .b32 %r<32>;.reg .b64 %rd<16>;.reg .f32 %f<8>;"             \
    ".reg .b16 %h<8>;\n" decl                                                          \
    "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [s]; ld.param.u64 %rd3, [o];\n"        \
    "mov.u32 %r1, %tid.x; cvt.u64.u32 %rd4, %r1;\n"                                    \
    "mad.lo.u64 %rd5, %rd4, %rd2, %rd1; add.u64 %rd5, %rd5, %rd3;\n" body "ret;\n}\n"

/* Access at a + tid * s + o; returns the fault code. */
static enum sg_fault_code
access_at(struct ut_sgx *u, uint64_t a, uint64_t stride, uint64_t off, unsigned threads)
{
    ut_sgx_param(u, 0, a);
    ut_sgx_param(u, 1, stride);
    ut_sgx_param(u, 2, off);
    ut_sgx_shape(u, 1, threads);
    ut_sgx_run(u);
    return u->launch.fault.code;
}

static void
bounds_are_exact_to_the_byte(void **state)
{
    static const struct {
        const char *insn;
        unsigned size;
    } forms[] = {
        {"ld.global.u8 %r2, [%rd5];\n", 1},
        {"ld.global.s16 %r2, [%rd5];\n", 2},
        {"ld.global.u32 %r2, [%rd5];\n", 4},
        {"ld.global.u64 %rd6, [%rd5];\n", 8},
        {"ld.global.v2.u32 {%r2, %r3}, [%rd5];\n", 8},
        {"ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd5];\n", 16},
        {"ld.global.v2.u64 {%rd6, %rd7}, [%rd5];\n", 16},
        {"st.global.u8 [%rd5], %r1;\n", 1},
        {"st.global.u16 [%rd5], %r1;\n", 2},
        {"st.global.u32 [%rd5], %r1;\n", 4},
        {"st.global.u64 [%rd5], %rd4;\n", 8},
        {"st.global.v4.u32 [%rd5], {%r1, %r1, %r1, %r1};\n", 16},
        {"ld.u32 %r2, [%rd5];\n", 4},
        {"st.u64 [%rd5], %rd4;\n", 8},
        {"atom.global.add.u32 %r2, [%rd5], 1;\n", 4},
        {"red.add.u64 [%rd5], 1;\n", 8},
        {"atom.cas.b16 %h1, [%rd5], %h2, %h3;\n", 2},
    };
    static const unsigned threads[] = {1, 31, 32};

    (void)state;
    for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
        char text[2048];
        struct ut_sgx u;
        uint64_t buf, size = forms[f].size;
        snprintf(
            text, sizeof(text), "%s%s%s",
            UT_SGX_HEAD
            ".visible .entry k(.param .u64 a, .param .u64 s, .param .u64 o)\n{\n"
            ".reg .b32 %r<8>;.reg .b64 %rd<16>;.reg .f32 %f<8>;.reg .b16 %h<8>;\n"
            "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [s]; ld.param.u64 %rd3, [o];\n"
            "mov.u32 %r1, %tid.x; cvt.u64.u32 %rd4, %r1; mov.u16 %h2, 0; mov.u16 %h3, "
            "0;\n"
            "mad.lo.u64 %rd5, %rd4, %rd2, %rd1; add.u64 %rd5, %rd5, %rd3;\n",
            forms[f].insn, "ret;\n}\n");
        ut_sgx_open(&u, text);
        for (size_t t = 0; t < 3; t++) {
            unsigned n = threads[t];
            for (uint64_t stride = 0; stride <= 3 * size; stride += size) {
                uint64_t span = (n - 1) * stride + size;
                buf = (uintptr_t)ut_sgx_buf(&u, span);
                assert_int_equal(access_at(&u, buf, stride, 0, n), 0);
                assert_int_equal(access_at(&u, buf, stride, size, n), 700);
                assert_int_equal(u.launch.fault.address, buf + span);
                assert_int_equal(access_at(&u, buf, stride, (uint64_t)0 - size, n),
                                 700);
                if (size > 1)
                    assert_int_equal(access_at(&u, buf, stride, 1, n), 716);
            }
        }
        assert_int_equal(access_at(&u, 0, 0, 0, 32), 700);
        assert_int_equal(access_at(&u, 0, 0, (uint64_t)0 - size, 32), 700);
        assert_int_equal(access_at(&u, 1ull << 63, size, 0, 32), 700);
        assert_int_equal(access_at(&u, (uintptr_t)&u & ~15ull, 0, 0, 32), 700);
        assert_int_equal(access_at(&u, (uintptr_t)text & ~15ull, size, 0, 32), 700);
        ut_sgx_close(&u);
    }
}

/* A vector goes from one place to another as it is, element for element, whatever the
 * lanes' addresses look like, and the lanes that do not run leave theirs alone. */
static void
vectors_keep_their_elements_in_order(void **state)
{
    static const struct {
        const char *reg, *type;
        unsigned n, size;
    } forms[] = {{"b32", "u32", 2, 4}, {"f32", "f32", 4, 4}, {"b64", "u64", 2, 8},
                 {"b16", "u8", 2, 1},  {"b16", "s8", 4, 1},  {"b16", "u16", 4, 2},
                 {"b16", "s16", 2, 2}, {"b64", "u64", 4, 8}, {"b32", "b32", 8, 4}};
    static const char *const spaces[] = {".global", "", ".shared"};
    static const unsigned threads[] = {32, 31, 5};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(forms) * 3; i++) {
        unsigned bytes = forms[i / 3].n * forms[i / 3].size;
        const char *type = forms[i / 3].type, *space = spaces[i % 3];
        char text[2048], list[64] = "{";
        for (unsigned k = 0; k < forms[i / 3].n; k++)
            snprintf(list + strlen(list), sizeof(list) - strlen(list), "%%e%u%s", k,
                     k + 1 < forms[i / 3].n ? ", " : "}");
        /* from a + tid * s through the vector's own space to o + tid * s */
        snprintf(text, sizeof(text),
                 ".version 8.8\n.target sm_100\n.address_size 64\n"
                 ".visible .entry k(.param .u64 a, .param .u64 s, .param .u64 o)\n{\n"
                 ".reg .b32 %%r<8>;.reg .b64 %%rd<16>;.reg .%s %%e<8>;\n"
                 ".shared .align 32 .b8 sh[4096];\n"
                 "ld.param.u64 %%rd1, [a]; ld.param.u64 %%rd2, [s];\n"
                 "ld.param.u64 %%rd3, [o];\n"
                 "mov.u32 %%r1, %%tid.x; cvt.u64.u32 %%rd4, %%r1;\n"
                 "mul.lo.u64 %%rd4, %%rd4, %%rd2; add.u64 %%rd1, %%rd1, %%rd4;\n"
                 "add.u64 %%rd3, %%rd3, %%rd4; mov.u64 %%rd5, sh;\n"
                 "add.u64 %%rd5, %%rd5, 2048; add.u64 %%rd5, %%rd5, %%rd4;\n"
                 "ld%s.v%u.%s %s, [%%rd1];\n",
                 forms[i / 3].reg, i % 3 == 2 ? ".global" : space, forms[i / 3].n, type,
                 list);
        if (i % 3 == 2)
            snprintf(text + strlen(text), sizeof(text) - strlen(text),
                     "st.shared.v%u.%s [%%rd5], %s; bar.sync 0;\n"
                     "ld.shared.v%u.%s %s, [%%rd5];\n",
                     forms[i / 3].n, type, list, forms[i / 3].n, type, list);
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 "st%s.v%u.%s [%%rd3], %s; ret;\n}\n", i % 3 == 2 ? ".global" : space,
                 forms[i / 3].n, type, list);
        for (int t = 0; t < 3; t++) {
            for (int step = -2; step <= 2; step++) {
                uint64_t stride = (uint64_t)((int64_t)step * (int64_t)bytes);
                uint8_t *from, *to, want[4096] = {0};
                struct ut_sgx u;
                ut_sgx_open(&u, text);
                from = ut_sgx_buf(&u, 4096);
                to = ut_sgx_buf(&u, 4096);
                for (unsigned k = 0; k < 4096; k++)
                    from[k] = (uint8_t)(k * 37 + k / 256 + 1);
                for (unsigned lane = 0; lane < threads[t]; lane++)
                    memcpy(want + 2048 + lane * stride, from + 2048 + lane * stride,
                           bytes);
                ut_sgx_param(&u, 0, (uintptr_t)from + 2048);
                ut_sgx_param(&u, 1, stride);
                ut_sgx_param(&u, 2, (uintptr_t)to + 2048);
                ut_sgx_shape(&u, 1, threads[t]);
                assert_int_equal(ut_sgx_run(&u), SG_CTA_DONE);
                assert_memory_equal(to, want, 4096);
                ut_sgx_close(&u);
            }
        }
    }
}

/* As strlen() of GCC's newlib reads a string of three bytes. */
static void
loads_may_run_to_the_end_of_the_last_aligned_block(void **state)
{
    static const char load[] = BODY("", "ld.global.u64 %rd6, [%rd5];\n");
    static const char store[] = BODY("", "st.global.u64 [%rd5], %rd4;\n");
    struct ut_sgx u;
    uint64_t buf;

    (void)state;
    ut_sgx_open(&u, load);
    buf = (uintptr_t)ut_sgx_buf(&u, 3);
    assert_int_equal(access_at(&u, buf, 0, 0, 1), 0);
    assert_int_equal(access_at(&u, buf, 0, 0, 32), 0);
    assert_int_equal(access_at(&u, buf, 0, 8, 1), 700);
    buf = (uintptr_t)ut_sgx_buf(&u, 32 * 8 - 5);
    assert_int_equal(access_at(&u, buf, 8, 0, 32), 0);
    ut_sgx_close(&u);
    ut_sgx_open(&u, store);
    buf = (uintptr_t)ut_sgx_buf(&u, 3);
    assert_int_equal(access_at(&u, buf, 0, 0, 1), 700);
    ut_sgx_close(&u);
}

static void
the_faulting_thread_is_named(void **state)
{
    static const char text[] = BODY("", "\n\nst.global.u32 [%rd5], %r1;\n");
    struct ut_sgx u;
    uint64_t buf;

    (void)state;
    ut_sgx_open(&u, text);
    buf = (uintptr_t)ut_sgx_buf(&u, 40 * 4);
    assert_int_equal(access_at(&u, buf, 4, 0, 64), 700);
    assert_int_equal(u.launch.fault.thread[0], 40);
    assert_int_equal(u.launch.fault.lane, 8);
    assert_int_equal(u.launch.fault.address, buf + 160);
    assert_true(u.launch.fault.line > 8);
    assert_string_equal(u.launch.fault.kernel, "k");
    assert_non_null(strstr(u.launch.fault.what, "store of 4 bytes"));
    ut_sgx_close(&u);
}

static void
lanes_may_use_different_allocations(void **state)
{
    static const char text[] =
        BODY("", "ld.global.u64 %rd6, [%rd5]; ld.global.u32 %r2, [%rd6];\n"
                 "add.u32 %r2, %r2, 5; st.global.u32 [%rd6], %r2;\n");
    struct ut_sgx u;
    uint32_t *word[32];
    uint64_t *ptrs;

    (void)state;
    ut_sgx_open(&u, text);
    ptrs = ut_sgx_buf(&u, 256);
    for (int i = 0; i < 32; i++) {
        word[i] = i % 3 && i ? word[i - 1] + 1 : ut_sgx_buf(&u, 64);
        *word[i] = (uint32_t)i;
        ptrs[i] = (uintptr_t)word[i];
    }
    assert_int_equal(access_at(&u, (uintptr_t)ptrs, 8, 0, 32), 0);
    for (int i = 0; i < 32; i++)
        assert_int_equal(*word[i], i + 5);
    ptrs[17] = 0;
    assert_int_equal(access_at(&u, (uintptr_t)ptrs, 8, 0, 32), 700);
    assert_int_equal(u.launch.fault.thread[0], 17);
    ut_sgx_close(&u);
}

static void
read_only_ranges_refuse_stores(void **state)
{
    static const char store[] = BODY("", "st.global.u32 [%rd5], %r1;\n");
    static const char atom[] = BODY("", "red.global.add.u32 [%rd5], 1;\n");
    static const char load[] = BODY("", "ld.global.u32 %r2, [%rd5];\n");
    static const char *const texts[] = {store, atom, load};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct ut_sgx u;
        uint64_t buf;
        ut_sgx_open(&u, texts[i]);
        buf = (uintptr_t)ut_sgx_buf(&u, 128);
        assert_int_equal(sg_memview_remove(u.view, buf), 0);
        assert_int_equal(sg_memview_add(u.view, buf, 128, SG_RANGE_READ_ONLY), 0);
        assert_int_equal(access_at(&u, buf, 4, 0, 32), i == 2 ? 0 : 700);
        assert_int_equal(access_at(&u, buf, 8, 0, 7), i == 2 ? 0 : 700);
        ut_sgx_close(&u);
    }
}

static void
shared_memory_ends_where_the_launch_says(void **state)
{
    static const char text[] = BODY(
        ".shared .align 8 .b8 s0[64];\n",
        "mov.u64 %rd6, s0; cvta.shared.u64 %rd7, %rd6; sub.u64 %rd8, %rd5, %rd1;\n"
        "cvt.u32.u64 %r4, %rd8; mov.u32 %r5, s0; add.u32 %r5, %r5, %r4;\n"
        "setp.eq.u64 %p1, %rd1, 0; @%p1 st.shared.u32 [%r5], %r1;\n"
        "setp.eq.u64 %p1, %rd1, 1; add.u64 %rd9, %rd6, %rd8; @%p1 st.shared.u32 "
        "[%rd9], %r1;\n"
        "setp.eq.u64 %p1, %rd1, 2; add.u64 %rd9, %rd7, %rd8; @%p1 st.u32 [%rd9], %r1;\n"
        "setp.eq.u64 %p1, %rd1, 3; @%p1 atom.shared.add.u32 %r6, [%r5], 1;\n"
        "setp.eq.u64 %p1, %rd1, 4; @%p1 ld.shared.u32 %r6, [%r5];\n");
    struct ut_sgx u;

    (void)state;
    ut_sgx_open(&u, text);
    assert_int_equal(u.launch.kernel->static_shared, 64);
    for (uint64_t mode = 0; mode < 5; mode++) {
        for (unsigned dyn = 0; dyn <= 64; dyn += 64) {
            u.launch.dyn_shared = dyn;
            assert_int_equal(access_at(&u, mode, 4, 0, (64 + dyn) / 4), 0);
            assert_int_equal(access_at(&u, mode, 4, 4, (64 + dyn) / 4), 700);
            assert_int_equal(access_at(&u, mode, 0, 60 + dyn, 32), 0);
            assert_int_equal(access_at(&u, mode, 0, 64 + dyn, 32), 700);
            assert_int_equal(access_at(&u, mode, 0, 62, 32), 716);
            assert_int_equal(access_at(&u, mode, 0, 0xfffffffc, 32), 700);
        }
    }
    ut_sgx_close(&u);
}

static void
local_memory_is_private_and_bounded(void **state)
{
    static const char text[] =
        BODY(".local .align 8 .b8 x[64];\n",
             "mov.u64 %rd6, x; sub.u64 %rd8, %rd5, %rd1; add.u64 %rd7, %rd6, %rd8;\n"
             "cvta.local.u64 %rd9, %rd7; add.u32 %r2, %r1, 77;\n"
             "st.local.u32 [%rd7], %r2; bar.sync 0; ld.u32 %r3, [%rd9];\n"
             "mad.lo.u64 %rd10, %rd4, 4, %rd1; st.global.u32 [%rd10], %r3;\n"
             "st.local.u32 [x+60], %r1; ld.local.u32 %r4, [x+60];\n");
    static const char outside[] =
        BODY(".local .align 8 .b8 x[64];\n", "st.local.u32 [x+64], %r1;\n");
    char words[512];
    struct ut_sgx u;
    uint32_t *out;

    (void)state;
    ut_sgx_open(&u, text);
    out = ut_sgx_buf(&u, 256);
    assert_int_equal(access_at(&u, (uintptr_t)out, 0, 8, 64), 0);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(out[i], i + 77);
    assert_int_equal(access_at(&u, (uintptr_t)out, 0, 64, 64), 700);
    assert_int_equal(access_at(&u, (uintptr_t)out, 0, 1, 64), 716);
    assert_int_equal(access_at(&u, (uintptr_t)out, 0, (uint64_t)-4, 64), 700);
    ut_sgx_close(&u);
    assert_true(ut_sgx_prepare_error(outside, words, sizeof(words)) < 0);
    assert_non_null(strstr(words, "outside x"));
}

static void
traps_and_asserts_have_their_codes(void **state)
{
    static const char trap[] = BODY("", "setp.eq.u32 %p1, %r1, 3; @%p1 trap;\n");
    struct ut_sgx u;

    (void)state;
    ut_sgx_open(&u, trap);
    assert_int_equal(access_at(&u, 0, 0, 0, 3), 0);
    assert_int_equal(access_at(&u, 0, 0, 0, 32), 719);
    assert_int_equal(u.launch.fault.thread[0], 3);
    ut_sgx_close(&u);
}

static void
unknown_instructions_are_named(void **state)
{
    static const char text[] = BODY("", "\nfrobnicate.rn.u32 %r1, %r2;\n");
    static const char form[] = BODY("", "\nadd.sat.rz.u64 %rd1, %rd2, %rd3;\n");
    char words[512];

    (void)state;
    assert_int_equal(ut_sgx_prepare_error(text, words, sizeof(words)), -ENOSYS);
    assert_non_null(strstr(words, "frobnicate.rn.u32"));
    assert_non_null(strstr(words, "line "));
    assert_int_equal(ut_sgx_prepare_error(form, words, sizeof(words)), -ENOSYS);
    assert_non_null(strstr(words, "add.sat.rz.u64"));
}

/* ------------------------------------------------------------------ the view */

static void
view_finds_exact_ranges(void **state)
{
    struct sg_memview *view;
    struct sg_range r;
    uint64_t base = 0x200000000000ull;

    (void)state;
    assert_int_equal(sg_memview_new(&view), 0);
    for (uint64_t i = 0; i < 3000; i++) /* several to a granule, gaps of 16 bytes */
        assert_int_equal(sg_memview_add(view, base + i * 1000, 984, 0), 0);
    assert_int_equal(sg_memview_add(view, base + 500, 8, 0), -EEXIST);
    assert_int_equal(sg_memview_add(view, base + 980, 8, 0), -EEXIST);
    assert_int_equal(sg_memview_add(view, base - 8, 9, 0), -EEXIST);
    assert_int_equal(sg_memview_add(view, base, 0, 0), -EINVAL);
    assert_int_equal(sg_memview_add(view, UINT64_MAX - 4, 8, 0), -EINVAL);
    assert_int_equal(sg_memview_add(view, SG_WIN_LOCAL, 8, 0), -EINVAL);
    for (uint64_t i = 0; i < 3000; i++) {
        assert_true(sg_memview_find(view, base + i * 1000 + 983, &r));
        assert_int_equal(r.lo, base + i * 1000);
        assert_int_equal(r.len, 984);
        assert_false(sg_memview_find(view, base + i * 1000 + 984, &r));
    }
    for (uint64_t i = 0; i < 3000; i += 2)
        assert_int_equal(sg_memview_remove(view, base + i * 1000), 0);
    assert_int_equal(sg_memview_remove(view, base), -ENOENT);
    for (uint64_t i = 0; i < 3000; i++)
        assert_int_equal(sg_memview_find(view, base + i * 1000, &r), i % 2);
    sg_memview_free(view);
}

struct remover {
    struct ut_sgx *u;
    uint64_t buf;
    uint32_t *started;
};

static void *
remove_when_started(void *arg)
{
    struct remover *r = arg;

    while (!__atomic_load_n(r->started, __ATOMIC_RELAXED))
        sched_yield();
    return sg_memview_remove(r->u->view, r->buf) == 0 ? r : NULL;
}

/* A kernel loads from a buffer for ever; the buffer goes away. */
/* Memory that lay there could not be registered.  Where the kernel hands out addresses
 * from the bottom, it came to lie there by itself. */
static void
memory_of_the_process_never_lies_in_a_window(void **state)
{
    struct sg_memview *view;
    void *p;

    (void)state;
    assert_int_equal(sg_memview_new(&view), 0);
    for (uint64_t at = SG_WIN_SHARED; at < SG_WIN_END;
         at += SG_WIN_LOCAL - SG_WIN_SHARED) {
        p = mmap((void *)(uintptr_t)at, 4096, PROT_READ,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        assert_true(p != (void *)(uintptr_t)at);
        if (p != MAP_FAILED)
            munmap(p, 4096);
    }
    sg_memview_free(view);
}

static void
removal_stops_a_running_kernel(void **state)
{
    static const char text[] = BODY(
        "", "L: ld.volatile.global.u32 %r2, [%rd5]; st.global.u32 [%rd2], 1; bra L;\n");
    struct remover r;
    pthread_t thread;
    struct ut_sgx u;
    void *ok;

    (void)state;
    ut_sgx_open(&u, text);
    r = (struct remover){&u, (uintptr_t)ut_sgx_buf(&u, 128), ut_sgx_buf(&u, 4)};
    ut_sgx_param(&u, 0, r.buf);
    ut_sgx_param(&u, 1, (uintptr_t)r.started);
    ut_sgx_param(&u, 2, 0);
    ut_sgx_shape(&u, 1, 1);
    assert_int_equal(pthread_create(&thread, NULL, remove_when_started, &r), 0);
    assert_int_equal(ut_sgx_run(&u), SG_CTA_FAULT);
    assert_int_equal(u.launch.fault.code, 700);
    assert_int_equal(u.launch.fault.address, r.buf);
    pthread_join(thread, &ok);
    assert_non_null(ok);
    ut_sgx_close(&u);
}

/* 0x400000 + 0x200000, both subnormal: nothing in global memory, 0x600000 in shared
 * memory, by its own address and by a generic one. */
static void
sums_of_floats_flush_in_global_memory_alone(void **state)
{
    struct ut_sgx u;
    uint32_t *out;

    (void)state;
    ut_sgx_open(
        &u, BODY(".shared .align 8 .b32 sh[2];\n",
                 "mov.f32 %f1, 0f00200000; mov.f32 %f2, 0f00400000;\n"
                 "st.global.f32 [%rd1], %f2; st.global.f32 [%rd1+4], %f2;\n"
                 "st.shared.f32 [sh], %f2; st.shared.f32 [sh+4], %f2;\n"
                 "atom.global.add.f32 %f3, [%rd1], %f1; red.add.f32 [%rd1+4], %f1;\n"
                 "atom.shared.add.f32 %f3, [sh], %f1;\n"
                 "mov.u64 %rd6, sh; cvta.shared.u64 %rd6, %rd6;\n"
                 "atom.add.f32 %f3, [%rd6+4], %f1;\n"
                 "ld.shared.f32 %f4, [sh]; st.global.f32 [%rd1+8], %f4;\n"
                 "ld.shared.f32 %f4, [sh+4]; st.global.f32 [%rd1+12], %f4;\n"));
    out = ut_sgx_buf(&u, 16);
    assert_int_equal(access_at(&u, (uintptr_t)out, 0, 0, 1), 0);
    assert_int_equal(out[0], 0);
    assert_int_equal(out[1], 0);
    assert_int_equal(out[2], 0x600000);
    assert_int_equal(out[3], 0x600000);
    ut_sgx_close(&u);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_are_exact_to_the_byte),
        cmocka_unit_test(vectors_keep_their_elements_in_order),
        cmocka_unit_test(loads_may_run_to_the_end_of_the_last_aligned_block),
        cmocka_unit_test(the_faulting_thread_is_named),
        cmocka_unit_test(lanes_may_use_different_allocations),
        cmocka_unit_test(read_only_ranges_refuse_stores),
        cmocka_unit_test(shared_memory_ends_where_the_launch_says),
        cmocka_unit_test(local_memory_is_private_and_bounded),
        cmocka_unit_test(traps_and_asserts_have_their_codes),
        cmocka_unit_test(unknown_instructions_are_named),
        cmocka_unit_test(view_finds_exact_ranges),
        cmocka_unit_test(memory_of_the_process_never_lies_in_a_window),
        cmocka_unit_test(removal_stops_a_running_kernel),
        cmocka_unit_test(sums_of_floats_flush_in_global_memory_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
