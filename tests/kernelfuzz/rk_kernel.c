/* SPDX-License-Identifier: Apache-2.0 */
/* See rk_kernel.h. */
#include "rk_kernel.h"

#include <stdlib.h>
#include <string.h>

const unsigned rk_n_regs[RK_N_CLASSES] = {10, 6, 4, 4};

const struct rk_cell rk_cells[RK_CELLS] = {
    {"add", "u32", 32, 5},          {"min", "s32", 32, 77},
    {"max", "u32", 32, 3},          {"and", "b32", 32, UINT32_MAX},
    {"or", "b32", 32, 0},           {"xor", "b32", 32, 9},
    {"add", "u64", 64, 11},         {"max", "s64", 64, 0},
    {"min", "u64", 64, UINT64_MAX},
};

enum rk_class
rk_class_of(char letter)
{
    return letter == 'D' ? RK_D : letter == 'H' ? RK_H : letter == 'P' ? RK_P : RK_W;
}

static void
list_free(struct rk_list *list)
{
    for (unsigned i = 0; i < list->n; i++)
        for (unsigned w = 0; w < RK_MAX_WAYS; w++)
            list_free(&list->v[i].sub[w]);
    free(list->v);
}

void
rk_kernel_free(struct rk_kernel *k)
{
    if (!k)
        return;
    list_free(&k->body);
    for (unsigned i = 0; i < RK_FUNCTIONS; i++)
        list_free(&k->functions[i]);
    free(k);
}

size_t
rk_mem_offset(const struct rk_mem *mem, unsigned thread, unsigned threads)
{
    size_t n = threads, t = thread, off = mem->off;

    if (mem->space == RK_LOCAL)
        return off;
    switch (mem->region) {
    case RK_COL4:
        return (off * n + t) * 4;
    case RK_COL8:
        return 16 * n + (off * n + t) * 8;
    case RK_COL16:
        return 32 * n + (off * n + t) * 16;
    default:
        return 64 * n + t * 64 + off;
    }
}

void
rk_mem_type(const struct rk_mem *mem, char text[8])
{
    snprintf(text, 8, "%c%u", mem->letter, mem->size * 8);
}

static bool
fits(const struct rk_stmt *s, int which)
{
    if (which < 0)
        return true;
    return s->kind == RK_RED ? (int)s->mode == which : (int)s->mem.space == which;
}

bool
rk_list_has(const struct rk_list *list, enum rk_kind kind, int which)
{
    for (unsigned i = 0; i < list->n; i++) {
        const struct rk_stmt *s = &list->v[i];
        if (s->off)
            continue;
        if (s->kind == kind && fits(s, which))
            return true;
        for (unsigned w = 0; w < RK_MAX_WAYS; w++)
            if (rk_list_has(&s->sub[w], kind, which))
                return true;
    }
    return false;
}

bool
rk_kernel_has_shared(const struct rk_kernel *k)
{
    return rk_list_has(&k->body, RK_LOAD, RK_SHARED) ||
           rk_list_has(&k->body, RK_STORE, RK_SHARED) ||
           rk_list_has(&k->body, RK_ATOM, RK_SHARED) ||
           rk_list_has(&k->body, RK_RED, 1) || rk_list_has(&k->body, RK_EXCHANGE, -1);
}
