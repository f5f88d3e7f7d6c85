/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts that end while managed memory is read by this program itself, without a call
 * whose end it could wait for: whatever fetches the memory for it uses a context that
 * ends, or reads on when the memory has gone with one.  `managed_ends [ROUNDS]`.
 */
#include "prog.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define BYTES (1u << 20)
#define OTHERS 5u

PROG_EMBED(managed_ends_ptx, "spin.ptx");

static size_t
count_other(CUdeviceptr memory, uint8_t byte)
{
    const volatile uint8_t *bytes = (const uint8_t *)(uintptr_t)memory;
    size_t wrong = 0;

    for (size_t i = 0; i < BYTES; i += 512)
        wrong += bytes[i] != byte;
    return wrong;
}

static CUcontext
make(const struct prog *prog, CUdeviceptr *ret_memory, uint8_t byte)
{
    CUcontext ctx;

    CU(cuCtxCreate(&ctx, 0, prog->device));
    CU(cuMemAllocManaged(ret_memory, BYTES, CU_MEM_ATTACH_GLOBAL));
    CU(cuMemsetD8(*ret_memory, byte, BYTES));
    CU(cuCtxSynchronize());
    CU(cuCtxPopCurrent(&ctx));
    return ctx;
}

/* What the program has written goes to the card with the next work, wherever that is.
 */
static size_t
memory_that_goes_with_its_context(const struct prog *prog)
{
    CUdeviceptr word;
    size_t wrong = 0;

    CU(cuMemAlloc(&word, sizeof(uint32_t)));
    for (uint8_t i = 0; i < OTHERS; i++) {
        CUdeviceptr memory;
        CUcontext ctx = make(prog, &memory, 100 + i);

        wrong += count_other(memory, 100 + i);
        memset((void *)(uintptr_t)memory, 200 + i, BYTES);
        CU(cuMemsetD8(word, 0, sizeof(uint32_t)));
        if (i % 2)
            CU(cuMemFree(memory));
        CU(cuCtxDestroy(ctx));
        CU(cuCtxSynchronize());
    }
    CU(cuMemFree(word));
    return wrong;
}

/* ---- the context that is current to who reads ---- */

struct reader {
    unsigned rounds;
    CUdeviceptr memory;
    CUcontext ctx;
    pthread_barrier_t start, end;
    uint8_t byte;
    size_t wrong;
};

static void *
read_in_rounds(void *arg)
{
    struct reader *r = arg;

    for (unsigned i = 0; i < r->rounds; i++) {
        pthread_barrier_wait(&r->start);
        CU(cuCtxSetCurrent(r->ctx));
        pthread_barrier_wait(&r->start);
        r->wrong += count_other(r->memory, r->byte);
        pthread_barrier_wait(&r->end);
        CU(cuCtxSetCurrent(NULL));
    }
    return NULL;
}

static size_t
memory_read_by_a_thread_whose_context_is_destroyed(const struct prog *prog,
                                                   unsigned rounds)
{
    struct reader r = {.rounds = rounds};
    pthread_t thread;

    pthread_barrier_init(&r.start, NULL, 2);
    pthread_barrier_init(&r.end, NULL, 2);
    CU(cuMemAllocManaged(&r.memory, BYTES, CU_MEM_ATTACH_GLOBAL));
    pthread_create(&thread, NULL, read_in_rounds, &r);
    for (unsigned i = 0; i < rounds; i++) {
        const struct timespec pause = {.tv_nsec = 1000L * (i % 16) * (i % 16)};

        r.byte = (uint8_t)i;
        CU(cuCtxCreate(&r.ctx, 0, prog->device));
        CU(cuCtxPopCurrent(&r.ctx));
        CU(cuMemsetD8(r.memory, r.byte, BYTES));
        CU(cuCtxSynchronize());
        pthread_barrier_wait(&r.start);
        pthread_barrier_wait(&r.start);
        nanosleep(&pause, NULL);
        CU(cuCtxDestroy(r.ctx));
        pthread_barrier_wait(&r.end);
    }
    pthread_join(thread, NULL);
    CU(cuMemFree(r.memory));
    pthread_barrier_destroy(&r.start);
    pthread_barrier_destroy(&r.end);
    return r.wrong;
}

int
main(int argc, char **argv)
{
    const unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 300;
    struct prog prog;
    size_t wrong;

    prog_begin(&prog, 1, argv, "managed_ends", managed_ends_ptx);
    wrong = memory_that_goes_with_its_context(&prog);
    wrong += memory_read_by_a_thread_whose_context_is_destroyed(&prog, rounds);
    prog_end(&prog);
    return util_report("managed_ends", wrong, "%u contexts", OTHERS + rounds);
}
