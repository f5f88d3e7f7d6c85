/* SPDX-License-Identifier: Apache-2.0 */
/* Interned strings, in a hash table that grows. */
#include "stub_intern.h"

#include "gp_lock.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct interned {
    struct interned *next;
    uint64_t hash;
    char text[];
};

static struct gp_lock lock;
static struct interned **buckets;
static size_t n_buckets; /* a power of two */
static size_t n_strings;

/* Twice as many buckets; on lack of memory the chains just get longer. */
static void
intern_grow(void)
{
    size_t n = n_buckets ? 2 * n_buckets : 256;
    struct interned **grown = calloc(n, sizeof(struct interned *));

    if (!grown)
        return;
    for (size_t i = 0; i < n_buckets; i++) {
        struct interned *s = buckets[i], *next;

        for (; s; s = next) {
            next = s->next;
            s->next = grown[s->hash & (n - 1)];
            grown[s->hash & (n - 1)] = s;
        }
    }
    free(buckets);
    buckets = grown;
    n_buckets = n;
}

static const char *
intern_add(const char *text, size_t len, uint64_t hash)
{
    struct interned *s = malloc(sizeof(*s) + len + 1);

    if (!s)
        return "";
    s->hash = hash;
    memcpy(s->text, text, len + 1);
    s->next = buckets[hash & (n_buckets - 1)];
    buckets[hash & (n_buckets - 1)] = s;
    n_strings++;
    return s->text;
}

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

const char *
stub_intern(const char *text)
{
    size_t len = strlen(text);
    uint64_t hash = intern_hash(text, len);
    const char *found = NULL;

    gp_lock_take(&lock);
    if (n_strings >= n_buckets)
        intern_grow();
    for (struct interned *s = n_buckets ? buckets[hash & (n_buckets - 1)] : NULL; s;
         s = s->next)
        if (s->hash == hash && strcmp(s->text, text) == 0)
            found = s->text;
    if (!found)
        found = n_buckets ? intern_add(text, len, hash) : "";
    gp_lock_release(&lock);
    return found;
}
