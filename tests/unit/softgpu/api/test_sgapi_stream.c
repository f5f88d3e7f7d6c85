/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of the software GPU: order, overlap, default stream rules, events,
 * callbacks, memory operations, and errors that stick.
 *
 * Nothing here waits for a clock: a spinning kernel runs until its flag in
 * mapped host memory is set, so "not yet done" is a fact and not a race.
 */
#include "ut_sgapi.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static struct ut_sg sg;
static unsigned *flag; /* mapped: what spinning kernels wait for */
static CUdeviceptr flag_dev;

static int
open_card(void **state)
{
    ut_sg_open(&sg, 0);
    ok(cuMemHostAlloc((void **)&flag, 4096, 0));
    memset(flag, 0, 4096);
    flag_dev = (CUdeviceptr)(uintptr_t)flag;
    return 0;
}

static int
close_card(void **state)
{
    ut_sg_close(&sg);
    return 0;
}

static void
set_flag(unsigned *p)
{
    __atomic_store_n(p, 1, __ATOMIC_SEQ_CST);
}

static void
launches_return_before_the_kernel_ends(void **state)
{
    ok(ut_sg_run(sg.spin, 1, 1, 0, flag_dev, 0));
    fails(cuStreamQuery(0), CUDA_ERROR_NOT_READY);
    assert_int_equal(flag[1], 0);
    set_flag(flag);
    ok(cuStreamSynchronize(0));
    ok(cuStreamQuery(0));
    assert_int_equal(flag[1], 1);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

static void
first_work_runs_where_memory_has_been_used_up(void **state)
{
    printf("skip: sanitizers have stacks and memory of their own\n");
    skip();
}

#else

/* No more private memory than there is, and a little. */
static void
use_up_memory(void)
{
    unsigned long long kib = 0;
    struct rlimit limit;
    char line[200];
    FILE *f = fopen("/proc/self/status", "r");

    assert_non_null(f);
    while (!kib && fgets(line, sizeof(line), f))
        sscanf(line, "VmData: %llu", &kib);
    fclose(f);
    limit.rlim_cur = limit.rlim_max = (kib + 1024) << 10;
    assert_int_equal(setrlimit(RLIMIT_DATA, &limit), 0);
}

/* Threads are started with the first work, and the stack of each is memory. */
static void
first_work_runs_where_memory_has_been_used_up(void **state)
{
    if (ut_sg_apart(__func__))
        return;
    use_up_memory();
    set_flag(flag);
    ok(ut_sg_run(sg.spin, 1, 1, 0, flag_dev, 0));
    ok(cuStreamSynchronize(0));
    assert_int_equal(flag[1], 1);
}

#endif

static void
streams_overlap(void **state)
{
    CUstream a, b;
    CUdeviceptr p;

    ok(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    ok(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    ok(cuMemAlloc_v2(&p, 4));
    ok(ut_sg_run(sg.spin, 1, 1, a, flag_dev, 0));
    ok(ut_sg_run(sg.store, 1, 1, b, p, 5));
    ok(cuStreamSynchronize(b)); /* ends although a spins */
    fails(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    set_flag(flag);
    ok(cuStreamSynchronize(a));
    ok(cuStreamDestroy_v2(a));
    ok(cuStreamDestroy_v2(b));
    ok(cuMemFree_v2(p));
}

static void
more_spinning_kernels_than_multiprocessors(void **state)
{
    enum { N = 6 }; /* the card has 2 */
    CUstream s[N];
    CUdeviceptr p;

    ok(cuMemAlloc_v2(&p, 4));
    for (int i = 0; i < N; i++) {
        ok(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
        ok(ut_sg_run(sg.spin, 1, 1, s[i], flag_dev + 8u * (unsigned)i, 0));
    }
    for (int i = N - 1; i >= 0; i--) { /* the last one is let go first */
        set_flag(flag + 2 * i);
        ok(cuStreamSynchronize(s[i]));
        assert_int_equal(flag[2 * i + 1], 1);
        ok(cuStreamDestroy_v2(s[i]));
    }
    ok(cuMemFree_v2(p));
}

static void
legacy_stream_waits_for_blocking_streams(void **state)
{
    CUstream blocking, free_stream;
    CUdeviceptr p;

    ok(cuMemAlloc_v2(&p, 8));
    ok(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    ok(cuStreamCreate(&free_stream, CU_STREAM_NON_BLOCKING));
    ok(ut_sg_run(sg.spin, 1, 1, blocking, flag_dev, 0));
    ok(ut_sg_run(sg.store, 1, 1, CU_STREAM_LEGACY, p, 1));
    ok(ut_sg_run(sg.store, 1, 1, free_stream, p + 4, 2));
    ok(cuStreamSynchronize(free_stream));
    fails(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
    set_flag(flag);
    ok(cuStreamSynchronize(CU_STREAM_LEGACY));
    ok(cuStreamQuery(blocking));
    ok(cuStreamDestroy_v2(blocking));
    ok(cuStreamDestroy_v2(free_stream));
    ok(cuMemFree_v2(p));
}

static void
blocking_streams_wait_for_the_legacy_stream(void **state)
{
    CUstream blocking, free_stream;
    CUdeviceptr p;

    ok(cuMemAlloc_v2(&p, 8));
    ok(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    ok(cuStreamCreate(&free_stream, CU_STREAM_NON_BLOCKING));
    ok(ut_sg_run(sg.spin, 1, 1, CU_STREAM_LEGACY, flag_dev, 0));
    ok(ut_sg_run(sg.store, 1, 1, blocking, p, 1));
    ok(ut_sg_run(sg.store, 1, 1, CU_STREAM_PER_THREAD, p, 1));
    ok(ut_sg_run(sg.store, 1, 1, free_stream, p + 4, 2));
    ok(cuStreamSynchronize(free_stream));
    fails(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
    fails(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
    set_flag(flag);
    ok(cuStreamSynchronize(blocking));
    ok(cuStreamDestroy_v2(blocking));
    ok(cuStreamDestroy_v2(free_stream));
    ok(cuMemFree_v2(p));
}

static void
events_order_streams_and_measure_time(void **state)
{
    CUstream a, b;
    CUevent start, done, untimed, never;
    CUdeviceptr p;
    unsigned v = 0;
    float ms = -1;

    ok(cuMemAlloc_v2(&p, 4));
    ok(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    ok(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    ok(cuEventCreate(&start, 0));
    ok(cuEventCreate(&done, 0));
    ok(cuEventCreate(&never, 0));
    ok(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    ok(cuEventQuery(never));
    ok(cuEventRecord(start, a));
    ok(ut_sg_run(sg.spin, 1, 1, a, flag_dev, 0));
    ok(ut_sg_run(sg.store, 1, 1, a, p, 10));
    ok(cuEventRecord(done, a));
    ok(cuStreamWaitEvent(b, done, 0));
    ok(ut_sg_run(sg.add_one, 1, 1, b, p, 1));
    fails(cuEventQuery(done), CUDA_ERROR_NOT_READY);
    fails(cuEventElapsedTime_v2(&ms, start, done), CUDA_ERROR_NOT_READY);
    set_flag(flag);
    ok(cuEventSynchronize(done));
    ok(cuStreamSynchronize(b));
    ok(cuMemcpyDtoH_v2(&v, p, 4));
    assert_int_equal(v, 11);
    ok(cuEventElapsedTime_v2(&ms, start, done));
    assert_true(ms > 0);
    ok(cuEventRecord(untimed, a));
    ok(cuEventSynchronize(untimed));
    fails(cuEventElapsedTime_v2(&ms, start, untimed), CUDA_ERROR_INVALID_HANDLE);
    fails(cuEventElapsedTime_v2(&ms, start, never), CUDA_ERROR_INVALID_HANDLE);
    fails(cuEventCreate(&never, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
    ok(cuMemFree_v2(p));
}

static void
pinned_copies_are_asynchronous(void **state)
{
    unsigned *pinned;
    CUdeviceptr p;
    CUstream s;

    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(cuMemHostAlloc((void **)&pinned, 8, 0));
    ok(cuMemAlloc_v2(&p, 4));
    pinned[0] = 1;
    ok(ut_sg_run(sg.spin, 1, 1, s, flag_dev, 0));
    ok(cuMemcpyHtoDAsync_v2(p, pinned, 4, s));
    ok(cuMemcpyDtoHAsync_v2(pinned + 1, p, 4, s));
    pinned[0] = 2; /* read only when the copy's turn comes */
    set_flag(flag);
    ok(cuStreamSynchronize(s));
    assert_int_equal(pinned[1], 2);
    ok(cuStreamDestroy_v2(s));
    ok(cuMemFree_v2(p));
}

static void
pageable_sources_are_read_at_the_call(void **state)
{
    unsigned plain = 7, out = 0;
    CUdeviceptr p;
    CUstream s;

    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(cuMemAlloc_v2(&p, 4));
    ok(ut_sg_run(sg.spin, 1, 1, s, flag_dev, 0));
    ok(cuMemcpyHtoDAsync_v2(p, &plain, 4, s));
    plain = 8;
    set_flag(flag);
    ok(cuMemcpyDtoHAsync_v2(&out, p, 4, s)); /* pageable: waits by itself */
    assert_int_equal(out, 7);
    ok(cuStreamDestroy_v2(s));
    ok(cuMemFree_v2(p));
}

static void
count_up(void *arg)
{
    ++*(atomic_int *)arg;
}

static void
note_status(CUstream stream, CUresult status, void *arg)
{
    *(_Atomic(int) *)arg = (int)status;
}

static void
host_functions_run_in_stream_order(void **state)
{
    atomic_int calls = 0;
    atomic_int status = -1;
    CUstream s;

    ok(cuStreamCreate(&s, 0));
    ok(ut_sg_run(sg.spin, 1, 1, s, flag_dev, 0));
    ok(cuLaunchHostFunc(s, count_up, &calls));
    ok(cuStreamAddCallback(s, note_status, &status, 0));
    assert_int_equal(calls, 0);
    set_flag(flag);
    ok(cuStreamSynchronize(s));
    assert_int_equal(calls, 1);
    assert_int_equal(status, 0);
    fails(cuLaunchHostFunc(s, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    ok(cuStreamDestroy_v2(s));
}

static void
pass_gate(void *arg)
{
    sem_wait(arg);
    sem_post(arg);
}

static void
blocked_host_functions_do_not_block_others(void **state)
{
    enum { N = 8 };
    atomic_int calls = 0;
    CUstream s[N], last;
    sem_t gate;

    sem_init(&gate, 0, 0);
    for (int i = 0; i < N; i++) {
        ok(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
        ok(cuLaunchHostFunc(s[i], pass_gate, &gate));
    }
    ok(cuStreamCreate(&last, CU_STREAM_NON_BLOCKING));
    ok(cuLaunchHostFunc(last, count_up, &calls));
    ok(cuStreamSynchronize(last));
    assert_int_equal(calls, 1);
    sem_post(&gate);
    ok(cuCtxSynchronize());
}

static void
streams_wait_for_values_in_memory(void **state)
{
    CUdeviceptr p;
    unsigned v = 0;
    CUstream s;

    ok(cuMemAlloc_v2(&p, 16));
    ok(cuMemsetD32_v2(p, 0, 4));
    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(cuStreamWaitValue32_v2(s, p, 3, CU_STREAM_WAIT_VALUE_GEQ));
    ok(cuStreamWriteValue32_v2(s, p + 4, 9, 0));
    fails(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    ok(ut_sg_run(sg.store, 1, 1, CU_STREAM_LEGACY, p, 4));
    ok(cuStreamSynchronize(s));
    ok(cuMemcpyDtoH_v2(&v, p + 4, 4));
    assert_int_equal(v, 9);
    fails(cuStreamWaitValue32_v2(s, p + 2, 3, 0), CUDA_ERROR_INVALID_VALUE);
    fails(cuStreamWaitValue64_v2(s, p + 12, 3, 0), CUDA_ERROR_INVALID_VALUE);
    ok(cuStreamDestroy_v2(s));
    ok(cuMemFree_v2(p));
}

static void
allocation_in_stream_order(void **state)
{
    size_t before, during, after, total;
    CUdeviceptr p;
    CUstream s;
    uint64_t used;
    CUmemoryPool pool;

    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(cuMemGetInfo_v2(&before, &total));
    ok(cuMemAllocAsync(&p, 5000, s));
    ok(cuMemGetInfo_v2(&during, &total));
    assert_int_equal(before - during, 5000);
    ok(cuDeviceGetDefaultMemPool(&pool, 0));
    ok(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    assert_int_equal(used, 5000);
    ok(ut_sg_run(sg.spin, 1, 1, s, flag_dev, 0));
    ok(cuMemFreeAsync(p, s));
    ok(cuMemGetInfo_v2(&after, &total));
    assert_int_equal(after, during); /* not its turn yet */
    set_flag(flag);
    ok(cuStreamSynchronize(s));
    ok(cuMemGetInfo_v2(&after, &total));
    assert_int_equal(after, before);
    fails(cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
    ok(cuStreamDestroy_v2(s));
}

static void
an_illegal_address_sticks_to_the_process(void **state)
{
    CUcontext before, after, primary;
    CUdeviceptr p;

    if (ut_sg_apart(__func__))
        return;
    ok(cuCtxCreate_v2(&before, 0, 0));
    ok(cuCtxSetCurrent(sg.ctx));
    ok(cuMemAlloc_v2(&p, 64));
    ok(ut_sg_run(sg.wild, 1, 1, 0, p + 64, 1)); /* behind the end, but on the card */
    ok(cuStreamSynchronize(0));
    ok(ut_sg_run(sg.wild, 1, 1, 0, p + 512, 1)); /* nobody's */
    fails(cuStreamSynchronize(0), CUDA_ERROR_ILLEGAL_ADDRESS);
    fails(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    fails(cuMemAlloc_v2(&p, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
    fails(ut_sg_run(sg.store, 1, 1, 0, p, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
    ok(cuCtxSetCurrent(before));
    fails(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    fails(cuMemAlloc_v2(&p, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
    fails(cuCtxCreate_v2(&after, 0, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
    fails(cuDevicePrimaryCtxRetain(&primary, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
    ok(cuCtxDestroy_v2(before));
}

static void
fault_has_code(size_t fn, CUdeviceptr addr, bool of_memory, CUresult code)
{
    CUcontext fresh;
    CUdeviceptr p;

    ok(cuMemAlloc_v2(&p, 64));
    ok(ut_sg_run(*(CUfunction *)((char *)&sg + fn), 4, 32, 0,
                 of_memory ? p + addr : addr, 1));
    fails(cuCtxSynchronize(), code);
    fails(cuCtxCreate_v2(&fresh, 0, 0), code);
}

static void
addresses_of_nobody_are_illegal(void **state)
{
    if (!ut_sg_apart(__func__))
        fault_has_code(offsetof(struct ut_sg, wild), 0, false,
                       CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void
addresses_of_the_host_are_illegal(void **state)
{
    if (!ut_sg_apart(__func__))
        fault_has_code(offsetof(struct ut_sg, wild), 0x7fff00000000, false,
                       CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void
odd_addresses_are_misaligned(void **state)
{
    if (!ut_sg_apart(__func__))
        fault_has_code(offsetof(struct ut_sg, wild), 1, true,
                       CUDA_ERROR_MISALIGNED_ADDRESS);
}

static void
a_trap_is_a_failed_launch(void **state)
{
    if (!ut_sg_apart(__func__))
        fault_has_code(offsetof(struct ut_sg, trap), 0, false,
                       CUDA_ERROR_LAUNCH_FAILED);
}

static void
a_kernel_cannot_touch_the_process(void **state)
{
    unsigned mine = 123;

    if (ut_sg_apart(__func__))
        return;
    ok(ut_sg_run(sg.wild, 1, 1, 0, (CUdeviceptr)(uintptr_t)&mine, 666));
    fails(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(mine, 123);
}

static void
callbacks_get_the_error(void **state)
{
    struct ut_sg own;
    atomic_int status = -1;
    atomic_int calls = 0;
    CUstream s;

    if (ut_sg_apart(__func__))
        return;
    ut_sg_open(&own, 0);
    ok(cuStreamCreate(&s, 0));
    ok(ut_sg_run(own.spin, 1, 1, s, flag_dev, 0));
    ok(ut_sg_run(own.trap, 1, 1, s, 0, 0));
    ok(cuStreamAddCallback(s, note_status, &status, 0));
    ok(cuLaunchHostFunc(s, count_up, &calls));
    set_flag(flag);
    fails(cuStreamSynchronize(s), CUDA_ERROR_LAUNCH_FAILED);
    ut_sg_close(&own); /* waits for the callback */
    assert_int_equal(status, CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(calls, 0);
}

static void
destroying_a_context_ends_an_endless_kernel(void **state)
{
    struct ut_sg own;
    CUdeviceptr p, q;

    ut_sg_open(&own, 0);
    ok(cuMemAlloc_v2(&p, 8));
    ok(cuMemsetD32_v2(p, 0, 2));
    ok(ut_sg_run(own.spin, 100, 64, 0, p, 0));
    ok(ut_sg_run(own.store, 1, 1, 0, p + 4, 1));
    ut_sg_close(&own);
    ok(cuCtxSetCurrent(sg.ctx));
    ok(cuMemAlloc_v2(&q, 4)); /* and the multiprocessors are free again */
    ok(ut_sg_run(sg.store, 1, 1, 0, q, 3));
    ok(cuCtxSynchronize());
    ok(cuMemFree_v2(q));
}

static void
freeing_waits_for_kernels_that_use_the_memory(void **state)
{
    CUdeviceptr p;

    ok(cuMemAlloc_v2(&p, 4));
    ok(ut_sg_run(sg.busy, 4, 32, 0, p, 20000));
    ok(cuMemFree_v2(p)); /* no synchronisation before, as programs do */
    ok(cuCtxSynchronize());
}

static void
cooperative_blocks_are_all_resident(void **state)
{
    CUdeviceptr p;
    unsigned v[2], n = 0;
    void *args[] = {&p, &n};
    int per_sm;

    ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, sg.grid_sum, 64, 0));
    assert_true(per_sm >= 8);
    ok(cuMemAlloc_v2(&p, 8));
    ok(cuMemsetD32_v2(p, 0, 2));
    ok(cuLaunchCooperativeKernel(sg.grid_sum, 16, 1, 1, 64, 1, 1, 0, 0, args));
    ok(cuMemcpyDtoH_v2(v, p, 8));
    assert_true(v[0] >= 16 && v[1] == 16 * 64);
    fails(cuLaunchCooperativeKernel(sg.grid_sum, 2u * (unsigned)per_sm + 1, 1, 1, 64, 1,
                                    1, 0, 0, args),
          CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    ok(cuMemFree_v2(p));
}

static void
wait_for_post(void *arg)
{
    sem_wait(arg);
}

/* A copy between contexts without a stream is a barrier for both, also for streams that
 * wait for no other, and the host does not wait for it. */
static void
copies_between_contexts_are_in_order_with_all_work_of_both(void **state)
{
    CUcontext from, to;
    CUstream before, after;
    CUdeviceptr src, dst;
    CUDA_MEMCPY3D_PEER box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                              .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                              .WidthInBytes = 4,
                              .Height = 1,
                              .Depth = 1};
    sem_t go;

    sem_init(&go, 0, 0);
    ok(cuCtxCreate_v2(&from, 0, 0));
    ok(cuStreamCreate(&before, CU_STREAM_NON_BLOCKING));
    ok(cuMemAlloc_v2(&src, 4));
    ok(cuMemsetD32_v2(src, 1, 1));
    ok(cuCtxCreate_v2(&to, 0, 0));
    ok(cuStreamCreate(&after, CU_STREAM_NON_BLOCKING));
    ok(cuMemAlloc_v2(&dst, 4));
    for (unsigned i = 0; i < 2; i++) {
        ok(cuMemsetD32_v2(dst, 0, 1));
        ok(cuLaunchHostFunc(before, wait_for_post, &go));
        ok(cuMemsetD32Async(src, 7 + i, 1, before));
        ok(cuCtxSetCurrent(sg.ctx));
        box.srcContext = from;
        box.dstContext = to;
        box.srcDevice = src;
        box.dstDevice = dst;
        ok(i ? cuMemcpy3DPeer(&box) : cuMemcpyPeer(dst, to, src, from, 4));
        ok(cuCtxSetCurrent(to));
        ok(cuMemcpyDtoHAsync_v2(flag, dst, 4, after));
        ok(cuMemsetD32Async(src, 9, 1, before)); /* later work of the source */
        fails(cuStreamQuery(after), CUDA_ERROR_NOT_READY);
        sem_post(&go);
        ok(cuStreamSynchronize(after));
        assert_int_equal(flag[0], 7 + i);
        ok(cuStreamSynchronize(before));
    }
    ok(cuCtxDestroy_v2(to));
    ok(cuCtxDestroy_v2(from));
    ok(cuCtxSetCurrent(sg.ctx));
    sem_destroy(&go);
}

/* In a stream it is behind that stream only. */
static void
copies_between_contexts_in_a_stream_wait_for_that_stream(void **state)
{
    CUcontext other;
    CUstream busy, mine;
    CUdeviceptr src, dst;
    sem_t go;

    sem_init(&go, 0, 0);
    ok(cuMemAlloc_v2(&dst, 4));
    ok(cuStreamCreate(&mine, CU_STREAM_NON_BLOCKING));
    ok(cuCtxCreate_v2(&other, 0, 0));
    ok(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    ok(cuMemAlloc_v2(&src, 4));
    ok(cuMemsetD32_v2(src, 5, 1));
    ok(cuLaunchHostFunc(busy, wait_for_post, &go));
    ok(cuCtxSetCurrent(sg.ctx));
    ok(cuMemcpyPeerAsync(dst, sg.ctx, src, other, 4, mine));
    ok(cuMemcpyDtoHAsync_v2(flag, dst, 4, mine));
    ok(cuStreamSynchronize(mine));
    assert_int_equal(flag[0], 5);
    sem_post(&go);
    ok(cuCtxDestroy_v2(other));
    ok(cuCtxSetCurrent(sg.ctx));
    ok(cuStreamDestroy_v2(mine));
    ok(cuMemFree_v2(dst));
    sem_destroy(&go);
}

int
main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_card, close_card)
    const struct CMUnitTest tests[] = {
        T(copies_between_contexts_are_in_order_with_all_work_of_both),
        T(copies_between_contexts_in_a_stream_wait_for_that_stream),
        T(launches_return_before_the_kernel_ends),
        T(first_work_runs_where_memory_has_been_used_up),
        T(streams_overlap),
        T(more_spinning_kernels_than_multiprocessors),
        T(legacy_stream_waits_for_blocking_streams),
        T(blocking_streams_wait_for_the_legacy_stream),
        T(events_order_streams_and_measure_time),
        T(pinned_copies_are_asynchronous),
        T(pageable_sources_are_read_at_the_call),
        T(host_functions_run_in_stream_order),
        T(blocked_host_functions_do_not_block_others),
        T(streams_wait_for_values_in_memory),
        T(allocation_in_stream_order),
        T(an_illegal_address_sticks_to_the_process),
        T(addresses_of_nobody_are_illegal),
        T(addresses_of_the_host_are_illegal),
        T(odd_addresses_are_misaligned),
        T(a_trap_is_a_failed_launch),
        T(a_kernel_cannot_touch_the_process),
        T(callbacks_get_the_error),
        T(destroying_a_context_ends_an_endless_kernel),
        T(freeing_waits_for_kernels_that_use_the_memory),
        T(cooperative_blocks_are_all_resident),
    };
    int rc;

    ut_sg_cards("1", "64MiB", "2");
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    ut_sg_cards_remove();
    return rc;
}
