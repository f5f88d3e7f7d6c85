/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of one type of entry, made by a macro: open addressing, linear probing,
 * at most half full, entries by value in one array.
 *
 * The entries belong to the table's owner, and so do locks.  Zero-initialised storage
 * is an empty table.  Entries move when others come and go: a pointer to one is valid
 * until the next NAME_enter() or NAME_remove().  Not for keys that a hostile peer
 * chooses, unless the owner's hash is keyed (gp_hash.h); not ordered (gp_tree.h).  Keys
 * that are numbered one after the other need a hash that scatters them (gp_hash_u64()):
 * a remove looks at all of the run that the entry is in.
 *
 *     GP_TABLE_TYPE(NAME, TYPE);          struct NAME, for a header
 *     GP_TABLE(NAME, TYPE, KEY)           its functions, for the .c file
 *
 * TYPE is a structure or a pointer, and all zeros are a free place.  KEY is passed by
 * value.  Before GP_TABLE() the owner defines, inline:
 *
 *     bool NAME_used(const TYPE *e)             the place is taken
 *     uint32_t NAME_hash(KEY key)
 *     uint32_t NAME_hash_of(const TYPE *e)      of the entry's key
 *     bool NAME_is(const TYPE *e, KEY key)      the entry is that of @key
 *
 * and gets:
 *
 *     TYPE *NAME_probe(const struct NAME *t, KEY key)
 *         Where @key is, or the free place where it belongs, of a table that has room.
 *     TYPE *NAME_find(const struct NAME *t, KEY key)
 *         Its entry, or NULL.
 *     int NAME_room(struct NAME *t)
 *         Room for one more, so that NAME_probe() and NAME_enter() work; -ENOMEM.
 *     TYPE *NAME_enter(struct NAME *t, KEY key)
 *         The place for @key, counted.  The caller fills it at once.  NULL: no memory.
 *         An entry of @key that is there already is returned as it is.
 *     TYPE *NAME_claim(struct NAME *t, TYPE *e, KEY key)
 *         The same for whoever has probed already: @e is the free place of @key.
 *     void NAME_remove(struct NAME *t, TYPE *e)
 *         Take the entry out; whoever owns what it points to frees that.
 *     void NAME_fini(struct NAME *t)
 *
 * Who walks it looks at slots[0..cap) and asks NAME_used(); who removes meanwhile looks
 * at the same place again, because a later entry may have moved there.
 */
#ifndef GP_TABLE_H
#define GP_TABLE_H

#include "gp_base.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* A small table is one allocation of a few cache lines. */
#define GP_TABLE_FIRST_CAP 64u

#define GP_TABLE_TYPE(name, type)                                                      \
    struct name {                                                                      \
        type *slots;                                                                   \
        uint32_t cap; /* a power of two, or 0 */                                       \
        uint32_t count;                                                                \
    }

#define GP_TABLE(name, type, key_type)                                                 \
    static inline type *name##_probe(const struct name *t, key_type key)               \
    {                                                                                  \
        uint32_t i = name##_hash(key) & (t->cap - 1);                                  \
                                                                                       \
        while (name##_used(&t->slots[i]) && !name##_is(&t->slots[i], key))             \
            i = (i + 1) & (t->cap - 1);                                                \
        return &t->slots[i];                                                           \
    }                                                                                  \
                                                                                       \
    static inline type *name##_find(const struct name *t, key_type key)                \
    {                                                                                  \
        type *e = t->cap ? name##_probe(t, key) : NULL;                                \
                                                                                       \
        return e && name##_used(e) ? e : NULL;                                         \
    }                                                                                  \
                                                                                       \
    __attribute__((noinline)) static int name##_grow(struct name *t)                   \
    {                                                                                  \
        struct name grown = {.cap = t->cap ? t->cap * 2 : GP_TABLE_FIRST_CAP,          \
                             .count = t->count};                                       \
                                                                                       \
        if (t->cap > UINT32_MAX / 2 / sizeof(type))                                    \
            return -ENOMEM;                                                            \
        grown.slots = calloc(grown.cap, sizeof(type));                                 \
        if (!grown.slots)                                                              \
            return -ENOMEM;                                                            \
        for (uint32_t i = 0; i < t->cap; i++) {                                        \
            uint32_t at;                                                               \
                                                                                       \
            if (!name##_used(&t->slots[i]))                                            \
                continue;                                                              \
            at = name##_hash_of(&t->slots[i]) & (grown.cap - 1);                       \
            while (name##_used(&grown.slots[at]))                                      \
                at = (at + 1) & (grown.cap - 1);                                       \
            grown.slots[at] = t->slots[i];                                             \
        }                                                                              \
        free(t->slots);                                                                \
        *t = grown;                                                                    \
        return 0;                                                                      \
    }                                                                                  \
                                                                                       \
    static inline int name##_room(struct name *t)                                      \
    {                                                                                  \
        return likely(t->count < t->cap / 2) ? 0 : name##_grow(t);                     \
    }                                                                                  \
                                                                                       \
    static inline type *name##_claim(struct name *t, type *e, key_type key)            \
    {                                                                                  \
        if (unlikely(t->count >= t->cap / 2)) {                                        \
            if (name##_grow(t) < 0)                                                    \
                return NULL;                                                           \
            e = name##_probe(t, key);                                                  \
        }                                                                              \
        t->count++;                                                                    \
        return e;                                                                      \
    }                                                                                  \
                                                                                       \
    static inline type *name##_enter(struct name *t, key_type key)                     \
    {                                                                                  \
        type *e;                                                                       \
                                                                                       \
        if (name##_room(t) < 0)                                                        \
            return NULL;                                                               \
        e = name##_probe(t, key);                                                      \
        if (!name##_used(e))                                                           \
            t->count++;                                                                \
        return e;                                                                      \
    }                                                                                  \
                                                                                       \
    /* Moves up what linear probing put behind the entry. */                           \
    static inline void name##_remove(struct name *t, type *e)                          \
    {                                                                                  \
        uint32_t mask = t->cap - 1;                                                    \
        uint32_t hole = (uint32_t)(e - t->slots);                                      \
                                                                                       \
        for (uint32_t i = (hole + 1) & mask; name##_used(&t->slots[i]);                \
             i = (i + 1) & mask) {                                                     \
            uint32_t home = name##_hash_of(&t->slots[i]) & mask;                       \
                                                                                       \
            if (((i - home) & mask) >= ((i - hole) & mask)) {                          \
                t->slots[hole] = t->slots[i];                                          \
                hole = i;                                                              \
            }                                                                          \
        }                                                                              \
        t->slots[hole] = (type){0};                                                    \
        t->count--;                                                                    \
    }                                                                                  \
                                                                                       \
    static inline void name##_fini(struct name *t)                                     \
    {                                                                                  \
        free(t->slots);                                                                \
        *t = (struct name){0};                                                         \
    }

#endif
