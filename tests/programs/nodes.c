/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes of graphs: what they say of themselves, changed in the graph and in instances,
 * and what a launch does after each change.
 */
#include "parts.h"
#include "strict.h"

#include <semaphore.h>
#include <stdint.h>
#include <unistd.h>

/* put(p, v): *p = v. */
static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry put(.param .u64 p, .param .u32 v)\n{\n"
                          " .reg .b32 %r<2>; .reg .b64 %d<2>;\n"
                          " ld.param.u64 %d1, [p]; ld.param.u32 %r1, [v];\n"
                          " st.global.u32 [%d1], %r1; ret;\n}\n";

static CUcontext ctx;
static bool strict;
static CUmodule module;
static CUfunction put;
static CUstream stream;
static CUdeviceptr cell; /* two words */

static uint32_t
word(unsigned i)
{
    uint32_t v = 0xdead;

    cuMemcpyDtoH_v2(&v, cell + 4 * i, 4);
    return v;
}

static int
launch(CUgraphExec exec)
{
    TRY(cuGraphLaunch(exec, stream));
    TRY(cuStreamSynchronize(stream));
    return 0;
}

static int
batches_of_values(void)
{
    CUstreamBatchMemOpParams op = {0};
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {ctx, 1, &op, 0}, told;
    CUgraphExec exec;
    CUgraphNode node;
    CUgraph graph;

    op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op.writeValue.address = cell;
    op.writeValue.value = 11;
    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &batch));
    TRY(cuGraphBatchMemOpNodeGetParams(node, &told));
    SAME(told.count, 1);
    SAME(told.paramArray[0].writeValue.value, 11);
    op.writeValue.value = 12;
    TRY(cuGraphBatchMemOpNodeSetParams(node, &batch));
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    TRY(launch(exec));
    SAME(word(0), 12);
    op.writeValue.value = 13;
    TRY(cuGraphExecBatchMemOpNodeSetParams(exec, node, &batch));
    TRY(launch(exec));
    SAME(word(0), 13);
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(graph));
    return 0;
}

/* A graph of one fill. */
static CUresult
fill_graph(CUgraph *ret, CUgraphNode *ret_node, uint32_t value)
{
    CUDA_MEMSET_NODE_PARAMS fill = {
        .dst = cell, .value = value, .elementSize = 4, .width = 1, .height = 1};
    CUresult r = cuGraphCreate(ret, 0);

    return r ? r : cuGraphAddMemsetNode(ret_node, *ret, NULL, 0, &fill, ctx);
}

static int
children_and_fills(void)
{
    CUDA_MEMSET_NODE_PARAMS fill = {
        .dst = cell, .value = 23, .elementSize = 4, .width = 1, .height = 1};
    CUgraph graph, child, other, inside;
    CUgraphNode node, in_child, in_other, in_graph;
    size_t n = 0;
    CUgraphExec exec;

    TRY(fill_graph(&child, &in_child, 21));
    TRY(fill_graph(&other, &in_other, 22));
    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
    TRY(cuGraphChildGraphNodeGetGraph(node, &inside));
    TRY(cuGraphGetNodes(inside, NULL, &n));
    SAME(n, 1);
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    TRY(launch(exec));
    SAME(word(0), 21);
    TRY(cuGraphExecChildGraphNodeSetParams(exec, node, other));
    TRY(launch(exec));
    SAME(word(0), 22);
    TRY(cuGraphExecDestroy(exec));
    TRY(fill_graph(&inside, &in_graph, 20));
    TRY(cuGraphInstantiateWithFlags(&exec, inside, 0));
    TRY(cuGraphExecMemsetNodeSetParams(exec, in_graph, &fill, ctx));
    TRY(launch(exec));
    SAME(word(0), 23);
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(inside));
    TRY(cuGraphDestroy(graph));
    TRY(cuGraphDestroy(other));
    TRY(cuGraphDestroy(child));
    return 0;
}

static int
events_of_nodes(void)
{
    CUevent a, b, told;
    CUgraphNode record, wait;
    CUgraphExec exec;
    CUgraph graph;

    TRY(cuEventCreate(&a, 0));
    TRY(cuEventCreate(&b, 0));
    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphAddEventRecordNode(&record, graph, NULL, 0, a));
    TRY(cuGraphAddEventWaitNode(&wait, graph, NULL, 0, a));
    TRY(cuGraphEventRecordNodeGetEvent(record, &told));
    SAME(told == a, 1);
    TRY(cuGraphEventRecordNodeSetEvent(record, b));
    TRY(cuGraphEventRecordNodeGetEvent(record, &told));
    SAME(told == b, 1);
    TRY(cuGraphEventWaitNodeSetEvent(wait, b));
    TRY(cuGraphEventWaitNodeGetEvent(wait, &told));
    SAME(told == b, 1);
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    TRY(cuGraphExecEventRecordNodeSetEvent(exec, record, a));
    TRY(cuGraphExecEventWaitNodeSetEvent(exec, wait, a));
    TRY(launch(exec));
    TRY(cuEventQuery(a));
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(graph));
    TRY(cuEventDestroy_v2(a));
    TRY(cuEventDestroy_v2(b));
    return 0;
}

static void
add_one(void *counter)
{
    *(int *)counter += 1;
}

static void
add_ten(void *counter)
{
    *(int *)counter += 10;
}

static int
functions_of_the_host(void)
{
    static int counter;
    CUDA_HOST_NODE_PARAMS one = {add_one, &counter}, ten = {add_ten, &counter}, told;
    CUgraphExec exec;
    CUgraphNode node;
    CUgraph graph;

    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphAddHostNode(&node, graph, NULL, 0, &one));
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    TRY(launch(exec));
    SAME(counter, 1);
    TRY(cuGraphExecHostNodeSetParams(exec, node, &ten));
    TRY(launch(exec));
    SAME(counter, 11);
    TRY(cuGraphHostNodeSetParams(node, &ten));
    TRY(cuGraphHostNodeGetParams(node, &told));
    SAME(told.fn == add_ten, 1);
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(graph));
    return 0;
}

static int
attributes_of_kernels(void)
{
    uint32_t v = 31;
    void *args[] = {&cell, &v};
    CUDA_KERNEL_NODE_PARAMS kernel = {.func = put,
                                      .gridDimX = 1,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 1,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .kernelParams = args};
    CUDA_GRAPH_INSTANTIATE_PARAMS how = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
                                         .hUploadStream = stream};
    CUkernelNodeAttrValue value, told;
    CUgraphNode a, b;
    CUgraphExec exec;
    CUgraph graph;
    char picture[4096], label[128];
    const char *name;
    size_t n;
    cuuint64_t flags = 0;
    FILE *f;

    memset(&value, 0, sizeof(value));
    memset(&told, 0, sizeof(told));
    value.priority = -1;
    TRY(cuGraphCreate(&graph, 0));
    TRY(cuGraphAddKernelNode_v2(&a, graph, NULL, 0, &kernel));
    TRY(cuGraphAddKernelNode_v2(&b, graph, &a, 1, &kernel));
    TRY(cuGraphKernelNodeSetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    TRY(cuGraphKernelNodeCopyAttributes(b, a));
    TRY(cuGraphKernelNodeGetAttribute(b, CU_LAUNCH_ATTRIBUTE_PRIORITY, &told));
    SAME(told.priority, -1);
    TRY(cuGraphInstantiateWithParams(&exec, graph, &how));
    SAME(how.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
    TRY(cuGraphExecGetFlags(exec, &flags));
    printf("flags %llu\n", (unsigned long long)flags);
    TRY(cuGraphUpload(exec, stream));
    TRY(launch(exec));
    SAME(word(0), 31);
    TRY(cuGraphDebugDotPrint(graph, "nodes.dot", 0));
    f = fopen("nodes.dot", "r");
    SAME(f != NULL, 1);
    n = fread(picture, 1, sizeof(picture) - 1, f);
    picture[n] = '\0';
    fclose(f);
    TRY(cuFuncGetName(&name, kernel.func));
    snprintf(label, sizeof(label), strict ? "KERNEL\\n%s\"" : "%s", name);
    SAME(strstr(picture, label) != NULL, 1);
    unlink("nodes.dot");
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(graph));
    return 0;
}

static void
let_go(void *freed)
{
    sem_post(freed);
}

static int
objects_of_the_user(void)
{
    static sem_t freed;
    CUuserObject object;
    CUgraph graph;

    SAME(sem_init(&freed, 0, 0), 0);
    TRY(cuGraphCreate(&graph, 0));
    TRY(cuUserObjectCreate(&object, &freed, let_go, 1,
                           CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    TRY(cuUserObjectRetain(object, 2));
    TRY(cuGraphRetainUserObject(graph, object, 2, 0));
    TRY(cuGraphReleaseUserObject(graph, object, 1));
    TRY(cuUserObjectRelease(object, 3));
    SAME(sem_trywait(&freed), -1);
    TRY(cuGraphDestroy(graph));
    SAME(sem_wait(&freed), 0);
    return 0;
}

static int
start(void)
{
    TRY(cuInit(0));
    TRY(cuCtxCreate_v2(&ctx, 0, 0));
    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuModuleGetFunction(&put, module, "put"));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cuMemAlloc_v2(&cell, 8));
    return 0;
}

int
main(int argc, char **argv)
{
    static const struct part parts[] = {
        {"batches of values", batches_of_values},
        {"children and fills", children_and_fills},
        {"events of nodes", events_of_nodes},
        {"functions of the host", functions_of_the_host},
        {"attributes of kernels", attributes_of_kernels},
        {"objects of the user", objects_of_the_user},
    };

    strict = strict_asked(argc, argv);
    return start() ? 1 : parts_run(parts, sizeof(parts) / sizeof(parts[0]));
}
