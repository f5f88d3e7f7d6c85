/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel spins until its word changes, one thread waits for it, a second one for
 * bytes that come behind it, and a third changes the word, in as many ways as there
 * are: small and large copies, a fill, a copy on the card, all in another stream.
 * Whoever lets one thread's wait or a full transfer stand in front of another thread's
 * call never ends.
 */
#include "prog.h"

#include <pthread.h>

#define BULK (24u << 20)

PROG_EMBED(wakers_ptx, "spin.ptx");

struct scene {
    const struct prog *prog;
    CUstream spinning, free;
    CUdeviceptr word; /* the last of BULK bytes */
    CUdeviceptr other;
    char *bulk; /* 8 everywhere */
    pthread_barrier_t launched;
    uint32_t seen;
};

static void
wake_small(struct scene *scene)
{
    uint32_t eight = 8;

    CU(cuMemcpyHtoDAsync(scene->word, &eight, sizeof(eight), scene->free));
}

static void
wake_bulk(struct scene *scene)
{
    CU(cuMemcpyHtoDAsync(scene->word - (BULK - 4), scene->bulk, BULK, scene->free));
}

static void
wake_fill(struct scene *scene)
{
    CU(cuMemsetD32Async(scene->word, 8, 1, scene->free));
}

static void
wake_copy(struct scene *scene)
{
    CU(cuMemsetD32Async(scene->other, 8, 1, scene->free));
    CU(cuMemcpyDtoDAsync(scene->word, scene->other, 4, scene->free));
}

/* Down and up again, while the other threads wait. */
static void
wake_after_reading(struct scene *scene)
{
    uint32_t value = 0;

    CU(cuMemsetD32Async(scene->other, 8, 1, scene->free));
    CU(cuMemcpyDtoHAsync(&value, scene->other, sizeof(value), scene->free));
    CU(cuStreamSynchronize(scene->free));
    CU(cuMemcpyHtoDAsync(scene->word, &value, sizeof(value), scene->free));
}

static void *
wait_main(void *argument)
{
    struct scene *scene = argument;

    CU(cuCtxSetCurrent(scene->prog->context));
    pthread_barrier_wait(&scene->launched);
    CU(cuStreamSynchronize(scene->spinning));
    return NULL;
}

static void *
read_main(void *argument)
{
    struct scene *scene = argument;

    CU(cuCtxSetCurrent(scene->prog->context));
    pthread_barrier_wait(&scene->launched);
    CU(cuMemcpyDtoHAsync(&scene->seen, scene->word, sizeof(scene->seen),
                         scene->spinning));
    CU(cuStreamSynchronize(scene->spinning));
    return NULL;
}

/* 0 when the reader saw the word after the change. */
static size_t
play(struct scene *scene, void (*wake)(struct scene *))
{
    CUfunction spin = prog_kernel(scene->prog, "spin");
    unsigned seven = 7;
    void *params[] = {&scene->word, &seven};
    pthread_t waiter, reader;

    scene->seen = 0;
    CU(cuMemcpyHtoD(scene->word, &seven, sizeof(seven)));
    pthread_barrier_init(&scene->launched, NULL, 3);
    if (pthread_create(&waiter, NULL, wait_main, scene) != 0 ||
        pthread_create(&reader, NULL, read_main, scene) != 0)
        exit(2);
    CU(cuLaunchKernel(spin, 1, 1, 1, 32, 1, 1, 0, scene->spinning, params, NULL));
    pthread_barrier_wait(&scene->launched);
    wake(scene);
    pthread_join(waiter, NULL);
    pthread_join(reader, NULL);
    pthread_barrier_destroy(&scene->launched);
    return scene->seen != 8;
}

int
main(int argc, char **argv)
{
    static void (*const ways[])(struct scene *) = {
        wake_small, wake_bulk, wake_fill, wake_copy, wake_after_reading,
    };
    struct prog prog;
    struct scene scene = {.prog = &prog, .bulk = util_alloc(BULK, 1)};
    CUdeviceptr memory;
    size_t wrong = 0;

    prog_begin(&prog, argc, argv, "wakers", wakers_ptx);
    CU(cuMemAlloc(&memory, BULK));
    CU(cuMemAlloc(&scene.other, 4));
    scene.word = memory + (BULK - 4);
    for (size_t i = 0; i < BULK; i += 4)
        scene.bulk[i] = 8;
    CU(cuStreamCreate(&scene.spinning, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&scene.free, CU_STREAM_NON_BLOCKING));
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        wrong += play(&scene, ways[i]);
    CU(cuMemFree(memory));
    free(scene.bulk);
    prog_end(&prog);
    return util_report("wakers", wrong, "%zu ways to wake a spinning kernel",
                       sizeof(ways) / sizeof(ways[0]));
}
