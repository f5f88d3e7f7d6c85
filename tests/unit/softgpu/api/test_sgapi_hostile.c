/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random calls with random, stale and foreign handles, from several threads at
 * once: whatever happens is an error code, never a crash, and afterwards the
 * card is whole.
 *
 * Seeds are fixed, so a single-threaded failure repeats.
 */
#include "ut_sgapi.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 12, CALLS = 4000, THREADS = 3 };

enum kind { PTR, STREAM, EVENT, GRAPH, NODE, EXEC, CODE, N_KINDS };

static uint64_t bag[N_KINDS][SLOTS]; /* live and stale ones */
static unsigned n_good;              /* calls that made something */
static pthread_mutex_t bag_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ut_sg sg;
static _Thread_local unsigned seed;

static unsigned
rnd(unsigned n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

/* Mostly something of the right kind, sometimes of another, sometimes nonsense. */
static uint64_t
any(enum kind kind)
{
    uint64_t v;

    switch (rnd(16)) {
    case 0:
        return rnd(3);
    case 1:
        return (uint64_t)rnd(1u << 20) << 32 | rnd(1u << 20);
    case 2:
        kind = (enum kind)rnd(N_KINDS);
        break;
    }
    pthread_mutex_lock(&bag_lock);
    v = bag[kind][rnd(SLOTS)];
    pthread_mutex_unlock(&bag_lock);
    return v;
}

static void
keep(enum kind kind, CUresult rc, uint64_t handle)
{
    if (rc != CUDA_SUCCESS)
        return;
    pthread_mutex_lock(&bag_lock);
    bag[kind][rnd(SLOTS)] = handle;
    n_good++;
    pthread_mutex_unlock(&bag_lock);
}

#define KIND_OF_CUstream STREAM
#define KIND_OF_CUevent EVENT
#define KIND_OF_CUgraph GRAPH
#define KIND_OF_CUgraphNode NODE
#define KIND_OF_CUgraphExec EXEC
#define KIND_OF_CUmodule CODE
#define KIND_OF_CUlibrary CODE
#define KIND_OF_CUkernel CODE
#define KIND_OF_CUfunction CODE
#define KIND_OF_CUarray CODE
#define H(type) ((type)(uintptr_t)any(KIND_OF_##type))

static void
nothing(void *arg)
{
}

static void
memory_call(void)
{
    static _Thread_local char host[4096];
    CUdeviceptr p = 0, q = any(PTR);
    size_t n = rnd(5000), m;

    switch (rnd(14)) {
    case 0:
        keep(PTR, cuMemAlloc_v2(&p, n), p);
        break;
    case 1:
        keep(PTR, cuMemAllocAsync(&p, n, H(CUstream)), p);
        break;
    case 2:
        cuMemFreeAsync(any(PTR), H(CUstream));
        break;
    case 3:
        cuMemFree_v2(any(PTR));
        break;
    case 4:
        cuMemcpyHtoD_v2(q, host, n % sizeof(host));
        break;
    case 5:
        cuMemcpyDtoHAsync_v2(host, q + rnd(16), n % sizeof(host), H(CUstream));
        break;
    case 6:
        cuMemcpyDtoDAsync_v2(q, any(PTR) + rnd(64), n, H(CUstream));
        break;
    case 7:
        cuMemsetD32Async(q + 4 * rnd(8), rnd(99), n / 4, H(CUstream));
        break;
    case 8:
        cuMemsetD2D8_v2(q, rnd(600), 1, rnd(600), rnd(9));
        break;
    case 9:
        cuMemGetAddressRange_v2(&p, &m, q);
        break;
    case 10:
        cuPointerGetAttribute(host, (int)rnd(25), q);
        break;
    case 11:
        keep(PTR, cuMemAllocManaged(&p, n, CU_MEM_ATTACH_GLOBAL), p);
        break;
    case 12:
        cuMemAdvise(q, n, (int)rnd(8), (int)rnd(3) - 1);
        break;
    default:
        cuMemGetInfo_v2(&n, &m);
        break;
    }
}

static void
stream_call(void)
{
    CUstream s = NULL;
    CUevent e = NULL;
    CUgraph g = NULL;
    CUstreamCaptureStatus status;
    float ms;

    switch (rnd(16)) {
    case 0:
        keep(STREAM, cuStreamCreate(&s, rnd(2)), (uintptr_t)s);
        break;
    case 1:
        cuStreamDestroy_v2(H(CUstream));
        break;
    case 2:
        cuStreamSynchronize(H(CUstream));
        break;
    case 3:
        cuStreamQuery(H(CUstream));
        break;
    case 4:
        keep(EVENT, cuEventCreate(&e, rnd(4)), (uintptr_t)e);
        break;
    case 5:
        cuEventDestroy_v2(H(CUevent));
        break;
    case 6:
        cuEventRecord(H(CUevent), H(CUstream));
        break;
    case 7:
        cuStreamWaitEvent(H(CUstream), H(CUevent), 0);
        break;
    case 8:
        cuEventSynchronize(H(CUevent));
        break;
    case 9:
        cuEventElapsedTime_v2(&ms, H(CUevent), H(CUevent));
        break;
    case 10:
        cuLaunchHostFunc(H(CUstream), nothing, NULL);
        break;
    case 11:
        cuStreamBeginCapture_v2(H(CUstream), (int)rnd(3));
        break;
    case 12:
    case 13:
        keep(GRAPH, cuStreamEndCapture(H(CUstream), &g), (uintptr_t)g);
        break;
    case 14:
        cuStreamIsCapturing(H(CUstream), &status);
        break;
    default:
        cuCtxSynchronize();
        break;
    }
}

static void
graph_call(void)
{
    CUgraphNode deps[2] = {H(CUgraphNode), H(CUgraphNode)}, node = NULL;
    CUDA_MEMSET_NODE_PARAMS set = {any(PTR), 0, rnd(9), 4, rnd(20), 1};
    CUDA_HOST_NODE_PARAMS host;
    CUgraphExec exec = NULL;
    CUgraph g = NULL;
    size_t n = 2;

    host.fn = nothing;
    host.userData = NULL;
    switch (rnd(14)) {
    case 0:
        keep(GRAPH, cuGraphCreate(&g, 0), (uintptr_t)g);
        break;
    case 1:
        cuGraphDestroy(H(CUgraph));
        break;
    case 2:
        keep(NODE, cuGraphAddEmptyNode(&node, H(CUgraph), deps, rnd(3)),
             (uintptr_t)node);
        break;
    case 3:
        keep(NODE, cuGraphAddMemsetNode(&node, H(CUgraph), deps, rnd(2), &set, sg.ctx),
             (uintptr_t)node);
        break;
    case 4:
        keep(NODE, cuGraphAddHostNode(&node, H(CUgraph), deps, rnd(3), &host),
             (uintptr_t)node);
        break;
    case 5:
        keep(NODE,
             cuGraphAddChildGraphNode(&node, H(CUgraph), deps, rnd(2), H(CUgraph)),
             (uintptr_t)node);
        break;
    case 6:
        cuGraphDestroyNode(H(CUgraphNode));
        break;
    case 7:
        cuGraphAddDependencies(H(CUgraph), deps, deps + 1, 1);
        break;
    case 8:
        keep(EXEC, cuGraphInstantiateWithFlags(&exec, H(CUgraph), 0), (uintptr_t)exec);
        break;
    case 9:
        cuGraphLaunch(H(CUgraphExec), H(CUstream));
        break;
    case 10:
        cuGraphExecDestroy(H(CUgraphExec));
        break;
    case 11:
        keep(GRAPH, cuGraphClone(&g, H(CUgraph)), (uintptr_t)g);
        break;
    case 12:
        cuGraphMemsetNodeSetParams(H(CUgraphNode), &set);
        break;
    default:
        cuGraphGetNodes(H(CUgraph), deps, &n);
        break;
    }
}

static void
code_call(void)
{
    static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                               ".visible .global .u32 g = 3;\n"
                               ".visible .entry k(.param .u64 p, .param .u32 v)\n"
                               "{ ret; }\n";
    CUdeviceptr p;
    CUmodule mod = NULL;
    CUlibrary lib = NULL;
    CUkernel kernel = NULL;
    CUfunction fn = NULL;
    CUarray array = NULL;
    CUDA_ARRAY_DESCRIPTOR d = {rnd(9), rnd(9), CU_AD_FORMAT_FLOAT, 1};
    size_t n;
    int v;

    switch (rnd(13)) {
    case 0:
        keep(CODE, cuModuleLoadData(&mod, text), (uintptr_t)mod);
        break;
    case 1:
        cuModuleUnload(H(CUmodule));
        break;
    case 2:
        keep(CODE, cuModuleGetFunction(&fn, H(CUmodule), "k"), (uintptr_t)fn);
        break;
    case 3:
        keep(PTR, cuModuleGetGlobal_v2(&p, &n, H(CUmodule), "g"), p);
        break;
    case 4:
        keep(CODE, cuLibraryLoadData(&lib, text, 0, 0, 0, 0, 0, 0), (uintptr_t)lib);
        break;
    case 5:
        keep(CODE, cuLibraryGetKernel(&kernel, H(CUlibrary), "k"), (uintptr_t)kernel);
        break;
    case 6:
        cuLibraryUnload(H(CUlibrary));
        break;
    case 7:
        ut_sg_run(H(CUfunction), rnd(5), rnd(70), H(CUstream), any(PTR), rnd(9));
        break;
    case 8:
        /* Writes 4 bytes to what is allocated, or faults: only the former. */
        p = any(PTR);
        if (cuMemGetAddressRange_v2(NULL, &n, p) == CUDA_SUCCESS && n >= 4)
            ut_sg_run(sg.trap, 0, 1, H(CUstream), p, 1);
        break;
    case 9:
        cuFuncGetAttribute(&v, (int)rnd(20), H(CUfunction));
        break;
    case 10:
        keep(CODE, cuArrayCreate_v2(&array, &d), (uintptr_t)array);
        break;
    case 11:
        cuArrayDestroy(H(CUarray));
        break;
    default:
        cuKernelGetFunction(&fn, H(CUkernel));
        break;
    }
}

static void *
storm(void *arg)
{
    seed = (unsigned)(uintptr_t)arg;
    if (cuCtxSetCurrent(sg.ctx) != CUDA_SUCCESS)
        return (void *)1;
    for (int i = 0; i < CALLS; i++) {
        switch (rnd(4)) {
        case 0:
            memory_call();
            break;
        case 1:
            stream_call();
            break;
        case 2:
            graph_call();
            break;
        default:
            code_call();
            break;
        }
    }
    return NULL;
}

/* What is left is what the device's pool still holds, and one module's variables. */
static void
the_card_is_whole_again(void)
{
    size_t free_, total, globals;
    CUmemoryPool pool;
    uint64_t used;

    ut_sg_close(&sg);
    ut_sg_open(&sg, 0);
    ok(cuDeviceGetDefaultMemPool(&pool, 0));
    ok(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    ok(cuMemGetInfo_v2(&free_, &total));
    globals = 4 + 16;
    assert_int_equal(total - free_, used + globals);
    ut_sg_close(&sg);
}

static void
one_thread_of_random_calls(void **state)
{
    for (unsigned s = 1; s <= 3; s++) {
        memset(bag, 0, sizeof(bag));
        ut_sg_open(&sg, 0);
        n_good = 0;
        assert_null(storm((void *)(uintptr_t)s));
        assert_in_range(n_good, CALLS / 10, CALLS); /* not all of it nonsense */
        the_card_is_whole_again();
    }
}

static void
several_threads_of_random_calls(void **state)
{
    pthread_t threads[THREADS];
    void *ret;

    memset(bag, 0, sizeof(bag));
    ut_sg_open(&sg, 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, storm, (void *)(i + 77)), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &ret);
        assert_null(ret);
    }
    the_card_is_whole_again();
}

static void *
destroy_soon(void *arg)
{
    for (int i = 0; i < 200; i++)
        cuMemGetInfo_v2(&(size_t){0}, &(size_t){0});
    cuCtxDestroy_v2(sg.ctx);
    return NULL;
}

static void
a_context_destroyed_under_running_calls(void **state)
{
    for (uintptr_t round = 0; round < 5; round++) {
        pthread_t a, b, c;

        memset(bag, 0, sizeof(bag));
        ut_sg_open(&sg, 0);
        assert_int_equal(pthread_create(&a, NULL, storm, (void *)(round + 5)), 0);
        assert_int_equal(pthread_create(&b, NULL, storm, (void *)(round + 9)), 0);
        assert_int_equal(pthread_create(&c, NULL, destroy_soon, NULL), 0);
        pthread_join(a, NULL);
        pthread_join(b, NULL);
        pthread_join(c, NULL);
        cuCtxPopCurrent_v2(NULL);
    }
    ut_sg_open(&sg, 0);
    the_card_is_whole_again();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_of_random_calls),
        cmocka_unit_test(several_threads_of_random_calls),
        cmocka_unit_test(a_context_destroyed_under_running_calls),
    };
    int rc;

    ut_sg_cards("1", "64MiB", "2");
    setenv("GPUPOOL_LOG", "*:none", 1);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    ut_sg_cards_remove();
    return rc;
}
