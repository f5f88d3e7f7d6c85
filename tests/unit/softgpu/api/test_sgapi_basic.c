/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software GPU's driver API: devices, contexts, memory, modules, launches,
 * and the error codes of wrong use.
 */
#include "ut_sgapi.h"

#include <pthread.h>
#include <string.h>

static struct ut_sg sg;

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

static void
calls_before_init_are_refused(void **state)
{
    int n;
    CUcontext ctx;

    fails(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
    fails(cuCtxGetCurrent(&ctx), CUDA_ERROR_NOT_INITIALIZED);
    fails(cuInit(1), CUDA_ERROR_INVALID_VALUE);
    ok(cuDriverGetVersion(&n));
    assert_int_equal(n, 13000);
}

static void
devices_answer_every_attribute_of_the_header(void **state)
{
    int v, count;
    CUdevice dev;
    size_t bytes;
    char name[64], bus[32];

    ok(cuDeviceGetCount(&count));
    assert_int_equal(count, 2);
    fails(cuDeviceGet(&dev, 2), CUDA_ERROR_INVALID_DEVICE);
    fails(cuDeviceGet(&dev, -1), CUDA_ERROR_INVALID_DEVICE);
    for (int a = 1; a < CU_DEVICE_ATTRIBUTE_MAX; a++)
        ok(cuDeviceGetAttribute(&v, a, 0));
    fails(cuDeviceGetAttribute(&v, 0, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_MAX, 0),
          CUDA_ERROR_INVALID_VALUE);
    ok(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    assert_int_equal(v, 8);
    ok(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    assert_int_equal(v, 2);
    ok(cuDeviceTotalMem_v2(&bytes, 0));
    assert_int_equal(bytes, 64 << 20);
    ok(cuDeviceGetName(name, sizeof(name), 0));
    assert_true(strlen(name) > 3);
    ok(cuDeviceGetPCIBusId(bus, sizeof(bus), 1));
    ok(cuDeviceGetByPCIBusId(&dev, bus));
    assert_int_equal(dev, 1);
}

static void
cards_have_different_uuids(void **state)
{
    CUuuid a, b, again;

    ok(cuDeviceGetUuid_v2(&a, 0));
    ok(cuDeviceGetUuid_v2(&b, 1));
    ok(cuDeviceGetUuid(&again, 0));
    assert_memory_not_equal(&a, &b, sizeof(a));
    assert_memory_equal(&a, &again, sizeof(a));
}

static void
stale_and_invented_handles_are_refused(void **state)
{
    CUstream stream;
    CUevent event;
    CUcontext ctx = (CUcontext)(uintptr_t)0x1234;
    CUdeviceptr p;

    ok(cuStreamCreate(&stream, 0));
    ok(cuStreamDestroy_v2(stream));
    fails(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
    fails(cuStreamDestroy_v2(stream), CUDA_ERROR_INVALID_HANDLE);
    ok(cuEventCreate(&event, 0));
    fails(cuStreamSynchronize((CUstream)event), CUDA_ERROR_INVALID_HANDLE);
    ok(cuEventDestroy_v2(event));
    fails(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    fails(cuCtxSetCurrent(ctx), CUDA_ERROR_INVALID_CONTEXT);
    fails(cuMemFree_v2(0x1000), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemAlloc_v2(&p, 64));
    fails(cuMemFree_v2(p + 4), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemFree_v2(p));
    fails(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
    fails(ut_sg_run((CUfunction)(uintptr_t)0xdead, 1, 1, 0, p, 0),
          CUDA_ERROR_INVALID_HANDLE);
}

static void
contexts_nest_and_die(void **state)
{
    CUcontext second, current;
    CUdevice dev;

    ok(cuCtxCreate_v2(&second, CU_CTX_SCHED_YIELD, 1));
    ok(cuCtxGetDevice(&dev));
    assert_int_equal(dev, 1);
    ok(cuCtxPopCurrent_v2(&current));
    assert_ptr_equal(current, second);
    ok(cuCtxGetCurrent(&current));
    assert_ptr_equal(current, sg.ctx);
    ok(cuCtxPushCurrent_v2(second));
    ok(cuCtxPushCurrent_v2(sg.ctx));
    ok(cuCtxDestroy_v2(second)); /* current one level down */
    ok(cuCtxPopCurrent_v2(NULL));
    fails(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    ok(cuCtxPopCurrent_v2(NULL));
    ok(cuCtxSynchronize());
}

static void
primary_context_keeps_its_handle(void **state)
{
    CUcontext first, again;
    unsigned flags;
    int active;
    CUdeviceptr p;

    ok(cuDevicePrimaryCtxGetState(1, &flags, &active));
    assert_false(active);
    ok(cuDevicePrimaryCtxRetain(&first, 1));
    ok(cuCtxPushCurrent_v2(first));
    ok(cuMemAlloc_v2(&p, 4096));
    ok(cuDevicePrimaryCtxReset_v2(1));
    fails(cuMemAlloc_v2(&p, 16), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    ok(cuDevicePrimaryCtxRetain(&again, 1));
    assert_ptr_equal(first, again);
    ok(cuMemAlloc_v2(&p, 16)); /* still current, alive again */
    ok(cuDevicePrimaryCtxRelease_v2(1));
    fails(cuDevicePrimaryCtxRelease_v2(1), CUDA_ERROR_INVALID_CONTEXT);
    ok(cuCtxPopCurrent_v2(NULL));
    fails(cuCtxDestroy_v2(first), CUDA_ERROR_INVALID_CONTEXT);
}

static void
memory_is_counted_to_the_byte(void **state)
{
    size_t before, after, total;
    CUdeviceptr p, q, none = 5;

    ok(cuMemGetInfo_v2(&before, &total));
    assert_int_equal(total, 64 << 20);
    ok(cuMemAlloc_v2(&p, 1000001));
    ok(cuMemGetInfo_v2(&after, &total));
    assert_int_equal(before - after, 1000001);
    fails(cuMemAlloc_v2(&q, after + 1), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuMemAlloc_v2(&q, after));
    fails(cuMemAlloc_v2(&none, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(none, 0); /* a failure leaves no address behind */
    ok(cuMemFree_v2(p));
    ok(cuMemAlloc_v2(&p, 1000001));
    ok(cuMemFree_v2(p));
    ok(cuMemFree_v2(q));
    fails(cuMemAlloc_v2(&q, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemAlloc_v2(&q, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
    ok(cuMemGetInfo_v2(&after, &total));
    assert_int_equal(before, after);
}

static void
copies_are_checked_to_the_byte(void **state)
{
    unsigned char out[100], in[100];
    CUdeviceptr p, base;
    size_t size;

    memset(in, 0x5a, sizeof(in));
    ok(cuMemAlloc_v2(&p, 100));
    ok(cuMemcpyHtoD_v2(p, in, 100));
    fails(cuMemcpyHtoD_v2(p, in, 101), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemcpyHtoD_v2(p + 1, in, 100), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemcpyHtoD_v2(p - 1, in, 1), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemsetD8_v2(p + 50, 1, 50));
    fails(cuMemsetD8_v2(p + 50, 1, 51), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemsetD32_v2(p + 2, 1, 1), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemsetD16_v2(p, 0x0203, 2));
    ok(cuMemcpyDtoH_v2(out, p, 100));
    assert_int_equal(out[0], 3);
    assert_int_equal(out[1], 2);
    assert_int_equal(out[4], 0x5a);
    assert_int_equal(out[99], 1);
    ok(cuMemGetAddressRange_v2(&base, &size, p + 99));
    assert_int_equal(base, p);
    assert_int_equal(size, 100);
    fails(cuMemGetAddressRange_v2(&base, &size, p + 100), CUDA_ERROR_NOT_FOUND);
    ok(cuMemcpyDtoH_v2(out, p, 0));
    ok(cuMemFree_v2(p));
}

static void
rectangles_are_copied_row_by_row(void **state)
{
    unsigned char in[6][8], out[3][4];
    CUDA_MEMCPY2D d = {0};
    CUdeviceptr p;
    size_t pitch;

    for (int i = 0; i < 48; i++)
        in[i / 8][i % 8] = (unsigned char)i;
    ok(cuMemAllocPitch_v2(&p, &pitch, 8, 6, 4));
    assert_int_equal(pitch % 512, 0);
    d.srcMemoryType = CU_MEMORYTYPE_HOST;
    d.srcHost = in;
    d.srcPitch = 8;
    d.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    d.dstDevice = p;
    d.dstPitch = pitch;
    d.WidthInBytes = 8;
    d.Height = 6;
    ok(cuMemcpy2D_v2(&d));
    d.Height = 7;
    fails(cuMemcpy2D_v2(&d), CUDA_ERROR_INVALID_VALUE);
    memset(&d, 0, sizeof(d));
    d.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    d.srcDevice = p;
    d.srcPitch = pitch;
    d.srcXInBytes = 2;
    d.srcY = 1;
    d.dstMemoryType = CU_MEMORYTYPE_HOST;
    d.dstHost = out;
    d.dstPitch = 4;
    d.WidthInBytes = 4;
    d.Height = 3;
    ok(cuMemcpy2DUnaligned_v2(&d));
    for (int y = 0; y < 3; y++)
        for (int x = 0; x < 4; x++)
            assert_int_equal(out[y][x], (y + 1) * 8 + x + 2);
    ok(cuMemFree_v2(p));
}

static void
a_launch_computes(void **state)
{
    static unsigned v[5000];
    CUdeviceptr p;

    for (unsigned i = 0; i < 5000; i++)
        v[i] = i * 3;
    ok(cuMemAlloc_v2(&p, sizeof(v)));
    ok(cuMemcpyHtoD_v2(p, v, sizeof(v)));
    for (int i = 0; i < 3; i++)
        ok(ut_sg_run(sg.add_one, 20, 256, 0, p, 5000));
    ok(cuMemcpyDtoH_v2(v, p, sizeof(v)));
    for (unsigned i = 0; i < 5000; i++)
        assert_int_equal(v[i], i * 3 + 3);
    ok(cuMemFree_v2(p));
}

static void
bad_launches_are_refused(void **state)
{
    CUdeviceptr p;
    unsigned n = 1;
    void *args[] = {&p, &n}, *hole[] = {&p, NULL};
    size_t len = 4;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &p, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &len, CU_LAUNCH_PARAM_END};

    ok(cuMemAlloc_v2(&p, 4));
    fails(ut_sg_run(sg.store, 0, 1, 0, p, 1), CUDA_ERROR_INVALID_VALUE);
    fails(ut_sg_run(sg.store, 1, 0, 0, p, 1), CUDA_ERROR_INVALID_VALUE);
    fails(ut_sg_run(sg.store, 1, 1025, 0, p, 1), CUDA_ERROR_INVALID_VALUE);
    fails(cuLaunchKernel(sg.store, 1, 65536, 1, 1, 1, 1, 0, 0, args, NULL),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuLaunchKernel(sg.store, 1, 1, 1, 32, 32, 2, 0, 0, args, NULL),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuLaunchKernel(sg.store, 1, 1, 1, 1, 1, 1, 49153, 0, args, NULL),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuLaunchKernel(sg.store, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuLaunchKernel(sg.store, 1, 1, 1, 1, 1, 1, 0, 0, hole, NULL),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuLaunchKernel(sg.store, 1, 1, 1, 1, 1, 1, 0, 0, args, extra),
          CUDA_ERROR_INVALID_VALUE);
    fails(cuLaunchKernel(sg.store, 1, 1, 1, 1, 1, 1, 0, 0, NULL, extra),
          CUDA_ERROR_INVALID_VALUE); /* 4 of 12 bytes */
    ok(cuCtxSynchronize());
    ok(cuMemFree_v2(p));
}

static void
parameters_arrive_as_one_buffer(void **state)
{
    struct {
        CUdeviceptr p;
        unsigned v;
    } buf = {0, 77};
    size_t len = 12, off, size;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buf, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &len, CU_LAUNCH_PARAM_END};
    unsigned out;

    ok(cuMemAlloc_v2(&buf.p, 4));
    ok(cuLaunchKernel(sg.store, 1, 1, 1, 1, 1, 1, 0, 0, NULL, extra));
    ok(cuMemcpyDtoH_v2(&out, buf.p, 4));
    assert_int_equal(out, 77);
    ok(cuFuncGetParamInfo(sg.store, 1, &off, &size));
    assert_int_equal(off, 8);
    assert_int_equal(size, 4);
    fails(cuFuncGetParamInfo(sg.store, 2, &off, &size), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemFree_v2(buf.p));
}

static void
broken_images_get_the_right_code(void **state)
{
    static const unsigned char junk[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
    char log[256];
    CUjit_option opts[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *vals[] = {log, (void *)(uintptr_t)sizeof(log)};
    CUmodule mod;

    fails(cuModuleLoadDataEx(&mod, ".version 7.0\n.target sm_70\n.address_size 64\nfoo",
                             2, opts, vals),
          CUDA_ERROR_INVALID_PTX);
    assert_non_null(strstr(log, "line 4"));
    assert_int_not_equal(cuModuleLoadData(&mod, junk), CUDA_SUCCESS);
    fails(cuModuleLoadData(&mod, NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuModuleLoad(&mod, "/nonexistent/file.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
}

static void
modules_have_functions_and_globals(void **state)
{
    CUfunction fn;
    CUdeviceptr p;
    size_t size;
    unsigned v[4];
    int n;

    fails(cuModuleGetFunction(&fn, sg.mod, "nope"), CUDA_ERROR_NOT_FOUND);
    ok(cuModuleGetGlobal_v2(&p, &size, sg.mod, "counter"));
    assert_int_equal(size, 4);
    ok(cuMemcpyDtoH_v2(v, p, 4));
    assert_int_equal(v[0], 7);
    fails(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
    ok(cuModuleGetGlobal_v2(&p, &size, sg.mod, "table"));
    assert_int_equal(size, 16);
    ok(cuMemcpyDtoH_v2(v, p, 16));
    assert_int_equal(v[3], 4);
    fails(cuModuleGetGlobal_v2(&p, &size, sg.mod, "nope"), CUDA_ERROR_NOT_FOUND);
    ok(cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, sg.store));
    assert_int_equal(n, 1024);
    fails(cuFuncGetAttribute(&n, 99, sg.store), CUDA_ERROR_INVALID_VALUE);
    fails(cuFuncSetAttribute(sg.store, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                             200000),
          CUDA_ERROR_INVALID_VALUE);
    ok(cuFuncSetAttribute(sg.store, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                          100000));
}

static void
host_memory_is_visible_only_when_registered(void **state)
{
    unsigned *pinned, attr, plain = 0;
    CUdeviceptr dev;
    int ordinal;
    CUpointer_attribute attrs[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *data[] = {&attr, &ordinal};

    ok(cuMemHostAlloc((void **)&pinned, 4096, 0));
    ok(cuMemHostGetDevicePointer_v2(&dev, pinned, 0));
    ok(ut_sg_run(sg.store, 1, 1, 0, dev, 99));
    ok(cuCtxSynchronize());
    assert_int_equal(*pinned, 99);
    ok(cuPointerGetAttribute(&attr, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, dev));
    assert_int_equal(attr, CU_MEMORYTYPE_HOST);
    ok(cuMemFreeHost(pinned));
    fails(cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemFreeHost(NULL)); /* as a card's driver has it */

    fails(cuMemHostUnregister(NULL), CUDA_ERROR_INVALID_VALUE);
    fails(cuMemHostUnregister(&plain), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    ok(cuPointerGetAttributes(2, attrs, data, (CUdeviceptr)(uintptr_t)&plain));
    assert_int_equal(attr, 0);
    assert_int_equal(ordinal, -2);
    ok(cuMemHostRegister_v2(&plain, sizeof(plain), 0));
    fails(cuMemHostRegister_v2(&plain, 1, 0),
          CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    ok(ut_sg_run(sg.store, 1, 1, 0, (CUdeviceptr)(uintptr_t)&plain, 5));
    ok(cuCtxSynchronize());
    assert_int_equal(plain, 5);
    ok(cuMemHostUnregister(&plain));
}

static void
managed_memory_is_shared_with_the_host(void **state)
{
    CUdeviceptr p;
    unsigned managed;

    fails(cuMemAllocManaged(&p, 4096, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL));
    *(unsigned *)(uintptr_t)p = 41;
    ok(ut_sg_run(sg.add_one, 1, 1, 0, p, 1));
    ok(cuCtxSynchronize());
    assert_int_equal(*(unsigned *)(uintptr_t)p, 42);
    ok(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p));
    assert_int_equal(managed, 1);
    ok(cuMemFree_v2(p));
}

static void
peers_need_to_be_enabled(void **state)
{
    CUcontext other;
    CUdeviceptr p;
    unsigned v = 0;
    int can;

    ok(cuDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 1);
    ok(cuCtxCreate_v2(&other, 0, 1));
    ok(cuMemAlloc_v2(&p, 4));
    ok(cuCtxPopCurrent_v2(NULL));
    ok(cuCtxEnablePeerAccess(other, 0));
    fails(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    ok(ut_sg_run(sg.store, 1, 1, 0, p, 123));
    ok(cuCtxSynchronize());
    ok(cuMemcpyDtoH_v2(&v, p, 4));
    assert_int_equal(v, 123);
    ok(cuCtxDisablePeerAccess(other));
    fails(cuCtxDisablePeerAccess(other), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    ok(cuCtxDestroy_v2(other));
}

/* What was allocated before is as accessible as what will be. */
static void
access_to_a_pool_is_access_to_its_memory(void **state)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
    CUmemAccessDesc who = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                           CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemAccessDesc wrong[2] = {who, {{CU_MEM_LOCATION_TYPE_DEVICE, 77}, 0}};
    CUdeviceptr before, after;
    CUmemAccess_flags flags;
    CUcontext owner;
    CUmemoryPool pool;
    unsigned v = 0;

    if (ut_sg_apart(__func__))
        return;
    ok(cuCtxCreate_v2(&owner, 0, 1));
    ok(cuMemPoolCreate(&pool, &props));
    ok(cuMemAllocFromPoolAsync(&before, 4, pool, 0));
    ok(cuCtxPopCurrent_v2(NULL));
    fails(cuMemPoolSetAccess(pool, wrong, 2), CUDA_ERROR_INVALID_DEVICE);
    ok(cuMemPoolGetAccess(&flags, pool, &who.location));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    ok(cuMemPoolSetAccess(pool, &who, 1));
    ok(cuCtxPushCurrent_v2(owner));
    ok(cuMemAllocFromPoolAsync(&after, 4, pool, 0));
    ok(cuCtxPopCurrent_v2(NULL));
    ok(ut_sg_run(sg.store, 1, 1, 0, before, 41));
    ok(ut_sg_run(sg.store, 1, 1, 0, after, 42));
    ok(cuCtxSynchronize());
    ok(cuMemcpyDtoH_v2(&v, before, 4));
    assert_int_equal(v, 41);
    ok(cuMemcpyDtoH_v2(&v, after, 4));
    assert_int_equal(v, 42);

    who.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    ok(cuMemPoolSetAccess(pool, &who, 1));
    ok(ut_sg_run(sg.store, 1, 1, 0, before, 43));
    fails(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    ok(cuMemPoolDestroy(pool));
    ok(cuCtxDestroy_v2(owner));
}

/* What one device may do to mapped memory says nothing of another. */
static void
rights_on_mapped_memory_are_each_devices_own(void **state)
{
    enum { SIZE = 2 << 20 };
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    const CUmemAccessDesc rights[] = {
        {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
        {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READ},
    };
    CUmemGenericAllocationHandle handle;
    unsigned long long flags;
    CUdeviceptr p;
    unsigned v = 0;

    ok(cuMemCreate(&handle, SIZE, &prop, 0));
    ok(cuMemAddressReserve(&p, SIZE, 0, 0, 0));
    ok(cuMemMap(p, SIZE, 0, handle, 0));
    ok(cuMemRelease(handle));
    ok(cuMemSetAccess(p, SIZE, rights, 2));
    ok(cuMemGetAccess(&flags, &rights[0].location, p));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    ok(cuMemGetAccess(&flags, &rights[1].location, p));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
    ok(ut_sg_run(sg.store, 1, 1, 0, p, 123)); /* by device 0, which may write */
    ok(cuCtxSynchronize());
    ok(cuMemcpyDtoH_v2(&v, p, 4));
    assert_int_equal(v, 123);
    ok(cuMemUnmap(p, SIZE));
    ok(cuMemAddressFree(p, SIZE));
}

static void
libraries_work_without_a_module(void **state)
{
    static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                               ".visible .entry k(.param .u64 p)\n{\n"
                               " .reg .u64 %d0; .reg .u32 %r0;\n"
                               " ld.param.u64 %d0, [p]; mov.u32 %r0, 31;\n"
                               " st.global.u32 [%d0], %r0; ret;\n}\n";
    CUlibrary lib;
    CUkernel kernel;
    CUdeviceptr p;
    CUfunction fn;
    unsigned n, v = 0;
    void *args[] = {&p};

    ok(cuLibraryLoadData(&lib, text, NULL, NULL, 0, NULL, NULL, 0));
    ok(cuLibraryGetKernelCount(&n, lib));
    assert_int_equal(n, 1);
    fails(cuLibraryGetKernel(&kernel, lib, "x"), CUDA_ERROR_NOT_FOUND);
    ok(cuLibraryGetKernel(&kernel, lib, "k"));
    ok(cuKernelGetFunction(&fn, kernel));
    ok(cuMemAlloc_v2(&p, 4));
    ok(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, 0, args, NULL));
    ok(cuLaunchKernel(fn, 1, 1, 1, 1, 1, 1, 0, 0, args, NULL));
    ok(cuMemcpyDtoH_v2(&v, p, 4));
    assert_int_equal(v, 31);
    ok(cuLibraryUnload(lib));
    fails(cuLibraryGetKernelCount(&n, lib), CUDA_ERROR_INVALID_HANDLE);
    fails(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, 0, args, NULL),
          CUDA_ERROR_INVALID_HANDLE);
    ok(cuMemFree_v2(p));
}

static void
names_are_found_by_version(void **state)
{
    CUdriverProcAddressQueryResult status;
    void *fn;

    ok(cuGetProcAddress_v2("cuMemAlloc", &fn, 12000, 0, &status));
    assert_ptr_equal(fn, (void *)cuMemAlloc_v2);
    ok(cuGetProcAddress_v2("cuMemcpyHtoDAsync", &fn, 12000, 2, &status));
    assert_ptr_equal(fn, (void *)cuMemcpyHtoDAsync_v2_ptsz);
    ok(cuGetProcAddress_v2("cuMemcpyHtoDAsync", &fn, 6050, 2, &status));
    assert_null(fn);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    ok(cuGetProcAddress_v2("cuMemAlloc", &fn, -1, 2, &status));
    assert_ptr_equal(fn, (void *)cuMemAlloc_v2);
    /* The status says that there is none; the first version, without one, fails. */
    ok(cuGetProcAddress_v2("", &fn, 0, 0, NULL));
    assert_null(fn);
    ok(cuGetProcAddress_v2("cuNothing", &fn, 13000, 0, &status));
    assert_null(fn);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    ok(cuGetProcAddress_v2("cuGraphCreate", &fn, 2000, 0, &status));
    assert_null(fn);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    fn = &status;
    fails(cuGetProcAddress("cuNothing", &fn, 13000, 0), CUDA_ERROR_NOT_FOUND);
    assert_ptr_equal(fn, &status);
}

static void
error_strings_are_static(void **state)
{
    const char *name, *text;

    ok(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &name));
    assert_string_equal(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
    ok(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
    assert_true(strlen(text) > 5);
    fails(cuGetErrorName(12345, &name), CUDA_ERROR_INVALID_VALUE);
    assert_null(name);
}

static void *
hammer(void *arg)
{
    unsigned v = (unsigned)(uintptr_t)arg, out;
    CUdeviceptr p;
    CUstream stream;

    if (cuCtxSetCurrent(sg.ctx) || cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
        return (void *)1;
    for (unsigned i = 0; i < 50; i++) {
        if (cuMemAlloc_v2(&p, 4 + i) || ut_sg_run(sg.store, 1, 32, stream, p, v + i) ||
            cuMemcpyDtoHAsync_v2(&out, p, 4, stream) || cuStreamSynchronize(stream) ||
            out != v + i || cuMemFree_v2(p))
            return (void *)2;
    }
    return cuStreamDestroy_v2(stream) ? (void *)3 : NULL;
}

static void
many_threads_use_one_context(void **state)
{
    pthread_t threads[4];
    void *ret;

    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)(i << 16)),
                         0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &ret);
        assert_null(ret);
    }
}

static pthread_key_t after;
static int found;

/* After the library's own, which was made before: what it finds, and that it can go
 * on. */
static void
call_at_the_end(void *arg)
{
    static char again;
    CUcontext current = NULL;
    unsigned v = 0;
    CUdeviceptr p;

    found += cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == sg.ctx;
    if (cuCtxSetCurrent(sg.ctx) || cuMemAlloc_v2(&p, 4) ||
        cuMemsetD32Async(p, 3, 1, CU_STREAM_PER_THREAD) ||
        cuStreamSynchronize(CU_STREAM_PER_THREAD) || cuMemcpyDtoH_v2(&v, p, 4) ||
        v != 3 || cuMemFree_v2(p))
        found = -100;
    if (arg != &again)
        pthread_setspecific(after, &again);
}

static void *
use_and_end(void *arg)
{
    CUdeviceptr p;

    if (cuCtxSetCurrent(sg.ctx) || cuMemAlloc_v2(&p, 4) ||
        cuMemsetD32Async(p, 2, 1, CU_STREAM_PER_THREAD) || cuMemFree_v2(p))
        return arg;
    return pthread_setspecific(after, arg) ? arg : NULL;
}

static void
thread_that_ends_may_still_call(void **state)
{
    pthread_t thread;
    void *ret;

    /* The library's keys are there by now. */
    assert_int_equal(pthread_key_create(&after, NULL), 0);
    assert_null(use_and_end((void *)state));
    pthread_key_delete(after);
    assert_int_equal(pthread_key_create(&after, call_at_the_end), 0);
    for (int i = 0; i < 3; i++) {
        found = 0;
        assert_int_equal(pthread_create(&thread, NULL, use_and_end, &found), 0);
        pthread_join(thread, &ret);
        assert_null(ret);
        assert_in_range(found, 1, 2);
    }
    pthread_key_delete(after);
}

int
main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_card, close_card)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_before_init_are_refused),
        T(devices_answer_every_attribute_of_the_header),
        T(cards_have_different_uuids),
        T(stale_and_invented_handles_are_refused),
        T(contexts_nest_and_die),
        T(primary_context_keeps_its_handle),
        T(memory_is_counted_to_the_byte),
        T(copies_are_checked_to_the_byte),
        T(rectangles_are_copied_row_by_row),
        T(a_launch_computes),
        T(bad_launches_are_refused),
        T(parameters_arrive_as_one_buffer),
        T(broken_images_get_the_right_code),
        T(modules_have_functions_and_globals),
        T(host_memory_is_visible_only_when_registered),
        T(managed_memory_is_shared_with_the_host),
        T(peers_need_to_be_enabled),
        T(access_to_a_pool_is_access_to_its_memory),
        T(rights_on_mapped_memory_are_each_devices_own),
        T(libraries_work_without_a_module),
        T(names_are_found_by_version),
        T(error_strings_are_static),
        T(many_threads_use_one_context),
        T(thread_that_ends_may_still_call),
    };
    int rc;

    ut_sg_cards("2", "64MiB", "2");
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    ut_sg_cards_remove();
    return rc;
}
