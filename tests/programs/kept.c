/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a driver refuses to destroy stays usable, and the call that was refused says so:
 * default pools, graphs of child nodes, graphs that are captured into, levels of
 * mipmapped arrays, modules of libraries, references to textures of modules, and what
 * may not end during a capture.
 */
#include "parts.h"

static const char ptx[] = ".version 7.0\n"
                          ".target sm_70\n"
                          ".address_size 64\n"
                          ".global .texref image;\n"
                          ".visible .entry idle()\n"
                          "{\n"
                          "    ret;\n"
                          "}\n";

static CUcontext ctx;
static CUstream stream;
static CUdeviceptr memory;

static int
a_pool(void)
{
    CUmemoryPool pool, again;
    CUdeviceptr p;

    TRY(cuDeviceGetDefaultMemPool(&pool, 0));
    CODE(cuMemPoolDestroy(pool), CUDA_ERROR_NOT_PERMITTED);
    TRY(cuMemAllocFromPoolAsync(&p, 4096, pool, stream));
    TRY(cuMemFreeAsync(p, stream));
    TRY(cuMemPoolTrimTo(pool, 0));
    TRY(cuDeviceGetDefaultMemPool(&again, 0));
    SAME((uintptr_t)again, (uintptr_t)pool);
    return 0;
}

static int
a_child_graph(void)
{
    CUgraph outer, inner, child;
    CUgraphNode node;
    size_t n = 9;

    TRY(cuGraphCreate(&outer, 0));
    TRY(cuGraphCreate(&inner, 0));
    TRY(cuGraphAddEmptyNode(&node, inner, NULL, 0));
    TRY(cuGraphAddChildGraphNode(&node, outer, NULL, 0, inner));
    TRY(cuGraphChildGraphNodeGetGraph(node, &child));
    CODE(cuGraphDestroy(child), CUDA_ERROR_INVALID_VALUE);
    TRY(cuGraphGetNodes(child, NULL, &n));
    SAME(n, 1);
    TRY(cuGraphDestroy(inner));
    TRY(cuGraphDestroy(outer));
    return 0;
}

static int
a_graph_of_a_capture(void)
{
    CUgraph graph, ended = NULL;
    size_t n = 9;

    TRY(cuGraphCreate(&graph, 0));
    TRY(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0,
                                    CU_STREAM_CAPTURE_MODE_RELAXED));
    TRY(cuMemsetD8Async(memory, 1, 4096, stream));
    CODE(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
    TRY(cuStreamEndCapture(stream, &ended));
    SAME((uintptr_t)ended, (uintptr_t)graph);
    TRY(cuGraphGetNodes(graph, NULL, &n));
    SAME(n, 1);
    TRY(cuGraphDestroy(graph));
    return 0;
}

static int
a_level(void)
{
    const CUDA_ARRAY3D_DESCRIPTOR desc = {
        .Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUDA_ARRAY_DESCRIPTOR asked;
    CUmipmappedArray mipmap;
    CUarray level, again;

    TRY(cuMipmappedArrayCreate(&mipmap, &desc, 3));
    TRY(cuMipmappedArrayGetLevel(&level, mipmap, 1));
    CODE(cuArrayDestroy(level), CUDA_ERROR_INVALID_HANDLE);
    TRY(cuArrayGetDescriptor_v2(&asked, level));
    SAME(asked.Width, 32);
    TRY(cuMipmappedArrayGetLevel(&again, mipmap, 1));
    SAME((uintptr_t)again, (uintptr_t)level);
    TRY(cuMipmappedArrayDestroy(mipmap));
    return 0;
}

static int
a_module_of_a_library(void)
{
    CUlibrary library;
    CUfunction f;
    CUmodule module;

    TRY(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    TRY(cuLibraryGetModule(&module, library));
    CODE(cuModuleUnload(module), CUDA_ERROR_NOT_PERMITTED);
    TRY(cuModuleGetFunction(&f, module, "idle"));
    TRY(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    TRY(cuStreamSynchronize(stream));
    TRY(cuLibraryUnload(library));
    return 0;
}

static int
a_texture_reference(void)
{
    CUmodule module;
    CUtexref ref;

    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuModuleGetTexRef(&ref, module, "image"));
    CODE(cuTexRefDestroy(ref), CUDA_ERROR_INVALID_VALUE);
    TRY(cuTexRefSetFlags(ref, CU_TRSF_NORMALIZED_COORDINATES));
    TRY(cuModuleUnload(module));
    return 0;
}

/* Each of these is unsafe during a capture that is no relaxed one: it is refused, and
 * the capture is void. */
static CUresult
during_a_capture(CUresult (*end)(void *object), void *object)
{
    CUgraph graph = NULL;
    CUresult r = cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);

    if (r != CUDA_SUCCESS)
        return CUDA_ERROR_UNKNOWN;
    r = end(object);
    (void)cuStreamEndCapture(stream, &graph);
    return r;
}

static CUresult
end_module(void *object)
{
    return cuModuleUnload(object);
}

static CUresult
end_library(void *object)
{
    return cuLibraryUnload(object);
}

static CUresult
end_array(void *object)
{
    return cuArrayDestroy(object);
}

static CUresult
end_mipmap(void *object)
{
    return cuMipmappedArrayDestroy(object);
}

static CUresult
end_exec(void *object)
{
    return cuGraphExecDestroy(object);
}

static CUresult
end_pool(void *object)
{
    return cuMemPoolDestroy(object);
}

static int
during_captures(void)
{
    const CUDA_ARRAY3D_DESCRIPTOR desc = {
        .Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    const CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
    };
    const CUresult refused = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    CUDA_ARRAY3D_DESCRIPTOR asked;
    CUmipmappedArray mipmap;
    CUlibrary library;
    CUmemoryPool pool;
    CUgraphExec exec;
    CUmodule module;
    CUgraph graph;
    CUarray array;
    CUfunction f;
    CUkernel k;

    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    TRY(cuArray3DCreate_v2(&array, &desc));
    TRY(cuMipmappedArrayCreate(&mipmap, &desc, 3));
    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    TRY(cuMemPoolCreate(&pool, &props));
    CODE(during_a_capture(end_module, module), refused);
    TRY(cuModuleGetFunction(&f, module, "idle"));
    CODE(during_a_capture(end_library, library), refused);
    TRY(cuLibraryGetKernel(&k, library, "idle"));
    CODE(during_a_capture(end_array, array), refused);
    TRY(cuArray3DGetDescriptor_v2(&asked, array));
    CODE(during_a_capture(end_mipmap, mipmap), refused);
    TRY(cuMipmappedArrayGetLevel(&array, mipmap, 2));
    CODE(during_a_capture(end_exec, exec), refused);
    TRY(cuGraphLaunch(exec, stream));
    TRY(cuStreamSynchronize(stream));
    CODE(during_a_capture(end_pool, pool), refused);
    TRY(cuMemPoolTrimTo(pool, 0));
    TRY(cuMemPoolDestroy(pool));
    TRY(cuGraphExecDestroy(exec));
    TRY(cuMipmappedArrayDestroy(mipmap));
    TRY(cuLibraryUnload(library));
    TRY(cuModuleUnload(module));
    TRY(cuGraphDestroy(graph));
    TRY(cuCtxSynchronize());
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"a default pool", a_pool},
        {"a child's graph", a_child_graph},
        {"a graph that is captured into", a_graph_of_a_capture},
        {"a level of a mipmapped array", a_level},
        {"a module of a library", a_module_of_a_library},
        {"a texture reference of a module", a_texture_reference},
        {"all that is unsafe during a capture", during_captures},
    };

    if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v2(&ctx, 0, 0) != CUDA_SUCCESS ||
        cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
        cuMemAlloc_v2(&memory, 4096) != CUDA_SUCCESS)
        return 2;
    return parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
