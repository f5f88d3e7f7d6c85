/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues work behind a kernel that never ends, from as many threads as told, for as
 * long as it is let: who runs it looks at how much memory that takes.
 *
 *     flood launches|small|bulk|fills|copies|events THREADS
 *
 * "queueing" is printed before the first call.  No call waits for the card by contract,
 * so each of them may only be held up by back-pressure, and must be.
 */
#include "prog.h"

#include <pthread.h>
#include <string.h>

#define BLOCK (4u << 20)
#define SMALL 4096u

PROG_EMBED(spin_ptx, "spin.ptx");

static struct prog prog;
static CUfunction bump;
static CUdeviceptr memory;
static CUevent event;
static char data[BLOCK];

static void
flood_launches(void)
{
    unsigned one = 1;
    void *params[] = {&memory, &one};

    CU(cuLaunchKernel(bump, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
}

static void
flood_small(void)
{
    CU(cuMemcpyHtoDAsync(memory, data, SMALL, NULL));
}

static void
flood_bulk(void)
{
    CU(cuMemcpyHtoDAsync(memory, data, BLOCK, NULL));
}

static void
flood_fills(void)
{
    CU(cuMemsetD8Async(memory, 1, SMALL, NULL));
}

static void
flood_copies(void)
{
    CU(cuMemcpyDtoDAsync(memory, memory + BLOCK / 2, SMALL, NULL));
}

static void
flood_events(void)
{
    CU(cuEventRecord(event, NULL));
    CU(cuStreamWaitEvent(NULL, event, 0));
}

static const struct {
    const char *name;
    void (*act)(void);
} kinds[] = {
    {"launches", flood_launches}, {"small", flood_small},   {"bulk", flood_bulk},
    {"fills", flood_fills},       {"copies", flood_copies}, {"events", flood_events},
};

static void *
flood_thread(void *arg)
{
    void (*const *act)(void) = arg;

    CU(cuCtxSetCurrent(prog.context));
    for (;;)
        (*act)();
    return NULL;
}

/* The kernel that everything is to wait for: it runs until word[0] is no longer 7. */
static void
block_the_card(void)
{
    CUfunction spin;
    unsigned seven = 7;
    void *params[] = {&memory, &seven};

    CU(cuMemcpyHtoD(memory, &seven, sizeof(seven)));
    CU(cuModuleGetFunction(&spin, prog.module, "spin"));
    CU(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

int
main(int argc, char **argv)
{
    int n_threads = argc == 3 ? (int)strtol(argv[2], NULL, 10) : 0;
    void (*act)(void) = NULL;
    pthread_t thread;

    for (size_t i = 0; argc == 3 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(argv[1], kinds[i].name) == 0)
            act = kinds[i].act;
    if (!act || n_threads < 1) {
        fprintf(stderr,
                "usage: flood launches|small|bulk|fills|copies|events THREADS\n");
        return 2;
    }
    prog_begin(&prog, 1, argv, "flood", spin_ptx);
    CU(cuMemAlloc(&memory, BLOCK));
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CU(cuModuleGetFunction(&bump, prog.module, "bump"));
    memset(data, 1, sizeof(data));
    block_the_card();
    printf("queueing\n");
    fflush(stdout);
    for (int i = 0; i < n_threads; i++)
        if (pthread_create(&thread, NULL, flood_thread, &act) != 0)
            return 2;
    pthread_join(thread, NULL);
    return 0;
}
