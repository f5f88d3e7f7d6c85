/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One kernel has one handle, by whichever way a program comes to it, and what is set
 * over one way is seen over the other.
 */
#include "parts.h"

#define ROUNDS 20

static const char ptx[] = ".version 7.0\n"
                          ".target sm_70\n"
                          ".address_size 64\n"
                          ".visible .entry put(.param .u64 at, .param .u32 value)\n"
                          "{\n"
                          "    .reg .b64 %rd<2>;\n"
                          "    .reg .b32 %r<2>;\n"
                          "    ld.param.u64 %rd1, [at];\n"
                          "    ld.param.u32 %r1, [value];\n"
                          "    st.global.u32 [%rd1], %r1;\n"
                          "    ret;\n"
                          "}\n"
                          ".visible .entry idle(.param .u64 at)\n"
                          "{\n"
                          "    ret;\n"
                          "}\n";

static CUcontext ctx;
static CUdeviceptr memory;

static int
shared(CUfunction f)
{
    int bytes = -1;

    return cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                              f) == CUDA_SUCCESS
               ? bytes
               : -1;
}

static int
set_shared(CUfunction f, int bytes)
{
    TRY(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes));
    return 0;
}

static CUgraphNode
add_node(CUgraph graph, CUfunction f, unsigned *value)
{
    void *params[] = {&memory, value};
    CUDA_KERNEL_NODE_PARAMS p = {.func = f,
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = params};
    CUgraphNode node = NULL;

    return cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &p) == CUDA_SUCCESS ? node
                                                                              : NULL;
}

static CUfunction
func_of(CUgraphNode node)
{
    CUDA_KERNEL_NODE_PARAMS p = {0};

    return cuGraphKernelNodeGetParams_v2(node, &p) == CUDA_SUCCESS ? p.func : NULL;
}

static int
of_a_module(void)
{
    CUfunction f, g, all[2] = {0};
    CUmodule module, other;
    unsigned value = 1;
    CUgraph graph;

    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuModuleGetFunction(&f, module, "put"));
    TRY(cuModuleGetFunction(&g, module, "put"));
    SAME(f == g, 1);
    if (set_shared(f, 50000))
        return 1;
    SAME(shared(g), 50000);
    TRY(cuFuncGetModule(&other, g));
    SAME(other == module, 1);
    TRY(cuModuleEnumerateFunctions(all, 2, module));
    SAME((all[0] == f) + (all[1] == f), 1);
    TRY(cuGraphCreate(&graph, 0));
    SAME(func_of(add_node(graph, f, &value)) == f, 1);
    TRY(cuGraphDestroy(graph));
    TRY(cuModuleUnload(module));
    return 0;
}

static int
of_a_library(void)
{
    CUfunction f, g, again, all[2] = {0};
    CUmodule module, other;
    CUlibrary library, back;
    size_t offset, size;
    unsigned value = 1;
    const char *name;
    CUgraph graph;
    CUkernel k;

    TRY(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    TRY(cuLibraryGetModule(&module, library));
    TRY(cuModuleGetFunction(&g, module, "put"));
    TRY(cuModuleGetFunction(&again, module, "put"));
    SAME(g == again, 1);
    TRY(cuLibraryGetKernel(&k, library, "put"));
    TRY(cuKernelGetFunction(&f, k));
    SAME(f == g, 1);
    if (set_shared(f, 50000))
        return 1;
    SAME(shared(g), 50000);
    if (set_shared(g, 60000))
        return 1;
    SAME(shared(f), 60000);
    TRY(cuFuncGetModule(&other, f));
    SAME(other == module, 1);
    TRY(cuKernelGetLibrary(&back, k));
    SAME(back == library, 1);
    TRY(cuFuncGetName(&name, g));
    SAME(strcmp(name, "put"), 0);
    TRY(cuFuncGetParamInfo(g, 1, &offset, &size));
    SAME(offset, 8);
    TRY(cuModuleEnumerateFunctions(all, 2, module));
    SAME((all[0] == f) + (all[1] == f), 1);
    TRY(cuGraphCreate(&graph, 0));
    SAME(func_of(add_node(graph, f, &value)) == f, 1);
    TRY(cuGraphDestroy(graph));
    CODE(cuModuleGetFunction(&f, module, "none"), CUDA_ERROR_NOT_FOUND);
    TRY(cuLibraryUnload(library));
    return 0;
}

/* Handles and addresses come back for other kernels. */
static int
of_one_library_after_another(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        CUfunction f, idle;
        CUlibrary library;
        CUgraphNode node;
        CUgraphExec exec;
        CUmodule module;
        unsigned got = 0;
        CUgraph graph;

        TRY(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
        TRY(cuLibraryGetModule(&module, library));
        if (i % 2) /* the other one comes first */
            TRY(cuModuleGetFunction(&idle, module, "idle"));
        TRY(cuModuleGetFunction(&f, module, "put"));
        TRY(cuGraphCreate(&graph, 0));
        node = add_node(graph, f, &i);
        SAME(func_of(node) == f, 1);
        TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
        TRY(cuGraphLaunch(exec, NULL));
        TRY(cuCtxSynchronize());
        TRY(cuMemcpyDtoH_v2(&got, memory, 4));
        SAME(got, i);
        TRY(cuGraphExecDestroy(exec));
        TRY(cuGraphDestroy(graph));
        TRY(cuLibraryUnload(library));
    }
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"of a module", of_a_module},
        {"of a library", of_a_library},
        {"of one library after another", of_one_library_after_another},
    };

    if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v2(&ctx, 0, 0) != CUDA_SUCCESS ||
        cuMemAlloc_v2(&memory, 4096) != CUDA_SUCCESS)
        return 2;
    return parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
