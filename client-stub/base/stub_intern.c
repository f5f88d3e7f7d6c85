/* SPDX-License-Identifier: Apache-2.0 */
/* Interned strings, in a hash table. */
#include "stub_intern.h"

#include "gp_lock.h"
#include "gp_table.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct interned {
    uint64_t hash;
    char text[];
};

struct spelling {
    const char *text;
    uint64_t hash;
};

GP_TABLE_TYPE(strings, struct interned *);

static inline bool
strings_used(struct interned *const *e)
{
    return *e != NULL;
}

static inline uint32_t
strings_hash(struct spelling key)
{
    return (uint32_t)key.hash;
}

static inline uint32_t
strings_hash_of(struct interned *const *e)
{
    return (uint32_t)(*e)->hash;
}

static inline bool
strings_is(struct interned *const *e, struct spelling key)
{
    return (*e)->hash == key.hash && strcmp((*e)->text, key.text) == 0;
}

GP_TABLE(strings, struct interned *, struct spelling)

static struct gp_lock lock;
static struct strings strings;

/* FNV-1a: the names are those of the application's own kernels, nobody hostile chooses
 * them. */
static uint64_t
intern_hash(const char *text, size_t len)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return h;
}

static struct interned *
intern_new(const char *text, size_t len, uint64_t hash)
{
    struct interned *s = malloc(sizeof(*s) + len + 1);

    if (s) {
        s->hash = hash;
        memcpy(s->text, text, len + 1);
    }
    return s;
}

const char *
stub_intern(const char *text)
{
    size_t len = strlen(text);
    struct spelling key = {text, intern_hash(text, len)};
    struct interned **found, *s = NULL;

    gp_lock_take(&lock);
    found = strings_find(&strings, key);
    if (found) {
        s = *found;
    } else if (strings_room(&strings) == 0) {
        s = intern_new(text, len, key.hash);
        if (s)
            *strings_enter(&strings, key) = s;
    }
    gp_lock_release(&lock);
    return s ? s->text : "";
}
