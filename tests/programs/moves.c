/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows between arrays, memory and the host; fills of every width and shape; copies that
 * name two contexts; whose pool is whose; what ranges and references say of themselves.
 */
#include "parts.h"

#include <stdint.h>

#define N 256u /* elements of a row */

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .global .texref image;\n"
                          ".visible .global .surfref canvas;\n"
                          ".visible .entry nothing()\n{\n ret;\n}\n";

static CUcontext ctx;
static CUdevice dev;
static CUmodule module;
static CUstream stream;

static CUresult
array_new(CUarray *ret, size_t width, size_t height)
{
    CUDA_ARRAY_DESCRIPTOR d = {.Width = width,
                               .Height = height,
                               .Format = CU_AD_FORMAT_UNSIGNED_INT32,
                               .NumChannels = 1};

    return cuArrayCreate_v2(ret, &d);
}

static int
rows_of_arrays(void)
{
    uint32_t from[N], to[N];
    CUdeviceptr p;
    CUarray a, b;

    for (uint32_t i = 0; i < N; i++)
        from[i] = i * i;
    TRY(array_new(&a, N, 0));
    TRY(array_new(&b, N, 0));
    TRY(cuMemAlloc_v2(&p, sizeof(from)));
    TRY(cuMemcpyHtoA_v2(a, 0, from, sizeof(from)));
    TRY(cuMemcpyAtoA_v2(b, 64, a, 0, sizeof(from) - 64));
    TRY(cuMemcpyHtoA_v2(b, 0, from, 64));
    TRY(cuMemcpyAtoD_v2(p, b, 0, sizeof(from)));
    TRY(cuMemcpyDtoH_v2(to, p, sizeof(to)));
    SAME(to[15], from[15]);
    SAME(to[16], from[0]);
    SAME(to[N - 1], from[N - 17]);
    TRY(cuMemsetD32_v2(p, 77, N));
    TRY(cuMemcpyDtoA_v2(a, 128, p, 256));
    memset(to, 0, sizeof(to));
    TRY(cuMemcpyAtoHAsync_v2(to, a, 0, sizeof(to), stream));
    TRY(cuStreamSynchronize(stream));
    SAME(to[31], from[31]);
    SAME(to[32], 77);
    SAME(to[95], 77);
    SAME(to[96], from[96]);
    TRY(cuMemcpyHtoAAsync_v2(a, 0, from, 512, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemcpyAtoH_v2(to, a, 128, 128));
    SAME(to[0], from[32]);
    CODE(settled(cuMemcpyAtoD_v2(p, a, 8, sizeof(from))), CUDA_ERROR_INVALID_VALUE);
    TRY(cuMemFree_v2(p));
    TRY(cuArrayDestroy(a));
    TRY(cuArrayDestroy(b));
    return 0;
}

static int
fills_of_every_width(void)
{
    const size_t pitch = 64;
    uint8_t got[8 * 64];
    CUdeviceptr p;
    void *host;

    TRY(cuMemAlloc_v2(&p, sizeof(got)));
    TRY(cuMemsetD8Async(p, 1, sizeof(got), stream));
    TRY(cuMemsetD2D8Async(p + 4, pitch, 2, 8, 4, stream));
    TRY(cuMemsetD2D16Async(p + 16, pitch, 0x303, 4, 4, stream));
    TRY(cuMemsetD2D32Async(p + 32, pitch, 0x4040404, 2, 4, stream));
    TRY(cuMemsetD16Async(p + 4 * pitch, 0x505, 8, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemsetD2D16_v2(p + 6 * pitch, pitch, 0x606, 2, 2));
    TRY(cuMemcpyDtoH_v2(got, p, sizeof(got)));
    for (unsigned y = 0; y < 8; y++) {
        uint64_t sum = 0;
        for (unsigned x = 0; x < pitch; x++)
            sum = sum * 31 + got[y * pitch + x];
        printf("row %u: %016llx\n", y, (unsigned long long)sum);
    }
    SAME(got[3 * pitch + 4], 2);
    SAME(got[4 * pitch + 4], 5);
    SAME(got[3 * pitch + 39], 4);
    SAME(got[3 * pitch + 40], 1);
    CODE(settled(cuMemsetD16Async(p + 1, 7, 4, stream)), CUDA_ERROR_INVALID_VALUE);
    TRY(cuMemFree_v2(p));
    TRY(cuMemHostAlloc(&host, 4096, 0)); /* a pitch is of whole elements there, too */
    CODE(settled(cuMemsetD2D16Async((uintptr_t)host, 65, 7, 8, 4, stream)),
         CUDA_ERROR_INVALID_VALUE);
    CODE(settled(cuMemsetD2D32_v2((uintptr_t)host, 66, 7, 8, 4)),
         CUDA_ERROR_INVALID_VALUE);
    TRY(settled(cuMemsetD2D32_v2((uintptr_t)host, 68, 7, 8, 4)));
    TRY(cuMemFreeHost(host));
    return 0;
}

/* A box out of the middle, from one context's memory into another's. */
static int
boxes_between_contexts(void)
{
    enum { W = 8, H = 4, D = 2 };
    uint32_t from[D][H][W], to[D][H][W];
    CUDA_MEMCPY3D_PEER copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                               .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                               .srcXInBytes = 8,
                               .srcY = 1,
                               .srcPitch = W * 4,
                               .srcHeight = H,
                               .dstPitch = W * 4,
                               .dstHeight = H,
                               .dstZ = 1,
                               .WidthInBytes = 16,
                               .Height = 2,
                               .Depth = 1};
    CUcontext other;
    CUdeviceptr a, b;

    for (uint32_t i = 0; i < W * H * D; i++)
        from[i / (W * H)][i / W % H][i % W] = i + 1;
    TRY(cuMemAlloc_v2(&a, sizeof(from)));
    TRY(cuMemcpyHtoD_v2(a, from, sizeof(from)));
    TRY(cuCtxCreate_v2(&other, 0, dev));
    TRY(cuMemAlloc_v2(&b, sizeof(to)));
    TRY(cuMemsetD8_v2(b, 0, sizeof(to)));
    copy.srcDevice = a;
    copy.srcContext = ctx;
    copy.dstDevice = b;
    copy.dstContext = other;
    TRY(cuMemcpy3DPeer(&copy));
    copy.srcZ = 1;
    copy.dstZ = 0;
    TRY(cuMemcpy3DPeerAsync(&copy, 0));
    TRY(cuCtxSynchronize());
    TRY(cuMemcpyDtoH_v2(to, b, sizeof(to)));
    SAME(to[1][0][0], from[0][1][2]);
    SAME(to[1][1][3], from[0][2][5]);
    SAME(to[0][0][0], from[1][1][2]);
    SAME(to[0][2][0], 0);
    TRY(cuCtxDestroy_v2(other));
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuMemFree_v2(a));
    return 0;
}

static int
whose_pool_is_whose(void)
{
    CUmemLocation where = {CU_MEM_LOCATION_TYPE_DEVICE, dev};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, dev},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, dev}};
    CUmemoryPool first, now, own;
    CUmemAccess_flags flags;
    cuuint64_t zero = 0;
    CUdeviceptr p;

    TRY(cuMemGetDefaultMemPool(&first, &where, CU_MEM_ALLOCATION_TYPE_PINNED));
    TRY(cuMemGetMemPool(&now, &where, CU_MEM_ALLOCATION_TYPE_PINNED));
    SAME(now == first, 1);
    TRY(cuMemPoolCreate(&own, &props));
    TRY(cuMemPoolSetAccess(own, &access, 1));
    TRY(cuMemPoolGetAccess(&flags, own, &where));
    SAME(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    TRY(cuMemSetMemPool(&where, CU_MEM_ALLOCATION_TYPE_PINNED, own));
    TRY(cuDeviceGetMemPool(&now, dev));
    SAME(now == own, 1);
    TRY(cuMemAllocAsync(&p, 4096, stream));
    TRY(cuMemFreeAsync(p, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemSetMemPool(&where, CU_MEM_ALLOCATION_TYPE_PINNED, first));
    TRY(cuMemPoolDestroy(own));
    TRY(cuDeviceSetGraphMemAttribute(dev, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
    return 0;
}

static int
what_ranges_say(void)
{
    CUmem_range_attribute asked[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                     CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION};
    CUmemLocation where = {CU_MEM_LOCATION_TYPE_DEVICE, dev};
    int mostly = 7, preferred = 7, sync = 1, got = 0;
    void *data[] = {&mostly, &preferred};
    size_t sizes[] = {4, 4};
    CUdeviceptr p, q;

    TRY(cuMemAllocManaged(&p, 1 << 16, CU_MEM_ATTACH_GLOBAL));
    TRY(cuMemAdvise_v2(p, 1 << 16, CU_MEM_ADVISE_SET_READ_MOSTLY, where));
    TRY(cuMemAdvise_v2(p, 1 << 16, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, where));
    TRY(cuMemRangeGetAttributes(data, sizes, asked, 2, p, 1 << 16));
    SAME(mostly, 1);
    SAME(preferred, dev);
    TRY(cuStreamAttachMemAsync(stream, p, 0, CU_MEM_ATTACH_SINGLE));
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemAlloc_v2(&q, 512));
    TRY(cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, q));
    TRY(cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, q));
    SAME(got, 1);
    TRY(cuMemFree_v2(q));
    TRY(cuMemFree_v2(p));
    return 0;
}

/* As of memory of a card, so that who asks need not know which it is. */
static int
what_page_locked_memory_says(void)
{
    CUdeviceptr base = 0;
    size_t size = 0;
    int rdma = 0; /* either is right */
    void *h;

    TRY(cuMemHostAlloc(&h, 8192, CU_MEMHOSTALLOC_PORTABLE));
    TRY(cuPointerGetAttribute(&rdma, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
                              (uintptr_t)h));
    TRY(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_MAPPING_SIZE,
                              (uintptr_t)h + 100));
    TRY(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
                              (uintptr_t)h + 100));
    SAME(size >= 8192, 1);
    SAME(base == (uintptr_t)h, 1);
    TRY(cuMemFreeHost(h));
    return 0;
}

static int
what_references_say(void)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 32,
                                 .Height = 32,
                                 .Format = CU_AD_FORMAT_FLOAT,
                                 .NumChannels = 1,
                                 .Flags = CUDA_ARRAY3D_SURFACE_LDST};
    float border[4] = {1, 2, 3, 4}, told[4] = {0}, low = 9, high = 9, bias = 9;
    CUmipmappedArray mip, mip_told;
    CUfilter_mode mode;
    unsigned flags = 9;
    int aniso = 9;
    CUtexref image;

    TRY(cuModuleGetTexRef(&image, module, "image"));
    TRY(cuTexRefSetFilterMode(image, CU_TR_FILTER_MODE_LINEAR));
    TRY(cuTexRefGetFilterMode(&mode, image));
    SAME(mode, CU_TR_FILTER_MODE_LINEAR);
    TRY(cuTexRefSetFlags(image, CU_TRSF_NORMALIZED_COORDINATES));
    TRY(cuTexRefGetFlags(&flags, image));
    SAME(flags, CU_TRSF_NORMALIZED_COORDINATES);
    TRY(cuTexRefSetBorderColor(image, border));
    TRY(cuTexRefGetBorderColor(told, image));
    SAME(memcmp(border, told, sizeof(told)), 0);
    TRY(cuTexRefSetMaxAnisotropy(image, 4));
    TRY(cuTexRefGetMaxAnisotropy(&aniso, image));
    SAME(aniso, 4);
    TRY(cuTexRefSetMipmapFilterMode(image, CU_TR_FILTER_MODE_LINEAR));
    TRY(cuTexRefGetMipmapFilterMode(&mode, image));
    SAME(mode, CU_TR_FILTER_MODE_LINEAR);
    TRY(cuTexRefSetMipmapLevelBias(image, 0.5f));
    TRY(cuTexRefGetMipmapLevelBias(&bias, image));
    SAME(bias * 2, 1);
    TRY(cuTexRefSetMipmapLevelClamp(image, 1, 3));
    TRY(cuTexRefGetMipmapLevelClamp(&low, &high, image));
    SAME(low, 1);
    SAME(high, 3);
    CODE(cuTexRefGetMipmappedArray(&mip_told, image), CUDA_ERROR_INVALID_VALUE);
    TRY(cuMipmappedArrayCreate(&mip, &d, 4));
    TRY(cuTexRefSetMipmappedArray(image, mip, CU_TRSA_OVERRIDE_FORMAT));
    TRY(cuTexRefGetMipmappedArray(&mip_told, image));
    SAME(mip_told == mip, 1);
    TRY(cuMipmappedArrayDestroy(mip));
    return 0;
}

static int
what_surfaces_and_arrays_say(void)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 32,
                                 .Height = 32,
                                 .Format = CU_AD_FORMAT_FLOAT,
                                 .NumChannels = 1,
                                 .Flags = CUDA_ARRAY3D_SURFACE_LDST};
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_ARRAY}, res_told;
    CUDA_ARRAY_MEMORY_REQUIREMENTS need;
    CUsurfObject object;
    CUsurfref canvas;
    CUarray array, told, plain;
    size_t widest = 0;

    TRY(cuArray3DCreate_v2(&array, &d));
    CODE(cuArrayGetMemoryRequirements(&need, array, dev), CUDA_ERROR_INVALID_VALUE);
    TRY(cuModuleGetSurfRef(&canvas, module, "canvas"));
    TRY(cuSurfRefSetArray(canvas, array, 0));
    TRY(cuSurfRefGetArray(&told, canvas));
    SAME(told == array, 1);
    d.Flags = 0; /* no array for a surface reference */
    TRY(cuArray3DCreate_v2(&plain, &d));
    CODE(settled(cuSurfRefSetArray(canvas, plain, 0)), CUDA_ERROR_INVALID_VALUE);
    TRY(cuSurfRefGetArray(&told, canvas));
    SAME(told == array, 1);
    TRY(cuArrayDestroy(plain));
    res.res.array.hArray = array;
    TRY(cuSurfObjectCreate(&object, &res));
    TRY(cuSurfObjectGetResourceDesc(&res_told, object));
    SAME(res_told.resType, CU_RESOURCE_TYPE_ARRAY);
    SAME(res_told.res.array.hArray == array, 1);
    TRY(cuSurfObjectDestroy(object));
    TRY(cuDeviceGetTexture1DLinearMaxWidth(&widest, CU_AD_FORMAT_FLOAT, 4, dev));
    SAME(widest >= 1 << 27, 1);
    TRY(cuArrayDestroy(array));
    return 0;
}

static int
start(void)
{
    TRY(cuInit(0));
    TRY(cuDeviceGet(&dev, 0));
    TRY(cuCtxCreate_v2(&ctx, 0, dev));
    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"rows of arrays", rows_of_arrays},
        {"fills of every width", fills_of_every_width},
        {"boxes between contexts", boxes_between_contexts},
        {"whose pool is whose", whose_pool_is_whose},
        {"what ranges say", what_ranges_say},
        {"what page-locked memory says", what_page_locked_memory_says},
        {"what references say", what_references_say},
        {"what surfaces and arrays say", what_surfaces_and_arrays_say},
    };

    return start() ? 1 : parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
