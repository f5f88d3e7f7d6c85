/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several threads on one context: nothing is lost, doubled or deadlocked.
 *
 * First every thread counts on memory and a stream of its own, with launches,
 * copies and waits mixed.  Then one thread waits for a kernel that spins until
 * another thread copies a value to it: a driver, or a remote one, that lets a wait
 * of one thread stall the calls of another never ends here.
 */
#include "prog.h"

#include <pthread.h>

#define THREADS 4u
#define VALUES 1024u
#define BUMPS 40u

PROG_EMBED(threads_ptx, "spin.ptx");

struct worker {
    const struct prog *prog;
    unsigned number;
    size_t wrong;
    pthread_t thread;
};

struct waiter {
    const struct prog *prog;
    CUstream stream;
    pthread_barrier_t launched;
};

static void
bump(CUfunction kernel, CUstream stream, CUdeviceptr data, unsigned by)
{
    void *params[] = {&data, &by};

    CU(cuLaunchKernel(kernel, VALUES / 128, 1, 1, 128, 1, 1, 0, stream, params, NULL));
}

static void *
worker_main(void *argument)
{
    struct worker *worker = argument;
    uint32_t *values = util_alloc(VALUES, sizeof(*values));
    CUfunction kernel;
    CUdeviceptr data;
    CUstream stream;

    CU(cuCtxSetCurrent(worker->prog->context));
    kernel = prog_kernel(worker->prog, "bump");
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc(&data, VALUES * sizeof(*values)));
    for (uint32_t i = 0; i < VALUES; i++)
        values[i] = i * worker->number;
    CU(cuMemcpyHtoDAsync(data, values, VALUES * sizeof(*values), stream));
    for (unsigned i = 1; i <= BUMPS; i++) {
        bump(kernel, stream, data, worker->number + i);
        if (i % 7 == 0)
            CU(cuStreamSynchronize(stream));
    }
    CU(cuMemcpyDtoHAsync(values, data, VALUES * sizeof(*values), stream));
    CU(cuStreamSynchronize(stream));
    for (uint32_t i = 0; i < VALUES; i++) {
        uint32_t expected = i * worker->number + BUMPS * worker->number;

        worker->wrong += values[i] != expected + BUMPS * (BUMPS + 1) / 2;
    }
    CU(cuMemFree(data));
    CU(cuStreamDestroy(stream));
    free(values);
    return NULL;
}

static size_t
count_apart(const struct prog *prog)
{
    struct worker workers[THREADS];
    size_t wrong = 0;

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.prog = prog, .number = i + 1};
        if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) != 0)
            exit(2);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        wrong += workers[i].wrong;
    }
    return wrong;
}

static void *
waiter_main(void *argument)
{
    struct waiter *waiter = argument;

    CU(cuCtxSetCurrent(waiter->prog->context));
    pthread_barrier_wait(&waiter->launched);
    CU(cuStreamSynchronize(waiter->stream));
    return NULL;
}

/* The kernel spins while the word holds 7; this thread overwrites it on another
 * stream while the waiter already waits for the kernel. */
static void
wake_spinning_kernel(const struct prog *prog)
{
    struct waiter waiter = {.prog = prog};
    CUfunction spin = prog_kernel(prog, "spin");
    uint32_t word = 7, woken = 8;
    CUdeviceptr data;
    CUstream copies;
    pthread_t thread;

    CU(cuMemAlloc(&data, sizeof(word)));
    CU(cuMemcpyHtoD(data, &word, sizeof(word)));
    CU(cuStreamCreate(&waiter.stream, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&copies, CU_STREAM_NON_BLOCKING));
    pthread_barrier_init(&waiter.launched, NULL, 2);
    if (pthread_create(&thread, NULL, waiter_main, &waiter) != 0)
        exit(2);

    void *params[] = {&data, &word};
    CU(cuLaunchKernel(spin, 1, 1, 1, 32, 1, 1, 0, waiter.stream, params, NULL));
    pthread_barrier_wait(&waiter.launched);
    CU(cuMemcpyHtoDAsync(data, &woken, sizeof(woken), copies));
    CU(cuStreamSynchronize(copies));
    pthread_join(thread, NULL);

    pthread_barrier_destroy(&waiter.launched);
    CU(cuStreamDestroy(waiter.stream));
    CU(cuStreamDestroy(copies));
    CU(cuMemFree(data));
}

int
main(int argc, char **argv)
{
    struct prog prog;
    size_t wrong = 0;

    prog_begin(&prog, argc, argv, "threads", threads_ptx);
    for (int round = 0; round < prog.rounds; round++) {
        wrong += count_apart(&prog);
        wake_spinning_kernel(&prog);
    }
    prog_end(&prog);
    return util_report("threads", wrong, "%u threads, %u launches each", THREADS,
                       BUMPS);
}
