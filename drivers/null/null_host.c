/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory of the host: cards reach it at its own address. */
#include "gp_base.h"
#include "null.h"

#include <pthread.h>
#include <stdlib.h>

struct piece {
    struct piece *next;
    uint64_t at, size;
    CUcontext ctx; /* with which it ends */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece *pieces;

CUresult
cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
    struct piece *piece = malloc(sizeof(*piece));
    CUcontext ctx;

    if (!piece)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cuCtxGetCurrent(&ctx);
    pthread_mutex_lock(&lock);
    *piece = (struct piece){pieces, (uintptr_t)p, bytesize, ctx};
    pieces = piece;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult
cuMemHostUnregister(void *p)
{
    struct piece **at = &pieces, *piece;

    pthread_mutex_lock(&lock);
    while (*at && (*at)->at != (uintptr_t)p)
        at = &(*at)->next;
    piece = *at;
    if (piece)
        *at = piece->next;
    pthread_mutex_unlock(&lock);
    free(piece);
    return CUDA_SUCCESS;
}

void
null_host_end(CUcontext ctx)
{
    struct piece **at = &pieces, *piece;

    pthread_mutex_lock(&lock);
    while ((piece = *at)) {
        if (piece->ctx != ctx) {
            at = &piece->next;
            continue;
        }
        *at = piece->next;
        free(piece);
    }
    pthread_mutex_unlock(&lock);
}

bool
null_host_holds(uint64_t ptr, uint64_t size)
{
    const struct piece *piece;

    pthread_mutex_lock(&lock);
    piece = pieces;
    while (piece &&
           (ptr - piece->at >= piece->size || size > piece->size - (ptr - piece->at)))
        piece = piece->next;
    pthread_mutex_unlock(&lock);
    return piece != NULL;
}
