/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one module: allocated piece by piece, freed at once.
 *
 * Belongs to whoever embeds it; one thread.  Not a general allocator: nothing
 * is given back before ptx_arena_fini() or ptx_arena_reset().  Here too: the
 * growing array that the parser collects lists in before it copies them.
 */
#ifndef PTX_ARENA_H
#define PTX_ARENA_H

#include "gp_base.h"

struct ptx_chunk;

struct ptx_arena {
    struct ptx_chunk *head;
    uint8_t *cur;
    uint8_t *end;
    size_t total; /* bytes of all pieces */
    size_t limit; /* for them; 0: none */
};

/* Zeroed, aligned to 8.  NULL: no memory, or the limit is reached. */
void *ptx_arena_alloc(struct ptx_arena *arena, size_t size);
/* A copy of @size bytes; a copy of nothing is not NULL. */
void *ptx_arena_copy(struct ptx_arena *arena, const void *data, size_t size);
/* Everything allocated so far is invalid; memory is kept for reuse. */
void ptx_arena_reset(struct ptx_arena *arena);
void ptx_arena_fini(struct ptx_arena *arena);

struct ptx_vec {
    void *data;
    uint32_t n;
    uint32_t cap;
};

/* Room for one more element of @size bytes, zeroed.  NULL: no memory.  Moves
 * the others: pointers into the vector do not survive it. */
void *ptx_vec_push(struct ptx_vec *vec, size_t size);
void ptx_vec_fini(struct ptx_vec *vec);

#endif
