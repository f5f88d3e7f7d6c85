/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_quota.h"

#include "gp_table.h"
#include "gp_time.h"
#include "wrk_desk.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

/* How long wrk_quota_take_soon() waits for other processes of the session, by what is
 * known of them.  A client sends what it has posted within a few milliseconds
 * (stub_flush.c), if its host gives it a processor; a machine whose host has other
 * guests was seen to keep one for longer than 25 ms.  Where both ends stand still on
 * such a host, time passes that gives the client no chance: so many looks are made at
 * least. */
#define ROOM_QUIET_NS (100 * GP_NS_PER_MS)
#define ROOM_BUSY_NS (500 * GP_NS_PER_MS)
#define ROOM_FREEING_NS (10 * GP_NS_PER_S)
#define ROOM_LOOKS_MIN 5u
/* Between looks; the time doubles. */
#define ROOM_LOOK_MIN_NS (1 * GP_NS_PER_MS)
#define ROOM_LOOK_MAX_NS (16 * GP_NS_PER_MS)

struct quota_entry {
    uint64_t key; /* 0: free */
    uint64_t bytes;
    uint32_t slice;
    uint32_t ctx;
};

GP_TABLE_TYPE(entries, struct quota_entry);

GP_HOT static inline bool
entries_used(const struct quota_entry *e)
{
    return e->key != 0;
}

GP_HOT static inline uint32_t
entries_hash(uint64_t key)
{
    return (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

GP_HOT static inline uint32_t
entries_hash_of(const struct quota_entry *e)
{
    return entries_hash(e->key);
}

GP_HOT static inline bool
entries_is(const struct quota_entry *e, uint64_t key)
{
    return e->key == key;
}

GP_TABLE(entries, struct quota_entry, uint64_t)

struct wrk_quota {
    struct wrk_desks *desks;
    atomic_uint sharers; /* jobs of other threads; only the reader makes it more */
    struct entries entries;
    uint64_t ended;       /* ends that have begun; the reader's */
    pthread_mutex_t lock; /* of the ledger, while it has sharers */
    /* Of this process, now; written as what follows the lock is, read by anybody. */
    _Atomic uint64_t used[TICKET_SLICES_MAX], pieces[TICKET_SLICES_MAX];
};

/* Whether a lock was taken, for ledger_unlock().  Without sharers only the receive
 * thread calls, and only it could change that. */
GP_HOT static inline bool
ledger_lock(struct wrk_quota *q)
{
    if (likely(atomic_load_explicit(&q->sharers, memory_order_acquire) == 0))
        return false;
    pthread_mutex_lock(&q->lock);
    return true;
}

GP_HOT static inline void
ledger_unlock(struct wrk_quota *q, bool locked)
{
    if (unlikely(locked))
        pthread_mutex_unlock(&q->lock);
}

void
wrk_quota_share(struct wrk_quota *q)
{
    atomic_fetch_add_explicit(&q->sharers, 1, memory_order_relaxed);
}

void
wrk_quota_unshare(struct wrk_quota *q)
{
    atomic_fetch_sub_explicit(&q->sharers, 1, memory_order_release);
}

void
wrk_quota_share_release(struct wrk_quota *q)
{
    wrk_quota_share(q);
    atomic_fetch_add(&q->desks->desk->releases, 1);
}

void
wrk_quota_unshare_release(struct wrk_quota *q)
{
    atomic_fetch_sub(&q->desks->desk->releases, 1);
    wrk_quota_unshare(q);
}

int
wrk_quota_new(struct wrk_desks *desks, struct wrk_quota **ret)
{
    CLEANUP(wrk_quota_freep) struct wrk_quota *q = calloc(1, sizeof(*q));

    if (!q)
        return -ENOMEM;
    if (entries_room(&q->entries) < 0) /* so that all can be probed */
        return -ENOMEM;
    q->desks = desks;
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
    entries_fini(&q->entries);
    free(q);
}

/* These have one writer at a time, the holder of the ledger; others read. */
GP_HOT static inline void
add(_Atomic uint64_t *sum, uint64_t more)
{
    atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

GP_HOT static inline void
add_own(struct wrk_quota *q, uint32_t slice, uint64_t pieces, uint64_t bytes)
{
    add(&q->pieces[slice], pieces);
    add(&q->used[slice], bytes);
}

GP_HOT static void
give(struct wrk_quota *q, uint32_t slice, uint64_t bytes)
{
    struct wrk_usage *usage = &q->desks->desk->usage;

    add_own(q, slice, -UINT64_C(1), -bytes);
    add(&usage->gave_n[slice], 1);
    /* Whoever reads it has the take before it in view (srv_ledger.c). */
    atomic_store_explicit(
        &usage->gave[slice],
        atomic_load_explicit(&usage->gave[slice], memory_order_relaxed) + bytes,
        memory_order_release);
}

/* Others of the session may take as well: the supervisor keeps the sum. */
static enum wrk_take
take_among_others(struct wrk_quota *q, uint32_t slice, uint64_t bytes)
{
    enum wrk_take answer =
        (enum wrk_take)wrk_desks_call(q->desks, WRK_CALL_TAKE, slice, bytes);

    if (answer == WRK_TAKE_GRANTED)
        add_own(q, slice, 1, bytes);
    return answer;
}

GP_HOT static bool
is_below(const struct wrk_quota *q, uint32_t slice, uint64_t bytes)
{
    uint64_t limit =
        atomic_load_explicit(&q->desks->segment->limits[slice], memory_order_relaxed);
    uint64_t used = atomic_load_explicit(&q->used[slice], memory_order_relaxed);

    return used <= limit && bytes <= limit - used &&
           atomic_load_explicit(&q->pieces[slice], memory_order_relaxed) <
               wrk_physmem_max(limit);
}

/* The session's only attachment so far?  A slot counts as taken before its worker
 * begins. */
GP_HOT static bool
is_alone(const struct wrk_quota *q)
{
    return atomic_load(&q->desks->segment->slots_high) <= 1 && q->desks->slot == 0;
}

/* Without the supervisor: a worker that joins meanwhile is either refused, or sees
 * these bytes counted, or is seen by the second check below, and then the take is
 * repeated through the supervisor.  All four accesses are seq_cst, because the proof
 * needs their total order. */
GP_HOT static enum wrk_take
take_alone(struct wrk_quota *q, uint32_t slice, uint64_t bytes)
{
    struct wrk_usage *usage = &q->desks->desk->usage;
    uint64_t took = atomic_load_explicit(&usage->took[slice], memory_order_relaxed);
    uint64_t used;

    if (!is_below(q, slice, bytes))
        return WRK_TAKE_REFUSED;
    add(&usage->took_n[slice], 1);
    atomic_store(&usage->took[slice], took + bytes);
    if (unlikely(!is_alone(q))) {
        add(&usage->took_n[slice], -UINT64_C(1));
        atomic_store(&usage->took[slice], took);
        return take_among_others(q, slice, bytes);
    }
    add_own(q, slice, 1, bytes);
    used = atomic_load_explicit(&q->used[slice], memory_order_relaxed);
    if (used > atomic_load_explicit(&usage->high[slice], memory_order_relaxed))
        atomic_store_explicit(&usage->high[slice], used, memory_order_relaxed);
    return WRK_TAKE_GRANTED;
}

GP_HOT static enum wrk_take
take(struct wrk_quota *q, uint32_t slice, uint64_t bytes)
{
    bool locked = ledger_lock(q);
    enum wrk_take answer = likely(is_alone(q)) ? take_alone(q, slice, bytes)
                                               : take_among_others(q, slice, bytes);

    ledger_unlock(q, locked);
    return answer;
}

GP_HOT bool
wrk_quota_take(struct wrk_quota *q, uint32_t slice, uint64_t bytes)
{
    return take(q, slice, bytes) == WRK_TAKE_GRANTED;
}

bool
wrk_quota_shares(const struct wrk_quota *q)
{
    return !is_alone(q);
}

static uint64_t
room_patience(enum wrk_take answer)
{
    switch (answer) {
    case WRK_TAKE_QUIET:
        return ROOM_QUIET_NS;
    case WRK_TAKE_BUSY:
        return ROOM_BUSY_NS;
    case WRK_TAKE_FREEING:
        return ROOM_FREEING_NS;
    default:
        return 0;
    }
}

/* No lock is held while it sleeps: another process may wait for what jobs of this one
 * give back. */
bool
wrk_quota_take_soon(struct wrk_quota *q, uint32_t slice, uint64_t bytes,
                    uint64_t most_ns)
{
    enum wrk_take answer = take(q, slice, bytes);
    uint64_t began, pause = ROOM_LOOK_MIN_NS;

    if (likely(answer <= WRK_TAKE_GRANTED))
        return answer == WRK_TAKE_GRANTED;
    began = gp_now_ns();
    for (unsigned looks = 0; answer > WRK_TAKE_GRANTED; looks++) {
        struct timespec time = {.tv_nsec = (long)pause};

        if (looks >= ROOM_LOOKS_MIN &&
            gp_now_ns() - began >= gp_min(room_patience(answer), most_ns))
            return false;
        nanosleep(&time, NULL);
        pause = gp_min(2 * pause, ROOM_LOOK_MAX_NS);
        answer = take(q, slice, bytes);
    }
    return answer == WRK_TAKE_GRANTED;
}

/* Giving back needs no asking: another's view of the sum can only be too large. */
GP_HOT void
wrk_quota_give(struct wrk_quota *q, uint32_t slice, uint64_t bytes)
{
    bool locked = ledger_lock(q);

    give(q, slice, bytes);
    ledger_unlock(q, locked);
}

/* @over: an entry that is there already has come to its end. */
GP_HOT static int
note(struct wrk_quota *q, uint64_t key, const struct wrk_quota_held *held, bool over)
{
    struct quota_entry *e = entries_probe(&q->entries, key);

    if (e->key && !over)
        return -EEXIST;
    if (e->key) {
        give(q, e->slice, e->bytes);
    } else {
        e = entries_claim(&q->entries, e, key);
        if (unlikely(!e))
            return -ENOMEM;
    }
    *e = (struct quota_entry){
        .key = key, .bytes = held->bytes, .slice = held->slice, .ctx = held->ctx};
    return 0;
}

int
wrk_quota_note(struct wrk_quota *q, uint64_t key, uint32_t slice, uint32_t ctx,
               uint64_t bytes)
{
    struct wrk_quota_held held = {bytes, slice, ctx};
    bool locked;
    int r;

    if (!key)
        return -EINVAL;
    locked = ledger_lock(q);
    r = note(q, key, &held, false);
    ledger_unlock(q, locked);
    return r;
}

GP_HOT int
wrk_quota_note_new(struct wrk_quota *q, uint64_t key, const struct wrk_quota_held *held)
{
    bool locked;
    int r;

    if (!key)
        return -EINVAL;
    locked = ledger_lock(q);
    r = note(q, key, held, true);
    ledger_unlock(q, locked);
    return r;
}

GP_HOT bool
wrk_quota_detach(struct wrk_quota *q, uint64_t key, struct wrk_quota_held *ret)
{
    struct quota_entry *e;
    bool known, locked;

    if (!key)
        return false;
    locked = ledger_lock(q);
    e = entries_probe(&q->entries, key);
    known = e->key != 0;
    if (known) {
        *ret = (struct wrk_quota_held){e->bytes, e->slice, e->ctx};
        entries_remove(&q->entries, e);
    }
    ledger_unlock(q, locked);
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

/* The same bytes under another key.  There is room where one was taken away. */
static void
rename_entry(struct wrk_quota *q, struct quota_entry *e, uint64_t key)
{
    struct quota_entry moved = *e;

    entries_remove(&q->entries, e);
    moved.key = key;
    e = entries_claim(&q->entries, entries_probe(&q->entries, key), key);
    if (e)
        *e = moved;
}

/* No address, handle, limit or library has this bit alone (wrk_variables.c). */
#define END_KEYS (UINT64_C(1) << 62)

uint64_t
wrk_quota_end_begins(struct wrk_quota *q, uint64_t key)
{
    bool locked = ledger_lock(q);
    struct quota_entry *e = entries_probe(&q->entries, key);
    uint64_t held_by = key && e->key ? END_KEYS | ++q->ended : 0;

    if (held_by)
        rename_entry(q, e, held_by);
    ledger_unlock(q, locked);
    return held_by;
}

void
wrk_quota_end_refused(struct wrk_quota *q, uint64_t held_by, uint64_t key)
{
    bool locked = ledger_lock(q);
    struct quota_entry *e = entries_probe(&q->entries, held_by);

    if (held_by && e->key && !entries_probe(&q->entries, key)->key)
        rename_entry(q, e, key);
    ledger_unlock(q, locked);
}

/* What is wanted: the keys from @first to @last of that context, or with NULL of any.
 */
static void
drop_all(struct wrk_quota *q, uint64_t first, uint64_t last, const uint32_t *ctx)
{
    bool locked = ledger_lock(q);

    for (uint32_t i = 0; i < q->entries.cap;) {
        struct quota_entry *e = &q->entries.slots[i];

        /* Removing moves a later entry here: look at the same place again. */
        if (e->key && e->key >= first && e->key <= last && (!ctx || e->ctx == *ctx)) {
            give(q, e->slice, e->bytes);
            entries_remove(&q->entries, e);
        } else {
            i++;
        }
    }
    ledger_unlock(q, locked);
}

void
wrk_quota_drop_range(struct wrk_quota *q, uint64_t first, uint64_t last)
{
    drop_all(q, first, last, NULL);
}

void
wrk_quota_drop_ctx(struct wrk_quota *q, uint32_t ctx)
{
    drop_all(q, 0, UINT64_MAX, &ctx);
}

void
wrk_quota_each(struct wrk_quota *q, uint32_t ctx, void (*fn)(void *arg, uint64_t key),
               void *arg)
{
    bool locked = ledger_lock(q);

    for (uint32_t i = 0; i < q->entries.cap; i++) {
        if (q->entries.slots[i].key && q->entries.slots[i].ctx == ctx)
            fn(arg, q->entries.slots[i].key);
    }
    ledger_unlock(q, locked);
}

bool
wrk_quota_find(struct wrk_quota *q, uint64_t key, uint64_t *ret_bytes)
{
    const struct quota_entry *e;
    bool known, locked = ledger_lock(q);

    e = entries_probe(&q->entries, key);
    known = key && e->key;
    if (known)
        *ret_bytes = e->bytes;
    ledger_unlock(q, locked);
    return known;
}

GP_HOT uint64_t
wrk_quota_limit(const struct wrk_quota *q, uint32_t slice)
{
    return atomic_load_explicit(&q->desks->segment->limits[slice],
                                memory_order_relaxed);
}

GP_HOT uint64_t
wrk_quota_used(const struct wrk_quota *q, uint32_t slice)
{
    if (likely(is_alone(q)))
        return atomic_load_explicit(&q->used[slice], memory_order_relaxed);
    wrk_desks_call(q->desks, WRK_CALL_LOOK, 0, 0);
    return atomic_load(&q->desks->segment->used[slice]);
}
