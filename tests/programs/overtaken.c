/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host function comes behind the copies to the host before it in its stream, also
 * where the program is slow to read what the worker sends.
 *
 * The thread that reads a link waits for a large copy, and a handler of a signal keeps
 * it, as the stop of a garbage collector does.  What the worker sends meanwhile is not
 * read: the bytes of a small asynchronous copy, and the large payload behind them,
 * which fills the link.  The host function behind the small copy is due then, and
 * writes the same memory.
 */
#include "prog.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BIG (64u << 20)
#define SMALL 4096u
#define COPIED 1
#define WRITTEN 7
#define FILLS 20

PROG_EMBED(overtaken_ptx, "spin.ptx");

static struct prog prog;
static CUstream small_stream, big_stream, delay, opener;
static CUdeviceptr big, filled, gates;
static unsigned char *target, *pageable;
static atomic_bool held, ran, goes_on;

static void
hold(int number)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    (void)number;
    atomic_store(&held, true);
    while (!atomic_load(&goes_on))
        nanosleep(&pause, NULL);
}

static void
write_target(void *arg)
{
    (void)arg;
    memset(target, WRITTEN, SMALL);
    atomic_store(&ran, true);
}

static void *
read_big(void *ctx)
{
    CU(cuCtxSetCurrent(ctx));
    CU(cuMemcpyDtoHAsync(pageable, big, BIG, big_stream));
    return NULL;
}

/* The second gate opens some time after the first one. */
static void
gates_close(void)
{
    CU(cuStreamWaitValue32(big_stream, gates, 1, CU_STREAM_WAIT_VALUE_EQ));
    CU(cuStreamWaitValue32(delay, gates, 1, CU_STREAM_WAIT_VALUE_EQ));
    for (unsigned char i = 0; i < FILLS; i++)
        CU(cuMemsetD8Async(filled, i, BIG, delay));
    CU(cuStreamWriteValue32(delay, gates + 64, 1, 0));
}

static void
play(CUcontext ctx)
{
    pthread_t reader;

    gates_close();
    pthread_create(&reader, NULL, read_big, ctx);
    usleep(100000); /* it waits by then, or the link is read by another thread */
    pthread_kill(reader, SIGUSR1);
    while (!atomic_load(&held))
        usleep(1000);
    CU(cuMemcpyDtoHAsync(target, big, SMALL, small_stream));
    CU(cuStreamWaitValue32(small_stream, gates + 64, 1, CU_STREAM_WAIT_VALUE_EQ));
    CU(cuLaunchHostFunc(small_stream, write_target, NULL));
    usleep(100000); /* the small copy is on its way */
    CU(cuStreamWriteValue32(opener, gates, 1, 0));
    for (unsigned i = 0; i < 1000 && !atomic_load(&ran); i++)
        usleep(1000);
    atomic_store(&goes_on, true);
    pthread_join(reader, NULL);
    CU(cuStreamSynchronize(small_stream));
    printf("the function's bytes: %d %d\n", target[0], target[SMALL - 1]);
}

int
main(int argc, char **argv)
{
    CUcontext ctx;

    prog_begin(&prog, argc, argv, "overtaken", overtaken_ptx);
    CU(cuCtxGetCurrent(&ctx));
    CU(cuStreamCreate(&small_stream, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&big_stream, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&delay, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&opener, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc(&big, BIG));
    CU(cuMemAlloc(&filled, BIG));
    CU(cuMemAlloc(&gates, SMALL));
    CU(cuMemsetD8(big, COPIED, BIG));
    CU(cuMemsetD8(gates, 0, SMALL));
    target = util_alloc(SMALL, 1);
    pageable = util_alloc(BIG, 1);
    CU(cuMemHostRegister(target, SMALL, 0));
    signal(SIGUSR1, hold);
    /* The connection over which a function may be due is made with the first one. */
    CU(cuLaunchHostFunc(small_stream, write_target, NULL));
    CU(cuStreamSynchronize(small_stream));
    usleep(300000);
    atomic_store(&ran, false);
    play(ctx);
    CU(cuMemHostUnregister(target));
    free(target);
    free(pageable);
    prog_end(&prog);
    return util_report("overtaken", 0, "a copy of %u bytes", SMALL);
}
