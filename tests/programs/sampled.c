/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What textures read, where CUDA's documentation states it: clamped levels, views of
 * levels and layers, the edges of seamless cubes, cubes past the last one, and
 * surfaces whose accesses are clamped.
 */
#include "parts.h"

#include <stdint.h>

#define N 4u /* texels along the edge of a cube's face */
#define CUBES 2u

/* One thread reads at x, y, z: out[0] = the first channel. */
#define KERNEL(name, how)                                                              \
    ".visible .entry " name "(.param .u64 t, .param .u64 out, .param .u32 l,\n"        \
    "    .param .f32 x, .param .f32 y, .param .f32 z)\n"                               \
    "{\n"                                                                              \
    "    .reg .b64 %rd<3>;\n"                                                          \
    "    .reg .b32 %r<2>;\n"                                                           \
    "    .reg .f32 %f<8>;\n"                                                           \
    "    ld.param.u64 %rd1, [t];\n"                                                    \
    "    ld.param.u64 %rd2, [out];\n"                                                  \
    "    ld.param.u32 %r1, [l];\n"                                                     \
    "    ld.param.f32 %f1, [x];\n"                                                     \
    "    ld.param.f32 %f2, [y];\n"                                                     \
    "    ld.param.f32 %f3, [z];\n"                                                     \
    "    tex." how ";\n"                                                               \
    "    st.global.f32 [%rd2], %f4;\n"                                                 \
    "    ret;\n"                                                                       \
    "}\n"
/* Reads eight bytes of a surface at the byte l: out[0] and out[1]. */
#define PAIR                                                                           \
    ".visible .entry pair(.param .u64 t, .param .u64 out, .param .u32 l)\n"            \
    "{\n"                                                                              \
    "    .reg .b64 %rd<4>;\n"                                                          \
    "    .reg .b32 %r<2>;\n"                                                           \
    "    ld.param.u64 %rd1, [t];\n"                                                    \
    "    ld.param.u64 %rd2, [out];\n"                                                  \
    "    ld.param.u32 %r1, [l];\n"                                                     \
    "    suld.b.1d.b64.clamp %rd3, [%rd1, {%r1}];\n"                                   \
    "    st.global.u64 [%rd2], %rd3;\n"                                                \
    "    ret;\n"                                                                       \
    "}\n"
#define INTO "v4.f32.f32 {%f4, %f5, %f6, %f7}, "

static const char ptx[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n" KERNEL("level", "level.2d." INTO "[%rd1, {%f1, %f2}], %f3")
        KERNEL("layer", "a2d." INTO "[%rd1, {%r1, %f1, %f2, %f2}]")
            KERNEL("cube", "cube." INTO "[%rd1, {%f1, %f2, %f3, %f3}]") KERNEL(
                "texel",
                "level.2d.v4.f32.s32 {%f4, %f5, %f6, %f7}, [%rd1, {%r1, %r1}], %r1")
                KERNEL("cubes", "acube." INTO "[%rd1, {%r1, %f1, %f2, %f3}]") PAIR;

static CUcontext ctx;
static CUmodule module;
static CUdeviceptr out;
static float texels[CUBES * 6][N][N];

/* A thousand times what is read, rounded: it is compared and printed as a number. */
static int
read_at(const char *name, CUtexObject tex, unsigned layer, float x, float y, float z)
{
    void *params[] = {&tex, &out, &layer, &x, &y, &z};
    CUfunction f;
    float got = 0;

    if (cuModuleGetFunction(&f, module, name) != CUDA_SUCCESS ||
        cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) != CUDA_SUCCESS ||
        cuMemcpyDtoH_v2(&got, out, sizeof(got)) != CUDA_SUCCESS)
        return -1;
    return (int)(got * 1000 + 0.5f);
}

static CUDA_ARRAY3D_DESCRIPTOR
floats(unsigned extent, unsigned depth, unsigned flags)
{
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = extent,
                                     .Height = extent,
                                     .Depth = depth,
                                     .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 1,
                                     .Flags = flags};
}

static CUresult
fill(CUarray array, const void *data, unsigned extent, unsigned depth)
{
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = data,
                       .srcPitch = extent * 4,
                       .srcHeight = extent,
                       .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                       .dstArray = array,
                       .WidthInBytes = extent * 4,
                       .Height = extent,
                       .Depth = depth};

    return cuMemcpy3D_v2(&c);
}

/* Every level of 8 x 8 texels is full of its number. */
static int
make_levels(CUmipmappedArray *ret, CUDA_RESOURCE_DESC *ret_res)
{
    const CUDA_ARRAY3D_DESCRIPTOR d = floats(8, 0, 0);
    float data[8 * 8];
    CUarray level;

    TRY(cuMipmappedArrayCreate(ret, &d, 4));
    for (unsigned n = 0; n < 4; n++) {
        for (unsigned i = 0; i < 8 * 8; i++)
            data[i] = (float)n;
        TRY(cuMipmappedArrayGetLevel(&level, *ret, n));
        TRY(fill(level, data, 8 >> n, 1));
    }
    *ret_res = (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY};
    ret_res->res.mipmap.hMipmappedArray = *ret;
    return 0;
}

static int
levels_are_clamped(void)
{
    CUDA_TEXTURE_DESC desc = {.flags = CU_TRSF_NORMALIZED_COORDINATES,
                              .mipmapFilterMode = CU_TR_FILTER_MODE_LINEAR};
    CUDA_RESOURCE_DESC res;
    CUmipmappedArray mip;
    CUtexObject tex;

    if (make_levels(&mip, &res))
        return 1;
    TRY(cuTexObjectCreate(&tex, &res, &desc, NULL));
    SAME(read_at("level", tex, 0, 0.5f, 0.5f, 2), 0); /* from 0 to 0 */
    TRY(cuTexObjectDestroy(tex));
    desc.minMipmapLevelClamp = 0.5f;
    desc.maxMipmapLevelClamp = 1.25f;
    TRY(cuTexObjectCreate(&tex, &res, &desc, NULL));
    SAME(read_at("level", tex, 0, 0.5f, 0.5f, 0), 500);
    SAME(read_at("level", tex, 0, 0.5f, 0.5f, 1), 1000);
    SAME(read_at("level", tex, 0, 0.5f, 0.5f, 2), 1250);
    TRY(cuTexObjectDestroy(tex));
    desc.maxMipmapLevelClamp = 9;
    TRY(cuTexObjectCreate(&tex, &res, &desc, NULL));
    SAME(read_at("level", tex, 0, 0.5f, 0.5f, 2), 2000);
    SAME(read_at("level", tex, 0, 0.5f, 0.5f, 8), 3000);
    for (unsigned n = 0; n < 4; n++) /* a level is a whole number, as texels are */
        SAME(read_at("texel", tex, n, 0, 0, 0), n ? 1000 * n : 500);
    TRY(cuTexObjectDestroy(tex));
    TRY(cuMipmappedArrayDestroy(mip));
    return 0;
}

/* A view has the extent of the whole resource, whichever its first level is. */
static int
views_of_levels(void)
{
    CUDA_TEXTURE_DESC desc = {.flags = CU_TRSF_NORMALIZED_COORDINATES,
                              .maxMipmapLevelClamp = 1.0f};
    CUDA_RESOURCE_VIEW_DESC view = {.format = CU_RES_VIEW_FORMAT_FLOAT_1X32,
                                    .width = 8,
                                    .height = 8,
                                    .firstMipmapLevel = 1,
                                    .lastMipmapLevel = 3};
    CUDA_RESOURCE_DESC res;
    CUmipmappedArray mip;
    CUtexObject tex;

    if (make_levels(&mip, &res))
        return 1;
    TRY(cuTexObjectCreate(&tex, &res, &desc, &view));
    SAME(read_at("level", tex, 0, 0.5f, 0.5f, 0), 1000);
    SAME(read_at("level", tex, 0, 0.5f, 0.5f, 3), 2000); /* clamped from the first on */
    TRY(cuTexObjectDestroy(tex));
    view.width = view.height = 4;
    CODE(cuTexObjectCreate(&tex, &res, &desc, &view), CUDA_ERROR_INVALID_VALUE);
    TRY(cuMipmappedArrayDestroy(mip));
    return 0;
}

static int
views_of_layers(void)
{
    const CUDA_ARRAY3D_DESCRIPTOR d = floats(N, 3, CUDA_ARRAY3D_LAYERED);
    CUDA_RESOURCE_VIEW_DESC view = {
        .format = CU_RES_VIEW_FORMAT_FLOAT_1X32, .width = N, .height = N, .depth = 3};
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_ARRAY};
    CUDA_TEXTURE_DESC desc = {0};
    CUtexObject tex;

    TRY(cuArray3DCreate_v2(&res.res.array.hArray, &d));
    TRY(fill(res.res.array.hArray, texels, N, 3));
    for (unsigned last = 0; last < 3; last++) {
        view.lastLayer = last;
        TRY(cuTexObjectCreate(&tex, &res, &desc, &view));
        for (unsigned layer = 0; layer < 4; layer++)
            SAME(read_at("layer", tex, layer, 1.5f, 2.5f, 0),
                 1000 * texels[layer < last ? layer : last][2][1]);
        TRY(cuTexObjectDestroy(tex));
    }
    TRY(cuArrayDestroy(res.res.array.hArray));
    return 0;
}

/* What is clamped goes to the nearest place of its size, which is aligned. */
static int
wide_accesses_are_clamped_to_whole_places(void)
{
    const CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 3,
                                       .Format = CU_AD_FORMAT_UNSIGNED_INT32,
                                       .NumChannels = 1,
                                       .Flags = CUDA_ARRAY3D_SURFACE_LDST};
    static const int places[] = {-16, 0, 8, 400};
    const uint32_t data[] = {11, 22, 33};
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_ARRAY};
    CUsurfObject surf;
    CUfunction f;

    TRY(cuArray3DCreate_v2(&res.res.array.hArray, &d));
    TRY(cuMemcpyHtoA_v2(res.res.array.hArray, 0, data, sizeof(data)));
    TRY(cuSurfObjectCreate(&surf, &res));
    TRY(cuModuleGetFunction(&f, module, "pair"));
    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        int at = places[i];
        void *params[] = {&surf, &out, &at};
        uint32_t got[2];

        TRY(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        TRY(cuMemcpyDtoH_v2(got, out, sizeof(got)));
        SAME(got[0], 11);
        SAME(got[1], 22);
    }
    TRY(cuSurfObjectDestroy(surf));
    TRY(cuArrayDestroy(res.res.array.hArray));
    return 0;
}

/* ---- cubes ---------------------------------------------------------------------- */

static int
make_cubes(unsigned cubes, unsigned flags, CUarray *ret, CUtexObject *ret_tex)
{
    const CUDA_ARRAY3D_DESCRIPTOR d = floats(
        N, 6 * cubes, CUDA_ARRAY3D_CUBEMAP | (cubes > 1 ? CUDA_ARRAY3D_LAYERED : 0));
    CUDA_TEXTURE_DESC desc = {.flags = flags,
                              .filterMode = CU_TR_FILTER_MODE_LINEAR,
                              .addressMode = {CU_TR_ADDRESS_MODE_CLAMP,
                                              CU_TR_ADDRESS_MODE_CLAMP,
                                              CU_TR_ADDRESS_MODE_CLAMP}};
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_ARRAY};

    TRY(cuArray3DCreate_v2(ret, &d));
    TRY(fill(*ret, texels, N, 6 * cubes));
    res.res.array.hArray = *ret;
    TRY(cuTexObjectCreate(ret_tex, &res, &desc, NULL));
    return 0;
}

/* Half way between two faces, at the middle of each of the texels along the edge; and
 * where three faces meet, whose texels count alike. */
static int
filters_cross_the_edges_of_seamless_cubes(void)
{
    CUtexObject tex, plain;
    CUarray array, second;

    if (make_cubes(1, CU_TRSF_SEAMLESS_CUBEMAP | CU_TRSF_NORMALIZED_COORDINATES, &array,
                   &tex) ||
        make_cubes(1, CU_TRSF_NORMALIZED_COORDINATES, &second, &plain))
        return 1;
    for (unsigned i = 0; i < N; i++) {
        float at = (float)(2 * i + 1) / (float)N - 1;

        SAME(read_at("cube", tex, 0, 1, -at, 1), /* +x, whose left is the right of +z */
             500 * (texels[0][i][0] + texels[4][i][N - 1]));
        SAME(read_at("cube", plain, 0, 1, -at, 1), 1000 * texels[0][i][0]);
        SAME(read_at("cube", tex, 0, 1, 1, -at), /* its top, and the right of +y */
             500 * (texels[0][0][i] + texels[2][N - 1 - i][N - 1]));
        SAME(read_at("cube", tex, 0, at, -1, -1), /* the bottoms of -y and -z */
             500 * (texels[3][N - 1][i] + texels[5][N - 1][N - 1 - i]));
    }
    SAME(read_at("cube", tex, 0, 1, 1, 1),
         1000 * (texels[0][0][0] + texels[2][N - 1][N - 1] + texels[4][0][N - 1]) / 3 +
             0.5f);
    TRY(cuTexObjectDestroy(tex));
    TRY(cuTexObjectDestroy(plain));
    TRY(cuArrayDestroy(array));
    TRY(cuArrayDestroy(second));
    return 0;
}

static int
past_the_last_cube(void)
{
    CUtexObject tex;
    CUarray array;

    if (make_cubes(CUBES, CU_TRSF_NORMALIZED_COORDINATES, &array, &tex))
        return 1;
    for (unsigned layer = 0; layer < 4; layer++) {
        unsigned cube = layer < CUBES ? layer : CUBES - 1;
        float at = 1 / (float)N; /* the third texel of each axis */

        SAME(read_at("cubes", tex, layer, 1, -at, -at), 1000 * texels[6 * cube][2][2]);
        SAME(read_at("cubes", tex, layer, at, 1, at),
             1000 * texels[6 * cube + 2][2][2]);
    }
    TRY(cuTexObjectDestroy(tex));
    TRY(cuArrayDestroy(array));
    return 0;
}

static int
start(void)
{
    for (unsigned i = 0; i < CUBES * 6 * N * N; i++)
        texels[i / (N * N)][i / N % N][i % N] = (float)(i * i % 1009);
    TRY(cuInit(0));
    TRY(cuCtxCreate_v2(&ctx, 0, 0));
    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuMemAlloc_v2(&out, 8));
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"levels are clamped", levels_are_clamped},
        {"views of levels", views_of_levels},
        {"views of layers", views_of_layers},
        {"filters cross the edges of seamless cubes",
         filters_cross_the_edges_of_seamless_cubes},
        {"past the last cube", past_the_last_cube},
        {"wide accesses are clamped to whole places",
         wide_accesses_are_clamped_to_whole_places},
    };

    return start() ? 1 : parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
