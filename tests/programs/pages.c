/* SPDX-License-Identifier: Apache-2.0 */
#include "pages.h"

#include <string.h>

void
pages_hold(struct pages *pages, CUstream stream)
{
    uint32_t seven = 7;
    void *params[] = {&pages->word, &seven};

    CU(cuMemcpyHtoDAsync(pages->word, &seven, sizeof(seven), pages->other));
    CU(cuStreamSynchronize(pages->other));
    CU(cuLaunchKernel(prog_kernel(&pages->prog, "spin"), 1, 1, 1, 32, 1, 1, 0, stream,
                      params, NULL));
}

void
pages_let_go(struct pages *pages)
{
    static const uint32_t eight = 8;

    CU(cuMemcpyHtoDAsync(pages->word, &eight, sizeof(eight), pages->other));
    CU(cuStreamSynchronize(pages->other));
}

size_t
pages_in_threads(struct pages *pages, void *(*run)(void *worker))
{
    struct pages_worker workers[PAGES_THREADS];
    size_t wrong = 0;

    for (unsigned i = 0; i < PAGES_THREADS; i++) {
        workers[i] = (struct pages_worker){.pages = pages, .number = i};
        if (pthread_create(&workers[i].thread, NULL, run, &workers[i]) != 0)
            exit(2);
    }
    for (unsigned i = 0; i < PAGES_THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        wrong += workers[i].wrong;
    }
    return wrong;
}

void
pages_begin(struct pages *pages, int argc, char **argv, const char *name,
            const char *ptx, size_t size)
{
    uint64_t state = 1;

    *pages = (struct pages){.size = size};
    prog_begin(&pages->prog, argc, argv, name, ptx);
    CU(cuStreamCreate(&pages->stream, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&pages->other, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc(&pages->word, 4));
    CU(cuMemAlloc(&pages->data, size));
    CU(cuMemHostAlloc((void **)&pages->host, size, 0));
    pages->want = util_alloc(size, 1);
    for (size_t i = 0; i + 4 <= size; i += 4) {
        uint32_t value = util_random(&state);

        memcpy(pages->want + i, &value, 4);
    }
    CU(cuMemcpyHtoD(pages->data, pages->want, size));
}

void
pages_end(struct pages *pages)
{
    free(pages->want);
    CU(cuMemFreeHost(pages->host));
    CU(cuMemFree(pages->data));
    CU(cuMemFree(pages->word));
    CU(cuStreamDestroy(pages->stream));
    CU(cuStreamDestroy(pages->other));
    prog_end(&pages->prog);
}

int
pages_check(struct pages *pages, const struct pages_promise *promises, size_t n)
{
    int status = 0;

    for (int round = 0; round < pages->prog.rounds; round++)
        for (size_t i = 0; i < n; i++)
            status |= util_report(pages->prog.name, promises[i].check(pages), "%s",
                                  promises[i].name);
    return status;
}
