/* SPDX-License-Identifier: Apache-2.0 */
#include "null_live.h"

#include "gp_table.h"

#include <pthread.h>

struct live {
    const void *what; /* NULL: free */
    enum null_live kind;
};

GP_TABLE_TYPE(lives, struct live);

static inline bool
lives_used(const struct live *e)
{
    return e->what != NULL;
}

static inline uint32_t
lives_hash(const void *what)
{
    return (uint32_t)((uintptr_t)what * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

static inline uint32_t
lives_hash_of(const struct live *e)
{
    return lives_hash(e->what);
}

static inline bool
lives_is(const struct live *e, const void *what)
{
    return e->what == what;
}

GP_TABLE(lives, struct live, const void *)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lives all; /* under it */

bool
null_live_enter(const void *what, enum null_live kind)
{
    struct live *e;

    pthread_mutex_lock(&lock);
    e = lives_enter(&all, what);
    if (e)
        *e = (struct live){what, kind};
    pthread_mutex_unlock(&lock);
    return e != NULL;
}

void
null_live_leave(const void *what)
{
    struct live *e;

    pthread_mutex_lock(&lock);
    e = lives_find(&all, what);
    if (e)
        lives_remove(&all, e);
    pthread_mutex_unlock(&lock);
}

bool
null_live_is(const void *what, enum null_live kind)
{
    const struct live *e;
    bool is;

    pthread_mutex_lock(&lock);
    e = lives_find(&all, what);
    is = e && e->kind == kind;
    pthread_mutex_unlock(&lock);
    return is;
}
