/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of live device ranges; see sg_memview.h.
 *
 * Writers hold view->lock.  Readers that entered walk dir -> leaf -> chunk with plain
 * acquire loads; a range slot is reused only after every reader has passed a poll.
 */
#include "sg_memview.h"

#include "gp_err.h"
#include "sg_map_zero.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LEAF_BITS 16
#define DIR_SIZE (1u << (SG_VA_BITS - SG_GRANULE_SHIFT - LEAF_BITS))
#define LEAF_SIZE (1u << LEAF_BITS)
#define MIXED UINT32_MAX
#define CHUNK 1024u
#define MAX_CHUNKS                                                                     \
    4096u /* 4 M live ranges: cuMemAlloc of 256 B for a whole TiB is less */

struct slot {
    struct sg_range range;
    bool live;
};

struct sorted {
    uint64_t lo;
    uint32_t id;
};

struct sg_memview {
    pthread_mutex_t lock;
    uint64_t generation;
    uint32_t **dir; /* DIR_SIZE leaves of LEAF_SIZE range ids + 1 */
    struct slot *chunks[MAX_CHUNKS];
    uint32_t n_slots;
    uint32_t *free_ids;
    uint32_t n_free, cap_free;
    struct sorted *sorted;
    uint32_t n_sorted, cap_sorted;
    struct sg_memview_reader readers; /* list head */
};

/* Keep the windows free of the process's own memory, which could not be registered
 * there.  Kernels that hand out addresses from the bottom (User Mode Linux, emulators)
 * reach them as soon as large ranges below are reserved.  AddressSanitizer holds the
 * range already, and then this fails without harm. */
static void
hold_windows(void)
{
    void *lo = (void *)(uintptr_t)SG_WIN_SHARED;
    size_t len = SG_WIN_END - SG_WIN_SHARED;
    void *p =
        mmap(lo, len, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

    if (p != MAP_FAILED && p != lo) /* a kernel that does not know the flag */
        munmap(p, len);
}

int
sg_memview_new(struct sg_memview **ret_view)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct sg_memview *view = calloc(1, sizeof(*view));

    if (!view)
        return -ENOMEM;
    pthread_once(&once, hold_windows);
    view->dir = sg_map_zero(DIR_SIZE * sizeof(*view->dir));
    if (!view->dir) {
        free(view);
        return -ENOMEM;
    }
    pthread_mutex_init(&view->lock, NULL);
    view->generation = 1;
    view->readers.next = view->readers.prev = &view->readers;
    *ret_view = view;
    return 0;
}

void
sg_memview_free(struct sg_memview *view)
{
    if (!view)
        return;
    for (uint32_t i = 0; i < DIR_SIZE; i++)
        if (view->dir[i])
            munmap(view->dir[i], LEAF_SIZE * sizeof(uint32_t));
    munmap(view->dir, DIR_SIZE * sizeof(*view->dir));
    for (uint32_t i = 0; i < MAX_CHUNKS && view->chunks[i]; i++)
        free(view->chunks[i]);
    free(view->free_ids);
    free(view->sorted);
    pthread_mutex_destroy(&view->lock);
    free(view);
}

static struct slot *
view_slot(const struct sg_memview *view, uint32_t id)
{
    return &view->chunks[id / CHUNK][id % CHUNK];
}

/* Index of the last sorted range that starts at or below @addr, or -1. */
static int64_t
sorted_floor(const struct sg_memview *view, uint64_t addr)
{
    int64_t lo = 0, hi = (int64_t)view->n_sorted - 1, best = -1;

    while (lo <= hi) {
        int64_t mid = (lo + hi) / 2;
        if (view->sorted[mid].lo <= addr) {
            best = mid;
            lo = mid + 1;
        } else {
            hi = mid - 1;
        }
    }
    return best;
}

static bool
slow_find(const struct sg_memview *view, uint64_t addr, struct sg_range *ret)
{
    int64_t at = sorted_floor(view, addr);

    if (at < 0)
        return false;
    *ret = view_slot(view, view->sorted[at].id)->range;
    return addr - ret->lo < ret->len;
}

bool
sg_memview_find(struct sg_memview *view, uint64_t addr, struct sg_range *ret)
{
    bool found;

    pthread_mutex_lock(&view->lock);
    found = slow_find(view, addr, ret);
    pthread_mutex_unlock(&view->lock);
    return found;
}

/* The flags may be changed meanwhile, nothing else. */
static void
range_read(const struct sg_range *range, struct sg_range *ret)
{
    ret->lo = range->lo;
    ret->len = range->len;
    ret->flags = __atomic_load_n(&range->flags, __ATOMIC_ACQUIRE);
}

bool
sg_memview_lookup(struct sg_memview *view, uint64_t addr, struct sg_range *ret)
{
    uint64_t granule = addr >> SG_GRANULE_SHIFT;
    const uint32_t *leaf;
    uint32_t id;

    if (addr >> SG_VA_BITS)
        return false;
    leaf = __atomic_load_n(&view->dir[granule >> LEAF_BITS], __ATOMIC_ACQUIRE);
    if (!leaf)
        return false;
    id = __atomic_load_n(&leaf[granule & (LEAF_SIZE - 1)], __ATOMIC_ACQUIRE);
    if (id == 0)
        return false;
    if (id == MIXED)
        return sg_memview_find(view, addr, ret);
    range_read(&view_slot(view, id - 1)->range, ret);
    return addr - ret->lo < ret->len;
}

static int
leaf_ensure(struct sg_memview *view, uint64_t granule)
{
    uint32_t **at = &view->dir[granule >> LEAF_BITS];
    uint32_t *leaf;

    if (*at)
        return 0;
    leaf = sg_map_zero(LEAF_SIZE * sizeof(uint32_t));
    if (!leaf)
        return -ENOMEM;
    __atomic_store_n(at, leaf, __ATOMIC_RELEASE);
    return 0;
}

static uint32_t *
granule_entry(struct sg_memview *view, uint64_t granule)
{
    return &view->dir[granule >> LEAF_BITS][granule & (LEAF_SIZE - 1)];
}

static int
slot_take(struct sg_memview *view, uint32_t *ret_id)
{
    if (view->n_free) {
        *ret_id = view->free_ids[--view->n_free];
        return 0;
    }
    if (view->n_slots % CHUNK == 0) {
        uint32_t c = view->n_slots / CHUNK;
        if (c == MAX_CHUNKS)
            return -ENOMEM;
        if (!view->chunks[c]) {
            view->chunks[c] = calloc(CHUNK, sizeof(struct slot));
            if (!view->chunks[c])
                return -ENOMEM;
        }
    }
    *ret_id = view->n_slots++;
    return 0;
}

/* Room for one more element in every growing array, so that later steps cannot fail. */
static int
view_reserve(struct sg_memview *view)
{
    if (view->n_sorted == view->cap_sorted) {
        uint32_t cap = view->cap_sorted ? view->cap_sorted * 2 : 64;
        struct sorted *s = reallocarray(view->sorted, cap, sizeof(*s));
        if (!s)
            return -ENOMEM;
        view->sorted = s;
        view->cap_sorted = cap;
    }
    if (view->cap_free < view->n_slots + 1) {
        uint32_t cap = (view->n_slots + 1) * 2;
        uint32_t *f = reallocarray(view->free_ids, cap, sizeof(*f));
        if (!f)
            return -ENOMEM;
        view->free_ids = f;
        view->cap_free = cap;
    }
    return 0;
}

static bool
overlaps(const struct sg_memview *view, uint64_t lo, uint64_t len)
{
    int64_t at = sorted_floor(view, lo + len - 1);
    const struct sg_range *r;

    if (at < 0)
        return false;
    r = &view_slot(view, view->sorted[at].id)->range;
    return r->lo + r->len > lo;
}

static int
add_locked(struct sg_memview *view, uint64_t lo, uint64_t len, uint32_t flags)
{
    uint64_t first = lo >> SG_GRANULE_SHIFT, last = (lo + len - 1) >> SG_GRANULE_SHIFT;
    uint32_t id, at;
    int r;

    if (overlaps(view, lo, len))
        return -EEXIST;
    for (uint64_t g = first; g <= last; g = (g | (LEAF_SIZE - 1)) + 1)
        if ((r = leaf_ensure(view, g)) < 0)
            return r;
    if ((r = view_reserve(view)) < 0 || (r = slot_take(view, &id)) < 0)
        return r;

    at = (uint32_t)(sorted_floor(view, lo) + 1);
    memmove(&view->sorted[at + 1], &view->sorted[at],
            (view->n_sorted - at) * sizeof(*view->sorted));
    view->sorted[at] = (struct sorted){lo, id};
    view->n_sorted++;
    *view_slot(view, id) = (struct slot){{lo, len, flags}, true};
    for (uint64_t g = first; g <= last; g++) {
        uint32_t *e = granule_entry(view, g);
        __atomic_store_n(e, *e ? MIXED : id + 1, __ATOMIC_RELEASE);
    }
    return 0;
}

int
sg_memview_add(struct sg_memview *view, uint64_t lo, uint64_t len, uint32_t flags)
{
    uint64_t end;
    int r;

    if (len == 0 || !gp_add_ok(lo, len, &end) || end > 1ull << SG_VA_BITS)
        return -EINVAL;
    if (lo < SG_WIN_END && end > SG_WIN_SHARED)
        return -EINVAL;
    pthread_mutex_lock(&view->lock);
    r = add_locked(view, lo, len, flags);
    pthread_mutex_unlock(&view->lock);
    return r;
}

/* What a granule holds once range @gone has left it. */
static uint32_t
granule_recount(const struct sg_memview *view, uint64_t granule)
{
    uint64_t lo = granule << SG_GRANULE_SHIFT, hi = lo + SG_GRANULE;
    uint32_t found = 0;

    for (int64_t at = sorted_floor(view, hi - 1); at >= 0; at--) {
        const struct sg_range *r = &view_slot(view, view->sorted[at].id)->range;
        if (r->lo + r->len <= lo)
            break;
        if (found)
            return MIXED;
        found = view->sorted[at].id + 1;
    }
    return found;
}

static int
remove_locked(struct sg_memview *view, uint64_t lo, uint32_t *ret_id)
{
    int64_t at = sorted_floor(view, lo);
    struct sg_range range;
    uint32_t id;

    if (at < 0 || view->sorted[at].lo != lo)
        return -ENOENT;
    id = view->sorted[at].id;
    range = view_slot(view, id)->range;
    view->n_sorted--;
    memmove(&view->sorted[at], &view->sorted[at + 1],
            (view->n_sorted - (uint32_t)at) * sizeof(*view->sorted));
    for (uint64_t g = lo >> SG_GRANULE_SHIFT;
         g <= (lo + range.len - 1) >> SG_GRANULE_SHIFT; g++) {
        uint32_t *e = granule_entry(view, g);
        uint32_t now = *e == MIXED ? granule_recount(view, g) : 0;
        __atomic_store_n(e, now, __ATOMIC_RELEASE);
    }
    *ret_id = id;
    return 0;
}

static bool
readers_behind(struct sg_memview *view, uint64_t generation)
{
    for (struct sg_memview_reader *rd = view->readers.next; rd != &view->readers;
         rd = rd->next) {
        if (__atomic_load_n(&rd->seen, __ATOMIC_ACQUIRE) < generation)
            return true;
    }
    return false;
}

/* Returns when every reader has dropped what it has cached.  Lock held, but dropped
 * meanwhile. */
static void
flush_locked(struct sg_memview *view)
{
    uint64_t generation = __atomic_add_fetch(&view->generation, 1, __ATOMIC_SEQ_CST);

    while (readers_behind(view, generation)) {
        /* A reader that wants the lock (mixed granule, enter, leave) must get it. */
        pthread_mutex_unlock(&view->lock);
        sched_yield();
        pthread_mutex_lock(&view->lock);
    }
}

void
sg_memview_flush(struct sg_memview *view)
{
    pthread_mutex_lock(&view->lock);
    flush_locked(view);
    pthread_mutex_unlock(&view->lock);
}

void
sg_memview_watch(struct sg_memview *view, uint64_t lo)
{
    struct sg_range *range;
    int64_t at;

    pthread_mutex_lock(&view->lock);
    at = sorted_floor(view, lo);
    if (at >= 0 && view->sorted[at].lo == lo) {
        range = &view_slot(view, view->sorted[at].id)->range;
        if (!(range->flags & SG_RANGE_READ_ONLY))
            __atomic_store_n(&range->flags, SG_RANGE_WATCHED, __ATOMIC_RELEASE);
        flush_locked(view);
    }
    pthread_mutex_unlock(&view->lock);
}

int
sg_memview_remove(struct sg_memview *view, uint64_t lo)
{
    uint32_t id;
    int r;

    pthread_mutex_lock(&view->lock);
    r = remove_locked(view, lo, &id);
    if (r < 0) {
        pthread_mutex_unlock(&view->lock);
        return r;
    }
    flush_locked(view);
    view_slot(view, id)->live = false;
    view->free_ids[view->n_free++] = id;
    pthread_mutex_unlock(&view->lock);
    return 0;
}

void
sg_memview_reader_enter(struct sg_memview *view, struct sg_memview_reader *rd)
{
    pthread_mutex_lock(&view->lock);
    rd->view = view;
    rd->next = &view->readers;
    rd->prev = view->readers.prev;
    rd->prev->next = rd;
    rd->next->prev = rd;
    __atomic_store_n(&rd->seen, view->generation, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&view->lock);
}

void
sg_memview_reader_leave(struct sg_memview_reader *rd)
{
    struct sg_memview *view = rd->view;

    pthread_mutex_lock(&view->lock);
    rd->prev->next = rd->next;
    rd->next->prev = rd->prev;
    rd->view = NULL;
    pthread_mutex_unlock(&view->lock);
}

const uint64_t *
sg_memview_generation(const struct sg_memview *view)
{
    return &view->generation;
}
