/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_quota.h"

#include "wrk_segment.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define FIRST_CAP 256u
/* A byte costs a card 512 of them, and this process an entry: so a session has as many
 * allocations as pages of this size, and some more.  What frameworks keep allocated on
 * a whole card are some ten thousand. */
#define PIECE_BYTES 4096u
#define PIECES_MIN 16384u

struct quota_entry {
    uint64_t key; /* 0: free */
    uint64_t bytes;
    uint32_t slice;
    uint32_t ctx;
};

struct wrk_quota {
    struct wrk_segment *seg;
    struct wrk_seat *seat;
    pthread_mutex_t lock;        /* of what follows */
    struct quota_entry *entries; /* open addressing, linear probing */
    uint32_t cap;                /* power of two */
    uint32_t count;
};

static uint32_t
entry_home(const struct wrk_quota *q, uint64_t key)
{
    return (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (q->cap - 1);
}

static struct quota_entry *
entry_probe(const struct wrk_quota *q, uint64_t key)
{
    uint32_t i = entry_home(q, key);

    while (q->entries[i].key && q->entries[i].key != key)
        i = (i + 1) & (q->cap - 1);
    return &q->entries[i];
}

static int
entries_grow(struct wrk_quota *q)
{
    struct quota_entry *old = q->entries;
    uint32_t old_cap = q->cap;
    struct quota_entry *grown;

    if (q->count < q->cap / 2)
        return 0;
    if (q->cap > UINT32_MAX / 2 / sizeof(*grown))
        return -ENOMEM;
    grown = calloc((size_t)old_cap * 2, sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    q->entries = grown;
    q->cap = old_cap * 2;
    for (uint32_t i = 0; i < old_cap; i++) {
        if (old[i].key)
            *entry_probe(q, old[i].key) = old[i];
    }
    free(old);
    return 0;
}

/* Take the entry out and move up what linear probing put behind it. */
static void
entry_remove(struct wrk_quota *q, struct quota_entry *e)
{
    uint32_t mask = q->cap - 1;
    uint32_t hole = (uint32_t)(e - q->entries);
    uint32_t i = hole;

    for (;;) {
        uint32_t home;

        i = (i + 1) & mask;
        if (!q->entries[i].key)
            break;
        home = entry_home(q, q->entries[i].key);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            q->entries[hole] = q->entries[i];
            hole = i;
        }
    }
    q->entries[hole].key = 0;
    q->count--;
}

int
wrk_quota_new(struct wrk_segment *seg, uint32_t seat, struct wrk_quota **ret)
{
    CLEANUP(wrk_quota_freep) struct wrk_quota *q = calloc(1, sizeof(*q));

    if (!q || seat >= WRK_SEATS_MAX)
        return q ? -EINVAL : -ENOMEM;
    q->entries = calloc(FIRST_CAP, sizeof(*q->entries));
    if (!q->entries)
        return -ENOMEM;
    q->cap = FIRST_CAP;
    q->seg = seg;
    q->seat = &seg->seats[seat];
    pthread_mutex_init(&q->lock, NULL);
    *ret = TAKE_PTR(q);
    return 0;
}

void
wrk_quota_free(struct wrk_quota *q)
{
    if (!q)
        return;
    pthread_mutex_destroy(&q->lock);
    free(q->entries);
    free(q);
}

/* The owner of the lock may have been killed: what it guards is whole at every
 * instant, so the next one simply goes on. */
static void
memory_lock(struct wrk_segment *seg)
{
    if (pthread_mutex_lock(&seg->memory_lock) == EOWNERDEAD)
        pthread_mutex_consistent(&seg->memory_lock);
}

bool
wrk_quota_take(struct wrk_quota *q, uint32_t slice, uint64_t bytes)
{
    uint64_t limit = q->seg->slices[slice].memory;
    uint64_t used;
    bool ok;

    memory_lock(q->seg);
    used = wrk_segment_used(q->seg, slice);
    ok = used <= limit && bytes <= limit - used &&
         wrk_segment_pieces(q->seg, slice) < PIECES_MIN + limit / PIECE_BYTES;
    if (ok) {
        atomic_fetch_add_explicit(&q->seat->pieces[slice], 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&q->seat->used[slice], bytes, memory_order_relaxed);
        if (used + bytes > atomic_load(&q->seg->high[slice]))
            atomic_store(&q->seg->high[slice], used + bytes);
    }
    pthread_mutex_unlock(&q->seg->memory_lock);
    return ok;
}

/* Giving back needs no lock: another's view of the sum can only be too large. */
void
wrk_quota_give(struct wrk_quota *q, uint32_t slice, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&q->seat->used[slice], bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&q->seat->pieces[slice], 1, memory_order_relaxed);
}

static int
note_locked(struct wrk_quota *q, uint64_t key, uint32_t slice, uint32_t ctx,
            uint64_t bytes)
{
    struct quota_entry *e;
    int r = entries_grow(q);

    if (r < 0)
        return r;
    e = entry_probe(q, key);
    if (e->key)
        return -EEXIST;
    *e = (struct quota_entry){.key = key, .bytes = bytes, .slice = slice, .ctx = ctx};
    q->count++;
    return 0;
}

int
wrk_quota_note(struct wrk_quota *q, uint64_t key, uint32_t slice, uint32_t ctx,
               uint64_t bytes)
{
    int r;

    if (!key)
        return -EINVAL;
    pthread_mutex_lock(&q->lock);
    r = note_locked(q, key, slice, ctx, bytes);
    pthread_mutex_unlock(&q->lock);
    return r;
}

bool
wrk_quota_detach(struct wrk_quota *q, uint64_t key, struct wrk_quota_held *ret)
{
    struct quota_entry *e;
    bool known;

    if (!key)
        return false;
    pthread_mutex_lock(&q->lock);
    e = entry_probe(q, key);
    known = e->key != 0;
    if (known) {
        *ret = (struct wrk_quota_held){e->bytes, e->slice, e->ctx};
        entry_remove(q, e);
    }
    pthread_mutex_unlock(&q->lock);
    return known;
}

bool
wrk_quota_drop(struct wrk_quota *q, uint64_t key)
{
    struct wrk_quota_held held;

    if (!wrk_quota_detach(q, key, &held))
        return false;
    wrk_quota_give(q, held.slice, held.bytes);
    return true;
}

void
wrk_quota_drop_ctx(struct wrk_quota *q, uint32_t ctx)
{
    pthread_mutex_lock(&q->lock);
    for (uint32_t i = 0; i < q->cap;) {
        struct quota_entry *e = &q->entries[i];

        /* Removing moves a later entry here: look at the same place again. */
        if (e->key && e->ctx == ctx) {
            wrk_quota_give(q, e->slice, e->bytes);
            entry_remove(q, e);
        } else {
            i++;
        }
    }
    pthread_mutex_unlock(&q->lock);
}

void
wrk_quota_each(struct wrk_quota *q, uint32_t ctx, void (*fn)(void *arg, uint64_t key),
               void *arg)
{
    pthread_mutex_lock(&q->lock);
    for (uint32_t i = 0; i < q->cap; i++) {
        if (q->entries[i].key && q->entries[i].ctx == ctx)
            fn(arg, q->entries[i].key);
    }
    pthread_mutex_unlock(&q->lock);
}

bool
wrk_quota_find(struct wrk_quota *q, uint64_t key, uint64_t *ret_bytes)
{
    const struct quota_entry *e;
    bool known;

    pthread_mutex_lock(&q->lock);
    e = entry_probe(q, key);
    known = key && e->key;
    if (known)
        *ret_bytes = e->bytes;
    pthread_mutex_unlock(&q->lock);
    return known;
}

uint64_t
wrk_quota_limit(const struct wrk_quota *q, uint32_t slice)
{
    return q->seg->slices[slice].memory;
}

uint64_t
wrk_quota_used(const struct wrk_quota *q, uint32_t slice)
{
    return wrk_segment_used(q->seg, slice);
}
