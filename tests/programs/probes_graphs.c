/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: conditions, edges, memory, kernels without a context, pictures. */
#include "probes.h"

static CUgraphNodeParams
store_params(void **params, CUfunction f)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL};

    p.kernel.func = f;
    p.kernel.gridDimX = p.kernel.gridDimY = p.kernel.gridDimZ = 1;
    p.kernel.blockDimX = p.kernel.blockDimY = p.kernel.blockDimZ = 1;
    p.kernel.kernelParams = params;
    return p;
}

static CUresult
condition(CUgraphNode *ret, CUgraph g, CUgraphConditionalHandle h, CUcontext ctx,
          CUgraph *body)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    CUresult r;

    p.conditional.handle = h;
    p.conditional.type = CU_GRAPH_COND_TYPE_IF;
    p.conditional.size = 1;
    p.conditional.ctx = ctx;
    r = cuGraphAddNode_v2(ret, g, NULL, NULL, 0, &p);
    if (r == CUDA_SUCCESS)
        *body = p.conditional.phGraph_out[0];
    return r;
}

static void
condition_handles(void)
{
    CUgraphConditionalHandle h;
    CUcontext second;
    CUgraphNode n;
    CUgraph g, body;
    CUgraphExec exec;

    probe_begin();
    NEED(cuGraphCreate(&g, 0));
    SAY("no context", cuGraphConditionalHandleCreate(&h, g, NULL, 0, 0));
    NEED(cuGraphConditionalHandleCreate(&h, g, probe_ctx, 0, 0));
    SAY("a condition without a context", condition(&n, g, h, NULL, &body));
    NEED(cuCtxCreate_v2(&second, 0, 0));
    SAY("of another context", cuGraphConditionalHandleCreate(&h, g, probe_ctx, 0, 0));
    SAY("a condition of another context", condition(&n, g, h, second, &body));
    NEED(cuCtxSetCurrent(NULL));
    SAY("none current", cuGraphConditionalHandleCreate(&h, g, NULL, 0, 0));
    SAY("none current, but named",
        cuGraphConditionalHandleCreate(&h, g, probe_ctx, 0, 0));
    NEED(cuCtxSetCurrent(probe_ctx));
    SAY("a handle that nothing uses", cuGraphInstantiateWithFlags(&exec, g, 0));
    SAY("unknown flags", cuGraphConditionalHandleCreate(&h, g, probe_ctx, 0, 8));
    SAY("no graph", cuGraphConditionalHandleCreate(&h, NULL, probe_ctx, 0, 0));
    SAY("no place", cuGraphConditionalHandleCreate(NULL, g, probe_ctx, 0, 0));
}

static void
nothing(void *user)
{
    (void)user;
}

/* Nodes that a body cannot have: which call refuses them. */
static void
bodies(void)
{
    static const char *const names[] = {
        "record an event", "wait for an event", "function of the host", "allocation",
        "empty",           "value written",     "child graph"};

    CUstreamBatchMemOpParams flush = {.operation =
                                          CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES};

    probe_begin();
    for (int i = 0; i < 7; i++) {
        CUgraphNodeParams p = {0};
        CUgraphConditionalHandle h;
        CUgraph g, body, child;
        CUgraphExec exec;
        CUgraphNode n, inner;
        CUevent event;
        CUresult r;

        NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        NEED(cuGraphCreate(&g, 0));
        NEED(cuGraphConditionalHandleCreate(&h, g, probe_ctx, 0, 0));
        NEED(condition(&n, g, h, probe_ctx, &body));
        NEED(cuGraphCreate(&child, 0));
        NEED(cuGraphAddEmptyNode(&inner, child, NULL, 0));
        switch (i) {
        case 0:
            p.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
            p.eventRecord.event = event;
            break;
        case 1:
            p.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
            p.eventWait.event = event;
            break;
        case 2:
            p.type = CU_GRAPH_NODE_TYPE_HOST;
            p.host.fn = nothing;
            break;
        case 3:
            p.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
            p.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
            p.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
            p.alloc.bytesize = 64;
            break;
        case 4:
            p.type = CU_GRAPH_NODE_TYPE_EMPTY;
            break;
        case 5:
            p.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
            p.memOp.ctx = probe_ctx;
            p.memOp.count = 1;
            p.memOp.paramArray = &flush;
            break;
        default:
            p.type = CU_GRAPH_NODE_TYPE_GRAPH;
            p.graph.graph = child;
            break;
        }
        r = cuGraphAddNode_v2(&inner, body, NULL, NULL, 0, &p);
        printf("  %s: added %d", names[i], (int)r);
        if (r == CUDA_SUCCESS)
            printf(", instantiated %d", (int)cuGraphInstantiateWithFlags(&exec, g, 0));
        printf("\n");
    }
}

static void
edges(void)
{
    CUgraphEdgeData early = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                             .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC},
                    plain = {0}, told[4];
    unsigned value = 1;
    CUdeviceptr at;
    void *params[] = {&at, &value};
    CUgraphNodeParams p;
    CUgraphNode n[2], from[4], to[4];
    size_t count = 4;
    CUgraph g;

    probe_begin();
    NEED(cuMemAlloc_v2(&at, 64));
    p = store_params(params, probe_kernel("store"));
    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphAddNode_v2(&n[0], g, NULL, NULL, 0, &p));
    NEED(cuGraphAddNode_v2(&n[1], g, n, &early, 1, &p));
    SAY("programmatic edge again", cuGraphAddDependencies_v2(g, n, n + 1, &early, 1));
    SAY("plain edge beside it", cuGraphAddDependencies_v2(g, n, n + 1, NULL, 1));
    NEED(cuGraphGetEdges_v2(g, from, to, told, &count));
    printf("  %zu edges\n", count);
    SAY("remove as a plain one", cuGraphRemoveDependencies_v2(g, n, n + 1, &plain, 1));
    count = 4;
    NEED(cuGraphGetEdges_v2(g, from, to, told, &count));
    printf("  %zu edges\n", count);
    SAY("remove without data", cuGraphRemoveDependencies_v2(g, n, n + 1, NULL, 1));
    count = 4;
    NEED(cuGraphGetEdges_v2(g, from, to, told, &count));
    printf("  %zu edges\n", count);
    SAY("remove what is not there", cuGraphRemoveDependencies_v2(g, n, n + 1, NULL, 1));
    SAY("remove what never was", cuGraphRemoveDependencies_v2(g, n + 1, n, NULL, 1));
    SAY("plain edge", cuGraphAddDependencies_v2(g, n, n + 1, NULL, 1));
    SAY("plain edge again", cuGraphAddDependencies_v2(g, n, n + 1, NULL, 1));
    SAY("remove a plain one as programmatic",
        cuGraphRemoveDependencies_v2(g, n, n + 1, &early, 1));
    SAY("a circle", cuGraphAddDependencies_v2(g, n + 1, n, NULL, 1));
    SAY("to itself", cuGraphAddDependencies_v2(g, n, n, NULL, 1));
}

static void
graph_memory_now(const char *when)
{
    cuuint64_t v[4] = {7, 7, 7, 7};

    for (int i = 0; i < 4; i++)
        cuDeviceGetGraphMemAttribute(0, (CUgraphMem_attribute)i, &v[i]);
    printf("  %s: used %llu, most %llu, reserved %llu, most %llu\n", when,
           (unsigned long long)v[0], (unsigned long long)v[1], (unsigned long long)v[2],
           (unsigned long long)v[3]);
}

static void
graph_memory(void)
{
    CUDA_MEM_ALLOC_NODE_PARAMS m = {.bytesize = 4096};
    CUgraphExec exec, second;
    CUgraphNode n;
    CUgraph g;

    probe_begin();
    m.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    m.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    graph_memory_now("at first");
    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphAddMemAllocNode(&n, g, NULL, 0, &m));
    graph_memory_now("node added");
    NEED(cuGraphInstantiateWithFlags(&exec, g, 0));
    graph_memory_now("instantiated");
    SAY("a second instance", cuGraphInstantiateWithFlags(&second, g, 0));
    NEED(cuGraphUpload(exec, NULL));
    NEED(cuCtxSynchronize());
    graph_memory_now("uploaded");
    NEED(cuGraphLaunch(exec, NULL));
    NEED(cuCtxSynchronize());
    graph_memory_now("launched");
    SAY("launched again without a free", cuGraphLaunch(exec, NULL));
    NEED(cuMemFree_v2(m.dptr));
    NEED(cuCtxSynchronize());
    graph_memory_now("freed");
    NEED(cuDeviceGraphMemTrim(0));
    graph_memory_now("trimmed");
    NEED(cuGraphExecDestroy(exec));
    NEED(cuDeviceGraphMemTrim(0));
    graph_memory_now("instance destroyed");
    SAY("free it again", cuMemFree_v2(m.dptr));
    SAY("reset the most", cuDeviceSetGraphMemAttribute(
                              0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &(cuuint64_t){0}));
    graph_memory_now("reset");
    SAY("reset to more", cuDeviceSetGraphMemAttribute(
                             0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &(cuuint64_t){5}));
    SAY("reset what is now",
        cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT,
                                     &(cuuint64_t){0}));
}

/* A kernel of a library, which belongs to no context. */
static void
kernels_of_libraries(void)
{
    static const char text[] =
        ".version 7.0\n.target sm_70\n.address_size 64\n"
        ".visible .entry nothing() { ret; }\n.visible .func helper() { ret; }\n";
    CUgraphNodeParams p = store_params(NULL, NULL);
    CUDA_KERNEL_NODE_PARAMS old = {.gridDimX = 1,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = 1,
                                   .blockDimY = 1,
                                   .blockDimZ = 1};
    CUfunction of_kernel;
    CUmodule own;
    CUlibrary lib;
    CUkernel k;
    CUgraphNode n;
    CUgraph g;
    void *unified;

    probe_begin();
    NEED(cuLibraryLoadData(&lib, text, NULL, NULL, 0, NULL, NULL, 0));
    NEED(cuLibraryGetKernel(&k, lib, "nothing"));
    NEED(cuGraphCreate(&g, 0));
    SAY("launched", probe_launch((CUfunction)k, NULL, NULL));
    old.func = (CUfunction)k;
    SAY("as a function", cuGraphAddKernelNode_v2(&n, g, NULL, 0, &old));
    old.func = NULL;
    old.kern = k;
    SAY("as a kernel, no context", cuGraphAddKernelNode_v2(&n, g, NULL, 0, &old));
    old.ctx = probe_ctx;
    SAY("as a kernel", cuGraphAddKernelNode_v2(&n, g, NULL, 0, &old));
    old.kern = NULL;
    SAY("as nothing", cuGraphAddKernelNode_v2(&n, g, NULL, 0, &old));
    p.kernel.func = (CUfunction)k;
    SAY("generic, as a function", cuGraphAddNode_v2(&n, g, NULL, NULL, 0, &p));
    p.kernel.func = NULL;
    p.kernel.kern = k;
    SAY("generic, as a kernel", cuGraphAddNode_v2(&n, g, NULL, NULL, 0, &p));
    NEED(cuKernelGetFunction(&of_kernel, k));
    old.func = of_kernel;
    SAY("its function", cuGraphAddKernelNode_v2(&n, g, NULL, 0, &old));
    memset(&old, 0, sizeof(old));
    SAY("what the node says", cuGraphKernelNodeGetParams_v2(n, &old));
    printf("  func %s, kern %s, ctx %s\n",
           old.func == of_kernel ? "its function"
           : old.func            ? "another"
                                 : "none",
           old.kern == k ? "it"
           : old.kern    ? "another"
                         : "none",
           old.ctx == probe_ctx ? "it"
           : old.ctx            ? "another"
                                : "none");
    SAY("unified function of a kernel",
        cuLibraryGetUnifiedFunction(&unified, lib, "nothing"));
    SAY("unified function of a function",
        cuLibraryGetUnifiedFunction(&unified, lib, "helper"));
    SAY("unified function of none", cuLibraryGetUnifiedFunction(&unified, lib, "none"));
    SAY("a module's kernel of none",
        cuModuleGetFunction(&of_kernel, probe_module, "none"));
    SAY("a library's kernel of none", cuLibraryGetKernel(&k, lib, "none"));
    SAY("its module", cuLibraryGetModule(&own, lib));
}

static void
instances(void)
{
    static const unsigned flags[] = {0, 1, 2, 4, 8, 16, 3, 5};

    probe_begin();
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        CUDA_GRAPH_INSTANTIATE_PARAMS how = {.flags = flags[i]};
        cuuint64_t told = 99, how_told = 99;
        CUgraphExec exec;
        CUgraphNode n;
        CUgraph g;
        CUresult r;

        NEED(cuGraphCreate(&g, 0));
        NEED(cuGraphAddEmptyNode(&n, g, NULL, 0));
        r = cuGraphInstantiateWithFlags(&exec, g, flags[i]);
        if (r == CUDA_SUCCESS)
            cuGraphExecGetFlags(exec, &told);
        printf("  flags %u: %d, told %llu", flags[i], (int)r, (unsigned long long)told);
        r = cuGraphInstantiateWithParams(&exec, g, &how);
        if (r == CUDA_SUCCESS)
            cuGraphExecGetFlags(exec, &how_told);
        printf("; with parameters %d, result %d, told %llu\n", (int)r,
               (int)how.result_out, (unsigned long long)how_told);
    }
}

/* The picture, without what differs from process to process. */
static void
picture(void)
{
    char path[] = "/tmp/probesXXXXXX", line[512];
    unsigned value = 1;
    CUdeviceptr at;
    void *params[] = {&at, &value};
    CUgraphNodeParams p;
    CUDA_MEMSET_NODE_PARAMS fill = {
        .elementSize = 4, .value = 5, .width = 8, .height = 1};
    CUgraphNode n[3];
    CUgraph g;
    int fd = mkstemp(path);
    FILE *f;

    probe_begin();
    NEED(cuMemAlloc_v2(&at, 64));
    p = store_params(params, probe_kernel("store"));
    fill.dst = at;
    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphAddNode_v2(&n[0], g, NULL, NULL, 0, &p));
    NEED(cuGraphAddEmptyNode(&n[1], g, n, 1));
    NEED(cuGraphAddMemsetNode(&n[2], g, n + 1, 1, &fill, probe_ctx));
    SAY("picture", cuGraphDebugDotPrint(g, path, 0));
    f = fdopen(fd, "r");
    unlink(path);
    while (f && fgets(line, sizeof(line), f))
        printf("  | %s", line);
    SAY("nowhere", cuGraphDebugDotPrint(g, "/nonexistent/x.dot", 0));
}

const struct probe probes_graphs[] = {
    {"handles of conditions", condition_handles},
    {"bodies of conditions", bodies},
    {"edges", edges},
    {"memory of graphs", graph_memory},
    {"kernels of libraries", kernels_of_libraries},
    {"instances", instances},
    {"picture of a graph", picture},
};
const size_t n_probes_graphs = sizeof(probes_graphs) / sizeof(probes_graphs[0]);
