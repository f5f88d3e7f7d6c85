/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream-ordered memory that is freed and allocated again, with all that could show
 * that a free was put off: attributes of pools, memory that is left, freed addresses,
 * other streams, contexts and threads, captures.
 *
 * With the argument "all" every byte of the session's memory is allocated at the end.
 * What is left, and what another thread changes, is looked at with "strict" alone
 * (strict.h).
 */
#include "parts.h"
#include "strict.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#define SIZE ((size_t)64 << 10)
#define LAPS 50

static CUcontext ctx;
static CUdevice dev;
static CUstream stream;
static bool strict;

static CUresult
made(CUmemoryPool *pool)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, dev}};

    return cuMemPoolCreate(pool, &props);
}

/* A block is allocated, filled, read and freed in @s. */
static int
lap(size_t size, CUmemoryPool pool, CUstream s, unsigned char value)
{
    unsigned char got[2] = {0};
    CUdeviceptr p;

    TRY(pool ? cuMemAllocFromPoolAsync(&p, size, pool, s)
             : cuMemAllocAsync(&p, size, s));
    TRY(cuMemsetD8Async(p, value, size, s));
    TRY(cuMemcpyDtoHAsync_v2(got, p, 1, s));
    TRY(cuMemcpyDtoHAsync_v2(got + 1, p + size - 1, 1, s));
    TRY(cuMemFreeAsync(p, s));
    TRY(cuStreamSynchronize(s));
    SAME(got[0], value);
    SAME(got[1], value);
    return 0;
}

/* Allocated and freed at once, with nothing between. */
static int
freed(CUdeviceptr *p, size_t size, CUstream s)
{
    TRY(cuMemAllocAsync(p, size, s));
    TRY(cuMemFreeAsync(*p, s));
    TRY(cuStreamSynchronize(s));
    return 0;
}

/* A stream writes words meanwhile, as the library's own do between servers. */
static int
over_and_over(void)
{
    CUmemoryPool pool;
    CUdeviceptr word;
    int bad = 0;

    TRY(made(&pool));
    TRY(cuMemAlloc_v2(&word, 4));
    for (unsigned i = 0; i < LAPS && !bad; i++) {
        TRY(cuStreamWriteValue32_v2(stream, word, i, 0));
        bad = lap(SIZE, NULL, stream, (unsigned char)i) ||
              lap(SIZE, pool, stream, (unsigned char)(i + 1)) ||
              lap(1000, NULL, NULL, (unsigned char)(i + 2)) ||
              lap(999, NULL, CU_STREAM_PER_THREAD, (unsigned char)(i + 3));
    }
    TRY(cuMemFree_v2(word));
    TRY(cuMemPoolDestroy(pool));
    return bad;
}

static int
many_at_a_time(void)
{
    CUdeviceptr p[40];
    unsigned word;

    for (int k = 0; k < 5; k++) {
        for (int i = 0; i < 40; i++) {
            TRY(cuMemAllocAsync(&p[i], 4096, stream));
            TRY(cuMemsetD32Async(p[i], 100u * (unsigned)k + (unsigned)i, 1024, stream));
        }
        TRY(cuStreamSynchronize(stream));
        for (int i = 0; i < 40; i++) {
            TRY(cuMemcpyDtoH_v2(&word, p[i] + 4092, 4));
            SAME(word, 100 * k + i);
        }
        for (int i = 0; i < 40; i++)
            TRY(cuMemFreeAsync(p[i], stream));
    }
    TRY(cuStreamSynchronize(stream));
    return 0;
}

static int
attribute(CUmemoryPool pool, CUmemPool_attribute attr, unsigned long long want)
{
    cuuint64_t got = 1;

    TRY(cuMemPoolGetAttribute(pool, attr, &got));
    SAME(got, want);
    return 0;
}

/* One block at a time, of three sizes, so the most in use is the largest one. */
static int
use_of_pools(void)
{
    static const CUmemPool_attribute current = CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
                                     high = CU_MEMPOOL_ATTR_USED_MEM_HIGH;
    cuuint64_t none = 0;
    CUmemoryPool pool;
    CUdeviceptr p;
    int bad = 0;

    TRY(made(&pool));
    for (int i = 0; i < 3; i++)
        bad |= lap(SIZE, pool, stream, 1) || lap(3 * SIZE, pool, stream, 2) ||
               lap(2 * SIZE, pool, stream, 3);
    bad |= attribute(pool, current, 0) || attribute(pool, high, 3 * SIZE);
    bad |= lap(SIZE, pool, stream, 1) || lap(2 * SIZE, pool, stream, 3);
    TRY(cuMemPoolSetAttribute(pool, high, &none));
    bad |= attribute(pool, high, 0);
    bad |= lap(2 * SIZE, pool, stream, 1) || lap(SIZE, pool, stream, 3);
    TRY(cuMemAllocFromPoolAsync(&p, SIZE, pool, stream));
    bad |= attribute(pool, current, SIZE) || attribute(pool, high, 2 * SIZE);
    TRY(cuMemFreeAsync(p, stream));
    TRY(cuStreamSynchronize(stream));
    bad |= attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 0);
    TRY(cuMemPoolTrimTo(pool, 0));
    TRY(cuMemPoolDestroy(pool));
    return bad;
}

/* The device's current pool is another one for a while. */
static int
current_pool(void)
{
    CUmemoryPool pool, first;
    cuuint64_t none = 0;
    int bad = 0;

    TRY(made(&pool));
    TRY(cuDeviceGetMemPool(&first, dev));
    TRY(cuMemPoolSetAttribute(first, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &none));
    bad |= lap(SIZE, NULL, stream, 1) || lap(2 * SIZE, NULL, stream, 2);
    TRY(cuDeviceSetMemPool(dev, pool));
    bad |= attribute(first, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 0);
    bad |= attribute(first, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 2 * SIZE);
    bad |= lap(SIZE, NULL, stream, 3) || lap(SIZE, pool, stream, 4) ||
           lap(4 * SIZE, NULL, stream, 5) || lap(5 * SIZE, NULL, stream, 5);
    bad |= attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 5 * SIZE);
    TRY(cuDeviceSetMemPool(dev, first));
    bad |= lap(4 * SIZE, NULL, stream, 6);
    bad |= attribute(first, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 4 * SIZE);
    bad |= attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 5 * SIZE);
    TRY(cuMemPoolDestroy(pool));
    return bad;
}

static size_t
left(void)
{
    size_t available = 0, total;

    return cuMemGetInfo_v2(&available, &total) == CUDA_SUCCESS ? available : 0;
}

/* A card has its memory in larger pieces, and keeps some of what was freed. */
#define LEFT(want)                                                                     \
    do {                                                                               \
        if (strict)                                                                    \
            SAME(left(), want);                                                        \
    } while (0)

static int
memory_left(void)
{
    size_t before = left();
    CUdeviceptr p, q;

    for (int i = 0; i < 5; i++) {
        if (freed(&p, SIZE, stream))
            return 1;
        LEFT(before);
        TRY(cuMemAllocAsync(&p, SIZE, stream));
        LEFT(before - SIZE);
        TRY(cuMemAllocAsync(&q, 2 * SIZE, NULL));
        TRY(cuMemFreeAsync(p, NULL)); /* in another stream than it was allocated in */
        TRY(cuCtxSynchronize());
        LEFT(before - 2 * SIZE);
        TRY(cuMemFree_v2(q));
        LEFT(before);
    }
    return 0;
}

/* What a call answers that names a block which is freed. */
static int
freed_addresses(void)
{
    unsigned char bytes[64] = {0};
    unsigned kind = 77;
    CUdeviceptr p, other, base;
    size_t size;

    TRY(cuMemAlloc_v2(&other, SIZE));
    if (freed(&p, SIZE, stream))
        return 1;
    CODE(cuMemFreeAsync(p, stream), CUDA_ERROR_INVALID_VALUE);
    if (freed(&p, SIZE, stream))
        return 1;
    CODE(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
    for (int lap = 0; lap < 80; lap++) {
        int i = lap % 8;

        if (freed(&p, SIZE, stream))
            return 1;
        printf("%d: %d\n", i,
               (int)(i == 0   ? cuMemcpyDtoH_v2(bytes, p, 64)
                     : i == 1 ? cuMemcpyHtoD_v2(p + 16, bytes, 64)
                     : i == 2 ? cuMemcpyDtoD_v2(other, p + SIZE - 64, 64)
                     : i == 3 ? settled(cuMemcpyDtoDAsync_v2(p, other, 64, stream))
                     : i == 4 ? settled(cuMemsetD8_v2(p + 100, 1, 8))
                     : i == 5 ? cuMemGetAddressRange_v2(&base, &size, p)
                     : i == 6 ? cuPointerGetAttribute(
                                    &kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p)
                              : cuMemcpyHtoDAsync_v2(p, bytes, 64, stream)));
    }
    TRY(cuMemFree_v2(other));
    return 0;
}

/* Each allocation is another buffer, wherever it is. */
static int
identity(void)
{
    unsigned long long first, second;
    CUdeviceptr p;

    TRY(cuMemAllocAsync(&p, SIZE, stream));
    TRY(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
    TRY(cuMemFreeAsync(p, stream));
    TRY(cuMemAllocAsync(&p, SIZE, stream));
    TRY(cuPointerGetAttribute(&second, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
    SAME(first == second, 0);
    TRY(cuMemFreeAsync(p, stream));
    return 0;
}

/* ---- streams ---------------------------------------------------------------- */

static void
gate(void *data)
{
    while (!atomic_load((atomic_bool *)data))
        sched_yield();
}

/* A stream that stands still has freed a block, and another stream needs one. */
static int
other_streams(void)
{
    static atomic_bool open;
    CUstream streams[] = {NULL, NULL, CU_STREAM_PER_THREAD, NULL};
    unsigned char got = 0;
    CUdeviceptr p, q[4];

    TRY(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
    TRY(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
    TRY(cuMemAllocAsync(&p, SIZE, streams[0]));
    TRY(cuLaunchHostFunc(streams[0], gate, &open));
    TRY(cuMemsetD8Async(p, 0xee, SIZE, streams[0]));
    TRY(cuMemFreeAsync(p, streams[0]));
    for (int i = 1; i < 3; i++) {
        TRY(cuMemAllocAsync(&q[i], SIZE, streams[i]));
        SAME(q[i] == p, 0);
        TRY(cuMemsetD8Async(q[i], 7, SIZE, streams[i]));
        TRY(cuStreamSynchronize(streams[i]));
    }
    TRY(cuMemAllocAsync(&q[0], SIZE, streams[0]));
    TRY(cuMemsetD8Async(q[0], 9, SIZE, streams[0]));
    atomic_store(&open, true);
    for (int i = 0; i < 3; i++) {
        TRY(cuStreamSynchronize(streams[i]));
        TRY(cuMemcpyDtoH_v2(&got, q[i] + 100, 1));
        SAME(got, i ? 7 : 9);
        TRY(cuMemFreeAsync(q[i], streams[2 - i]));
    }
    TRY(cuCtxSynchronize());
    TRY(cuStreamDestroy_v2(streams[0]));
    TRY(cuStreamDestroy_v2(streams[1]));
    return 0;
}

static void
pause_a_while(void *data)
{
    const struct timespec a_while = {.tv_nsec = 100000000};

    (void)data;
    nanosleep(&a_while, NULL);
}

/* cuMemFree waits for a stream that works, at the server or before it is sent: what is
 * in use does not count its memory. */
static int
frees_that_wait(void)
{
    cuuint64_t before, used;
    CUmemoryPool pool;
    CUdeviceptr p;

    TRY(made(&pool));
    TRY(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &before));
    TRY(cuMemAllocFromPoolAsync(&p, SIZE, pool, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuLaunchHostFunc(stream, pause_a_while, NULL));
    TRY(cuMemFree_v2(p));
    TRY(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    if (strict)
        SAME(used, before);
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemPoolDestroy(pool));
    return 0;
}

/* Nor does the largest use, where it begins anew behind such a free. */
static int
largest_use_behind_frees_that_wait(void)
{
    cuuint64_t none = 0;
    CUmemoryPool pool;
    CUdeviceptr p;
    int bad;

    TRY(made(&pool));
    TRY(cuMemAllocFromPoolAsync(&p, SIZE, pool, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuLaunchHostFunc(stream, pause_a_while, NULL));
    TRY(cuMemFree_v2(p));
    TRY(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &none));
    bad = attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0);
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemPoolDestroy(pool));
    return bad;
}

static atomic_bool asked_enough;

static void *
asks_what_is_left(void *arg)
{
    size_t room, total;

    (void)arg;
    if (cuCtxSetCurrent(ctx) != CUDA_SUCCESS)
        return (void *)1;
    while (!atomic_load(&asked_enough))
        if (cuMemGetInfo_v2(&room, &total) != CUDA_SUCCESS)
            return (void *)1;
    return NULL;
}

/* Nor where another thread makes the frees be sent, at any time.  Most allocations are
 * round trips then; the test that counts those is not "strict". */
static int
largest_use_beside_a_thread_that_asks(void)
{
    pthread_t thread;
    void *failed = NULL;
    int bad = 0;

    if (!strict)
        return 0;
    SAME(pthread_create(&thread, NULL, asks_what_is_left, NULL), 0);
    for (size_t i = 0; i < 400 && !bad; i++) {
        CUmemoryPool pool;
        CUdeviceptr p;

        TRY(made(&pool));
        for (size_t k = 1; k <= 3; k++) {
            TRY(cuMemAllocFromPoolAsync(&p, k * SIZE, pool, stream));
            TRY(cuMemFreeAsync(p, stream));
        }
        bad = attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 3 * SIZE);
        TRY(cuStreamSynchronize(stream));
        TRY(cuMemPoolDestroy(pool));
    }
    atomic_store(&asked_enough, true);
    SAME(pthread_join(thread, &failed), 0);
    SAME(failed != NULL, 0);
    return bad;
}

static int
streams_that_end(void)
{
    size_t before = left();
    CUstream own;
    CUdeviceptr p;

    for (int i = 0; i < 10; i++) {
        TRY(cuStreamCreate(&own, i % 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
        if (lap(SIZE, NULL, own, 3))
            return 1;
        TRY(cuMemAllocAsync(&p, SIZE, own));
        TRY(cuMemFreeAsync(p, own));
        TRY(cuStreamDestroy_v2(own));
    }
    TRY(cuCtxSynchronize());
    LEFT(before);
    return 0;
}

/* ---- captures --------------------------------------------------------------- */

static int
captures(void)
{
    CUgraphExec exec;
    CUgraph graph;
    CUdeviceptr p, q;
    size_t nodes = 0;

    if (lap(SIZE, NULL, stream, 1) || freed(&p, SIZE, stream))
        return 1;
    TRY(cuMemAllocAsync(&q, SIZE, stream));
    TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    TRY(cuMemAllocAsync(&p, SIZE, stream));
    TRY(cuMemsetD8Async(p, 1, SIZE, stream));
    TRY(cuMemFreeAsync(p, stream));
    TRY(cuMemFreeAsync(q, CU_STREAM_PER_THREAD));
    TRY(cuStreamEndCapture(stream, &graph));
    TRY(cuGraphGetNodes(graph, NULL, &nodes));
    SAME(nodes, 3);
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; i++) {
        TRY(cuGraphLaunch(exec, stream));
        if (lap(SIZE, NULL, stream, 2))
            return 1;
    }
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(graph));
    TRY(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return 0;
}

/* An allocation in a stream that is not captured, while another one is. */
static int
largest_use_beside_captures(void)
{
    CUmemoryPool pool;
    CUgraph graph;
    CUstream own;
    CUdeviceptr p, q;
    int bad;

    TRY(made(&pool));
    TRY(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    bad = lap(2 * SIZE, pool, stream, 1);
    TRY(cuMemAllocFromPoolAsync(&p, SIZE, pool, stream));
    TRY(cuStreamBeginCapture_v2(own, CU_STREAM_CAPTURE_MODE_RELAXED));
    TRY(cuMemAllocFromPoolAsync(&q, 2 * SIZE, pool, stream));
    bad |= attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 3 * SIZE);
    TRY(cuStreamEndCapture(own, &graph));
    bad |= attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 3 * SIZE);
    TRY(cuMemFreeAsync(p, stream));
    TRY(cuMemFreeAsync(q, stream));
    TRY(cuStreamSynchronize(stream));
    bad |= attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 0);
    TRY(cuGraphDestroy(graph));
    TRY(cuStreamDestroy_v2(own));
    TRY(cuMemPoolDestroy(pool));
    return bad;
}

/* ---- contexts --------------------------------------------------------------- */

static int
contexts(void)
{
    size_t before = left();
    CUcontext other;
    CUdeviceptr p, q;

    for (int i = 0; i < 4; i++) {
        if (freed(&p, SIZE, NULL))
            return 1;
        TRY(cuCtxCreate_v2(&other, 0, dev));
        if (lap(SIZE, NULL, NULL, 5) || freed(&q, SIZE, NULL))
            return 1;
        TRY(cuCtxPushCurrent_v2(ctx));
        if (lap(SIZE, NULL, NULL, 6) || lap(SIZE, NULL, stream, 7))
            return 1;
        TRY(cuCtxPopCurrent_v2(NULL));
        TRY(cuMemAllocAsync(&p, SIZE, NULL));
        TRY(cuMemFreeAsync(p, NULL));
        TRY(cuCtxDestroy_v2(other));
        TRY(cuCtxSetCurrent(ctx));
        LEFT(before);
    }
    return 0;
}

static int
reset(void)
{
    CUdeviceptr p;

    for (int i = 0; i < 3; i++) {
        if (lap(SIZE, NULL, stream, 1) || lap(SIZE, NULL, NULL, 1) ||
            freed(&p, SIZE, NULL))
            return 1;
        TRY(cuDevicePrimaryCtxReset_v2(dev));
        TRY(cuDevicePrimaryCtxRetain(&ctx, dev));
        TRY(cuCtxSetCurrent(ctx));
        TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        if (lap(SIZE, NULL, NULL, 2) || lap(SIZE, NULL, stream, 3))
            return 1;
    }
    return 0;
}

/* ---- threads ---------------------------------------------------------------- */

static CUdeviceptr handed_over;

static void *
free_it(void *arg)
{
    (void)arg;
    if (cuCtxSetCurrent(ctx) != CUDA_SUCCESS ||
        cuMemFreeAsync(handed_over, stream) != CUDA_SUCCESS)
        return (void *)1;
    return NULL;
}

static void *
many_laps(void *arg)
{
    CUstream mine = (uintptr_t)arg % 2 ? CU_STREAM_PER_THREAD : stream;
    unsigned char value = (unsigned char)(uintptr_t)arg, got = 0;
    CUdeviceptr p;

    if (cuCtxSetCurrent(ctx) != CUDA_SUCCESS)
        return (void *)1;
    for (int i = 0; i < 200; i++) {
        size_t size = 512u << i % 3, room;

        if (cuMemAllocAsync(&p, size, mine) != CUDA_SUCCESS ||
            cuMemsetD8Async(p, value, size, mine) != CUDA_SUCCESS ||
            cuMemcpyDtoHAsync_v2(&got, p + size - 1, 1, mine) != CUDA_SUCCESS ||
            cuMemFreeAsync(p, mine) != CUDA_SUCCESS ||
            cuStreamSynchronize(mine) != CUDA_SUCCESS || got != value)
            return (void *)1;
        if (i % 16 == 0 && cuMemGetInfo_v2(&room, &room) != CUDA_SUCCESS)
            return (void *)1;
    }
    return NULL;
}

static int
threads(void)
{
    pthread_t thread[4];
    void *bad = NULL, *some = NULL;

    for (int i = 0; i < 20; i++) {
        TRY(cuMemAllocAsync(&handed_over, SIZE, stream));
        SAME(pthread_create(&thread[0], NULL, free_it, NULL), 0);
        SAME(pthread_join(thread[0], &bad), 0);
        SAME(bad != NULL, 0);
    }
    for (uintptr_t i = 0; i < 4; i++)
        SAME(pthread_create(&thread[i], NULL, many_laps, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++) {
        SAME(pthread_join(thread[i], &some), 0);
        bad = bad ? bad : some;
    }
    SAME(bad != NULL, 0);
    return 0;
}

/* ---- blocks of which the program has a part ------------------------------------ */

/* An allocation of @size bytes whose block may be the longer one that was freed. */
static int
part_of_a_block(CUdeviceptr *p, size_t size, CUmemoryPool pool)
{
    CUdeviceptr longer;

    TRY(cuMemAllocFromPoolAsync(&longer, 3 * SIZE, pool, stream));
    TRY(cuMemsetD8Async(longer, 1, 3 * SIZE, stream));
    TRY(cuMemFreeAsync(longer, stream));
    TRY(cuMemAllocFromPoolAsync(p, size, pool, stream));
    return 0;
}

/* Fills and copies that end behind it, or begin there. */
static int
ends_are_kept(CUdeviceptr p, size_t size)
{
    static unsigned char host[4 * SIZE];
    CUDA_MEMCPY2D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = p,
                         .srcPitch = SIZE,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = host,
                         .dstPitch = SIZE,
                         .WidthInBytes = SIZE,
                         .Height = 3};
    CUdeviceptr other;

    TRY(cuStreamSynchronize(stream));
    TRY(cuMemAlloc_v2(&other, 4 * SIZE));
    TRY(cuMemsetD8_v2(p, 2, size));
    TRY(cuMemsetD8_v2(p + size, 2, 0));
    CODE(settled(cuMemsetD8_v2(p, 2, size + 1)), CUDA_ERROR_INVALID_VALUE);
    CODE(settled(cuMemsetD8Async(p + 1, 2, size, stream)), CUDA_ERROR_INVALID_VALUE);
    CODE(settled(cuMemsetD8_v2(p + size, 2, 1)), CUDA_ERROR_INVALID_VALUE);
    CODE(settled(cuMemcpyDtoH_v2(host, p, size + 1)), CUDA_ERROR_INVALID_VALUE);
    CODE(settled(cuMemcpyDtoHAsync_v2(host, p + 8, size, stream)),
         CUDA_ERROR_INVALID_VALUE);
    CODE(settled(cuMemcpyDtoH_v2(host, p + size + 8, 8)), CUDA_ERROR_INVALID_VALUE);
    CODE(settled(cuMemcpyHtoD_v2(p, host, size + 1)), CUDA_ERROR_INVALID_VALUE);
    CODE(settled(cuMemcpyHtoDAsync_v2(p + size, host, 1, stream)),
         CUDA_ERROR_INVALID_VALUE);
    CODE(settled(cuMemcpyDtoD_v2(other, p, size + 1)), CUDA_ERROR_INVALID_VALUE);
    CODE(settled(cuMemcpyDtoD_v2(p + 1, other, size)), CUDA_ERROR_INVALID_VALUE);
    CODE(settled(cuMemcpy2D_v2(&box)), CUDA_ERROR_INVALID_VALUE);
    TRY(cuMemcpyDtoH_v2(host, p, size));
    TRY(cuMemcpyHtoD_v2(p, host, size));
    TRY(cuMemcpyDtoD_v2(other, p, size));
    SAME(host[size - 1], 2);
    TRY(cuMemFree_v2(other));
    return 0;
}

static int
part_is_all_there_is(CUdeviceptr p, size_t size, CUmemoryPool pool)
{
    CUdeviceptr base;
    size_t n;

    TRY(cuMemGetAddressRange_v2(&base, &n, p + size - 1));
    SAME(base, p);
    SAME(n, size);
    TRY(cuPointerGetAttribute(&n, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p + 5));
    SAME(n, size);
    CODE(cuMemGetAddressRange_v2(&base, &n, p + size), CUDA_ERROR_NOT_FOUND);
    CODE(cuPointerGetAttribute(&n, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p + size),
         CUDA_ERROR_INVALID_VALUE);
    return attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, size) ||
           attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 3 * SIZE);
}

static int
parts_of_blocks(void)
{
    size_t size = 2 * SIZE + 4;
    CUmemoryPool pool;
    CUdeviceptr p;
    int bad = 0;

    TRY(made(&pool));
    for (int i = 0; i < 3 && !bad; i++) {
        bad |= part_of_a_block(&p, size, pool) || part_is_all_there_is(p, size, pool);
        if (i < 2)
            TRY(cuMemFreeAsync(p, stream));
        else
            TRY(cuMemFree_v2(p));
        bad |= lap(3 * SIZE, pool, stream, (unsigned char)i);
    }
    bad |= part_of_a_block(&p, size, pool) || ends_are_kept(p, size);
    TRY(cuMemFreeAsync(p, stream));
    CODE(cuMemFreeAsync(p, stream), CUDA_ERROR_INVALID_VALUE);
    TRY(cuStreamSynchronize(stream));
    bad |= attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 0);
    TRY(cuMemPoolDestroy(pool));
    return bad;
}

/* Sizes as they come, of which rarely one comes twice; eight are in use. */
static int
sizes_that_depend_on_data(void)
{
    struct {
        CUdeviceptr p;
        size_t size;
        unsigned char value;
    } at[8] = {{0}};
    unsigned long long used = 0;
    unsigned seed = 12345;
    CUmemoryPool pool;
    unsigned char got;
    int bad = 0;

    TRY(made(&pool));
    for (int i = 0; i < 600 && !bad; i++) {
        unsigned k = (seed = seed * 1664525u + 1013904223u) >> 29;

        if (at[k].p) {
            TRY(cuMemcpyDtoHAsync_v2(&got, at[k].p + at[k].size - 1, 1, stream));
            TRY(cuStreamSynchronize(stream));
            SAME(got, at[k].value);
            TRY(cuMemFreeAsync(at[k].p, stream));
            used -= at[k].size;
        }
        at[k].size = 1u + (seed >> 8) % 4000u * (1u << (seed >> 5) % 4u);
        at[k].value = (unsigned char)i;
        TRY(cuMemAllocFromPoolAsync(&at[k].p, at[k].size, pool, stream));
        TRY(cuMemsetD8Async(at[k].p, at[k].value, at[k].size, stream));
        used += at[k].size;
        if (i % 50 == 49)
            bad |= attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, used);
    }
    for (int k = 0; k < 8; k++)
        if (at[k].p)
            TRY(cuMemFreeAsync(at[k].p, stream));
    TRY(cuStreamSynchronize(stream));
    bad |= attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 0);
    TRY(cuMemPoolDestroy(pool));
    return bad;
}

/* ---- all of the memory ------------------------------------------------------- */

static int
all_of_it(void)
{
    size_t room = left();
    CUdeviceptr p, q;

    for (int i = 0; i < 4; i++) {
        for (size_t k = 1; k <= 8; k++)
            if (freed(&p, k * SIZE, stream))
                return 1;
        TRY(i == 0   ? cuMemAlloc_v2(&q, room)
            : i == 1 ? cuMemAllocAsync(&q, room, stream)
            : i == 2 ? cuMemAllocManaged(&q, room, CU_MEM_ATTACH_GLOBAL)
                     : cuMemAllocAsync(&q, room, NULL));
        CODE(cuMemAllocAsync(&p, SIZE, stream), CUDA_ERROR_OUT_OF_MEMORY);
        TRY(cuMemFree_v2(q));
    }
    return 0;
}

static int
begin(void)
{
    TRY(cuInit(0));
    TRY(cuDeviceGet(&dev, 0));
    TRY(cuDevicePrimaryCtxRetain(&ctx, dev));
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return 0;
}

int
main(int argc, char **argv)
{
    static const struct part parts[] = {
        {"begin", begin},
        {"over and over", over_and_over},
        {"many at a time", many_at_a_time},
        {"what pools say", use_of_pools},
        {"the current pool", current_pool},
        {"what is left", memory_left},
        {"freed addresses", freed_addresses},
        {"identity", identity},
        {"other streams", other_streams},
        {"frees that wait", frees_that_wait},
        {"largest use behind frees that wait", largest_use_behind_frees_that_wait},
        {"largest use beside a thread that asks",
         largest_use_beside_a_thread_that_asks},
        {"streams that end", streams_that_end},
        {"captures", captures},
        {"largest use beside captures", largest_use_beside_captures},
        {"parts of blocks", parts_of_blocks},
        {"sizes that depend on data", sizes_that_depend_on_data},
        {"contexts", contexts},
        {"reset", reset},
        {"threads", threads},
        {"all of the memory", all_of_it},
    };
    bool all = argc > 1 && strcmp(argv[1], "all") == 0;

    strict = strict_asked(argc, argv);
    return parts_run(parts, sizeof(parts) / sizeof(*parts) - !all);
}
