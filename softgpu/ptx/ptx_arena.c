/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx_arena.h"

#include <string.h>

/* Small enough that a tiny module stays tiny, large enough that a module of
 * tens of megabytes needs few of them: sizes double up to the maximum. */
#define CHUNK_MIN ((size_t)32 << 10)
#define CHUNK_MAX ((size_t)1 << 20)

struct ptx_chunk {
    struct ptx_chunk *next;
    size_t size; /* of data */
    uint8_t data[];
};

static struct ptx_chunk *
chunk_new(struct ptx_arena *arena, size_t size)
{
    struct ptx_chunk *chunk;

    if (arena->limit && size > arena->limit - gp_min(arena->total, arena->limit))
        return NULL;
    /* calloc: a large piece is fresh pages, which nobody has to clear. */
    chunk = calloc(1, sizeof(*chunk) + size);
    if (!chunk)
        return NULL;
    chunk->size = size;
    arena->total += size;
    chunk->next = arena->head;
    arena->head = chunk;
    return chunk;
}

static size_t
next_chunk_size(const struct ptx_arena *arena)
{
    size_t size = arena->head ? arena->head->size * 2 : CHUNK_MIN;

    return gp_min(gp_max(size, CHUNK_MIN), CHUNK_MAX);
}

static void *
alloc_large(struct ptx_arena *arena, size_t size)
{
    struct ptx_chunk *chunk, *first = arena->head;

    chunk = chunk_new(arena, size);
    if (!chunk)
        return NULL;
    if (first) {
        /* Behind the current one, which keeps filling up. */
        arena->head = first;
        chunk->next = first->next;
        first->next = chunk;
    } else {
        arena->cur = arena->end = chunk->data + size;
    }
    return chunk->data;
}

void *
ptx_arena_alloc(struct ptx_arena *arena, size_t size)
{
    struct ptx_chunk *chunk;
    void *p;

    if (size > SIZE_MAX / 2)
        return NULL;
    size = GP_ALIGN_UP(size, (size_t)8);
    if (unlikely((size_t)(arena->end - arena->cur) < size)) {
        if (size > CHUNK_MIN / 2)
            return alloc_large(arena, size);
        chunk = chunk_new(arena, next_chunk_size(arena));
        if (!chunk)
            return NULL;
        arena->cur = chunk->data;
        arena->end = chunk->data + chunk->size;
    }
    p = arena->cur;
    arena->cur += size;
    return p;
}

void *
ptx_arena_copy(struct ptx_arena *arena, const void *data, size_t size)
{
    void *p = ptx_arena_alloc(arena, size ? size : 1);

    if (p && size)
        memcpy(p, data, size);
    return p;
}

void
ptx_arena_reset(struct ptx_arena *arena)
{
    struct ptx_chunk *keep = arena->head;

    if (!keep)
        return;
    while (keep->next) {
        struct ptx_chunk *next = keep->next->next;

        arena->total -= keep->next->size;
        free(keep->next);
        keep->next = next;
    }
    /* Clear only what was used: cur lies in keep, or keep is one large piece. */
    memset(keep->data, 0, (size_t)(arena->cur - keep->data));
    arena->cur = keep->data;
    arena->end = keep->data + keep->size;
}

void
ptx_arena_fini(struct ptx_arena *arena)
{
    while (arena->head) {
        struct ptx_chunk *next = arena->head->next;

        free(arena->head);
        arena->head = next;
    }
    arena->cur = arena->end = NULL;
    arena->total = 0;
}

void *
ptx_vec_push(struct ptx_vec *vec, size_t size)
{
    uint8_t *elem;

    if (vec->n == vec->cap) {
        uint32_t cap = vec->cap ? vec->cap * 2 : 16;
        void *data;

        if (vec->cap > UINT32_MAX / 2)
            return NULL;
        data = reallocarray(vec->data, cap, size);
        if (!data)
            return NULL;
        vec->data = data;
        vec->cap = cap;
    }
    elem = (uint8_t *)vec->data + (size_t)vec->n * size;
    vec->n++;
    memset(elem, 0, size);
    return elem;
}

void
ptx_vec_fini(struct ptx_vec *vec)
{
    free(vec->data);
    *vec = (struct ptx_vec){0};
}
