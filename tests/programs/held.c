/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work behind a stream that waits for its own program: `held LAUNCHES` puts a host
 * function into a stream, kernels behind it, and says "queued".  The function returns
 * when a line comes in; then the kernels run, and what they did is checked.
 */
#include "prog.h"

#include <semaphore.h>
#include <string.h>

#define WORDS 32u

PROG_EMBED(held_ptx, "spin.ptx");

static void
gate_wait(void *arg)
{
    sem_wait(arg);
}

int
main(int argc, char **argv)
{
    unsigned launches = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1, one = 1;
    unsigned words[WORDS];
    char line[16];
    size_t wrong = 0;
    struct prog prog;
    CUdeviceptr memory;
    CUstream stream;
    sem_t gate;
    void *params[] = {&memory, &one};

    prog_begin(&prog, 1, argv, "held", held_ptx);
    sem_init(&gate, 0, 0);
    CU(cuMemAlloc(&memory, sizeof(words)));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemsetD32Async(memory, 0, WORDS, stream));
    CU(cuStreamSynchronize(stream));
    CU(cuLaunchHostFunc(stream, gate_wait, &gate));
    for (unsigned i = 0; i < launches; i++)
        CU(cuLaunchKernel(prog_kernel(&prog, "bump"), 1, 1, 1, WORDS, 1, 1, 0, stream,
                          params, NULL));
    /* Answered behind all of them. */
    wrong += cuStreamQuery(stream) != CUDA_ERROR_NOT_READY;
    puts("queued");
    fflush(stdout);
    wrong += !fgets(line, sizeof(line), stdin);
    sem_post(&gate);
    CU(cuStreamSynchronize(stream));
    CU(cuMemcpyDtoH(words, memory, sizeof(words)));
    for (unsigned i = 0; i < WORDS; i++)
        wrong += words[i] != launches;
    CU(cuStreamDestroy(stream));
    CU(cuMemFree(memory));
    prog_end(&prog);
    sem_destroy(&gate);
    return util_report("held", wrong, "%u kernels behind a host function", launches);
}
