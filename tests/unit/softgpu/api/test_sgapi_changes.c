/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the software GPU says of the pages that its cards have written to.
 *
 * Built twice: test_sgapi_changes_jit asks for machine code for the same kernels.
 */
#include "ut_sgapi.h"

#include "gp_base.h"
#include "sg_changes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u
#define PAGES 64u
#define RUNS 32

#define PTX_HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

static struct ut_sg sg;
static CUmodule mod;
static CUdeviceptr mem;
static bool locked; /* it is memory of the host, registered; else managed */

static int
open_card(void **state)
{
    static const char kernels[] = PTX_HEAD
        /* all lanes store rows of 4, 8 and 16 bytes, which cross from page to page */
        ".visible .entry rows(.param .u64 p, .param .u32 n)\n{\n"
        " .reg .u64 %d<4>; .reg .u32 %r<6>; .reg .pred %p0;\n"
        " ld.param.u64 %d0, [p]; ld.param.u32 %r0, [n];\n"
        " mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;\n"
        " mad.lo.u32 %r1, %r2, %r3, %r1;\n"
        " setp.ge.u32 %p0, %r1, %r0; @%p0 bra DONE;\n"
        " mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d0, %d1;\n"
        " ld.global.u32 %r4, [%d1]; add.u32 %r4, %r4, 1; st.global.u32 [%d1], %r4;\n"
        "DONE: ret;\n}\n"
        ".visible .entry wide(.param .u64 p, .param .u32 n)\n{\n"
        " .reg .u64 %d<4>; .reg .u32 %r<6>;\n"
        " ld.param.u64 %d0, [p]; ld.param.u32 %r0, [n];\n"
        " mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 16; add.u64 %d1, %d0, %d1;\n"
        " st.global.v4.u32 [%d1], {%r0, %r0, %r0, %r0}; ret;\n}\n"
        ".visible .entry strided(.param .u64 p, .param .u32 n)\n{\n"
        " .reg .u64 %d<4>; .reg .u32 %r<6>;\n"
        " ld.param.u64 %d0, [p]; ld.param.u32 %r0, [n];\n"
        " mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 8192; add.u64 %d1, %d0, %d1;\n"
        " st.global.u32 [%d1], %r0; ret;\n}\n"
        ".visible .entry count(.param .u64 p, .param .u32 n)\n{\n"
        " .reg .u64 %d<4>; .reg .u32 %r<6>;\n"
        " ld.param.u64 %d0, [p];\n"
        " red.global.add.u32 [%d0], 1; ret;\n}\n"
        /* stores to a page for a while, then to the next one, until the word is set */
        ".visible .entry roam(.param .u64 p, .param .u64 stop)\n{\n"
        " .reg .u64 %d<6>; .reg .u32 %r<8>; .reg .pred %p0;\n"
        " ld.param.u64 %d0, [p]; ld.param.u64 %d1, [stop];\n"
        " mov.u32 %r0, 1; mov.u32 %r3, 0;\n"
        "AGAIN: mad.lo.u32 %r0, %r0, 1664525, 1013904223;\n"
        " add.u32 %r3, %r3, 1; shr.u32 %r4, %r3, 10; and.b32 %r4, %r4, 63;\n"
        " shr.u32 %r1, %r0, 14; and.b32 %r1, %r1, 3968;\n"
        " mov.u32 %r5, %tid.x; mad.lo.u32 %r1, %r5, 4, %r1;\n"
        " mad.lo.u32 %r1, %r4, 4096, %r1;\n"
        " cvt.u64.u32 %d2, %r1; add.u64 %d2, %d0, %d2;\n"
        " st.global.u32 [%d2], %r0;\n"
        " ld.volatile.global.u32 %r2, [%d1]; setp.eq.u32 %p0, %r2, 0;\n"
        " @%p0 bra AGAIN;\n ret;\n}\n";

    (void)state;
    ut_sg_open(&sg, 0);
    ok(cuModuleLoadData(&mod, kernels));
    if (locked) {
        mem = (uintptr_t)mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ok(cuMemHostRegister_v2((void *)(uintptr_t)mem, PAGES * PAGE,
                                CU_MEMHOSTREGISTER_DEVICEMAP));
    } else {
        ok(cuMemAllocManaged(&mem, PAGES * PAGE, CU_MEM_ATTACH_GLOBAL));
    }
    assert_int_equal(sg_changes_forget(mem, PAGES * PAGE), 0);
    return 0;
}

static int
open_card_with_locked_memory(void **state)
{
    locked = true;
    return open_card(state);
}

static int
close_card(void **state)
{
    (void)state;
    if (locked) {
        ok(cuMemHostUnregister((void *)(uintptr_t)mem));
        munmap((void *)(uintptr_t)mem, PAGES * PAGE);
    } else {
        ok(cuMemFree_v2(mem));
    }
    locked = false;
    ut_sg_close(&sg);
    return 0;
}

static CUfunction
kernel(const char *name)
{
    CUfunction fn;

    ok(cuModuleGetFunction(&fn, mod, name));
    return fn;
}

/* All that was written since the last time, as a bit for each of the 64 pages. */
static uint64_t
written(void)
{
    struct sg_written_run runs[RUNS];
    uint64_t at = mem, bits = 0;

    ok(cuCtxSynchronize());
    while (at < mem + PAGES * PAGE) {
        int n = sg_changes_take(&at, mem + PAGES * PAGE, runs, RUNS);

        assert_in_range(n, 0, RUNS);
        for (int i = 0; i < n; i++)
            for (uint64_t p = runs[i].addr; p < runs[i].addr + runs[i].len; p += PAGE)
                bits |= UINT64_C(1) << (p - mem) / PAGE;
    }
    return bits;
}

static void
kernels_write_exactly_these_pages(void **state)
{
    (void)state;
    assert_int_equal(written(), 0);
    ok(ut_sg_run(kernel("rows"), 8, 128, NULL, mem + 3 * PAGE, 1024));
    assert_int_equal(written(), 1u << 3);
    assert_int_equal(written(), 0);
    /* a row in the middle of whose warps a page ends */
    ok(ut_sg_run(kernel("rows"), 1, 64, NULL, mem + 10 * PAGE - 64, 64));
    assert_int_equal(written(), 3u << 9);
    ok(ut_sg_run(kernel("rows"), 1, 7, NULL, mem + 12 * PAGE, 7));
    assert_int_equal(written(), 1u << 12);
    ok(ut_sg_run(kernel("wide"), 1, 32, NULL, mem + 7 * PAGE - 256, 5));
    assert_int_equal(written(), 3u << 6);
    ok(ut_sg_run(kernel("strided"), 1, 32, NULL, mem, 5));
    assert_int_equal(written(), UINT64_C(0x5555555555555555));
    ok(ut_sg_run(kernel("count"), 1, 32, NULL, mem + 63 * PAGE + 4, 0));
    assert_int_equal(written(), UINT64_C(1) << 63);
    ok(ut_sg_run(kernel("rows"), 512, 128, NULL, mem, PAGES * PAGE / 4));
    assert_int_equal(written(), UINT64_MAX);
    /* 64 KiB of them were never read-only for those that only read */
    assert_int_equal(*(uint32_t *)(uintptr_t)(mem + 3 * PAGE + 400), 2);
}

static void
copies_and_fills_write_exactly_these_pages(void **state)
{
    char host[PAGE] = {1};

    (void)state;
    ok(cuMemsetD8_v2(mem + PAGE - 1, 1, 2));
    assert_int_equal(written(), 3);
    ok(cuMemsetD2D32_v2(mem, 4 * PAGE, 1, 4, 3));
    assert_int_equal(written(), 0x111);
    ok(cuMemcpyHtoD_v2(mem + 5 * PAGE, host, PAGE));
    assert_int_equal(written(), 1u << 5);
    ok(cuMemcpyDtoD_v2(mem + 20 * PAGE, mem, 2 * PAGE));
    assert_int_equal(written(), 3u << 20);
    ok(cuMemcpyDtoH_v2(host, mem, PAGE));
    assert_int_equal(written(), 0);
    if (locked) {
        ok(cuStreamWriteValue32_v2(NULL, mem + 30 * PAGE, 7, 0));
        assert_int_equal(written(), 1u << 30);
    } else { /* not to managed memory */
        fails(cuStreamWriteValue32_v2(NULL, mem + 30 * PAGE, 7, 0),
              CUDA_ERROR_INVALID_VALUE);
        assert_int_equal(written(), 0);
    }
}

static void
runs_that_have_no_room_come_next(void **state)
{
    struct sg_written_run run;
    uint64_t at = mem, end = mem + PAGES * PAGE;

    (void)state;
    ok(ut_sg_run(kernel("strided"), 1, 32, NULL, mem, 5));
    ok(cuCtxSynchronize());
    for (unsigned i = 0; i < 32; i++) {
        assert_int_equal(sg_changes_take(&at, end, &run, 1), 1);
        assert_int_equal(run.addr, mem + i * 2 * PAGE);
        assert_int_equal(run.len, PAGE);
    }
    assert_int_equal(at < end ? sg_changes_take(&at, end, &run, 1) : 0, 0);
    /* the ends of what is asked about cut runs */
    ok(cuMemsetD8_v2(mem, 1, 3 * PAGE));
    at = mem + 100;
    assert_int_equal(sg_changes_take(&at, mem + 2 * PAGE + 50, &run, 1), 1);
    assert_int_equal(run.addr, mem + 100);
    assert_int_equal(run.len, 2 * PAGE - 50);
}

static unsigned char copy[PAGES * PAGE];

/* Brings the copy up to date; returns how many runs there were. */
static unsigned
follow(void)
{
    struct sg_written_run runs[4];
    unsigned sum = 0;

    for (uint64_t at = mem; at < mem + PAGES * PAGE;) {
        int n = sg_changes_take(&at, mem + PAGES * PAGE, runs, 4);

        assert_in_range(n, 0, 4);
        for (int i = 0; i < n; i++, sum++)
            memcpy(copy + (runs[i].addr - mem), (const void *)(uintptr_t)runs[i].addr,
                   runs[i].len);
    }
    return sum;
}

/* A copy that follows what is told, while a kernel stores all the time, has everything
 * in the end. */
static void
nothing_is_missed_while_a_kernel_runs(void **state)
{
    volatile uint32_t *stop;
    CUfunction roam = kernel("roam");
    void *args[] = {&mem, &stop};

    (void)state;
    ok(cuMemHostAlloc((void **)&stop, 4, CU_MEMHOSTALLOC_DEVICEMAP));
    memset(copy, 0, sizeof(copy));
    for (int time = 0; time < 20; time++) {
        *stop = 0;
        ok(cuLaunchKernel(roam, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL));
        while (!follow())
            ;
        for (int i = 0; i < 100; i++)
            follow();
        *stop = 1;
        ok(cuCtxSynchronize());
        follow();
        assert_memory_equal(copy, (const void *)(uintptr_t)mem, sizeof(copy));
    }
    ok(cuMemFreeHost((void *)(uintptr_t)stop));
}

static void
later_contexts_take_part(void **state)
{
    CUcontext other;
    CUmodule more;
    CUfunction fn;

    (void)state;
    ok(cuCtxCreate_v2(&other, 0, 0));
    ok(cuModuleLoadData(&more,
                        PTX_HEAD ".visible .entry k(.param .u64 p, .param .u32 v)\n{\n"
                                 " .reg .u64 %d0; .reg .u32 %r0;\n"
                                 " ld.param.u64 %d0, [p]; ld.param.u32 %r0, [v];\n"
                                 " st.global.u32 [%d0], %r0; ret;\n}\n"));
    ok(cuModuleGetFunction(&fn, more, "k"));
    ok(ut_sg_run(fn, 1, 1, NULL, mem + 2 * PAGE, 9));
    assert_int_equal(written(), 1u << 2);
    ok(cuCtxDestroy_v2(other));
    ok(cuCtxSetCurrent(sg.ctx));
}

static void
unwatched_memory_says_so(void **state)
{
    struct sg_written_run run;
    CUdeviceptr p;
    uint64_t at;
    void *host;

    (void)state;
    ok(cuMemAllocManaged(&p, PAGE, CU_MEM_ATTACH_GLOBAL));
    at = p;
    assert_int_equal(sg_changes_take(&at, p + PAGE, &run, 1), -ENOENT);
    assert_int_equal(sg_changes_forget(p, PAGE), 0);
    assert_int_equal(sg_changes_take(&at, p + PAGE, &run, 1), 0);
    assert_int_equal(sg_changes_forget(p, PAGE + 1), -ENOENT);
    assert_int_equal(sg_changes_forget(p, 0), -EINVAL);
    ok(cuMemFree_v2(p));
    at = p;
    assert_int_equal(sg_changes_take(&at, p + PAGE, &run, 1), -ENOENT);
    ok(cuMemHostAlloc(&host, PAGE, 0));
    assert_int_equal(sg_changes_forget((uintptr_t)host, PAGE), -ENOENT);
    ok(cuMemFreeHost(host));
    ok(cuMemAlloc_v2(&p, PAGE));
    assert_int_equal(sg_changes_forget(p, PAGE), 0);
    ok(cuMemFree_v2(p));
}

int
main(int argc, char **argv)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_card, close_card)
#define LOCKED(name)                                                                   \
    {                                                                                  \
        "locked_" #name, name, open_card_with_locked_memory, close_card, NULL          \
    }
    const struct CMUnitTest tests[] = {
        T(kernels_write_exactly_these_pages),
        T(copies_and_fills_write_exactly_these_pages),
        T(runs_that_have_no_room_come_next),
        T(nothing_is_missed_while_a_kernel_runs),
        T(later_contexts_take_part),
        T(unwatched_memory_says_so),
        LOCKED(kernels_write_exactly_these_pages),
        LOCKED(copies_and_fills_write_exactly_these_pages),
        LOCKED(runs_that_have_no_room_come_next),
        LOCKED(nothing_is_missed_while_a_kernel_runs),
        LOCKED(later_contexts_take_part),
    };
    int rc;

    if (argc && strstr(argv[0], "_jit"))
        setenv("SOFTGPU_JIT", "wait", 1);
    ut_sg_cards("1", "64MiB", "2");
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    ut_sg_cards_remove();
    return rc;
}
