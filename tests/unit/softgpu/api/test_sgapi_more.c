/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software GPU's driver API, further families: mapped memory, arrays, pools,
 * linking, green contexts, device printf, malloc and assert.
 */
#include "ut_sgapi.h"

#include "gp_base.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct ut_sg sg;

/* softgpu's one private entry (softgpu/api/modules/sg_output.h). */
void sg_set_output_hook(void (*fn)(void *, CUcontext, int, const char *, size_t),
                        void *user);

static int
open_card(void **state)
{
    ut_sg_open(&sg, 0);
    return 0;
}

static int
close_card(void **state)
{
    ut_sg_close(&sg);
    return 0;
}

enum { GRANULE = 2 << 20 };

static const CUmemAllocationProp pinned = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
};

static void
one_memory_is_mapped_twice(void **state)
{
    CUmemAccessDesc rw = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                          CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle h;
    size_t before, after, total, granularity;
    CUdeviceptr va;
    unsigned v = 0;

    ok(cuMemGetInfo_v2(&before, &total));
    ok(cuMemGetAllocationGranularity(&granularity, &pinned, 0));
    assert_int_equal(granularity, GRANULE);
    ok(cuMemAddressReserve(&va, 4 * GRANULE, 0, 0, 0));
    fails(cuMemCreate(&h, GRANULE + 1, &pinned, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemCreate(&h, GRANULE, &pinned, 0));
    ok(cuMemGetInfo_v2(&after, &total));
    assert_int_equal(before - after, GRANULE);
    ok(cuMemMap(va, GRANULE, 0, h, 0));
    ok(cuMemMap(va + GRANULE, GRANULE, 0, h, 0));
    fails(cuMemMap(va, GRANULE, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemcpyHtoD_v2(va, &v, 4), CUDA_ERROR_INVALID_VALUE); /* no access yet */
    ok(cuMemSetAccess(va, 2 * GRANULE, &rw, 1));
    ok(ut_sg_run(sg.store, 1, 1, 0, va + 64, 4711));
    ok(cuMemcpyDtoH_v2(&v, va + GRANULE + 64, 4));
    assert_int_equal(v, 4711);
    ok(cuMemRelease(h));
    fails(cuMemRelease(h), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemGetInfo_v2(&after, &total));
    assert_int_equal(before - after, GRANULE); /* the mappings keep it */
    fails(cuMemAddressFree(va, 4 * GRANULE), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemFree_v2(va), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemUnmap(va, 2 * GRANULE));
    ok(cuMemGetInfo_v2(&after, &total));
    assert_int_equal(before, after);
    ok(cuMemAddressFree(va, 4 * GRANULE));
}

static void
read_only_mappings_refuse_writes(void **state)
{
    CUmemAccessDesc ro = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                          CU_MEM_ACCESS_FLAGS_PROT_READ};
    CUmemGenericAllocationHandle h, again;
    CUdeviceptr va;
    int fd;

    if (ut_sg_apart(__func__))
        return;
    ok(cuMemAddressReserve(&va, GRANULE, 0, 0, 0));
    ok(cuMemCreate(&h, GRANULE, &pinned, 0));
    ok(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                    0));
    ok(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    ok(cuMemMap(va, GRANULE, 0, again, 0));
    ok(cuMemSetAccess(va, GRANULE, &ro, 1));
    ok(ut_sg_run(sg.store, 1, 1, 0, va, 1));
    fails(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    ok(cuMemUnmap(va, GRANULE));
    ok(cuMemRelease(again));
    ok(cuMemRelease(h));
    ok(cuMemAddressFree(va, GRANULE));
}

static void
arrays_are_copied_by_coordinates(void **state)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 5,
                                 .Height = 4,
                                 .Depth = 3,
                                 .Format = CU_AD_FORMAT_UNSIGNED_INT16,
                                 .NumChannels = 2},
                            got;
    unsigned in[3][4][5], out[3][4][5];
    CUDA_MEMCPY3D c = {0};
    CUarray a;

    for (unsigned i = 0; i < 60; i++)
        ((unsigned *)in)[i] = i * 0x01010101u;
    memset(out, 0, sizeof(out));
    ok(cuArray3DCreate_v2(&a, &d));
    ok(cuArray3DGetDescriptor_v2(&got, a));
    assert_int_equal(got.Depth, 3);
    c.srcMemoryType = CU_MEMORYTYPE_HOST;
    c.srcHost = in;
    c.srcPitch = 20;
    c.srcHeight = 4;
    c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    c.dstArray = a;
    c.WidthInBytes = 20;
    c.Height = 4;
    c.Depth = 3;
    ok(cuMemcpy3D_v2(&c));
    c.Depth = 4;
    fails(cuMemcpy3D_v2(&c), CUDA_ERROR_INVALID_VALUE);
    memset(&c, 0, sizeof(c));
    c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    c.srcArray = a;
    c.srcXInBytes = 4;
    c.srcY = 1;
    c.srcZ = 2;
    c.dstMemoryType = CU_MEMORYTYPE_HOST;
    c.dstHost = out;
    c.dstPitch = 20;
    c.dstHeight = 4;
    c.WidthInBytes = 8;
    c.Height = 2;
    c.Depth = 1;
    ok(cuMemcpy3D_v2(&c));
    assert_int_equal(out[0][0][0], in[2][1][1]);
    assert_int_equal(out[0][1][1], in[2][2][2]);
    ok(cuMemcpyAtoH_v2(out, a, 4, 8));
    assert_int_equal(out[0][0][0], in[0][0][1]);
    ok(cuArrayDestroy(a));
    fails(cuArrayDestroy(a), CUDA_ERROR_INVALID_HANDLE);
    d.NumChannels = 3;
    fails(cuArray3DCreate_v2(&a, &d), CUDA_ERROR_INVALID_VALUE);
}

static void
mipmap_levels_halve(void **state)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 16,
                                 .Height = 8,
                                 .Format = CU_AD_FORMAT_FLOAT,
                                 .NumChannels = 1},
                            got;
    CUmipmappedArray m;
    CUarray level;

    ok(cuMipmappedArrayCreate(&m, &d, 4));
    ok(cuMipmappedArrayGetLevel(&level, m, 3));
    ok(cuArray3DGetDescriptor_v2(&got, level));
    assert_int_equal(got.Width, 2);
    assert_int_equal(got.Height, 1);
    fails(cuMipmappedArrayGetLevel(&level, m, 4), CUDA_ERROR_INVALID_VALUE);
    fails(cuArrayDestroy(level), CUDA_ERROR_INVALID_HANDLE);
    ok(cuMipmappedArrayDestroy(m));
    fails(cuArray3DGetDescriptor_v2(&got, level), CUDA_ERROR_INVALID_HANDLE);
}

static void
pools_have_a_maximum(void **state)
{
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
        .maxSize = 10000,
    };
    CUmemoryPool pool, current;
    CUdeviceptr p, q;

    ok(cuMemPoolCreate(&pool, &props));
    ok(cuMemAllocFromPoolAsync(&p, 9000, pool, 0));
    fails(cuMemAllocFromPoolAsync(&q, 1001, pool, 0), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuMemAllocFromPoolAsync(&q, 1000, pool, 0));
    ok(cuMemFree_v2(q));        /* the ordinary call also works */
    ok(cuMemPoolDestroy(pool)); /* lives on until it is empty */
    ok(ut_sg_run(sg.store, 1, 1, 0, p, 3));
    ok(cuMemFreeAsync(p, 0));
    ok(cuCtxSynchronize());
    fails(cuMemPoolTrimTo(pool, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuDeviceGetDefaultMemPool(&pool, 0));
    fails(cuMemPoolDestroy(pool), CUDA_ERROR_NOT_PERMITTED);
    ok(cuDeviceGetMemPool(&current, 0));
    assert_ptr_equal(pool, current);
}

static void
wait_for(void *sem)
{
    sem_wait(sem);
}

static uint64_t
pool_attribute(CUmemoryPool pool, CUmemPool_attribute attr)
{
    uint64_t v = 0;

    ok(cuMemPoolGetAttribute(pool, attr, &v));
    return v;
}

/* It is not used any more when cuMemFreeAsync returns, and is there until the stream
 * has come to it. */
static void
memory_freed_in_a_stream_is_not_in_use(void **state)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemoryPool pool;
    CUdeviceptr p;
    CUstream s;
    sem_t gate;

    sem_init(&gate, 0, 0);
    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(cuMemPoolCreate(&pool, &props));
    ok(cuMemAllocFromPoolAsync(&p, 4096, pool, s));
    assert_int_equal(pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 4096);
    ok(cuLaunchHostFunc(s, wait_for, &gate));
    ok(cuMemFreeAsync(p, s));
    assert_int_equal(pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    assert_int_equal(pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 4096);
    assert_int_equal(pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 4096);
    fails(cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
    sem_post(&gate);
    ok(cuStreamSynchronize(s));
    assert_int_equal(pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    assert_int_equal(pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    ok(cuMemPoolDestroy(pool));
    ok(cuStreamDestroy_v2(s));
    sem_destroy(&gate);
}

#define PTX_HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

static void
two_texts_are_linked(void **state)
{
    static char callee[] =
        PTX_HEAD ".visible .func (.param .b32 r) twice(.param .b32 a)\n{\n"
                 " .reg .u32 %r0; ld.param.u32 %r0, [a]; add.u32 %r0, %r0, %r0;\n"
                 " st.param.u32 [r], %r0; ret;\n}\n";
    static char caller[] =
        PTX_HEAD ".extern .func (.param .b32 r) twice(.param .b32 a);\n"
                 ".visible .entry k(.param .u64 p, .param .u32 v)\n{\n"
                 " .reg .u64 %d0; .reg .u32 %r<2>;\n"
                 " ld.param.u64 %d0, [p]; ld.param.u32 %r0, [v];\n"
                 " {\n .param .b32 %P<2>;\n"
                 " st.param.b32 [%P0], %r0;\n call.uni (%P1), twice, (%P0);\n"
                 " ld.param.b32 %r1, [%P1];\n }\n"
                 " st.global.u32 [%d0], %r1; ret;\n}\n";
    char log[200] = "";
    CUjit_option opts[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *vals[] = {log, (void *)(uintptr_t)sizeof(log)}, *image;
    CUlinkState link;
    CUmodule mod;
    CUfunction fn;
    CUdeviceptr p;
    unsigned v = 0;
    size_t size;

    ok(cuLinkCreate_v2(0, NULL, NULL, &link));
    ok(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, caller, sizeof(caller), "a", 0, 0, 0));
    ok(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, callee, sizeof(callee), "b", 0, 0, 0));
    ok(cuLinkComplete(link, &image, &size));
    ok(cuModuleLoadData(&mod, image));
    ok(cuLinkDestroy(link));
    ok(cuModuleGetFunction(&fn, mod, "k"));
    ok(cuMemAlloc_v2(&p, 4));
    ok(ut_sg_run(fn, 1, 1, 0, p, 21));
    ok(cuMemcpyDtoH_v2(&v, p, 4));
    assert_int_equal(v, 42);
    ok(cuMemFree_v2(p));
    ok(cuModuleUnload(mod));

    ok(cuLinkCreate_v2(2, opts, vals, &link));
    ok(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, caller, sizeof(caller), "a", 0, 0, 0));
    fails(cuLinkComplete(link, &image, &size),
          CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND);
    assert_non_null(strstr(log, "twice"));
    ok(cuLinkDestroy(link));
    fails(cuLinkDestroy(link), CUDA_ERROR_INVALID_HANDLE);
}

/* ptxas: "Unresolved extern variable in whole program compilation, ignoring extern
 * qualifier"; a linker has nothing to ignore. */
static void
variable_that_is_defined_nowhere_is_the_modules(void **state)
{
    static char text[] = PTX_HEAD ".extern .global .align 4 .u32 x;\n"
                                  ".extern .const .align 4 .u32 c[3];\n"
                                  ".visible .entry k(.param .u64 p)\n{\n"
                                  " .reg .u64 %d0; .reg .u32 %r<2>;\n"
                                  " ld.param.u64 %d0, [p]; ld.global.u32 %r0, [x];\n"
                                  " ld.const.u32 %r1, [c+8]; add.u32 %r0, %r0, %r1;\n"
                                  " add.u32 %r0, %r0, 1; st.global.u32 [%d0], %r0;\n"
                                  " ret;\n}\n";
    static char sizeless[] = PTX_HEAD ".extern .global .align 4 .u32 much[];\n"
                                      ".visible .entry k(.param .u64 p)\n{\n"
                                      " .reg .u32 %r0; ld.global.u32 %r0, [much];\n"
                                      " ret;\n}\n";
    char log[200] = "";
    CUjit_option opts[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *vals[] = {log, (void *)(uintptr_t)sizeof(log)}, *image;
    CUdeviceptr p, x;
    CUlinkState link;
    CUmodule mod;
    CUfunction fn;
    unsigned v = 0;
    size_t size;

    (void)state;
    ok(cuModuleLoadData(&mod, text));
    ok(cuModuleGetFunction(&fn, mod, "k"));
    ok(cuMemAlloc_v2(&p, 4));
    ok(ut_sg_run(fn, 1, 1, 0, p, 0));
    ok(cuMemcpyDtoH_v2(&v, p, 4));
    assert_int_equal(v, 1);
    ok(cuModuleGetGlobal_v2(&x, &size, mod, "c"));
    assert_int_equal(size, 12);
    ok(cuModuleGetGlobal_v2(&x, &size, mod, "x"));
    assert_int_equal(size, 4);
    v = 41;
    ok(cuMemcpyHtoD_v2(x, &v, 4));
    ok(ut_sg_run(fn, 1, 1, 0, p, 0));
    ok(cuMemcpyDtoH_v2(&v, p, 4));
    assert_int_equal(v, 42);
    ok(cuModuleUnload(mod));
    ok(cuMemFree_v2(p));

    fails(cuModuleLoadDataEx(&mod, sizeless, 2, opts, vals), CUDA_ERROR_INVALID_PTX);
    assert_non_null(strstr(log, "much"));

    vals[1] = (void *)(uintptr_t)sizeof(log);
    ok(cuLinkCreate_v2(2, opts, vals, &link));
    ok(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, text, sizeof(text), "a", 0, 0, 0));
    fails(cuLinkComplete(link, &image, &size),
          CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND);
    ok(cuLinkDestroy(link));
}

/* nvcc keeps the number of an array's elements there, also where the class's own
 * operator new[] has asked for no room for it (Eigen). */
static void
word_in_front_of_a_heap_block_belongs_to_nobody(void **state)
{
    static char text[] = PTX_HEAD
        ".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
        ".visible .entry k(.param .u64 p, .param .u32 v)\n{\n"
        " .reg .u64 %d<3>; .reg .u32 %r<3>;\n"
        " ld.param.u64 %d0, [p]; ld.param.u32 %r0, [v];\n"
        " mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d0, %d0, %d2;\n"
        " add.u32 %r0, %r0, %r1;\n"
        " { .param .b64 n; .param .b64 r; st.param.b64 [n], 12;\n"
        " call.uni (r), malloc, (n); ld.param.b64 %d1, [r]; }\n"
        " st.u32 [%d1+8], %r0; bar.sync 0;\n"
        " st.u64 [%d1+-8], 1; bar.sync 0;\n"
        " ld.u32 %r2, [%d1+8]; st.global.u32 [%d0], %r2; ret;\n}\n";
    unsigned v[32];
    CUdeviceptr p;
    CUmodule mod;
    CUfunction fn;

    (void)state;
    ok(cuModuleLoadData(&mod, text));
    ok(cuModuleGetFunction(&fn, mod, "k"));
    ok(cuMemAlloc_v2(&p, sizeof(v)));
    ok(ut_sg_run(fn, 1, ARRAY_SIZE(v), 0, p, 100));
    ok(cuMemcpyDtoH_v2(v, p, sizeof(v)));
    for (unsigned i = 0; i < ARRAY_SIZE(v); i++)
        assert_int_equal(v[i], 100 + i);
    ok(cuMemFree_v2(p));
    ok(cuModuleUnload(mod));
}

/* As numba links: the grid's barrier comes with the toolkit's library, which is named
 * but holds machine code. */
static void
linked_kernels_synchronise_their_grid(void **state)
{
    static char kernel[] = PTX_HEAD
        ".extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 s);\n"
        ".extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 h, "
        ".param .b32 f);\n"
        ".visible .entry k(.param .u64 p)\n{\n"
        ".reg .u64 %d<4>; .reg .u32 %r<8>;\n"
        "{ .param .b32 s; .param .b64 h; st.param.b32 [s], 1;\n"
        "call (h), cudaCGGetIntrinsicHandle, (s); ld.param.b64 %d1, [h]; }\n"
        "ld.param.u64 %d0, [p]; red.global.add.u32 [%d0], 1;\n"
        "{ .param .b64 h; .param .b32 f; .param .b32 e; st.param.b64 [h], %d1;\n"
        "st.param.b32 [f], 0; call (e), cudaCGSynchronize, (h, f);\n"
        "ld.param.b32 %r1, [e]; }\n"
        "ld.volatile.global.u32 %r2, [%d0]; add.u32 %r2, %r2, %r1;\n"
        "mov.u32 %r3, %ctaid.x; mad.wide.u32 %d2, %r3, 4, %d0;\n"
        "st.global.u32 [%d2+4], %r2; ret;\n}\n";
    CUjit_option opt = CU_JIT_MAX_REGISTERS;
    void *limit = (void *)(uintptr_t)2, *image;
    unsigned v[5] = {0};
    CUlinkState link;
    CUmodule mod;
    CUfunction fn;
    CUdeviceptr p;
    int regs;
    void *args[] = {&p};
    size_t size;

    ok(cuLinkCreate_v2(1, &opt, &limit, &link));
    ok(cuLinkAddData_v2(link, CU_JIT_INPUT_LIBRARY, (void *)(uintptr_t) "!<arch>\n", 8,
                        "library", 0, 0, 0));
    ok(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, kernel, sizeof(kernel), "k", 0, 0, 0));
    ok(cuLinkComplete(link, &image, &size));
    ok(cuModuleLoadData(&mod, image));
    ok(cuLinkDestroy(link));
    ok(cuModuleGetFunction(&fn, mod, "k"));
    ok(cuFuncGetAttribute(&regs, CU_FUNC_ATTRIBUTE_NUM_REGS, fn));
    assert_in_range(regs, 1, 2);
    ok(cuMemAlloc_v2(&p, sizeof(v)));
    ok(cuMemsetD8_v2(p, 0, sizeof(v)));
    ok(cuLaunchCooperativeKernel(fn, 4, 1, 1, 32, 1, 1, 0, NULL, args));
    ok(cuMemcpyDtoH_v2(v, p, sizeof(v)));
    for (int i = 0; i < 5; i++)
        assert_int_equal(v[i], 128);
    ok(cuMemFree_v2(p));
    ok(cuModuleUnload(mod));
}

static void
a_green_context_has_a_part_of_the_card(void **state)
{
    CUdevResource all, half[2], rest;
    unsigned n = 2;
    CUdevResourceDesc desc;
    CUgreenCtx green;
    CUcontext ctx, now;
    CUstream s, own;
    CUfunction fn;
    CUmodule mod;
    CUdeviceptr p;
    unsigned sm = 99;
    void *args[] = {&p};

    ok(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(all.sm.smCount, 2);
    ok(cuDevSmResourceSplitByCount(half, &n, &all, &rest, 0, 1));
    assert_int_equal(n, 2);
    ok(cuDevResourceGenerateDesc(&desc, &half[1], 1));
    ok(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    ok(cuCtxFromGreenCtx(&ctx, green));
    ok(cuCtxPushCurrent_v2(ctx));
    ok(cuGreenCtxStreamCreate(&s, green, CU_STREAM_NON_BLOCKING, 0));
    ok(cuModuleLoadData(&mod, PTX_HEAD ".visible .entry k(.param .u64 p)\n{\n"
                                       " .reg .u64 %d0; .reg .u32 %r0;\n"
                                       " ld.param.u64 %d0, [p]; mov.u32 %r0, %smid;\n"
                                       " st.global.u32 [%d0], %r0; ret;\n}\n"));
    ok(cuModuleGetFunction(&fn, mod, "k"));
    ok(cuMemAlloc_v2(&p, 4));
    for (int i = 0; i < 20; i++) {
        ok(cuLaunchKernel(fn, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
        ok(cuStreamSynchronize(s));
        ok(cuMemcpyDtoH_v2(&sm, p, 4));
        assert_int_equal(sm, 1);
    }
    /* Streams of the context made from it, and its default stream, are its own. */
    ok(cuCtxGetDevResource(ctx, &rest, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(rest.sm.smCount, 1);
    ok(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 40; i++) {
        ok(cuLaunchKernel(fn, 1, 1, 1, 1, 1, 1, 0, i % 2 ? own : NULL, args, NULL));
        ok(cuCtxSynchronize());
        ok(cuMemcpyDtoH_v2(&sm, p, 4));
        assert_int_equal(sm, 1);
    }
    ok(cuCtxGetCurrent(&now));
    assert_ptr_equal(now, ctx);
    fails(cuCtxDestroy_v2(ctx), CUDA_ERROR_INVALID_CONTEXT);
    ok(cuCtxPopCurrent_v2(NULL));
    ok(cuGreenCtxDestroy(green));
    fails(cuCtxSetCurrent(ctx), CUDA_ERROR_INVALID_CONTEXT);
    fails(cuGreenCtxDestroy(green), CUDA_ERROR_INVALID_HANDLE);
}

static void
collect(void *user, CUcontext ctx, int fd, const char *text, size_t len)
{
    char *buf = user;
    size_t have = strlen(buf);

    snprintf(buf + have, 4096 - have, "%d:%.*s", fd, (int)len, text);
}

/* @declared: of vprintf; @call: of it with p0 and p1. */
#define PRINTING(declared, call)                                                       \
    PTX_HEAD                                                                           \
    ".global .align 1 .b8 fmt[12] = {118, 97, 108, 117, 101, 32, 37, 100, 10, 0, "     \
    "0, 0};\n" declared ".visible .entry k(.param .u64 p, .param .u32 v)\n{\n"         \
    " .local .align 8 .b8 args[8];\n"                                                  \
    " .reg .u64 %d<4>; .reg .u32 %r<3>;\n"                                             \
    " ld.param.u32 %r0, [v];\n"                                                        \
    " mov.u64 %d0, args; cvta.local.u64 %d1, %d0;\n"                                   \
    " st.local.u32 [%d0], %r0;\n"                                                      \
    " mov.u64 %d2, fmt; cvta.global.u64 %d3, %d2;\n"                                   \
    " {\n .param .b64 p0; .param .b64 p1; .param .b32 ret0;\n"                         \
    " st.param.b64 [p0], %d3; st.param.b64 [p1], %d1;\n" call " }\n ret;\n}\n"

static void
device_printf_reaches_the_host_at_synchronisation(void **state)
{
    static const char *const images[] = {
        PRINTING(
            ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n",
            " call.uni (ret0), vprintf, (p0, p1);\n ld.param.b32 %r1, [ret0];\n"),
        /* as compilers that do not want the count declare it */
        PRINTING(".extern .func vprintf(.param .b64 f, .param .b64 a);\n",
                 " call.uni vprintf, (p0, p1);\n"),
    };
    static char text[4096];
    CUmodule mod;
    CUfunction fn;

    sg_set_output_hook(collect, text);
    for (size_t i = 0; i < ARRAY_SIZE(images); i++) {
        text[0] = '\0';
        ok(cuModuleLoadData(&mod, images[i]));
        ok(cuModuleGetFunction(&fn, mod, "k"));
        ok(ut_sg_run(fn, 1, 1, 0, 0, 1234));
        ok(cuCtxSynchronize());
        assert_string_equal(text, "1:value 1234\n");
        ok(cuModuleUnload(mod));
    }
    sg_set_output_hook(NULL, NULL);
}

static void
textures_read_arrays(void **state)
{
    CUDA_ARRAY_DESCRIPTOR d = {4, 3, CU_AD_FORMAT_FLOAT, 1};
    CUDA_TEXTURE_DESC how = {
        .addressMode = {CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_CLAMP}};
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_ARRAY}, got;
    CUDA_MEMCPY2D c = {0};
    CUtexObject tex = 0;
    CUmodule mod;
    CUfunction fn;
    CUdeviceptr p;
    float in[3][4], v[2] = {0, 0};
    void *args[] = {&p, &tex};

    for (int i = 0; i < 12; i++)
        in[i / 4][i % 4] = 10.0f + (float)i;
    ok(cuArrayCreate_v2(&res.res.array.hArray, &d));
    c.srcMemoryType = CU_MEMORYTYPE_HOST;
    c.srcHost = in;
    c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    c.dstArray = res.res.array.hArray;
    c.WidthInBytes = 16;
    c.Height = 3;
    ok(cuMemcpy2D_v2(&c));
    ok(cuTexObjectCreate(&tex, &res, &how, NULL));
    ok(cuTexObjectGetResourceDesc(&got, tex));
    assert_ptr_equal(got.res.array.hArray, res.res.array.hArray);
    ok(cuModuleLoadData(&mod, PTX_HEAD
                        ".visible .entry k(.param .u64 p, .param .u64 t)\n{\n"
                        " .reg .u64 %d<2>; .reg .f32 %f<8>;\n"
                        " ld.param.u64 %d0, [p]; ld.param.u64 %d1, [t];\n"
                        " mov.f32 %f0, 0f40200000; mov.f32 %f1, 0f3FC00000;\n"
                        " tex.2d.v4.f32.f32 {%f2,%f3,%f4,%f5}, [%d1, {%f0, %f1}];\n"
                        " st.global.f32 [%d0], %f2;\n"
                        " mov.f32 %f0, 0f42C80000; mov.f32 %f1, 0fC2C80000;\n"
                        " tex.2d.v4.f32.f32 {%f2,%f3,%f4,%f5}, [%d1, {%f0, %f1}];\n"
                        " st.global.f32 [%d0+4], %f2;\n"
                        " ret;\n}\n"));
    ok(cuModuleGetFunction(&fn, mod, "k"));
    ok(cuMemAlloc_v2(&p, 8));
    ok(cuLaunchKernel(fn, 1, 1, 1, 1, 1, 1, 0, 0, args, NULL));
    ok(cuMemcpyDtoH_v2(v, p, 8));
    assert_true(v[0] == in[1][2]); /* (2.5, 1.5) */
    assert_true(v[1] == in[0][3]); /* (100, -100), clamped */
    ok(cuTexObjectDestroy(tex));
    ok(cuTexObjectDestroy(tex)); /* nothing happens */
    ok(cuTexObjectDestroy(0));
    fails(cuTexObjectGetResourceDesc(&got, tex), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemsetD8_v2(p, 0, 8)); /* on a card kernels read it on */
    ok(cuLaunchKernel(fn, 1, 1, 1, 1, 1, 1, 0, 0, args, NULL));
    ok(cuMemcpyDtoH_v2(v, p, 8));
    assert_true(v[0] == in[1][2] && v[1] == in[0][3]);
    for (unsigned i = 0; i < 3000; i++) { /* and on */
        CUtexObject other;

        ok(cuTexObjectCreate(&other, &res, &how, NULL));
        ok(cuTexObjectDestroy(other));
    }
    res.resType = CU_RESOURCE_TYPE_LINEAR;
    res.res.linear.devPtr = p;
    res.res.linear.format = CU_AD_FORMAT_FLOAT;
    res.res.linear.numChannels = 1;
    res.res.linear.sizeInBytes = 12; /* 4 more than there are */
    ok(cuTexObjectCreate(&tex, &res, &how, NULL));
    ok(cuTexObjectDestroy(tex));
    ok(cuMemFree_v2(p));
    ok(cuModuleUnload(mod));
}

/* As a network card would: through the dma-buf, while the program goes on as before. */
static void
dmabuf_is_the_cards_memory(void **state)
{
    enum { PAGE = 4096, SIZE = 4 * PAGE };
    size_t before, after, total;
    CUipcMemHandle handle;
    int supported, fd = -1;
    unsigned word = 0, *map;
    CUdeviceptr p;

    ok(cuMemGetInfo_v2(&before, &total));
    ok(cuMemAlloc_v2(&p, SIZE));
    ok(cuMemsetD32_v2(p, 0x1234, SIZE / 4));
    fails(cuMemGetHandleForAddressRange(&fd, p, PAGE + 1, 1, 0),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuMemGetHandleForAddressRange(&fd, p, PAGE, 2, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0));
    if (!supported) {
        fails(cuMemGetHandleForAddressRange(&fd, p, PAGE, 1, 0),
              CUDA_ERROR_NOT_SUPPORTED);
        ok(cuMemFree_v2(p));
        print_message("skip: this kernel makes no dma-bufs (/dev/udmabuf)\n");
        skip();
    }
    fails(cuMemGetHandleForAddressRange(&fd, p, SIZE + PAGE, 1, 0),
          CUDA_ERROR_INVALID_VALUE);
    ok(cuMemGetHandleForAddressRange(&fd, p + PAGE, 2 * PAGE, 1, 0));
    map = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_int_equal(map[PAGE / 4], 0x1234);
    map[1] = 0x5678;
    ok(cuMemcpyDtoH_v2(&word, p + PAGE + 4, 4));
    assert_int_equal(word, 0x5678);
    ok(ut_sg_run(sg.store, 1, 1, 0, p + PAGE + 8, 0x9abc));
    ok(cuCtxSynchronize());
    assert_int_equal(map[2], 0x9abc);
    fails(cuIpcGetMemHandle(&handle, p), CUDA_ERROR_NOT_SUPPORTED);
    ok(cuMemFree_v2(p));
    ok(cuMemGetInfo_v2(&after, &total));
    assert_int_equal(before, after);
    /* Whoever still has it writes into memory that is nobody else's. */
    map[2] = 1;
    munmap(map, 2 * PAGE);
    close(fd);
}

/* Values that live at once: 320 registers of 32 bits, which a compiler would spill. */
enum { MANY_VALUES = 160 };

static void
many_registers(char *text, size_t size, const char *name, const char *bounds)
{
    size_t n = strlen(text);

    n += (size_t)snprintf(text + n, size - n,
                          ".visible .entry %s(.param .u64 p) %s {\n"
                          ".reg .u64 %%a, %%v<%d>;\nld.param.u64 %%a, [p];\n",
                          name, bounds, MANY_VALUES);
    for (int i = 0; i < MANY_VALUES; i++)
        n += (size_t)snprintf(text + n, size - n, "ld.global.u64 %%v%d, [%%a+%d];\n", i,
                              8 * i);
    for (int i = 0; i < MANY_VALUES; i++)
        n += (size_t)snprintf(text + n, size - n, "st.global.u64 [%%a+%d], %%v%d;\n",
                              8 * (MANY_VALUES - 1 - i), i);
    snprintf(text + n, size - n, "ret;\n}\n");
}

/* A card's compiler spills registers so that a block as large as .maxntid fits.  CUB
 * divides by the number of blocks that are resident. */
static void
blocks_within_their_bounds_are_always_resident(void **state)
{
    static const struct {
        const char *bounds;
        int threads, most_regs, least_blocks;
    } cases[] = {
        {"", 1024, 255, 1},
        {".maxntid 512, 1, 1", 512, 128, 1},
        {".maxntid 16, 8, 4", 512, 128, 1},
        {".reqntid 1024, 1, 1", 1024, 64, 1},
        {".maxntid 256 .minnctapersm 3", 256, 80, 3},
        {".maxntid 100 .minnctapersm 4", 100, 128, 4},
        {".maxntid 512, 1, 1 .maxnreg 64", 512, 64, 2},
    };
    enum { SIZE = 64 << 10 };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        CLEANUP_FREE char *text = calloc(1, SIZE);
        int regs, blocks, grid, block;
        CUfunction fn;
        CUmodule mod;

        assert_non_null(text);
        snprintf(text, SIZE, ".version 7.4\n.target sm_80\n.address_size 64\n");
        many_registers(text, SIZE, "many", cases[i].bounds);
        ok(cuModuleLoadData(&mod, text));
        ok(cuModuleGetFunction(&fn, mod, "many"));
        ok(cuFuncGetAttribute(&regs, CU_FUNC_ATTRIBUTE_NUM_REGS, fn));
        assert_in_range(regs, 1, cases[i].most_regs);
        ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fn, cases[i].threads,
                                                       0));
        assert_in_range(blocks, cases[i].least_blocks, 16);
        ok(cuOccupancyMaxPotentialBlockSize(&grid, &block, fn, NULL, 0, 0));
        assert_in_range(block, 1, cases[i].threads);
        assert_in_range(grid, 1, 1024);
        ok(cuModuleUnload(mod));
    }
}

/* Sixty constants, sixty parameters, and values that live at different times: a card
 * has the first in its instructions, the second in its constant bank, and gives the
 * third the same registers.  ptxas gives this kernel 28 of them. */
static void
few_registers(char *text, size_t size)
{
    enum { N = 60, WIDE = 8 };
    size_t n = strlen(text);

#define ADD(...) n += (size_t)snprintf(text + n, size - n, __VA_ARGS__)
    ADD(".visible .entry few(.param .u64 out, .param .b8 p[%d]) {\n"
        ".reg .u32 %%t, %%n<%d>;\n.reg .u64 %%a, %%s, %%q, %%c<%d>;\n"
        "ld.param.u64 %%a, [out];\nmov.u32 %%t, %%tid.x;\ncvt.u64.u32 %%s, %%t;\n",
        8 * N, 2 * WIDE, N);
    for (int i = 0; i < N; i++)
        ADD("ld.param.u64 %%c%d, [p+%d];\n", i, 8 * i);
    for (int i = 0; i < N; i++)
        ADD("xor.b64 %%q, %%s, %lld;\nmad.lo.u64 %%s, %%q, %%c%d, %%q;\n",
            1000000007ll * (i + 1), i);
    for (int i = 0; i < 2 * WIDE; i++)
        ADD("ld.global.u32 %%n%d, [%%a+%d];\n", i, 8 + 4 * i);
    for (int i = 0; i < 2 * WIDE; i++)
        ADD("cvt.u64.u32 %%q, %%n%d;\nadd.u64 %%s, %%s, %%q;\n", i);
    ADD("st.global.u64 [%%a], %%s;\nret;\n}\n");
#undef ADD
}

/* Kokkos asks for the number of registers, divides 65,536 by it, and refuses to launch
 * blocks that are larger. */
static void
constants_and_parameters_take_no_registers(void **state)
{
    enum { SIZE = 64 << 10 };
    CLEANUP_FREE char *text = calloc(1, SIZE);
    int regs, blocks;
    CUfunction fn;
    CUmodule mod;

    assert_non_null(text);
    snprintf(text, SIZE, ".version 7.4\n.target sm_80\n.address_size 64\n");
    few_registers(text, SIZE);
    ok(cuModuleLoadData(&mod, text));
    ok(cuModuleGetFunction(&fn, mod, "few"));
    ok(cuFuncGetAttribute(&regs, CU_FUNC_ATTRIBUTE_NUM_REGS, fn));
    assert_in_range(regs, 16, 32);
    ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fn, 1024, 0));
    assert_in_range(blocks, 1, 2);
    ok(cuModuleUnload(mod));
}

int
main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_card, close_card)
    const struct CMUnitTest tests[] = {
        T(one_memory_is_mapped_twice),
        T(read_only_mappings_refuse_writes),
        T(arrays_are_copied_by_coordinates),
        T(mipmap_levels_halve),
        T(pools_have_a_maximum),
        T(memory_freed_in_a_stream_is_not_in_use),
        T(two_texts_are_linked),
        T(variable_that_is_defined_nowhere_is_the_modules),
        T(word_in_front_of_a_heap_block_belongs_to_nobody),
        T(linked_kernels_synchronise_their_grid),
        T(a_green_context_has_a_part_of_the_card),
        T(device_printf_reaches_the_host_at_synchronisation),
        T(textures_read_arrays),
        T(dmabuf_is_the_cards_memory),
        T(blocks_within_their_bounds_are_always_resident),
        T(constants_and_parameters_take_no_registers),
    };
    int rc;

    ut_sg_cards("1", "64MiB", "2");
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    ut_sg_cards_remove();
    return rc;
}
