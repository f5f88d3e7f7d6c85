/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many threads that copy, wait and run host functions at once, and a child process.
 *
 * Every thread fills a device buffer with bytes of its own, in every size from one to a
 * few megabytes, by every kind of copy, and compares what comes back; host functions
 * are counted.  Then a child of fork() must be told that it has no driver, and the
 * parent must still have one.
 *
 *     stress [ROUNDS]
 */
#include "util.h"

#include "cuda_api.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4u
#define ROUNDS 120u /* unless told otherwise; a multiple of 3 */
#define LARGEST ((size_t)3 << 20)
#define SMALLEST_OF_ALL 40000u

static CUcontext context;
static unsigned host_calls, rounds = ROUNDS;

struct thread {
    unsigned number;
    size_t wrong;
    pthread_t id;
};

static void
must(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("stress: %s failed with %d\n", what, (int)result);
    exit(1);
}
#define CU(call) must((call), #call)

static void
count_call(void *counter)
{
    __atomic_add_fetch((unsigned *)counter, 1, __ATOMIC_SEQ_CST);
}

/* There and back by the kinds of copy that @round chooses; every third time with a host
 * function in between. */
static void
copy_round(unsigned round, CUstream stream, CUdeviceptr device, void *to, void *from,
           size_t size)
{
    if (round & 1)
        CU(cuMemcpyHtoD_v2(device, from, size));
    else
        CU(cuMemcpyHtoDAsync_v2(device, from, size, stream));
    if (round % 3 == 0)
        CU(cuLaunchHostFunc(stream, count_call, &host_calls));
    if (round % 7 == 0)
        CU(cuStreamSynchronize(stream));
    if (round & 2)
        CU(cuMemcpyDtoH_v2(to, device, size));
    else
        CU(cuMemcpyDtoHAsync_v2(to, device, size, stream));
    CU(cuStreamSynchronize(stream));
}

static void *
thread_main(void *argument)
{
    struct thread *thread = argument;
    uint64_t random = thread->number + 1;
    unsigned char *from = util_alloc(LARGEST, 1), *to = util_alloc(LARGEST, 1);
    CUdeviceptr device, other;
    CUstream stream;

    CU(cuCtxSetCurrent(context));
    CU(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    CU(cuMemAlloc_v2(&device, LARGEST));
    for (unsigned round = 0; round < rounds; round++) {
        size_t most = round % 10 ? SMALLEST_OF_ALL : LARGEST;
        size_t size = 1 + util_random(&random) % most;

        memset(from, (int)(thread->number * 37 + round), size);
        from[util_random(&random) % size] ^= 0x55;
        memset(to, 0, size);
        copy_round(round, stream, device, to, from, size);
        thread->wrong += memcmp(to, from, size) != 0;
        CU(cuMemAlloc_v2(&other, size));
        CU(cuMemFree_v2(other));
    }
    CU(cuStreamDestroy_v2(stream));
    CU(cuMemFree_v2(device));
    free(from);
    free(to);
    return NULL;
}

/* How many of its calls a child does not find answered as they must be. */
static int
child_main(void)
{
    CUdeviceptr device;
    int count, wrong = 0;

    wrong += cuMemAlloc_v2(&device, 16) != CUDA_ERROR_NOT_INITIALIZED;
    wrong += cuDeviceGetCount(&count) != CUDA_ERROR_NOT_INITIALIZED;
    wrong += cuInit(0) != CUDA_ERROR_NOT_INITIALIZED;
    return wrong;
}

static size_t
fork_and_ask(void)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0)
        _exit(child_main());
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return 1;
    return (size_t)WEXITSTATUS(status);
}

int
main(int argc, char **argv)
{
    static struct thread threads[THREADS];
    size_t wrong = 0;
    CUdeviceptr device;

    if (argc > 1)
        rounds = (unsigned)strtoul(argv[1], NULL, 10) / 3 * 3;
    CU(cuInit(0));
    CU(cuDevicePrimaryCtxRetain(&context, 0));
    CU(cuCtxSetCurrent(context));
    for (unsigned i = 0; i < THREADS; i++) {
        threads[i].number = i;
        if (pthread_create(&threads[i].id, NULL, thread_main, &threads[i]) != 0)
            return 1;
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i].id, NULL);
        wrong += threads[i].wrong;
    }
    CU(cuCtxSynchronize());
    wrong += host_calls != THREADS * (rounds / 3);
    wrong += fork_and_ask();
    CU(cuMemAlloc_v2(&device, 16));
    CU(cuMemFree_v2(device));
    return util_report("stress", wrong, "%u threads, %u rounds, %u host functions",
                       THREADS, rounds, host_calls);
}
