/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that few programs make: batches, the first interface, tensor maps, questions
 * about arrays, addresses of the host and of freed memory.
 */
#include "parts.h"
#include "strict.h"

#include <stdint.h>

#define N 1024u

static const char ptx[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .entry scale(.param .u64 p, .param .u32 v, .param .f32 f)\n"
    "{\n"
    "    .reg .b64 %rd<4>;\n"
    "    .reg .b32 %r<6>;\n"
    "    .reg .f32 %f<3>;\n"
    "    ld.param.u64 %rd1, [p];\n"
    "    ld.param.u32 %r1, [v];\n"
    "    ld.param.f32 %f1, [f];\n"
    "    mov.u32 %r2, %ctaid.x;\n"
    "    mov.u32 %r3, %ntid.x;\n"
    "    mov.u32 %r4, %tid.x;\n"
    "    mad.lo.u32 %r5, %r2, %r3, %r4;\n"
    "    mul.wide.u32 %rd2, %r5, 4;\n"
    "    add.u64 %rd3, %rd1, %rd2;\n"
    "    mul.lo.u32 %r5, %r5, %r1;\n"
    "    cvt.rn.f32.u32 %f2, %r5;\n"
    "    mul.f32 %f2, %f2, %f1;\n"
    "    cvt.rzi.u32.f32 %r5, %f2;\n"
    "    st.global.u32 [%rd3], %r5;\n"
    "    ret;\n"
    "}\n";

static CUcontext ctx;
static CUmodule module;
static CUstream stream;

static int
batches_of_copies(void)
{
    uint32_t from[N], to[N];
    CUdeviceptr a, b, dsts[2], srcs[2];
    size_t sizes[2] = {N * 2, N * 2}, first = 0;
    CUmemcpyAttributes attr = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};

    for (uint32_t i = 0; i < N; i++)
        from[i] = i * 3;
    TRY(cuMemAlloc_v2(&a, N * 4));
    TRY(cuMemAlloc_v2(&b, N * 4));
    TRY(cuMemcpyHtoD_v2(a, from, N * 4));
    dsts[0] = b + N * 2; /* the halves change places */
    dsts[1] = b;
    srcs[0] = a;
    srcs[1] = a + N * 2;
    TRY(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 2, &attr, &first, 1, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemcpyDtoH_v2(to, b, N * 4));
    SAME(to[0], from[N / 2]);
    SAME(to[N - 1], from[N / 2 - 1]);
    TRY(cuMemFree_v2(a));
    TRY(cuMemFree_v2(b));
    return 0;
}

/* An array's rectangle and back, in elements. */
static int
batches_in_three_dimensions(void)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 16,
                                 .Height = 8,
                                 .Depth = 2,
                                 .Format = CU_AD_FORMAT_UNSIGNED_INT16,
                                 .NumChannels = 2};
    CUDA_MEMCPY3D_BATCH_OP op = {0};
    uint32_t host[2 * 8 * 16], back[2 * 4 * 4];
    CUdeviceptr p;
    CUarray array;
    size_t failed = 7;

    for (uint32_t i = 0; i < 2 * 8 * 16; i++)
        host[i] = i;
    TRY(cuArray3DCreate_v2(&array, &d));
    TRY(cuMemAlloc_v2(&p, sizeof(host)));
    TRY(cuMemcpyHtoD_v2(p, host, sizeof(host)));
    op.src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    op.src.op.ptr.ptr = p;
    op.src.op.ptr.rowLength = 16;
    op.src.op.ptr.layerHeight = 8;
    op.dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
    op.dst.op.array.array = array;
    op.extent.width = 16;
    op.extent.height = 8;
    op.extent.depth = 2;
    op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    TRY(cuMemcpy3DBatchAsync_v2(1, &op, 0, stream));
    op.src.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
    memset(&op.src.op, 0, sizeof(op.src.op));
    op.src.op.array.array = array;
    op.src.op.array.offset.x = 3;
    op.src.op.array.offset.y = 2;
    op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    memset(&op.dst.op, 0, sizeof(op.dst.op));
    op.dst.op.ptr.ptr = p;
    op.extent.width = op.extent.height = 4;
    TRY(cuMemcpy3DBatchAsync_v2(1, &op, 0, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemcpyDtoH_v2(back, p, sizeof(back)));
    SAME(back[0], 2 * 16 + 3);
    SAME(back[15], 5 * 16 + 6);
    SAME(back[16], 8 * 16 + 2 * 16 + 3);
    op.extent.width = 17;
    CODE(settled(cuMemcpy3DBatchAsync(1, &op, &failed, 0, stream)),
         CUDA_ERROR_INVALID_VALUE);
    TRY(cuMemFree_v2(p));
    TRY(cuArrayDestroy(array));
    return 0;
}

static int
batches_of_hints(void)
{
    CUmemLocation where[2] = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                              {CU_MEM_LOCATION_TYPE_HOST, 0}};
    CUdeviceptr p, ptrs[3];
    size_t sizes[3] = {4096, 4096, 4096}, from[2] = {0, 2};

    TRY(cuMemAllocManaged(&p, 3 * 4096, CU_MEM_ATTACH_GLOBAL));
    for (unsigned i = 0; i < 3; i++)
        ptrs[i] = p + i * 4096;
    TRY(cuMemPrefetchBatchAsync(ptrs, sizes, 3, where, from, 2, 0, stream));
    TRY(cuMemDiscardBatchAsync(ptrs, sizes, 3, 0, stream));
    TRY(cuMemDiscardAndPrefetchBatchAsync(ptrs, sizes, 3, where, from, 1, 0, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemFree_v2(p));
    return 0;
}

static int
the_first_launch_interface(void)
{
    CUfunction f;
    CUdeviceptr p;
    uint32_t to[N];

    TRY(cuModuleGetFunction(&f, module, "scale"));
    TRY(cuMemAlloc_v2(&p, N * 4));
    TRY(cuFuncSetBlockShape(f, 64, 1, 1));
    TRY(cuFuncSetSharedSize(f, 0));
    TRY(cuParamSetv(f, 0, &p, sizeof(p)));
    TRY(cuParamSeti(f, 8, 6));
    TRY(cuParamSetf(f, 12, 0.5f));
    TRY(cuParamSetSize(f, 16));
    TRY(cuLaunchGrid(f, N / 64, 1));
    TRY(cuMemcpyDtoH_v2(to, p, N * 4));
    for (uint32_t i = 0; i < N; i++)
        SAME(to[i], i * 3);
    CODE(cuFuncSetBlockShape(f, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
    CODE(cuParamSetSize(f, 1u << 30), CUDA_ERROR_INVALID_VALUE);
    TRY(cuMemFree_v2(p));
    return 0;
}

static int
first_forms_of_calls(void)
{
    CUDA_ARRAY_DESCRIPTOR_v1 d = {8, 4, CU_AD_FORMAT_FLOAT, 1}, told;
    unsigned bytes = 0;
    CUdeviceptr_v1 p = 0;
    CUarray array;
    void *host;

    TRY(cuMemAllocHost_v2(&host, 64));
    TRY(cuMemFreeHost(host));
    TRY(cuArrayCreate(&array, &d));
    TRY(cuArrayGetDescriptor(&told, array));
    SAME(told.Width, 8);
    SAME(told.Height, 4);
    TRY(cuArrayDestroy(array));
    CODE(cuMemAlloc(NULL, 16), CUDA_ERROR_INVALID_VALUE);
    CODE(cuModuleGetGlobal(&p, &bytes, module, "nothing"), CUDA_ERROR_NOT_FOUND);
    return 0;
}

static int
tensor_maps(void)
{
    CUtensorMap map, other; /* aligned as the type says */
    cuuint64_t dims[2] = {256, 64}, strides[1] = {1024};
    cuuint32_t box[2] = {32, 8}, steps[2] = {1, 1};
    int lower[1] = {-1}, upper[1] = {1};
    cuuint64_t dims3[3] = {64, 16, 16}, strides3[2] = {128, 2048};
    cuuint32_t steps3[3] = {1, 1, 1};
    CUdeviceptr p;
    void *where;

    TRY(cuMemAlloc_v2(&p, 64 * 1024));
    where = (void *)(uintptr_t)p;
#define TILED(type, rank, base, swizzle)                                               \
    cuTensorMapEncodeTiled(&map, type, rank, base, dims, strides, box, steps,          \
                           CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,                     \
                           CU_TENSOR_MAP_L2_PROMOTION_NONE,                            \
                           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
    TRY(TILED(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, where, CU_TENSOR_MAP_SWIZZLE_128B));
    other = map;
    TRY(cuTensorMapReplaceAddress(&map, (void *)(uintptr_t)(p + 1024)));
    SAME(memcmp(&map, &other, sizeof(map)) != 0, 1);
    TRY(cuTensorMapReplaceAddress(&map, where));
    SAME(memcmp(&map, &other, sizeof(map)), 0);
    CODE(TILED(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, where, CU_TENSOR_MAP_SWIZZLE_64B),
         CUDA_ERROR_INVALID_VALUE); /* 128 bytes in a row */
    CODE(TILED(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (char *)where + 8,
               CU_TENSOR_MAP_SWIZZLE_NONE),
         CUDA_ERROR_INVALID_VALUE);
    for (cuuint32_t rank = 0; rank <= 12; rank += 6)
        CODE(TILED(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, rank, where,
                   CU_TENSOR_MAP_SWIZZLE_NONE),
             CUDA_ERROR_INVALID_VALUE);
    box[1] = 257;
    CODE(TILED(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, where, CU_TENSOR_MAP_SWIZZLE_NONE),
         CUDA_ERROR_INVALID_VALUE);
    TRY(cuTensorMapEncodeIm2col(
        &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, where, dims3, strides3, lower, upper,
        64, 128, steps3, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA));
    CODE(cuTensorMapEncodeIm2col(
             &map, CU_TENSOR_MAP_DATA_TYPE_INT32, 3, where, dims3, strides3, lower,
             upper, 64, 128, steps3, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA),
         CUDA_ERROR_INVALID_VALUE); /* integers have no NaN */
    TRY(cuMemFree_v2(p));
    return 0;
}

static int
questions_about_arrays(void)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 64,
                                 .Height = 64,
                                 .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                 .NumChannels = 4};
    CUDA_ARRAY_MEMORY_REQUIREMENTS need;
    CUDA_ARRAY_SPARSE_PROPERTIES sparse;
    CUmipmappedArray mip;
    CUarray array, plane;

    TRY(cuArray3DCreate_v2(&array, &d));
    TRY(cuMipmappedArrayCreate(&mip, &d, 4));
    CODE(cuMipmappedArrayGetMemoryRequirements(&need, mip, 0),
         CUDA_ERROR_INVALID_VALUE); /* only those whose memory comes later */
    CODE(cuArrayGetPlane(&plane, array, 0), CUDA_ERROR_INVALID_VALUE);
    CODE(cuArrayGetSparseProperties(&sparse, array), CUDA_ERROR_INVALID_VALUE);
    CODE(cuMipmappedArrayGetSparseProperties(&sparse, mip), CUDA_ERROR_INVALID_VALUE);
    TRY(cuMipmappedArrayDestroy(mip));
    TRY(cuArrayDestroy(array));
    return 0;
}

/* One address space: memory that the driver pinned may be named where a device's is
 * expected.  What the stream did before is there. */
static int
pinned_memory_named_as_a_device(void)
{
    static unsigned int plain[N];
    CUdeviceptr card, at;
    unsigned char *bytes;
    unsigned int *host;

    TRY(cuMemAlloc_v2(&card, N * 4));
    TRY(cuMemHostAlloc((void **)&host, N * 4, 0));
    at = (CUdeviceptr)(uintptr_t)host;
    bytes = (unsigned char *)host;
    TRY(cuMemsetD32_v2(card, 5, N));
    TRY(cuMemcpyDtoHAsync_v2(host, card, N * 4, stream));
    TRY(cuMemsetD8Async(at, 0x11, 16, stream));
    TRY(cuMemsetD16Async(at + 16, 0x2233, 2, stream));
    TRY(cuMemsetD32_v2(at + 20, 0x44556677, 1));
    TRY(cuMemsetD2D8Async(at + 64, 32, 0x88, 4, 3, stream));
    TRY(cuMemsetD2D32_v2(at + 256, 16, 0x99, 2, 2));
    TRY(cuStreamSynchronize(stream));
    SAME(host[0], 0x11111111);
    SAME(host[4], 0x22332233);
    SAME(host[5], 0x44556677);
    SAME(host[6], 5);
    SAME(bytes[64 + 64 + 3], 0x88);
    SAME(bytes[64 + 64 + 4], 5);
    SAME(host[64 + 5], 0x99);
    SAME(host[64 + 6], 5);
    TRY(cuMemcpyDtoDAsync_v2(card, at, N * 4, stream));
    TRY(cuMemcpyDtoD_v2(at + 2048, card, 64));
    TRY(cuMemcpyDtoH_v2(plain, at, N * 4));
    SAME(plain[512], 0x11111111);
    plain[0] = 0xabcd;
    TRY(cuMemcpyHtoDAsync_v2(at + 4, plain, 4, stream));
    TRY(cuStreamSynchronize(stream));
    SAME(host[1], 0xabcd);
    CODE(cuMemsetD8_v2(at + N * 4 - 8, 0, 16), CUDA_ERROR_INVALID_VALUE);
    CODE(cuMemsetD32_v2(at + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
    TRY(cuMemFreeHost(host));
    TRY(cuMemFree_v2(card));
    return 0;
}

/* What was freed is refused by the very call that uses it, until it is allocated. */
static int
freed_memory(void)
{
    CUdeviceptr card, again;

    TRY(cuMemAlloc_v2(&card, 4096));
    TRY(cuMemsetD8_v2(card, 1, 4096));
    TRY(cuMemFree_v2(card));
    CODE(cuMemsetD8_v2(card, 1, 1), CUDA_ERROR_INVALID_VALUE);
    CODE(cuMemcpyDtoD_v2(card + 64, card, 1), CUDA_ERROR_INVALID_VALUE);
    CODE(cuMemcpy(card + 64, card, 1), CUDA_ERROR_INVALID_VALUE);
    TRY(cuMemAlloc_v2(&again, 4096));
    TRY(cuMemsetD8_v2(again, 1, 4096));
    TRY(cuMemcpyDtoD_v2(again + 64, again, 64));
    TRY(cuCtxSynchronize());
    TRY(cuMemFree_v2(again));
    return 0;
}

static int
start(void)
{
    TRY(cuInit(0));
    TRY(cuCtxCreate_v2(&ctx, 0, 0));
    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return 0;
}

int
main(int argc, char **argv)
{
    static const struct part parts[] = {
        {"batches of copies", batches_of_copies},
        {"batches in three dimensions", batches_in_three_dimensions},
        {"batches of hints", batches_of_hints},
        {"the first launch interface", the_first_launch_interface},
        {"first forms of calls", first_forms_of_calls},
        {"tensor maps", tensor_maps},
        {"questions about arrays", questions_about_arrays},
        {"pinned memory named as a device's", pinned_memory_named_as_a_device},
        {"freed memory", freed_memory}, /* a driver reads it as the host's */
    };
    const size_t n = sizeof(parts) / sizeof(parts[0]);

    return start() ? 1 : parts_run(parts, strict_asked(argc, argv) ? n : n - 1);
}
