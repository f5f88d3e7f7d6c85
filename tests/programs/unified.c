/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page-locked memory used by the card at the host's address: one line per promise.
 *
 * With unified addressing the pointer of cuMemHostAlloc is the device pointer too, so
 * nobody here asks for one, except where memory is registered.  The same program prints
 * the same on a card of its own and over every transport.
 */
#include "prog.h"
#include "strict.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define N 5000u
#define ROUNDS 20u
#define MANY 600u
#define FREED 700 /* CUDA_ERROR_ILLEGAL_ADDRESS */

PROG_EMBED(unified_ptx, "unified.ptx");

static struct prog prog;
static CUfunction add_one, by_table, answer, store_after;

struct table {
    const unsigned *in;
    unsigned *out;
    unsigned n;
};

static unsigned *
host_new(size_t n, unsigned flags)
{
    void *p;

    CU(cuMemHostAlloc(&p, n * sizeof(unsigned), flags));
    return p;
}

static void
fill(unsigned *p, unsigned n, unsigned from)
{
    for (unsigned i = 0; i < n; i++)
        p[i] = from + i;
}

static size_t
differ(const unsigned *p, unsigned n, unsigned from)
{
    size_t wrong = 0;

    for (unsigned i = 0; i < n; i++)
        wrong += p[i] != from + i;
    return wrong;
}

static void
launch(CUfunction f, CUstream stream, unsigned n, void **args)
{
    CU(cuLaunchKernel(f, (n + 127) / 128, 1, 1, n == 1 ? 1 : 128, 1, 1, 0, stream, args,
                      NULL));
}

static void
launch_add(const void *in, void *out, unsigned n, CUstream stream)
{
    void *args[] = {&in, &out, &n};

    launch(add_one, stream, n, args);
}

static size_t
kernel_reads_and_writes_the_hosts_address(void)
{
    unsigned *in = host_new(N, 0), *out = host_new(N, 0);
    size_t wrong = 0;

    for (unsigned round = 0; round < 3; round++) {
        fill(in, N, round * 1000);
        launch_add(in, out, N, NULL);
        CU(cuCtxSynchronize());
        wrong += differ(out, N, round * 1000 + 1);
    }
    CU(cuMemFreeHost(in));
    CU(cuMemFreeHost(out));
    return wrong;
}

static size_t
pointers_inside_and_side_by_side_are_exact(void)
{
    unsigned *p = host_new(3 * N, CU_MEMHOSTALLOC_PORTABLE);
    size_t wrong;

    memset(p, 0x5a, 3 * N * sizeof(*p));
    fill(p + 7, 100, 1);
    launch_add(p + 7, p + 107, 100, NULL);
    CU(cuStreamSynchronize(NULL));
    wrong = differ(p + 7, 100, 1) + differ(p + 107, 100, 2);
    for (unsigned i = 0; i < 3 * N; i++)
        wrong += (i < 7 || i >= 207) && p[i] != 0x5a5a5a5a;
    CU(cuMemFreeHost(p));
    return wrong;
}

/* In memory of the card, in page-locked memory and in managed memory. */
static size_t
pointers_in_structures_are_followed(void)
{
    size_t wrong = 0;

    for (unsigned where = 0; where < 3; where++) {
        unsigned *in = host_new(N, 0), *out = host_new(N, 0);
        struct table table = {in, out, N}, *pinned;
        CUdeviceptr at;
        void *args[] = {&at};

        fill(in, N, where);
        if (where == 0) {
            CU(cuMemAlloc(&at, sizeof(table)));
            CU(cuMemcpyHtoD(at, &table, sizeof(table)));
        } else if (where == 1) {
            CU(cuMemAllocHost_v2((void **)&pinned, sizeof(table)));
            *pinned = table;
            at = (uintptr_t)pinned;
        } else {
            CU(cuMemAllocManaged(&at, sizeof(table), CU_MEM_ATTACH_GLOBAL));
            memcpy((void *)(uintptr_t)at, &table, sizeof(table));
        }
        launch(by_table, NULL, N, args);
        CU(cuCtxSynchronize());
        wrong += differ(out, N, where + 1);
        if (where == 1)
            CU(cuMemFreeHost(pinned));
        else
            CU(cuMemFree(at));
        CU(cuMemFreeHost(in));
        CU(cuMemFreeHost(out));
    }
    return wrong;
}

/* Copies, fills and kernels in one stream find what was done before them in it. */
static size_t
work_in_a_stream_sees_the_work_before_it(void)
{
    unsigned *a = host_new(N, 0), *b = host_new(N, 0), *c = host_new(N, 0);
    CUdeviceptr device;
    CUstream stream;
    size_t wrong = 0;

    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc(&device, N * sizeof(*a)));
    for (unsigned round = 0; round < 5; round++) {
        fill(a, N, round);
        launch_add(a, b, N, stream);
        CU(cuMemcpyHtoDAsync(device, b, N * sizeof(*b), stream));
        launch_add((void *)(uintptr_t)device, (void *)(uintptr_t)device, N, stream);
        CU(cuMemcpyDtoHAsync(c, device, N * sizeof(*c), stream));
        launch_add(c, b, N, stream);
        CU(cuMemcpyAsync((uintptr_t)a, (uintptr_t)b, N * sizeof(*b), stream));
        CU(cuStreamSynchronize(stream));
        wrong +=
            differ(c, N, round + 2) + differ(b, N, round + 3) + differ(a, N, round + 3);
    }
    CU(cuMemsetD32Async((uintptr_t)a, 9, N, stream));
    launch_add(a, b, N, stream);
    CU(cuStreamSynchronize(stream));
    for (unsigned i = 0; i < N; i++)
        wrong += b[i] != 10;
    for (unsigned round = 0; round < 50; round++) {
        fill(a, N, round);
        launch_add(a, b, N, NULL);
        CU(cuMemcpyHtoD(device, b, 64)); /* behind the kernel */
        CU(cuMemcpyDtoH(c, device, 64));
        wrong += differ(c, 16, round + 1);
    }
    CU(cuMemFree(device));
    CU(cuStreamDestroy(stream));
    CU(cuMemFreeHost(a));
    CU(cuMemFreeHost(b));
    CU(cuMemFreeHost(c));
    return wrong;
}

enum shape { LINEAR, BOX, ARRAY, SHAPES };

/* @bytes of a source with bytes of one value each, as the shape wants it. */
struct source {
    CUdeviceptr linear;
    CUarray array;
    size_t bytes;
};

static void
source_set(const struct source *s, uint8_t value)
{
    CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                        .srcDevice = s->linear,
                        .srcPitch = s->bytes,
                        .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                        .dstArray = s->array,
                        .WidthInBytes = s->bytes,
                        .Height = 1};

    CU(cuMemsetD8Async(s->linear, value, s->bytes, NULL));
    CU(cuMemcpy2DAsync_v2(&up, NULL));
}

static void
source_down(const struct source *s, enum shape shape, void *to, bool waits)
{
    CUDA_MEMCPY2D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = s->linear,
                         .srcPitch = s->bytes / 4,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = to,
                         .dstPitch = s->bytes / 4,
                         .WidthInBytes = s->bytes / 4,
                         .Height = 4};

    if (shape == LINEAR)
        CU(waits ? cuMemcpyDtoH(to, s->linear, s->bytes)
                 : cuMemcpyDtoHAsync(to, s->linear, s->bytes, NULL));
    else if (shape == BOX)
        CU(waits ? cuMemcpy2D_v2(&box) : cuMemcpy2DAsync_v2(&box, NULL));
    else
        CU(waits ? cuMemcpyAtoH_v2(to, s->array, 0, s->bytes)
                 : cuMemcpyAtoHAsync_v2(to, s->array, 0, s->bytes, NULL));
}

static size_t
bytes_differ(const unsigned *p, const struct source *s, uint8_t value)
{
    const uint8_t *bytes = (const uint8_t *)p;
    size_t wrong = 0;

    for (size_t i = 0; i < s->bytes; i++)
        wrong += bytes[i] != value;
    return wrong;
}

/* The host knows the value 3 of round 0 when 9 and 3 follow each other. */
static size_t
copies_of_a_shape(const struct source *s, enum shape shape, unsigned *p,
                  CUdeviceptr dev, unsigned *out)
{
    unsigned n = (unsigned)(s->bytes / sizeof(*p));
    size_t wrong = 0;

    for (unsigned round = 0; round < 4; round++) {
        source_set(s, 3);
        source_down(s, shape, p, false);
        if (round % 2 == 0)
            CU(cuCtxSynchronize());
        source_set(s, 9);
        source_down(s, shape, p, false);
        source_set(s, 3);
        source_down(s, shape, p, true);
        wrong += bytes_differ(p, s, 3);
        CU(cuCtxSynchronize());
        wrong += bytes_differ(p, s, 3);
        source_set(s, (uint8_t)round);
        source_down(s, shape, p, false);
        launch_add((void *)(uintptr_t)dev, out, n, NULL);
        CU(cuCtxSynchronize());
        for (unsigned i = 0; i < n; i++)
            wrong += out[i] != round * 0x01010101u + 1;
        launch_add(out, (void *)(uintptr_t)dev, n, NULL);
        source_down(s, shape, p, true);
        wrong += bytes_differ(p, s, (uint8_t)round);
    }
    return wrong;
}

static size_t
copies_down_come_behind_the_work_before_them(void)
{
    struct source s = {.bytes = 96 * 1024};
    CUDA_ARRAY_DESCRIPTOR kind = {
        .Width = s.bytes / 4, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1};
    unsigned *p = host_new(s.bytes / 4, 0), *out = host_new(s.bytes / 4, 0);
    unsigned *own = util_alloc(s.bytes / 4, sizeof(*own));
    CUdeviceptr managed, dev;
    size_t wrong = 0;

    CU(cuMemHostRegister_v2(own, s.bytes, CU_MEMHOSTREGISTER_DEVICEMAP));
    CU(cuMemHostGetDevicePointer_v2(&dev, own, 0));
    CU(cuMemAllocManaged(&managed, s.bytes, CU_MEM_ATTACH_GLOBAL));
    CU(cuMemAlloc(&s.linear, s.bytes));
    CU(cuArrayCreate_v2(&s.array, &kind));
    launch_add(p, out, 1, NULL); /* the card has both from now on */
    for (enum shape shape = LINEAR; shape < SHAPES; shape++)
        wrong += copies_of_a_shape(&s, shape, p, (uintptr_t)p, out) +
                 copies_of_a_shape(&s, shape, own, dev, out) +
                 copies_of_a_shape(&s, shape, (void *)(uintptr_t)managed, managed, out);
    CU(cuArrayDestroy(s.array));
    CU(cuMemFree(s.linear));
    CU(cuMemFree(managed));
    CU(cuMemHostUnregister(own));
    free(own);
    CU(cuMemFreeHost(p));
    CU(cuMemFreeHost(out));
    return wrong;
}

static size_t
graphs_use_the_hosts_address(void)
{
    unsigned *in = host_new(N, 0), *out = host_new(N, 0);
    CUgraphExec exec;
    CUgraph graph;
    CUstream stream;
    size_t wrong = 0;

    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    launch_add(in, out, N, stream);
    launch_add(out, out, N, stream);
    CU(cuStreamEndCapture(stream, &graph));
    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (unsigned round = 0; round < 3; round++) {
        fill(in, N, round);
        CU(cuGraphLaunch(exec, stream));
        CU(cuStreamSynchronize(stream));
        wrong += differ(out, N, round + 2);
    }
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(graph));
    CU(cuStreamDestroy(stream));
    CU(cuMemFreeHost(in));
    CU(cuMemFreeHost(out));
    return wrong;
}

/* A ball that both keep in the air: each sees the other's flag move. */
static size_t
flags_move_both_ways_while_a_kernel_runs(void)
{
    unsigned *flags = host_new(64, 0), n = ROUNDS;
    volatile unsigned *go = &flags[0], *done = &flags[1];
    void *args[] = {&go, &done, &n};

    flags[0] = flags[1] = 0;
    launch(answer, NULL, 1, args);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        *go = round;
        while (*done != round)
            ;
    }
    CU(cuCtxSynchronize());
    CU(cuMemFreeHost(flags));
    return 0;
}

/* Memory of the program's own has another address on the card, which is asked for. */
static size_t
registered_memory_works_by_its_device_pointer(void)
{
    unsigned *own = util_alloc(N + 3, sizeof(*own)), n = 1, value = 3;
    unsigned *part = own + 3;
    CUdeviceptr dev;
    size_t wrong = 0;

    for (unsigned round = 0; round < 2; round++) {
        CU(cuMemHostRegister_v2(part, N * sizeof(*own), CU_MEMHOSTREGISTER_DEVICEMAP));
        CU(cuMemHostGetDevicePointer_v2(&dev, part, 0));
        fill(part, N, round);
        launch_add((void *)(uintptr_t)dev, (void *)(uintptr_t)dev, N, NULL);
        CU(cuCtxSynchronize());
        wrong += differ(part, N, round + 1);
        if (round == 1) {
            CUdeviceptr to = dev + 400;
            void *args[] = {&dev, &to, &value};

            part[0] = 0;
            launch(store_after, NULL, n, args);
            *(volatile unsigned *)part = value;
            while (*(volatile unsigned *)(part + 100) != value)
                ;
            CU(cuCtxSynchronize());
        }
        CU(cuMemHostUnregister(part));
    }
    wrong += own[0] || own[1] || own[2];
    free(own);
    return wrong;
}

static size_t
what_is_said_of_such_memory_is_one_address(void)
{
    unsigned *p = host_new(N, CU_MEMHOSTALLOC_DEVICEMAP), type = 0;
    CUdeviceptr dev = 0, attribute = 0;
    void *host = NULL;
    size_t wrong;
    int unified = 0;

    CU(cuDeviceGetAttribute(&unified, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
                            prog.device));
    CU(cuMemHostGetDevicePointer_v2(&dev, p + 5, 0));
    wrong = !unified + (dev != (uintptr_t)(p + 5));
    CU(cuPointerGetAttribute(&attribute, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                             (uintptr_t)(p + 9)));
    CU(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                             (uintptr_t)(p + 9)));
    CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                             (uintptr_t)(p + 9)));
    wrong += attribute != (uintptr_t)(p + 9);
    wrong += host != p + 9;
    wrong += type != CU_MEMORYTYPE_HOST;
    CU(cuMemFreeHost(p));
    return wrong;
}

static size_t
values_are_written_and_waited_for_in_a_stream(void)
{
    unsigned *p = host_new(16, 0);
    CUstream stream;

    p[0] = p[8] = 0;
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuStreamWriteValue32_v2(stream, (uintptr_t)&p[0], 77, 0));
    CU(cuStreamSynchronize(stream));
    CU(cuStreamWaitValue32_v2(stream, (uintptr_t)&p[8], 5, CU_STREAM_WAIT_VALUE_EQ));
    CU(cuStreamWriteValue32_v2(stream, (uintptr_t)&p[1], 78, 0));
    CU(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS
                                                     : CUDA_ERROR_UNKNOWN);
    *(volatile unsigned *)&p[8] = 5;
    CU(cuStreamSynchronize(stream));
    CU(cuStreamDestroy(stream));
    return (p[0] != 77) + (p[1] != 78);
}

static size_t
a_context_uses_the_memory_of_another(void)
{
    unsigned *p = host_new(N, CU_MEMHOSTALLOC_PORTABLE);
    CUfunction f, mine = add_one;
    CUcontext other;
    CUmodule module;
    size_t wrong;

    fill(p, N, 1);
    launch_add(p, p, N, NULL);
    CU(cuCtxSynchronize());
    CU(cuCtxCreate(&other, 0, prog.device));
    CU(cuModuleLoadData(&module, unified_ptx));
    CU(cuModuleGetFunction(&f, module, "add_one"));
    add_one = f;
    launch_add(p, p, N, NULL);
    CU(cuCtxSynchronize());
    add_one = mine;
    wrong = differ(p, N, 3);
    CU(cuCtxDestroy(other));
    launch_add(p, p, N, NULL);
    CU(cuCtxSynchronize());
    wrong += differ(p, N, 4);
    CU(cuMemFreeHost(p));
    return wrong;
}

/* The kernel waits for a flag that is set once another thread is in the free. */
static void *
set_later(void *flag)
{
    for (volatile unsigned i = 0; i < 20000000; i++)
        ;
    *(volatile unsigned *)flag = 1;
    return NULL;
}

static size_t
a_free_waits_for_the_work_before_it(void)
{
    unsigned *flag = host_new(16, 0), *data = host_new(N, 0), value = 1;
    unsigned *result = host_new(N, 0);
    CUstream stream;
    pthread_t thread;
    size_t wrong;
    void *args[] = {&flag, &data, &value};

    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    *flag = 0;
    fill(data, N, 1);
    launch(store_after, stream, 1, args);
    launch_add(data, result, N, stream);
    if (pthread_create(&thread, NULL, set_later, flag))
        return 1;
    CU(cuMemFreeHost(data));
    pthread_join(thread, NULL);
    CU(cuStreamSynchronize(stream));
    wrong = differ(result, N, 2);
    CU(cuStreamDestroy(stream));
    CU(cuMemFreeHost(flag));
    CU(cuMemFreeHost(result));
    return wrong;
}

/* The card is given the memory while a copy to it is under way. */
static size_t
copies_under_way_are_found_by_the_work_behind_them(void)
{
    unsigned *flag = host_new(16, 0), *p = host_new(N, 0), *out = host_new(N, 0);
    unsigned value = 1, *seen = host_new(16, 0);
    void *args[] = {&flag, &seen, &value};
    CUdeviceptr device;
    CUstream stream;
    pthread_t thread;
    size_t wrong;

    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc(&device, N * sizeof(*p)));
    fill(p, N, 40);
    CU(cuMemcpyHtoD(device, p, N * sizeof(*p)));
    memset(p, 0, N * sizeof(*p));
    *flag = 0;
    launch(store_after, stream, 1, args);
    CU(cuMemcpyDtoHAsync(p, device, N * sizeof(*p), stream));
    if (pthread_create(&thread, NULL, set_later, flag))
        return 1;
    launch_add(p, out, N, stream);
    pthread_join(thread, NULL);
    CU(cuStreamSynchronize(stream));
    wrong = differ(p, N, 40) + differ(out, N, 41);
    CU(cuMemFree(device));
    CU(cuStreamDestroy(stream));
    CU(cuMemFreeHost(flag));
    CU(cuMemFreeHost(seen));
    CU(cuMemFreeHost(p));
    CU(cuMemFreeHost(out));
    return wrong;
}

static size_t
many_small_allocations_are_each_reached(void)
{
    static unsigned *p[MANY];
    size_t wrong = 0;

    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < MANY; i++) {
            p[i] = host_new(1, 0);
            *p[i] = i;
            launch_add(p[i], p[i], 1, NULL);
        }
        CU(cuCtxSynchronize());
        for (unsigned i = 0; i < MANY; i++) {
            wrong += *p[i] != i + 1;
            CU(cuMemFreeHost(p[i]));
        }
    }
    return wrong;
}

/* Last: the context is of no use behind it.  Where the free has to wait for the card, a
 * server makes it a moment later. */
static size_t
freed_memory_is_an_illegal_address(void)
{
    unsigned *p = host_new(N, 0), *out = host_new(N, 0);
    CUresult r = CUDA_SUCCESS;

    launch_add(p, out, N, NULL);
    CU(cuCtxSynchronize());
    CU(cuMemFreeHost(p));
    for (int i = 0; i < 300 && r == CUDA_SUCCESS; i++) {
        if (i)
            usleep(10000);
        launch_add(p, out, N, NULL);
        r = cuCtxSynchronize();
    }
    printf("a kernel that reads freed memory: %d\n", (int)r);
    return r != FREED;
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *name;
        size_t (*check)(void);
    } promises[] = {
#define PROMISE(f) {#f, f}
        PROMISE(what_is_said_of_such_memory_is_one_address),
        PROMISE(kernel_reads_and_writes_the_hosts_address),
        PROMISE(pointers_inside_and_side_by_side_are_exact),
        PROMISE(pointers_in_structures_are_followed),
        PROMISE(work_in_a_stream_sees_the_work_before_it),
        PROMISE(copies_down_come_behind_the_work_before_them),
        PROMISE(graphs_use_the_hosts_address),
        PROMISE(flags_move_both_ways_while_a_kernel_runs),
        PROMISE(registered_memory_works_by_its_device_pointer),
        PROMISE(values_are_written_and_waited_for_in_a_stream),
        PROMISE(a_context_uses_the_memory_of_another),
        PROMISE(a_free_waits_for_the_work_before_it),
        PROMISE(copies_under_way_are_found_by_the_work_behind_them),
        PROMISE(many_small_allocations_are_each_reached),
        PROMISE(freed_memory_is_an_illegal_address),
    };
    size_t wrong = 0, n = sizeof(promises) / sizeof(promises[0]);

    if (!strict_asked(argc, argv))
        n--; /* a card may still have the memory mapped */
    prog_begin(&prog, 1, argv, "unified", unified_ptx);
    add_one = prog_kernel(&prog, "add_one");
    by_table = prog_kernel(&prog, "add_one_by_table");
    answer = prog_kernel(&prog, "answer");
    store_after = prog_kernel(&prog, "store_after");
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < n; i++) {
        size_t bad = promises[i].check();

        printf("%s: %s\n", promises[i].name, bad ? "wrong" : "ok");
        wrong += bad;
    }
    return wrong != 0;
}
