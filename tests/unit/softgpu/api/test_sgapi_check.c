/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SOFTGPU_CHECK through the driver API: which memory counts as written, by whom, and
 * which allocations leak.
 *
 * A place is named once, so each question is asked by a kernel of a name of its own.
 */
#include "ut_sgapi.h"

#include "gp_base.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 256u

/* What an output hook gets. */
void sg_set_output_hook(void (*fn)(void *, CUcontext, int, const char *, size_t),
                        void *user);

static struct ut_sg sg;
static char said[65536];

static void
collect(void *user, CUcontext ctx, int fd, const char *text, size_t len)
{
    size_t at = strlen(said);

    (void)user;
    (void)ctx;
    assert_int_equal(fd, 2);
    len = gp_min(len, sizeof(said) - 1 - at);
    memcpy(said + at, text, len);
    said[at + len] = 0;
}

static int
open_card(void **state)
{
    (void)state;
    ut_sg_open(&sg, 0);
    said[0] = 0;
    return 0;
}

static int
close_card(void **state)
{
    (void)state;
    ut_sg_close(&sg);
    return 0;
}

/* Whether a kernel that reads @words words from @p on is told that one was never
 * written. */
static bool
reads_unwritten(CUdeviceptr p, unsigned words)
{
    static unsigned kernels;
    char text[1024], name[16];
    CUfunction fn;
    CUmodule mod;

    snprintf(name, sizeof(name), "k%u", kernels++);
    snprintf(text, sizeof(text),
             ".version 7.0\n.target sm_70\n.address_size 64\n"
             ".visible .entry %s(.param .u64 p, .param .u32 n)\n{\n"
             ".reg .u32 %%r<4>; .reg .u64 %%d<4>;\n"
             "ld.param.u64 %%d0, [p]; mov.u32 %%r0, %%tid.x;\n"
             "mad.wide.u32 %%d1, %%r0, 4, %%d0; ld.global.u32 %%r1, [%%d1];\nret;\n}\n",
             name);
    said[0] = 0;
    ok(cuModuleLoadData(&mod, text));
    ok(cuModuleGetFunction(&fn, mod, name));
    ok(ut_sg_run(fn, 1, words, 0, p, 0));
    ok(cuCtxSynchronize());
    ok(cuModuleUnload(mod));
    if (said[0]) {
        assert_non_null(strstr(said, "uninitialised memory: load of 4 bytes"));
        assert_non_null(strstr(said, name));
    }
    return said[0] != 0;
}

static CUdeviceptr
fresh(void)
{
    CUdeviceptr p;

    ok(cuMemAlloc_v2(&p, WORDS * 4));
    return p;
}

static void
new_memory_is_unwritten_and_freed_memory_again(void **state)
{
    CUdeviceptr p = fresh(), pool;

    (void)state;
    assert_true(reads_unwritten(p, WORDS));
    ok(cuMemsetD8_v2(p, 0, WORDS * 4));
    assert_false(reads_unwritten(p, WORDS));
    ok(cuMemFree_v2(p));
    p = fresh();
    assert_true(reads_unwritten(p, WORDS));
    ok(cuMemFree_v2(p));
    ok(cuMemAllocAsync(&pool, WORDS * 4, NULL));
    assert_true(reads_unwritten(pool, WORDS));
    ok(cuMemFreeAsync(pool, NULL));
    ok(cuCtxSynchronize());
}

static void
fills_copies_and_kernels_write(void **state)
{
    uint32_t words[WORDS] = {0};
    CUdeviceptr p = fresh();

    (void)state;
    ok(cuMemsetD32_v2(p, 1, WORDS - 1));
    assert_false(reads_unwritten(p, WORDS - 1));
    assert_true(reads_unwritten(p, WORDS));
    ok(cuMemcpyHtoD_v2(p + (WORDS - 1) * 4, words, 4));
    assert_false(reads_unwritten(p, WORDS));
    ok(cuMemFree_v2(p));

    p = fresh();
    ok(ut_sg_run(sg.store, 1, 1, 0, p, 1));
    ok(cuCtxSynchronize());
    assert_false(reads_unwritten(p, 1));
    ok(cuStreamWriteValue32_v2(NULL, p + 4, 1, 0));
    ok(cuCtxSynchronize());
    assert_false(reads_unwritten(p, 2));
    assert_true(reads_unwritten(p, 3));
    ok(cuMemFree_v2(p));
}

/* What lies in a box was written, and what lies beside it was not. */
static void
copies_between_buffers_take_it_along(void **state)
{
    CUdeviceptr from = fresh(), to = fresh();
    CUDA_MEMCPY2D box = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcDevice = from,
        .srcPitch = 64,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = to,
        .dstPitch = 128,
        .WidthInBytes = 32,
        .Height = 2,
    };

    (void)state;
    ok(cuMemsetD8_v2(to, 0, WORDS * 4));
    ok(cuMemcpyDtoD_v2(to + 16, from, 32));
    assert_false(reads_unwritten(to, 4));
    assert_true(reads_unwritten(to, 5));
    assert_false(reads_unwritten(to + 48, 32));
    ok(cuMemcpyDtoDAsync_v2(to, to + 512, 256, NULL));
    assert_false(reads_unwritten(to, 64));

    ok(cuMemsetD8_v2(from, 0, 64)); /* the first row */
    ok(cuMemcpy2D_v2(&box));
    assert_false(reads_unwritten(to, 32));
    assert_true(reads_unwritten(to, 33));
    assert_false(reads_unwritten(to + 160, 16));
    ok(cuMemFree_v2(from));
    ok(cuMemFree_v2(to));
}

/* The host writes to it unseen. */
static void
memory_of_the_host_counts_as_written(void **state)
{
    CUdeviceptr managed;
    void *host;

    (void)state;
    ok(cuMemHostAlloc(&host, WORDS * 4, 0));
    ok(cuMemAllocManaged(&managed, WORDS * 4, CU_MEM_ATTACH_GLOBAL));
    assert_false(reads_unwritten((uintptr_t)host, WORDS));
    assert_false(reads_unwritten(managed, WORDS));
    ok(cuMemFreeHost(host));
    ok(cuMemFree_v2(managed));
}

static void
what_a_context_leaves_is_a_leak(void **state)
{
    CUdeviceptr freed, kept;
    CUcontext ctx;
    void *host;

    (void)state;
    ok(cuCtxCreate_v2(&ctx, 0, 0));
    ok(cuMemAlloc_v2(&freed, 4711));
    ok(cuMemAlloc_v2(&kept, 12345));
    ok(cuMemHostAlloc(&host, 54321, 0));
    ok(cuMemFree_v2(freed));
    ok(cuCtxDestroy_v2(ctx));
    assert_non_null(strstr(said, "check: leak: 12345 bytes at 0x"));
    assert_non_null(strstr(said, " of cuMemAlloc, allocation "));
    assert_non_null(strstr(said, "check: leak: 54321 bytes at 0x"));
    assert_non_null(strstr(said, " of cuMemHostAlloc, allocation "));
    assert_null(strstr(said, "4711"));
}

int
main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_card, close_card)
    const struct CMUnitTest tests[] = {
        T(new_memory_is_unwritten_and_freed_memory_again),
        T(fills_copies_and_kernels_write),
        T(copies_between_buffers_take_it_along),
        T(memory_of_the_host_counts_as_written),
        T(what_a_context_leaves_is_a_leak),
    };
    int rc;

    ut_sg_cards("1", "64MiB", "2");
    setenv("SOFTGPU_CHECK", "1", 1);
    sg_set_output_hook(collect, NULL);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    sg_set_output_hook(NULL, NULL);
    ut_sg_cards_remove();
    return rc;
}
