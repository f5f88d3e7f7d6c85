/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clusters of thread blocks: launched, asked about, refused.
 *
 * A card below compute capability 9.0 has none: the program says so and ends.
 */
#include "parts.h"

#include <stdint.h>

#define BLOCKS 16u
#define CLUSTER 4u

/* Every block puts its number into its shared memory and reads that of the next block
 * of its cluster: out[block] = neighbour + 1000 * rank + 100000 * blocks of the
 * cluster. */
static const char ptx[] =
    ".version 7.8\n"
    ".target sm_90\n"
    ".address_size 64\n"
    ".visible .entry around(.param .u64 out)\n"
    "{\n"
    "    .shared .align 4 .u32 mine;\n"
    "    .reg .b64 %rd<4>;\n"
    "    .reg .b32 %r<12>;\n"
    "    ld.param.u64 %rd1, [out];\n"
    "    mov.u32 %r1, %ctaid.x;\n"
    "    mov.u32 %r2, %cluster_ctarank;\n"
    "    mov.u32 %r3, %cluster_nctarank;\n"
    "    mov.u32 %r4, mine;\n"
    "    st.shared.u32 [%r4], %r1;\n"
    "    barrier.cluster.arrive.aligned;\n"
    "    barrier.cluster.wait.aligned;\n"
    "    add.u32 %r5, %r2, 1;\n"
    "    rem.u32 %r5, %r5, %r3;\n"
    "    mapa.shared::cluster.u32 %r6, %r4, %r5;\n"
    "    ld.shared::cluster.u32 %r7, [%r6];\n"
    "    mad.lo.u32 %r7, %r2, 1000, %r7;\n"
    "    mad.lo.u32 %r7, %r3, 100000, %r7;\n"
    "    mul.wide.u32 %rd2, %r1, 4;\n"
    "    add.u64 %rd3, %rd1, %rd2;\n"
    "    st.global.u32 [%rd3], %r7;\n"
    "    barrier.cluster.arrive.aligned;\n"
    "    barrier.cluster.wait.aligned;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry pairs(.param .u64 out) .reqnctapercluster 2, 1, 1\n"
    "{\n"
    "    .reg .b64 %rd<4>;\n"
    "    .reg .b32 %r<4>;\n"
    "    ld.param.u64 %rd1, [out];\n"
    "    mov.u32 %r1, %ctaid.x;\n"
    "    mov.u32 %r2, %cluster_nctarank;\n"
    "    mul.wide.u32 %rd2, %r1, 4;\n"
    "    add.u64 %rd3, %rd1, %rd2;\n"
    "    st.global.u32 [%rd3], %r2;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry told(.param .u64 out)\n"
    "{\n"
    "    .reg .pred %p1;\n"
    "    .reg .b64 %rd1;\n"
    "    .reg .b32 %r1;\n"
    "    ld.param.u64 %rd1, [out];\n"
    "    mov.pred %p1, %is_explicit_cluster;\n"
    "    selp.u32 %r1, 1, 2, %p1;\n"
    "    st.global.u32 [%rd1], %r1;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry single(.param .u64 out) .reqnctapercluster 1, 1, 1\n"
    "{\n"
    "    .reg .pred %p1;\n"
    "    .reg .b64 %rd1;\n"
    "    .reg .b32 %r1;\n"
    "    ld.param.u64 %rd1, [out];\n"
    "    mov.pred %p1, %is_explicit_cluster;\n"
    "    selp.u32 %r1, 1, 2, %p1;\n"
    "    st.global.u32 [%rd1], %r1;\n"
    "    ret;\n"
    "}\n";

static CUcontext ctx;
static CUfunction around, pairs, told, single;
static CUdeviceptr out;

static CUlaunchConfig
config(unsigned grid, CUlaunchAttribute *attr, unsigned cluster)
{
    CUlaunchConfig c = {.gridDimX = grid,
                        .gridDimY = 1,
                        .gridDimZ = 1,
                        .blockDimX = 32,
                        .blockDimY = 1,
                        .blockDimZ = 1};

    if (cluster) {
        *attr = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
        attr->value.clusterDim.x = cluster;
        attr->value.clusterDim.y = attr->value.clusterDim.z = 1;
        c.attrs = attr;
        c.numAttrs = 1;
    }
    return c;
}

static int
blocks_see_each_other(void)
{
    uint32_t got[BLOCKS];
    void *params[] = {&out};
    CUlaunchAttribute attr;
    CUlaunchConfig c = config(BLOCKS, &attr, CLUSTER);

    for (int round = 0; round < 20; round++) {
        TRY(cuMemsetD32_v2(out, 0, BLOCKS));
        TRY(cuLaunchKernelEx(&c, around, params, NULL));
        TRY(cuMemcpyDtoH_v2(got, out, sizeof(got)));
        for (uint32_t i = 0; i < BLOCKS; i++)
            SAME(got[i], i / CLUSTER * CLUSTER + (i + 1) % CLUSTER +
                             1000 * (i % CLUSTER) + 100000 * CLUSTER);
    }
    c = config(BLOCKS, &attr, 0); /* every block is a cluster of its own */
    TRY(cuLaunchKernelEx(&c, around, params, NULL));
    TRY(cuMemcpyDtoH_v2(got, out, sizeof(got)));
    for (uint32_t i = 0; i < BLOCKS; i++)
        SAME(got[i], i + 100000);
    return 0;
}

static int
kernels_say_their_shape(void)
{
    uint32_t got[BLOCKS];
    void *params[] = {&out};
    CUlaunchAttribute attr;
    CUlaunchConfig c = config(BLOCKS, &attr, CLUSTER);
    int width = 0, must = 9;

    TRY(cuFuncGetAttribute(&width, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, pairs));
    SAME(width, 2);
    TRY(cuFuncGetAttribute(&must, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, around));
    SAME(must, 0);
    TRY(cuLaunchKernel(pairs, BLOCKS, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    TRY(cuMemcpyDtoH_v2(got, out, sizeof(got)));
    SAME(got[BLOCKS - 1], 2);
    CODE(settled(cuLaunchKernelEx(&c, pairs, params, NULL)),
         CUDA_ERROR_INVALID_CLUSTER_SIZE);
    return 0;
}

/* What a kernel is told: 1 for an explicit cluster, 2 for none. */
static int
told_by(CUfunction f, unsigned cluster, uint32_t expected)
{
    void *params[] = {&out};
    CUlaunchAttribute attr;
    CUlaunchConfig c = config(4, &attr, cluster);
    uint32_t got = 0;

    TRY(cuMemsetD32_v2(out, 0, 1));
    TRY(cuLaunchKernelEx(&c, f, params, NULL));
    TRY(cuMemcpyDtoH_v2(&got, out, sizeof(got)));
    SAME(got, expected);
    return 0;
}

/* A cluster of one block that was asked for is explicit as well. */
static int
clusters_are_explicit_or_not(void)
{
    void *params[] = {&out};
    uint32_t got = 0;

    if (told_by(told, 0, 2) || told_by(told, 1, 1) || told_by(told, 2, 1) ||
        told_by(told, 0, 2) || told_by(single, 0, 1) || told_by(single, 1, 1))
        return 1;
    TRY(cuLaunchKernel(single, 4, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    TRY(cuMemcpyDtoH_v2(&got, out, sizeof(got)));
    SAME(got, 1);
    TRY(cuLaunchKernel(told, 4, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    TRY(cuMemcpyDtoH_v2(&got, out, sizeof(got)));
    SAME(got, 2);
    return 0;
}

static int
sizes_have_limits(void)
{
    void *params[] = {&out};
    CUlaunchAttribute attr;
    CUlaunchConfig c = config(BLOCKS, &attr, 16);
    int size = 0, active = 0;

    /* The size that it names is ignored, but has to be one that can be launched. */
    CODE(cuOccupancyMaxPotentialClusterSize(&size, around, &c),
         CUDA_ERROR_INVALID_CLUSTER_SIZE);
    c = config(BLOCKS, &attr, CLUSTER);
    TRY(cuOccupancyMaxPotentialClusterSize(&size, around, &c));
    SAME(size, 8);
    c = config(BLOCKS, &attr, 16);
    CODE(settled(cuLaunchKernelEx(&c, around, params, NULL)),
         CUDA_ERROR_INVALID_CLUSTER_SIZE);
    TRY(cuFuncSetAttribute(around, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
                           1));
    TRY(cuLaunchKernelEx(&c, around, params, NULL));
    TRY(cuCtxSynchronize());
    c = config(BLOCKS, &attr, 3); /* does not divide the grid */
    CODE(settled(cuLaunchKernelEx(&c, around, params, NULL)),
         CUDA_ERROR_INVALID_CLUSTER_SIZE);
    c = config(BLOCKS, &attr, CLUSTER);
    TRY(cuOccupancyMaxActiveClusters(&active, around, &c));
    SAME(active > 0, 1);
    return 0;
}

static int
start(void)
{
    CUmodule module;

    TRY(cuInit(0));
    TRY(cuCtxCreate_v2(&ctx, 0, 0));
    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuModuleGetFunction(&around, module, "around"));
    TRY(cuModuleGetFunction(&pairs, module, "pairs"));
    TRY(cuModuleGetFunction(&told, module, "told"));
    TRY(cuModuleGetFunction(&single, module, "single"));
    TRY(cuMemAlloc_v2(&out, BLOCKS * 4));
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"blocks see each other", blocks_see_each_other},
        {"kernels say their shape", kernels_say_their_shape},
        {"clusters are explicit or not", clusters_are_explicit_or_not},
        {"sizes have limits", sizes_have_limits},
    };
    int has = 0;

    if (cuInit(0) == CUDA_SUCCESS &&
        cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0) ==
            CUDA_SUCCESS &&
        !has) {
        printf("not for this card\n");
        return 0;
    }
    return start() ? 1 : parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
