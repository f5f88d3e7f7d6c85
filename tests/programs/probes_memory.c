/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: what is said of it, values written by streams, frees, what is counted. */
#include "probes.h"

#include <semaphore.h>
#include <time.h>

static CUresult
make_pool(CUmemoryPool *pool)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

    return cuMemPoolCreate(pool, &props);
}

/* ---- what is said of memory -------------------------------------------------------
 */

static void
ask_of_pointer(const char *what, CUdeviceptr p)
{
    static const struct {
        const char *name;
        CUpointer_attribute which;
    } asked[] = {
        {"memory type", CU_POINTER_ATTRIBUTE_MEMORY_TYPE},
        {"managed", CU_POINTER_ATTRIBUTE_IS_MANAGED},
        {"ordinal", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL},
        {"mapped", CU_POINTER_ATTRIBUTE_MAPPED},
        {"handle types", CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES},
        {"access", CU_POINTER_ATTRIBUTE_ACCESS_FLAGS},
        {"ipc", CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE},
        {"sync memops", CU_POINTER_ATTRIBUTE_SYNC_MEMOPS},
        {"size", CU_POINTER_ATTRIBUTE_RANGE_SIZE},
    };
    static const struct {
        const char *name;
        CUpointer_attribute which;
    } places[] = {
        {"context", CU_POINTER_ATTRIBUTE_CONTEXT},
        {"device pointer", CU_POINTER_ATTRIBUTE_DEVICE_POINTER},
        {"host pointer", CU_POINTER_ATTRIBUTE_HOST_POINTER},
        {"start", CU_POINTER_ATTRIBUTE_RANGE_START_ADDR},
        {"pool", CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE},
    };

    printf("  %s:", what);
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        unsigned long long v = 0;
        CUresult r = cuPointerGetAttribute(&v, asked[i].which, p);

        if (r == CUDA_SUCCESS)
            printf(" %s %lld;", asked[i].name, (long long)(int)v);
        else
            printf(" %s error %d;", asked[i].name, (int)r);
    }
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        CUdeviceptr v = 0x77;
        CUresult r = cuPointerGetAttribute(&v, places[i].which, p);

        if (r != CUDA_SUCCESS)
            printf(" %s error %d;", places[i].name, (int)r);
        else
            printf(" %s %s;", places[i].name,
                   v == p                                   ? "itself"
                   : v == 0                                 ? "none"
                   : v == (CUdeviceptr)(uintptr_t)probe_ctx ? "ours"
                                                            : "some");
    }
    printf("\n");
}

static void
pointers(void)
{
    static char page[8192];
    CUdeviceptr p;
    CUmemoryPool pool;
    void *host;
    int local = 0;

    probe_begin();
    NEED(cuMemAlloc_v2(&p, 4096));
    ask_of_pointer("device", p);
    ask_of_pointer("inside device", p + 100);
    ask_of_pointer("behind device", p + 4096);
    NEED(cuMemFree_v2(p));
    ask_of_pointer("freed", p);
    NEED(cuMemAllocManaged(&p, 300000, CU_MEM_ATTACH_GLOBAL));
    ask_of_pointer("managed", p);
    ask_of_pointer("inside managed", p + 100);
    ask_of_pointer("behind managed", p + 300001);
    NEED(cuMemAllocManaged(&p, 300000, CU_MEM_ATTACH_HOST));
    ask_of_pointer("managed of the host", p);
    NEED(cuMemHostAlloc(&host, 4096, 0));
    ask_of_pointer("pinned", (CUdeviceptr)(uintptr_t)host);
    NEED(cuMemHostAlloc(&host, 4096,
                        CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    ask_of_pointer("pinned and mapped", (CUdeviceptr)(uintptr_t)host);
    NEED(cuMemHostRegister_v2(page, sizeof(page), 0));
    ask_of_pointer("registered", (CUdeviceptr)(uintptr_t)page);
    NEED(make_pool(&pool));
    NEED(cuMemAllocFromPoolAsync(&p, 4096, pool, NULL));
    ask_of_pointer("of a pool", p);
    NEED(cuMemFreeAsync(p, NULL));
    NEED(cuCtxSynchronize());
    ask_of_pointer("of a pool, freed", p);
    ask_of_pointer("a variable of the host", (CUdeviceptr)(uintptr_t)&local);
    ask_of_pointer("nothing", 0);
}

static void
managed_memory(void)
{
    CUdeviceptr p, q = 0x77;
    int v[2] = {-7, -7};

    probe_begin();
    NEED(cuMemAllocManaged(&p, 300000, CU_MEM_ATTACH_GLOBAL));
    SAY("advise an odd range",
        cuMemAdvise(p, 300000, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
    SAY("prefetch an odd range", cuMemPrefetchAsync(p, 300000, 0, NULL));
    SAY("read mostly",
        cuMemRangeGetAttribute(v, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 300000));
    printf("  %d\n", v[0]);
    SAY("where prefetched",
        cuMemRangeGetAttribute(v, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p,
                               300000));
    printf("  %d\n", v[0]);
    SAY("read mostly beyond the end",
        cuMemRangeGetAttribute(v, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 4 * MIB));
    SAY("prefetch beyond the end", cuMemPrefetchAsync(p, 4 * MIB, 0, NULL));
    NEED(cuMemAlloc_v2(&q, 4096));
    SAY("advise device memory", cuMemAdvise(q, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
    q = 0x77;
    SAY("no bytes", cuMemAllocManaged(&q, 0, CU_MEM_ATTACH_GLOBAL));
    printf("  place: %s\n", q == 0x77 ? "untouched" : q ? "something" : "0");
    q = 0x77;
    SAY("unknown flags", cuMemAllocManaged(&q, 16, 99));
    printf("  place: %s\n", q == 0x77 ? "untouched" : q ? "something" : "0");
    SAY("flags of one stream", cuMemAllocManaged(&q, 16, CU_MEM_ATTACH_SINGLE));
    q = 0x77;
    SAY("too much", cuMemAllocManaged(&q, (size_t)1 << 50, CU_MEM_ATTACH_GLOBAL));
    printf("  place: %s\n", q == 0x77 ? "untouched" : q ? "something" : "0");
    q = 0x77;
    SAY("no bytes of the device", cuMemAlloc_v2(&q, 0));
    printf("  place: %s\n", q == 0x77 ? "untouched" : q ? "something" : "0");
    q = 0x77;
    SAY("too much of the device", cuMemAlloc_v2(&q, (size_t)1 << 50));
    printf("  place: %s\n", q == 0x77 ? "untouched" : q ? "something" : "0");
    SAY("no place for what is free", cuMemGetInfo_v2(NULL, NULL));
}

/* ---- values written and waited for -------------------------------------------------
 */

static void
ask_values(const char *what, CUdeviceptr at)
{
    CUstreamBatchMemOpParams op = {0};
    CUresult r[5];

    r[0] = cuStreamWriteValue32_v2(NULL, at, 5, 0);
    r[1] = cuStreamWaitValue32_v2(NULL, at, 5, CU_STREAM_WAIT_VALUE_EQ);
    r[2] = cuStreamWriteValue64_v2(NULL, at, 5, 0);
    r[3] = cuStreamWaitValue64_v2(NULL, at, 5, CU_STREAM_WAIT_VALUE_EQ);
    op.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op.writeValue.address = at;
    op.writeValue.value = 5;
    r[4] = cuStreamBatchMemOp_v2(NULL, 1, &op, 0);
    printf("  %s: write %d, wait %d, 64 bits: write %d, wait %d, batch %d, then %d\n",
           what, (int)r[0], (int)r[1], (int)r[2], (int)r[3], (int)r[4],
           (int)cuCtxSynchronize());
}

static void
values(void)
{
    static char page[8192] __attribute__((aligned(64)));
    CUdeviceptr p, q;
    CUmemoryPool pool;
    void *host;

    probe_begin();
    NEED(cuMemAlloc_v2(&p, 4096));
    ask_values("device", p);
    ask_values("device, at 4", p + 4);
    NEED(make_pool(&pool));
    NEED(cuMemAllocFromPoolAsync(&q, 4096, pool, NULL));
    ask_values("of a pool", q);
    NEED(cuMemHostAlloc(&host, 4096, 0));
    ask_values("pinned", (CUdeviceptr)(uintptr_t)host);
    NEED(cuMemHostRegister_v2(page, sizeof(page), 0));
    ask_values("registered", (CUdeviceptr)(uintptr_t)page);
    NEED(cuMemAllocManaged(&q, 4096, CU_MEM_ATTACH_GLOBAL));
    ask_values("managed", q);
    SAY("write to an odd place", cuStreamWriteValue32_v2(NULL, p + 2, 5, 0));
    SAY("write 64 bits at 4", cuStreamWriteValue64_v2(NULL, p + 4, 5, 0));
    SAY("unknown flags", cuStreamWriteValue32_v2(NULL, p, 5, 64));
    SAY("unknown wait", cuStreamWaitValue32_v2(NULL, p, 5, 64));
    SAY("an empty batch", cuStreamBatchMemOp_v2(NULL, 0, NULL, 0));
    SAY("then", cuCtxSynchronize());
}

static void
value_to_nowhere(void)
{
    probe_begin();
    SAY("write to 4096", cuStreamWriteValue32_v2(NULL, 4096, 5, 0));
    SAY("then", cuCtxSynchronize());
}

static void
value_to_freed_memory(void)
{
    CUdeviceptr p;

    probe_begin();
    NEED(cuMemAlloc_v2(&p, 4096));
    NEED(cuMemFree_v2(p));
    SAY("write", cuStreamWriteValue32_v2(NULL, p, 5, 0));
    SAY("then", cuCtxSynchronize());
}

static void
value_to_pageable_memory(void)
{
    static unsigned word;

    probe_begin();
    SAY("write", cuStreamWriteValue32_v2(NULL, (CUdeviceptr)(uintptr_t)&word, 5, 0));
    SAY("then", cuCtxSynchronize());
    printf("  %u\n", word);
}

/* ---- frees --------------------------------------------------------------------------
 */

static double
ms_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void
pause_stream(void *user)
{
    const struct timespec t = {.tv_nsec = 300000000};

    (void)user;
    nanosleep(&t, NULL);
}

static void
pool_now(const char *when, CUmemoryPool pool)
{
    cuuint64_t used = 7, reserved = 7;

    cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
    cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
    printf("  %s: used %llu, reserved %llu\n", when, (unsigned long long)used,
           (unsigned long long)reserved);
}

/* By cuMemFree, while a stream works. */
static void
frees(void)
{
    static const char *const kinds[] = {"of a pool, which its stream has used",
                                        "of a pool, another stream works",
                                        "of cuMemAlloc", "managed"};
    CUstream stream, other;
    CUmemoryPool pool;

    probe_begin();
    NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    NEED(make_pool(&pool));
    for (int i = 0; i < 4; i++) {
        CUdeviceptr p;
        CUresult r;
        double begin;

        NEED(i < 2    ? cuMemAllocFromPoolAsync(&p, 65536, pool, stream)
             : i == 2 ? cuMemAlloc_v2(&p, 65536)
                      : cuMemAllocManaged(&p, 65536, CU_MEM_ATTACH_GLOBAL));
        NEED(cuMemsetD8Async(p, 1, 64, stream));
        NEED(cuCtxSynchronize());
        pool_now("before", pool);
        NEED(cuLaunchHostFunc(i == 1 ? other : stream, pause_stream, NULL));
        begin = ms_now();
        r = cuMemFree_v2(p);
        printf("  free %s: %d, %s\n", kinds[i], (int)r,
               ms_now() - begin > 150 ? "waits" : "at once");
        pool_now("then", pool);
        SAY("free it again", cuMemFree_v2(p));
        SAY("is the stream done", cuStreamQuery(i == 1 ? other : stream));
        NEED(cuCtxSynchronize());
        pool_now("after a wait", pool);
    }
}

static void
frees_of_pools(void)
{
    CUmemoryPool pool;
    CUdeviceptr p, q;

    probe_begin();
    NEED(make_pool(&pool));
    pool_now("at first", pool);
    NEED(cuMemAllocFromPoolAsync(&p, 1000, pool, NULL));
    pool_now("1000 bytes", pool);
    NEED(cuMemAllocFromPoolAsync(&q, 3 * MIB, pool, NULL));
    pool_now("and 3 MiB", pool);
    NEED(cuCtxSynchronize());
    NEED(cuMemFreeAsync(p, NULL));
    pool_now("free is queued", pool);
    SAY("free it again", cuMemFreeAsync(p, NULL));
    NEED(cuCtxSynchronize());
    pool_now("freed", pool);
    SAY("free it once more", cuMemFreeAsync(p, NULL));
    SAY("free the other by cuMemFree", cuMemFree_v2(q));
    pool_now("then", pool);
    NEED(cuCtxSynchronize());
    pool_now("after a wait", pool);
    SAY("trim", cuMemPoolTrimTo(pool, 0));
    pool_now("trimmed", pool);
    NEED(cuMemAllocFromPoolAsync(&p, 1000, pool, NULL));
    SAY("destroy with memory in it", cuMemPoolDestroy(pool));
    SAY("free that", cuMemFreeAsync(p, NULL));
    SAY("no bytes", cuMemAllocAsync(&p, 0, NULL));
    SAY("free nothing", cuMemFreeAsync(0, NULL));
    SAY("free nothing by cuMemFree", cuMemFree_v2(0));
    SAY("free what is none", cuMemFreeAsync(4096, NULL));
}

/* A kernel reads @at, which is freed, or no memory. */
static void
read_word(CUdeviceptr out, CUdeviceptr at)
{
    void *params[] = {&out, &at};

    SAY("launch", probe_launch(probe_kernel("load"), params, NULL));
    SAY("wait", cuCtxSynchronize());
}

static void
kernel_reads_freed_device_memory(void)
{
    CUdeviceptr p, out;

    probe_begin();
    NEED(cuMemAlloc_v2(&out, 64));
    NEED(cuMemAlloc_v2(&p, 64 * MIB));
    NEED(cuMemFree_v2(p));
    read_word(out, p);
}

static void
kernel_reads_freed_pinned_memory(void)
{
    CUdeviceptr out;
    void *p;

    probe_begin();
    NEED(cuMemAlloc_v2(&out, 64));
    NEED(cuMemHostAlloc(&p, 16 * MIB, 0));
    NEED(cuMemFreeHost(p));
    read_word(out, (CUdeviceptr)(uintptr_t)p);
}

static void
kernel_reads_beyond_an_allocation(void)
{
    CUdeviceptr p, out;

    probe_begin();
    NEED(cuMemAlloc_v2(&out, 64));
    NEED(cuMemAlloc_v2(&p, 4096));
    read_word(out, p + 4096);
}

static void
copies_of_freed_memory(void)
{
    char bytes[64];
    CUdeviceptr p, q;

    probe_begin();
    NEED(cuMemAlloc_v2(&q, 4096));
    NEED(cuMemAlloc_v2(&p, 64 * MIB));
    NEED(cuMemFree_v2(p));
    SAY("cuMemcpyDtoH", cuMemcpyDtoH_v2(bytes, p, 64));
    SAY("cuMemcpyHtoD", cuMemcpyHtoD_v2(p, bytes, 64));
    SAY("cuMemcpyDtoD", cuMemcpyDtoD_v2(q, p, 64));
    SAY("cuMemsetD8", cuMemsetD8_v2(p, 1, 64));
    SAY("cuMemcpyDtoH beyond the end", cuMemcpyDtoH_v2(bytes, q + 4096, 64));
    SAY("cuMemcpyDtoH over the end", cuMemcpyDtoH_v2(bytes, q + 4080, 64));
    SAY("cuMemsetD8 over the end", cuMemsetD8_v2(q + 4080, 1, 64));
    SAY("cuMemsetD32 at an odd place", cuMemsetD32_v2(q + 2, 1, 4));
    SAY("wait", cuCtxSynchronize());
    SAY("no bytes", cuMemcpyDtoH_v2(bytes, q, 0));
    SAY("no bytes of nothing", cuMemcpyDtoH_v2(bytes, 0, 0));
    SAY("free inside", cuMemFree_v2(q + 256));
    SAY("free twice",
        cuMemFree_v2(q) == CUDA_SUCCESS ? cuMemFree_v2(q) : CUDA_ERROR_UNKNOWN);
}

/* ---- what counts, on a card that nobody else uses -----------------------------------
 */

static size_t at_first;

static void
counted(const char *what)
{
    size_t now = 0, total;

    cuMemGetInfo_v2(&now, &total);
    printf("  %s: %lld KiB\n", what, ((long long)at_first - (long long)now) / 1024);
}

static void
what_counts(void)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAllocationProp card = prop;
    CUmemGenericAllocationHandle h;
    CUDA_ARRAY_DESCRIPTOR d = {64, 64, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    CUmemoryPool pool;
    CUdeviceptr p, q, at;
    CUarray array;
    CUcontext second;
    size_t total;

    probe_begin();
    NEED(make_pool(&pool));
    NEED(cuMemGetInfo_v2(&at_first, &total));
    NEED(cuMemAlloc_v2(&p, 1000));
    counted("1000 bytes");
    NEED(cuMemAlloc_v2(&q, 1000));
    counted("twice 1000 bytes");
    NEED(cuMemFree_v2(p));
    NEED(cuMemFree_v2(q));
    counted("freed");
    NEED(cuMemAlloc_v2(&p, 3 * MIB));
    counted("3 MiB");
    NEED(cuMemFree_v2(p));
    counted("freed");
    NEED(cuMemCreate(&h, 2 * MIB, &card, 0));
    counted("cuMemCreate of 2 MiB");
    NEED(cuMemAddressReserve(&at, 2 * MIB, 0, 0, 0));
    NEED(cuMemMap(at, 2 * MIB, 0, h, 0));
    counted("mapped");
    NEED(cuMemRelease(h));
    counted("released");
    NEED(cuMemUnmap(at, 2 * MIB));
    counted("unmapped");
    NEED(cuMemAllocFromPoolAsync(&p, 1000, pool, NULL));
    NEED(cuCtxSynchronize());
    counted("1000 bytes of a pool");
    NEED(cuMemFreeAsync(p, NULL));
    counted("free is queued");
    NEED(cuCtxSynchronize());
    counted("freed");
    NEED(cuArrayCreate_v2(&array, &d));
    counted("array of 4 KiB");
    NEED(cuArrayDestroy(array));
    counted("destroyed");
    NEED(cuMemAllocManaged(&p, 8 * MIB, CU_MEM_ATTACH_GLOBAL));
    counted("8 MiB managed");
    NEED(cuMemsetD8_v2(p, 1, 8 * MIB));
    NEED(cuCtxSynchronize());
    counted("written by the card");
    NEED(cuMemFree_v2(p));
    counted("freed");
    NEED(cuCtxCreate_v2(&second, 0, 0));
    counted("a second context");
    NEED(cuCtxDestroy_v2(second));
    NEED(cuCtxSetCurrent(probe_ctx));
    counted("destroyed");
}

const struct probe probes_memory[] = {
    {"what is said of pointers", pointers},
    {"managed memory", managed_memory},
    {"values of streams", values},
    {"value to nowhere", value_to_nowhere},
    {"value to freed memory", value_to_freed_memory},
    {"value to pageable memory", value_to_pageable_memory},
    {"frees", frees},
    {"frees of pools", frees_of_pools},
    {"a kernel reads freed device memory", kernel_reads_freed_device_memory},
    {"a kernel reads freed pinned memory", kernel_reads_freed_pinned_memory},
    {"a kernel reads beyond an allocation", kernel_reads_beyond_an_allocation},
    {"copies of freed memory", copies_of_freed_memory},
    {"what counts as used", what_counts},
};
const size_t n_probes_memory = sizeof(probes_memory) / sizeof(probes_memory[0]);
