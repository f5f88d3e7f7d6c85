/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs built node by node: kernels, fills, copies, host functions and memory; asked
 * about, changed, cloned, and read back.
 *
 * Prints one line per part; exit status 0 when all are right.  Knows CUDA and nothing
 * of gpupool, so that it runs against a driver as well.
 */
#include "parts.h"

#define N 64u

/* add(out, v): out[i] += v, one element per thread of one block. */
static const char ptx[] = ".version 7.0\n"
                          ".target sm_70\n"
                          ".address_size 64\n"
                          ".visible .entry add(.param .u64 out, .param .u32 v)\n"
                          "{\n"
                          "    .reg .b64 %rd<4>;\n"
                          "    .reg .b32 %r<4>;\n"
                          "    ld.param.u64 %rd1, [out];\n"
                          "    ld.param.u32 %r1, [v];\n"
                          "    mov.u32 %r2, %tid.x;\n"
                          "    mul.wide.u32 %rd2, %r2, 4;\n"
                          "    add.s64 %rd3, %rd1, %rd2;\n"
                          "    ld.global.u32 %r3, [%rd3];\n"
                          "    add.s32 %r3, %r3, %r1;\n"
                          "    st.global.u32 [%rd3], %r3;\n"
                          "    ret;\n"
                          "}\n";

static CUcontext ctx;
static CUfunction add;
static CUdeviceptr out;
static CUstream stream;

/* Launch and return what element 9 is then; -1 on an error. */
static long
launch(CUgraphExec exec)
{
    uint32_t host[N];

    if (cuGraphLaunch(exec, stream) || cuStreamSynchronize(stream) ||
        cuMemcpyDtoH_v2(host, out, sizeof(host)))
        return -1;
    return (long)host[9];
}

static CUDA_KERNEL_NODE_PARAMS
kernel(void **params)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = add,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = N,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = params};
}

static CUDA_MEMSET_NODE_PARAMS
zero(void)
{
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = out, .elementSize = 4, .width = N, .height = 1};
}

static int
kernels_and_their_parameters(void)
{
    uint32_t five = 5, seven = 7, other = 100;
    void *first[] = {&out, &five}, *changed[] = {&out, &other};
    struct {
        CUdeviceptr out;
        uint32_t v;
    } packed = {out, seven};
    size_t size = 12;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed,
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    CUDA_KERNEL_NODE_PARAMS k1 = kernel(first), k2 = kernel(NULL), back;
    CUDA_MEMSET_NODE_PARAMS fill = zero(), fill_back;
    CUgraphNode nodes[3];
    CUgraphExec exec;
    CUgraph g;

    k2.extra = extra;
    TRY(cuGraphCreate(&g, 0));
    TRY(cuGraphAddMemsetNode(&nodes[0], g, NULL, 0, &fill, ctx));
    TRY(cuGraphAddKernelNode_v2(&nodes[1], g, &nodes[0], 1, &k1));
    TRY(cuGraphAddKernelNode_v2(&nodes[2], g, &nodes[1], 1, &k2));
    five = 99; /* parameters were taken when the node was made */
    TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
    SAME(launch(exec), 12);
    SAME(launch(exec), 12);
    TRY(cuGraphKernelNodeGetParams_v2(nodes[1], &back));
    SAME(back.blockDimX, N);
    SAME((uintptr_t)back.func == (uintptr_t)add ||
             (uintptr_t)back.kern == (uintptr_t)add,
         1);
    SAME(*(uint32_t *)back.kernelParams[1], 5);
    SAME(*(CUdeviceptr *)back.kernelParams[0], out);
    TRY(cuGraphMemsetNodeGetParams(nodes[0], &fill_back));
    SAME(fill_back.width, N);
    k1 = kernel(changed);
    TRY(cuGraphExecKernelNodeSetParams_v2(exec, nodes[1], &k1));
    SAME(launch(exec), 107);
    TRY(cuGraphKernelNodeSetParams_v2(nodes[1], &k1));
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
    SAME(launch(exec), 107);
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(g));
    return 0;
}

static void
count(void *user)
{
    __atomic_add_fetch((int *)user, 1, __ATOMIC_SEQ_CST);
}

static int
host_functions_run_once_per_launch(void)
{
    int ran = 0, others = 0;
    CUDA_HOST_NODE_PARAMS h = {count, &ran}, back = {0};
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_HOST};
    CUgraphNode nodes[2];
    CUgraphExec exec;
    CUgraph g;

    any.host.fn = count;
    any.host.userData = &others;
    TRY(cuGraphCreate(&g, 0));
    TRY(cuGraphAddHostNode(&nodes[0], g, NULL, 0, &h));
    TRY(cuGraphAddNode_v2(&nodes[1], g, &nodes[0], NULL, 1, &any));
    TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
    for (int i = 0; i < 5; i++)
        TRY(cuGraphLaunch(exec, stream));
    TRY(cuStreamSynchronize(stream));
    SAME(ran, 5);
    SAME(others, 5);
    TRY(cuGraphHostNodeGetParams(nodes[0], &back));
    SAME((uintptr_t)back.userData, (uintptr_t)&ran);
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(g));
    return 0;
}

static int
nodes_of_any_kind(void)
{
    uint32_t three = 3, four = 4;
    void *params[] = {&out, &three}, *changed[] = {&out, &four};
    CUDA_KERNEL_NODE_PARAMS k = kernel(params), k4 = kernel(changed);
    CUDA_MEMSET_NODE_PARAMS fill = zero();
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    CUgraphNode nodes[2];
    CUgraphExec exec;
    CUgraph g;

    memcpy(&p.memset, &fill, sizeof(fill));
    p.memset.ctx = ctx;
    TRY(cuGraphCreate(&g, 0));
    TRY(cuGraphAddNode_v2(&nodes[0], g, NULL, NULL, 0, &p));
    p = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_KERNEL};
    memcpy(&p.kernel, &k, sizeof(k));
    TRY(cuGraphAddNode_v2(&nodes[1], g, nodes, NULL, 1, &p));
    TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
    SAME(launch(exec), 3);
    memcpy(&p.kernel, &k4, sizeof(k4));
    TRY(cuGraphExecNodeSetParams(exec, nodes[1], &p));
    SAME(launch(exec), 4);
    TRY(cuGraphNodeSetParams(nodes[1], &p));
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
    SAME(launch(exec), 4);
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(g));
    return 0;
}

static int
memory_inside_a_graph(void)
{
    CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUDA_MEM_ALLOC_NODE_PARAMS m = {.accessDescs = &access,
                                    .accessDescCount = 1,
                                    .bytesize = N * 4},
                               back = {0};
    CUDA_MEMSET_NODE_PARAMS fill = zero();
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .WidthInBytes = N * 4,
                          .Height = 1,
                          .Depth = 1};
    uint32_t six = 6;
    void *params[] = {&m.dptr, &six};
    CUDA_KERNEL_NODE_PARAMS k;
    CUgraphNode n[5];
    CUdeviceptr freed = 0;
    CUgraphExec exec;
    CUgraph g;

    m.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    m.poolProps.location = access.location;
    TRY(cuGraphCreate(&g, 0));
    TRY(cuGraphAddMemAllocNode(&n[0], g, NULL, 0, &m));
    SAME(m.dptr != 0, 1);
    fill.dst = m.dptr;
    TRY(cuGraphAddMemsetNode(&n[1], g, &n[0], 1, &fill, ctx));
    k = kernel(params);
    TRY(cuGraphAddKernelNode_v2(&n[2], g, &n[1], 1, &k));
    copy.srcDevice = m.dptr;
    copy.dstDevice = out;
    TRY(cuGraphAddMemcpyNode(&n[3], g, &n[2], 1, &copy, ctx));
    TRY(cuGraphAddMemFreeNode(&n[4], g, &n[3], 1, m.dptr));
    TRY(cuGraphMemAllocNodeGetParams(n[0], &back));
    SAME(back.dptr, m.dptr);
    SAME(back.bytesize, N * 4);
    TRY(cuGraphMemFreeNodeGetParams(n[4], &freed));
    SAME(freed, m.dptr);
    TRY(cuGraphInstantiateWithFlags(&exec, g, 0));
    SAME(launch(exec), 6);
    SAME(launch(exec), 6);
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(g));
    return 0;
}

static int
shape_of_a_graph_and_its_clone(void)
{
    CUgraphNode n[3], seen[8], from[8], to[8], twin;
    size_t count_nodes = 8, edges = 8, roots = 8;
    CUgraphEdgeData data[8];
    CUgraphNodeType type;
    CUgraph g, clone;

    TRY(cuGraphCreate(&g, 0));
    for (int i = 0; i < 3; i++)
        TRY(cuGraphAddEmptyNode(&n[i], g, n, (size_t)i));
    TRY(cuGraphRemoveDependencies_v2(g, &n[0], &n[2], NULL, 1));
    TRY(cuGraphGetNodes(g, seen, &count_nodes));
    SAME(count_nodes, 3);
    SAME(seen[0] == n[0] || seen[1] == n[0] || seen[2] == n[0], 1);
    TRY(cuGraphGetRootNodes(g, seen, &roots));
    SAME(roots, 1);
    SAME((uintptr_t)seen[0], (uintptr_t)n[0]);
    TRY(cuGraphGetEdges_v2(g, from, to, data, &edges));
    SAME(edges, 2);
    TRY(cuGraphClone(&clone, g));
    TRY(cuGraphNodeFindInClone(&twin, n[1], clone));
    SAME(twin != n[1], 1);
    TRY(cuGraphNodeGetType(twin, &type));
    SAME(type, CU_GRAPH_NODE_TYPE_EMPTY);
    TRY(cuGraphDestroyNode(n[2]));
    count_nodes = 0;
    TRY(cuGraphGetNodes(g, NULL, &count_nodes));
    SAME(count_nodes, 2);
    TRY(cuGraphDestroy(clone));
    TRY(cuGraphDestroy(g));
    return 0;
}

static int
capture_tells_where_it_is(void)
{
    CUstreamCaptureStatus status;
    const CUgraphEdgeData *edges;
    const CUgraphNode *deps;
    CUgraph g = NULL, ended;
    cuuint64_t id = 0;
    size_t n = 0;
    uint32_t one = 1;
    void *params[] = {&out, &one};
    CUgraphExec exec;

    TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    TRY(cuMemsetD32Async(out, 20, N, stream));
    TRY(cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, stream, params, NULL));
    TRY(cuStreamGetCaptureInfo_v3(stream, &status, &id, &g, &deps, &edges, &n));
    SAME(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    SAME(n, 1);
    SAME(g != NULL && deps[0] != NULL, 1);
    TRY(cuStreamEndCapture(stream, &ended));
    SAME((uintptr_t)ended, (uintptr_t)g);
    TRY(cuGraphInstantiateWithFlags(&exec, ended, 0));
    SAME(launch(exec), 21);
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(ended));
    TRY(cuStreamGetCaptureInfo_v2(stream, &status, &id, NULL, NULL, NULL));
    SAME(status, CU_STREAM_CAPTURE_STATUS_NONE);
    return 0;
}

static int
start(void)
{
    CUmodule module;

    TRY(cuInit(0));
    TRY(cuCtxCreate_v2(&ctx, 0, 0));
    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuModuleGetFunction(&add, module, "add"));
    TRY(cuMemAlloc_v2(&out, N * 4));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"kernels and their parameters", kernels_and_their_parameters},
        {"host functions", host_functions_run_once_per_launch},
        {"nodes of any kind", nodes_of_any_kind},
        {"memory inside a graph", memory_inside_a_graph},
        {"shape and clone", shape_of_a_graph_and_its_clone},
        {"captures", capture_tells_where_it_is},
    };

    return start() ? 1 : parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
