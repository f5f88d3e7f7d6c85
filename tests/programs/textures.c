/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Textures and surfaces: objects, views, references, and memory that goes away.
 */
#include "parts.h"
#include "strict.h"

#define W 8u
#define H 4u

/* read2d(tex, out, w): out[y * w + x] = tex(x, y), one thread per texel of one block;
 * read1d the same of one dimension by texel; refread by the reference `image`;
 * writes(surf, w): surf(x, y) = 100 * y + x; refwrite by the reference `canvas`;
 * layer(tex, out, l): out[x] = tex(x, 1) of layer l. */
#define BEGIN(name, more)                                                              \
    ".visible .entry " name "(.param .u64 t, .param .u64 out, .param .u32 w" more      \
    ")\n"                                                                              \
    "{\n"                                                                              \
    "    .reg .b64 %rd<6>;\n"                                                          \
    "    .reg .b32 %r<12>;\n"                                                          \
    "    .reg .f32 %f<8>;\n"                                                           \
    "    ld.param.u64 %rd1, [t];\n"                                                    \
    "    ld.param.u64 %rd2, [out];\n"                                                  \
    "    ld.param.u32 %r9, [w];\n"                                                     \
    "    mov.u32 %r1, %tid.x;\n"                                                       \
    "    mov.u32 %r2, %tid.y;\n"                                                       \
    "    mad.lo.u32 %r3, %r2, %r9, %r1;\n"                                             \
    "    mul.wide.u32 %rd3, %r3, 4;\n"                                                 \
    "    add.u64 %rd4, %rd2, %rd3;\n"                                                  \
    "    cvt.rn.f32.u32 %f1, %r1;\n"                                                   \
    "    cvt.rn.f32.u32 %f2, %r2;\n"                                                   \
    "    add.f32 %f1, %f1, 0f3F000000;\n"                                              \
    "    add.f32 %f2, %f2, 0f3F000000;\n"
#define END                                                                            \
    "    ret;\n"                                                                       \
    "}\n"

static const char ptx[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .global .texref image;\n"
    ".visible .global .surfref canvas;\n" BEGIN(
        "read2d",
        "") "    tex.2d.v4.u32.f32 {%r4, %r5, %r6, %r7}, [%rd1, {%f1, %f2}];\n"
            "    st.global.u32 [%rd4], %r4;\n" END BEGIN(
                "float2d",
                "") "    tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [%rd1, {%f1, %f2}];\n"
                    "    st.global.f32 [%rd4], %f3;\n" END BEGIN(
                        "read1d",
                        "") "    tex.1d.v4.u32.s32 {%r4, %r5, %r6, %r7}, [%rd1, "
                            "{%r3}];\n"
                            "    st.global.u32 [%rd4], %r4;\n" END BEGIN(
                                "refread",
                                "") "    tex.2d.v4.u32.f32 {%r4, %r5, %r6, %r7}, "
                                    "[image, {%f1, %f2}];\n"
                                    "    st.global.u32 [%rd4], %r4;\n" END BEGIN(
                                        "writes",
                                        "") "    mad.lo.u32 %r4, %r2, 100, %r1;\n"
                                            "    shl.b32 %r5, %r1, 2;\n"
                                            "    sust.b.2d.b32.trap [%rd1, {%r5, "
                                            "%r2}], {%r4};\n" END BEGIN(
                                                "adds",
                                                "") "    shl.b32 %r5, %r1, 2;\n"
                                                    "    suld.b.2d.b32.zero {%r4}, "
                                                    "[%rd1, {%r5, %r2}];\n"
                                                    "    add.u32 %r4, %r4, 1;\n"
                                                    "    sust.b.2d.b32.clamp [%rd1, "
                                                    "{%r5, %r2}], {%r4};\n" END BEGIN(
                                                        "refwrite",
                                                        "") "    mad.lo.u32 %r4, "
                                                            "%r2, 10, %r1;\n"
                                                            "    shl.b32 %r5, %r1, "
                                                            "2;\n"
                                                            "    "
                                                            "sust.b.2d.b32.trap "
                                                            "[canvas, {%r5, %r2}], "
                                                            "{%r4};\n" END BEGIN(
                                                                "layer",
                                                                ", .param .u32 "
                                                                "l") "    "
                                                                     "ld.param."
                                                                     "u32 %r8, "
                                                                     "[l];\n"
                                                                     "    "
                                                                     "tex.a2d."
                                                                     "v4.u32."
                                                                     "f32 "
                                                                     "{%r4, "
                                                                     "%r5, "
                                                                     "%r6, "
                                                                     "%r7}, "
                                                                     "[%rd1, "
                                                                     "{%r8, "
                                                                     "%f1, "
                                                                     "0f3FC0000"
                                                                     "0, "
                                                                     "0f0000000"
                                                                     "0}];\n"
                                                                     "    "
                                                                     "st."
                                                                     "global."
                                                                     "u32 "
                                                                     "[%rd4], "
                                                                     "%r4;"
                                                                     "\n" END;

static CUcontext ctx;
static CUmodule module;
static CUdeviceptr out;
static bool strict;

static CUresult
run(const char *name, uint64_t object, unsigned w, unsigned h, unsigned layer,
    uint32_t *result)
{
    void *params[] = {&object, &out, &w, &layer};
    CUfunction f;
    CUresult r = cuModuleGetFunction(&f, module, name);

    if (r == CUDA_SUCCESS)
        r = cuMemsetD32_v2(out, 0xeeee, W * H);
    if (r == CUDA_SUCCESS)
        r = cuLaunchKernel(f, 1, 1, 1, w, h, 1, 0, NULL, params, NULL);
    return r == CUDA_SUCCESS ? cuMemcpyDtoH_v2(result, out, 4 * W * H) : r;
}

static CUresult
array_new(CUarray *ret, CUarray_format format, unsigned channels, unsigned depth,
          unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {
        .Width = W,
        .Height = H,
        .Depth = depth,
        .Format = format,
        .NumChannels = channels,
        .Flags = flags,
    };

    return cuArray3DCreate_v2(ret, &d);
}

/* Copies rows of @bytes between the host and one slice of an array. */
static CUresult
slice_copy(CUarray array, unsigned z, void *host, unsigned bytes, int to_array)
{
    CUDA_MEMCPY3D c = {.WidthInBytes = bytes, .Height = H, .Depth = 1};

    if (to_array) {
        c.srcMemoryType = CU_MEMORYTYPE_HOST;
        c.srcHost = host;
        c.srcPitch = bytes;
        c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
        c.dstArray = array;
        c.dstZ = z;
    } else {
        c.dstMemoryType = CU_MEMORYTYPE_HOST;
        c.dstHost = host;
        c.dstPitch = bytes;
        c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
        c.srcArray = array;
        c.srcZ = z;
    }
    return cuMemcpy3D_v2(&c);
}

static CUDA_RESOURCE_DESC
array_resource(CUarray array)
{
    CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_ARRAY};

    r.res.array.hArray = array;
    return r;
}

static int
objects_read_arrays(void)
{
    CUDA_TEXTURE_DESC sampling = {.flags = CU_TRSF_READ_AS_INTEGER}, told;
    CUDA_RESOURCE_DESC res, told_res;
    uint32_t data[H][W], got[H * W];
    CUtexObject tex;
    CUarray array;

    for (unsigned i = 0; i < W * H; i++)
        data[i / W][i % W] = 7 * i;
    TRY(array_new(&array, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0, 0));
    TRY(slice_copy(array, 0, data, sizeof(data[0]), 1));
    res = array_resource(array);
    TRY(cuTexObjectCreate(&tex, &res, &sampling, NULL));
    TRY(run("read2d", tex, W, H, 0, got));
    SAME(memcmp(got, data, sizeof(data)), 0);
    TRY(cuTexObjectGetTextureDesc(&told, tex));
    SAME(told.flags, CU_TRSF_READ_AS_INTEGER);
    TRY(cuTexObjectGetResourceDesc(&told_res, tex));
    SAME((uintptr_t)told_res.res.array.hArray, (uintptr_t)array);
    TRY(cuTexObjectDestroy(tex));
    /* As COLMAP does: its kernels get textures that are no more, which it then destroys
     * again. */
    memset(got, 0, sizeof(got));
    TRY(run("read2d", tex, W, H, 0, got));
    SAME(memcmp(got, data, sizeof(data)), 0);
    TRY(cuTexObjectDestroy(tex));
    TRY(cuTexObjectDestroy(0));
    TRY(cuArrayDestroy(array));
    return 0;
}

/* Other formats of the same memory, and some of the layers. */
static int
views_reinterpret(void)
{
    CUDA_TEXTURE_DESC sampling = {.flags = CU_TRSF_READ_AS_INTEGER};
    CUDA_RESOURCE_VIEW_DESC view = {.format = CU_RES_VIEW_FORMAT_UINT_2X16,
                                    .width = W,
                                    .height = H},
                            told;
    CUDA_RESOURCE_DESC res;
    uint32_t data[H][W], got[H * W];
    CUtexObject tex;
    CUarray array;

    TRY(array_new(&array, CU_AD_FORMAT_UNSIGNED_INT32, 1, 3, CUDA_ARRAY3D_LAYERED));
    for (unsigned z = 0; z < 3; z++) {
        for (unsigned i = 0; i < W * H; i++)
            data[i / W][i % W] = 0x50000 + 1000 * z + i;
        TRY(slice_copy(array, z, data, sizeof(data[0]), 1));
    }
    res = array_resource(array);
    view.lastLayer = 2;
    view.firstLayer = 1;
    TRY(cuTexObjectCreate(&tex, &res, &sampling, &view));
    TRY(run("layer", tex, W, 1, 1, got));
    SAME(got[3], 2000 + W + 3);
    TRY(run("layer", tex, W, 1, 0, got));
    SAME(got[3], 1000 + W + 3);
    TRY(cuTexObjectGetResourceViewDesc(&told, tex));
    SAME(told.format, CU_RES_VIEW_FORMAT_UINT_2X16);
    TRY(cuTexObjectDestroy(tex));
    view.format = CU_RES_VIEW_FORMAT_UINT_4X16; /* of another size */
    CODE(cuTexObjectCreate(&tex, &res, &sampling, &view), CUDA_ERROR_INVALID_VALUE);
    view.format = CU_RES_VIEW_FORMAT_FLOAT_1X32;
    view.lastLayer = 3;
    CODE(cuTexObjectCreate(&tex, &res, &sampling, &view), CUDA_ERROR_INVALID_VALUE);
    TRY(cuArrayDestroy(array));
    return 0;
}

static int
normalised_formats(void)
{
    CUDA_TEXTURE_DESC sampling = {0};
    CUDA_RESOURCE_DESC res;
    unsigned char data[H][W][4];
    uint32_t bits[H * W];
    float got[H * W];
    CUtexObject tex;
    CUarray array;

    memset(data, 0, sizeof(data));
    data[0][1][0] = 255;
    data[0][2][0] = 51;
    TRY(array_new(&array, CU_AD_FORMAT_UNORM_INT8X4, 4, 0, 0));
    TRY(slice_copy(array, 0, data, sizeof(data[0]), 1));
    res = array_resource(array);
    TRY(cuTexObjectCreate(&tex, &res, &sampling, NULL));
    TRY(run("float2d", tex, W, H, 0, bits));
    memcpy(got, bits, sizeof(got));
    SAME(got[0] * 1000, 0);
    SAME(got[1] * 1000, 1000);
    SAME(got[2] * 1000 + 0.5f, 200);
    TRY(cuTexObjectDestroy(tex));
    sampling.flags = CU_TRSF_SRGB;
    TRY(cuTexObjectCreate(&tex, &res, &sampling, NULL));
    TRY(run("float2d", tex, W, H, 0, bits));
    memcpy(got, bits, sizeof(got));
    SAME(got[1] * 1000, 1000);
    SAME(got[2] * 100000 + 0.5f, 3310); /* ((0.2 + 0.055) / 1.055) ^ 2.4 */
    TRY(cuTexObjectDestroy(tex));
    TRY(cuArrayDestroy(array));
    CODE(array_new(&array, CU_AD_FORMAT_UNORM_INT8X4, 2, 0, 0),
         CUDA_ERROR_INVALID_VALUE);
    return 0;
}

static int
surfaces_are_written(void)
{
    uint32_t data[H][W], got[H * W];
    CUDA_RESOURCE_DESC res;
    CUsurfObject surf;
    CUarray array;

    TRY(array_new(&array, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0,
                  CUDA_ARRAY3D_SURFACE_LDST));
    res = array_resource(array);
    TRY(cuSurfObjectCreate(&surf, &res));
    TRY(run("writes", surf, W, H, 0, got));
    TRY(run("adds", surf, W, H, 0, got));
    TRY(slice_copy(array, 0, data, sizeof(data[0]), 0));
    SAME(data[0][0], 1);
    SAME(data[H - 1][W - 1], 100 * (H - 1) + W);
    TRY(cuSurfObjectDestroy(surf));
    TRY(cuArrayDestroy(array));
    return 0;
}

static int
references_are_bound(void)
{
    CUDA_ARRAY_DESCRIPTOR d = {W, H, CU_AD_FORMAT_UNSIGNED_INT32, 1};
    uint32_t data[H][W], got[H * W];
    CUarray_format format;
    CUaddress_mode mode;
    CUarray array, told;
    CUdeviceptr p, where;
    CUtexref image;
    CUsurfref canvas;
    size_t offset = 99, pitch;
    int channels;

    for (unsigned i = 0; i < W * H; i++)
        data[i / W][i % W] = 3 * i;
    CODE(cuModuleGetTexRef(&image, module, "canvas"), CUDA_ERROR_NOT_FOUND);
    TRY(cuModuleGetTexRef(&image, module, "image"));
    TRY(array_new(&array, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0,
                  CUDA_ARRAY3D_SURFACE_LDST));
    TRY(slice_copy(array, 0, data, sizeof(data[0]), 1));
    TRY(cuTexRefSetFlags(image, CU_TRSF_READ_AS_INTEGER));
    TRY(cuTexRefSetAddressMode(image, 0, CU_TR_ADDRESS_MODE_CLAMP));
    TRY(cuTexRefSetArray(image, array, CU_TRSA_OVERRIDE_FORMAT));
    TRY(run("refread", 0, W, H, 0, got));
    SAME(memcmp(got, data, sizeof(data)), 0);
    TRY(cuTexRefGetFormat(&format, &channels, image));
    SAME(format, CU_AD_FORMAT_UNSIGNED_INT32);
    SAME(channels, 1);
    TRY(cuTexRefGetAddressMode(&mode, image, 0));
    SAME(mode, CU_TR_ADDRESS_MODE_CLAMP);
    TRY(cuTexRefGetArray(&told, image));
    SAME((uintptr_t)told, (uintptr_t)array);
    CODE(cuTexRefGetAddress_v2(&where, image), CUDA_ERROR_INVALID_VALUE);

    /* Pitched memory next, with the rows turned around. */
    TRY(cuMemAllocPitch_v2(&p, &pitch, W * 4, H, 4));
    for (unsigned y = 0; y < H; y++)
        TRY(cuMemcpyHtoD_v2(p + y * pitch, data[H - 1 - y], W * 4));
    TRY(cuTexRefSetAddress2D_v3(image, &d, p, pitch));
    TRY(run("refread", 0, W, H, 0, got));
    SAME(got[0], data[H - 1][0]);
    SAME(got[W * H - 1], data[0][W - 1]);
    TRY(cuTexRefGetAddress_v2(&where, image));
    SAME(where == p, 1);
    TRY(cuTexRefSetAddress_v2(&offset, image, p, W * 4));
    SAME(offset, 0);

    TRY(cuModuleGetSurfRef(&canvas, module, "canvas"));
    TRY(cuSurfRefSetArray(canvas, array, 0));
    TRY(run("refwrite", 0, W, H, 0, got));
    TRY(slice_copy(array, 0, data, sizeof(data[0]), 0));
    SAME(data[2][5], 25);
    TRY(cuMemFree_v2(p));
    TRY(cuArrayDestroy(array));
    return 0;
}

static int
linear_memory_and_its_end(void)
{
    CUDA_TEXTURE_DESC sampling = {.flags = CU_TRSF_READ_AS_INTEGER};
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_LINEAR};
    uint32_t data[W * H], got[W * H];
    CUtexObject tex;
    CUdeviceptr p;

    for (unsigned i = 0; i < W * H; i++)
        data[i] = i * i;
    TRY(cuMemAlloc_v2(&p, sizeof(data)));
    TRY(cuMemcpyHtoD_v2(p, data, sizeof(data)));
    res.res.linear.devPtr = p;
    res.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT32;
    res.res.linear.numChannels = 1;
    res.res.linear.sizeInBytes = sizeof(data) + 4;
    TRY(cuTexObjectCreate(&tex, &res, &sampling, NULL)); /* nobody reads its end */
    TRY(cuTexObjectDestroy(tex));
    res.res.linear.sizeInBytes = sizeof(data);
    TRY(cuTexObjectCreate(&tex, &res, &sampling, NULL));
    TRY(run("read1d", tex, W, H, 0, got));
    SAME(memcmp(got, data, sizeof(data)), 0);
    TRY(cuTexObjectDestroy(tex));
    res.res.linear.sizeInBytes = sizeof(data) / 2;
    TRY(cuTexObjectCreate(&tex, &res, &sampling, NULL));
    TRY(run("read1d", tex, W, H, 0, got));
    SAME(memcmp(got, data, sizeof(data) / 2), 0);
    SAME(got[W * H / 2], 0); /* outside */
    SAME(got[W * H - 1], 0);
    TRY(cuTexObjectDestroy(tex));
    res.res.linear.devPtr = p + 32;
    CODE(cuTexObjectCreate(&tex, &res, &sampling, NULL), CUDA_ERROR_INVALID_VALUE);
    res.res.linear.devPtr = p;
    TRY(cuTexObjectCreate(&tex, &res, &sampling, NULL));
    TRY(cuMemFree_v2(p));
    if (strict)
        CODE(run("read1d", tex, W, H, 0, got), CUDA_ERROR_ILLEGAL_ADDRESS);
    return 0;
}

static int
start(void)
{
    TRY(cuInit(0));
    TRY(cuCtxCreate_v2(&ctx, 0, 0));
    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuMemAlloc_v2(&out, 4 * W * H));
    return 0;
}

int
main(int argc, char **argv)
{
    static const struct part parts[] = {
        {"objects read arrays", objects_read_arrays},
        {"views reinterpret", views_reinterpret},
        {"normalised formats", normalised_formats},
        {"surfaces are written", surfaces_are_written},
        {"references are bound", references_are_bound},
        {"linear memory and its end", linear_memory_and_its_end},
    };

    strict = strict_asked(argc, argv);
    return start() ? 1 : parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
