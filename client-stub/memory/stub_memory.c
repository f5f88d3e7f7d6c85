/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of memory and the reservation of the server's addresses. */
#include "stub_memory.h"

#include "gp_base.h"
#include "gp_log.h"
#include "stub_ctx.h"
#include "stub_link.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Reservations are made in blocks of this size and kept: the server's allocator hands
 * the same addresses out again and again. */
#define RESERVE_BLOCK (UINT64_C(2) << 20)
#define USER_SPACE_END (UINT64_C(1) << 47)

/* A block that some server hands out. */
struct memory_block {
    struct stub_range_node node;
    uint32_t link;
};

static struct stub_ranges memory;
static struct stub_ranges reserved;  /* struct memory_block */
static uint64_t next_id = 1;         /* under the registry's lock */
static _Atomic uint32_t freed_count; /* written under it */
static uint32_t wanted;              /* under it: entries that are */

GP_HOT_DATA _Atomic uint32_t stub_memory_waiting;
GP_HOT_DATA _Atomic uint32_t stub_memory_longer; /* written under it */
GP_HOT_DATA _Atomic(bool (*)(uint64_t addr)) stub_memory_shared;

/* ---- the registry, under its lock ------------------------------------------- */

GP_HOT static struct stub_memory *
entry_at(uint64_t addr)
{
    return (struct stub_memory *)stub_range_at(&memory, addr);
}

/* The same, or the first behind it. */
static struct stub_memory *
entry_from(uint64_t addr)
{
    struct stub_memory *m = entry_at(addr);

    return m ? m : (struct stub_memory *)stub_range_from(&memory, addr);
}

static bool
is_live(const struct stub_memory *m)
{
    return m && m->kind != STUB_MEMORY_FREED;
}

GP_HOT static void
freed_count_add(uint32_t n)
{
    uint32_t now = atomic_load_explicit(&freed_count, memory_order_relaxed);

    atomic_store_explicit(&freed_count, now + n, memory_order_relaxed);
}

/* Allocations whose address no device has: while there are some, the content of
 * frames is searched for their addresses.  Under the lock. */
static void
waiting_add(uint32_t n)
{
    uint32_t now = atomic_load(&stub_memory_waiting) + n;

    atomic_store(&stub_memory_waiting, now);
    stub_link_attend_all(STUB_ATTEND_CONTENT, now != 0);
}

/* What the program does not have of a longer block counts as freed, like any address
 * that it was told once, but for the server it is allocated: such an entry has 1 as
 * `mapped`. */
static bool
is_rest(const struct stub_memory *m)
{
    return m && m->kind == STUB_MEMORY_FREED && m->mapped;
}

static uint64_t
end_of(const struct stub_memory *m)
{
    return m->range.start + m->range.size;
}

static void
longer_add(uint32_t n)
{
    uint32_t now = atomic_load_explicit(&stub_memory_longer, memory_order_relaxed);

    atomic_store_explicit(&stub_memory_longer, now + n, memory_order_relaxed);
}

/* @m has come to its end, and so has the whole of its block. */
static void
rest_end(struct stub_memory *m)
{
    struct stub_memory *rest = entry_at(end_of(m));

    if (is_rest(rest))
        rest->mapped = 0;
    m->mapped = 0;
    longer_add(-1u);
}

GP_HOT static inline bool
has_rest(const struct stub_memory *m)
{
    return m->kind == STUB_MEMORY_DEVICE && m->mapped;
}

static void
entry_drop(struct stub_memory *m)
{
    if (unlikely(has_rest(m)))
        rest_end(m);
    if (m->kind == STUB_MEMORY_FREED)
        freed_count_add(-1u);
    if (m->reach == STUB_REACH_WAITING)
        waiting_add(-1u);
    else if (m->reach == STUB_REACH_WANTED)
        wanted--;
    stub_range_remove(&memory, &m->node);
    free(m);
}

/* It has come to its end: what was device memory stays known as such. */
GP_HOT static void
entry_end(struct stub_memory *m)
{
    if (unlikely(has_rest(m)))
        rest_end(m);
    if (m->kind != STUB_MEMORY_DEVICE ||
        atomic_load_explicit(&freed_count, memory_order_relaxed) >= STUB_FREED_MAX) {
        entry_drop(m);
        return;
    }
    m->kind = STUB_MEMORY_FREED;
    freed_count_add(1);
}

/* Removes what overlaps @where, live entries only with @over, but for what was freed
 * and begins there.  Returns that, or an entry that was not removed; NULL: there is
 * none. */
static struct stub_memory *
entry_clear(const struct stub_range *where, bool over)
{
    struct stub_memory *m, *next, *same = NULL;

    for (m = entry_from(where->start); m && stub_range_overlap(&m->range, where);
         m = next) {
        next = (struct stub_memory *)stub_range_from(&memory, end_of(m));
        if (is_live(m) && !over)
            return m;
        if (m->range.start == where->start && !is_live(m))
            same = m;
        else
            entry_drop(m);
    }
    return same;
}

/* An entry for @where, over what was freed there, and with @over over all else; one
 * that is there already is taken, which is the usual case.  -EEXIST, -ENOMEM. */
GP_HOT static int
entry_make(const struct stub_range *where, bool over, struct stub_memory **ret)
{
    struct stub_memory *m = (struct stub_memory *)stub_range_touching(&memory, where);

    if (m && (m->range.start != where->start || m->range.size != where->size))
        m = entry_clear(where, over);
    if (unlikely(m && is_live(m) && !over))
        return -EEXIST;
    if (m) {
        if (unlikely(has_rest(m)))
            rest_end(m);
        if (!is_live(m))
            freed_count_add(-1u);
        m->range.size = where->size;
        *ret = m;
        return 0;
    }
    m = malloc(sizeof(*m));
    if (!m)
        return -ENOMEM;
    m->range = *where;
    m->reach = STUB_REACH_NONE;
    stub_range_insert(&memory, &m->node);
    *ret = m;
    return 0;
}

/* All but the range, under the current context. */
GP_HOT static void
entry_fill(struct stub_memory *m, enum stub_memory_kind kind, unsigned int flags)
{
    const struct stub_ctx *ctx = stub_tls.ctx;

    m->kind = kind;
    m->flags = flags;
    m->dev = ctx ? ctx->dev : 0;
    m->ctx = ctx ? ctx->handle : 0;
    m->ctx_unique = ctx ? atomic_load(&ctx->unique) : 0;
    m->id = next_id++;
    m->mapped = 0;
    m->pool = 0;
    m->pinned = 0;
    m->reach = STUB_REACH_NONE;
    m->pinned_link = stub_link_here()->number;
}

/* ---- the registry ----------------------------------------------------------- */

/* @extra: of memory of the host; NULL otherwise. */
GP_HOT static int
memory_add(enum stub_memory_kind kind, const struct stub_range *where,
           unsigned int flags, bool over, const struct stub_memory *extra)
{
    struct stub_memory *m;
    uint64_t end;
    int r;

    if (where->size == 0 || !gp_add_ok(where->start, where->size, &end))
        return -EINVAL;
    gp_lock_take(&memory.lock);
    r = entry_make(where, over, &m);
    if (likely(r == 0))
        entry_fill(m, kind, flags);
    if (r == 0 && extra) {
        m->mapped = extra->mapped;
        m->pinned = extra->pinned;
        m->reach = extra->reach;
        if (m->reach == STUB_REACH_WAITING)
            waiting_add(1);
    }
    gp_lock_release(&memory.lock);
    return r;
}

int
stub_memory_add(enum stub_memory_kind kind, uint64_t start, uint64_t size,
                unsigned int flags, uint64_t mapped)
{
    return memory_add(kind, &(struct stub_range){start, size}, flags, false,
                      &(struct stub_memory){.mapped = mapped});
}

int
stub_memory_add_pinned(uint64_t start, uint64_t size, unsigned int flags,
                       uint64_t mapped, uint32_t number, enum stub_memory_reach reach)
{
    return memory_add(
        STUB_MEMORY_HOST, &(struct stub_range){start, size}, flags, false,
        &(struct stub_memory){.mapped = mapped, .pinned = number, .reach = reach});
}

bool
stub_memory_want(uint64_t addr)
{
    struct stub_memory *m;
    bool waits;

    gp_lock_take(&memory.lock);
    m = entry_at(addr);
    waits = m && m->kind == STUB_MEMORY_HOST && m->reach == STUB_REACH_WAITING;
    if (waits) {
        m->reach = STUB_REACH_WANTED;
        waiting_add(-1u);
        wanted++;
    }
    gp_lock_release(&memory.lock);
    return waits;
}

bool
stub_memory_find_wanted(uint64_t from, struct stub_memory *ret)
{
    struct stub_memory *m = NULL;

    gp_lock_take(&memory.lock);
    if (wanted) {
        m = entry_from(from);
        while (m && m->reach != STUB_REACH_WANTED)
            m = entry_from(m->range.start + m->range.size);
        if (m)
            *ret = *m;
    }
    gp_lock_release(&memory.lock);
    return m != NULL;
}

bool
stub_memory_take_wanted(struct stub_memory *ret)
{
    struct stub_memory *m = NULL;

    gp_lock_take(&memory.lock);
    if (wanted) {
        m = entry_from(0);
        while (m && m->reach != STUB_REACH_WANTED)
            m = entry_from(m->range.start + m->range.size);
        if (m) {
            m->reach = STUB_REACH_MOVED;
            wanted--;
            *ret = *m;
        }
    }
    gp_lock_release(&memory.lock);
    return m != NULL;
}

/* Past STUB_FREED_MAX, or without memory for it, the rest is not known: a copy that
 * reaches it is not refused. */
static void
rest_make(struct stub_memory *m, uint64_t block)
{
    const struct stub_range where = {end_of(m), block - m->range.size};
    struct stub_memory *rest;

    m->mapped = block;
    longer_add(1);
    if (atomic_load_explicit(&freed_count, memory_order_relaxed) >= STUB_FREED_MAX ||
        entry_make(&where, false, &rest) < 0)
        return;
    entry_fill(rest, STUB_MEMORY_FREED, 0);
    rest->mapped = 1;
    freed_count_add(1);
}

void
stub_memory_set_pool(uint64_t addr, uint32_t pool, uint64_t block)
{
    struct stub_memory *m;

    gp_lock_take(&memory.lock);
    m = entry_at(addr);
    if (is_live(m) && m->range.start == addr) {
        m->pool = pool;
        if (unlikely(block > m->range.size))
            rest_make(m, block);
    }
    gp_lock_release(&memory.lock);
}

bool
stub_memory_is_rest(uint64_t addr)
{
    bool rest;

    if (!stub_memory_any_longer())
        return false;
    gp_lock_take(&memory.lock);
    rest = is_rest(entry_at(addr));
    gp_lock_release(&memory.lock);
    return rest;
}

GP_HOT bool
stub_memory_freeing(uint64_t addr, bool managed, struct stub_memory_end *ret)
{
    struct stub_memory *m;
    bool found;

    gp_lock_take(&memory.lock);
    m = entry_at(addr);
    found =
        m && m->range.start == addr &&
        (m->kind == STUB_MEMORY_DEVICE || (managed && m->kind == STUB_MEMORY_MANAGED));
    if (likely(found)) {
        *ret = (struct stub_memory_end){m->kind, m->pool, m->range.size,
                                        has_rest(m) ? m->mapped : m->range.size};
        entry_end(m);
    }
    gp_lock_release(&memory.lock);
    return found;
}

bool
stub_memory_find(uint64_t addr, struct stub_memory *ret)
{
    const struct stub_memory *m;
    bool found;

    gp_lock_take(&memory.lock);
    m = entry_at(addr);
    found = is_live(m);
    if (found)
        *ret = *m;
    gp_lock_release(&memory.lock);
    return found;
}

GP_HOT bool
stub_memory_find_kind(uint64_t addr, uint64_t n, enum stub_memory_kind *ret)
{
    const struct stub_memory *m;
    bool found;

    gp_lock_take(&memory.lock);
    m = entry_at(addr);
    found =
        is_live(m) && n <= m->range.size && addr - m->range.start <= m->range.size - n;
    if (found)
        *ret = m->kind;
    gp_lock_release(&memory.lock);
    return found;
}

bool
stub_memory_remove(uint64_t start, enum stub_memory_kind kind, struct stub_memory *ret)
{
    struct stub_memory *m;
    bool found;

    gp_lock_take(&memory.lock);
    m = entry_at(start);
    found = m && m->range.start == start && m->kind == kind;
    if (found && ret)
        *ret = *m;
    if (found)
        entry_drop(m);
    gp_lock_release(&memory.lock);
    return found;
}

bool
stub_memory_end_of_ctx(uint64_t ctx_unique, uint64_t *pos, struct stub_memory *ret)
{
    struct stub_memory *m;

    gp_lock_take(&memory.lock);
    m = entry_from(*pos);
    while (m && (m->ctx_unique != ctx_unique || !is_live(m)))
        m = entry_from(m->range.start + m->range.size);
    if (m) {
        *ret = *m;
        *pos = m->range.start + m->range.size;
        entry_end(m);
    }
    gp_lock_release(&memory.lock);
    return m != NULL;
}

/* Whole entries go: an address too many only is not asked about. */
static void
memory_forget_freed(uint64_t start, uint64_t size)
{
    const struct stub_range where = {start, size};
    struct stub_memory *m, *next;

    if (atomic_load_explicit(&freed_count, memory_order_relaxed) == 0)
        return;
    gp_lock_take(&memory.lock);
    for (m = entry_from(start); m; m = next) {
        next = entry_from(m->range.start + m->range.size);
        if (!stub_range_overlap(&m->range, &where))
            break;
        if (!is_live(m))
            entry_drop(m);
    }
    gp_lock_release(&memory.lock);
}

bool
stub_memory_is_freed(uint64_t addr)
{
    const struct stub_memory *m;
    bool freed;

    if (atomic_load_explicit(&freed_count, memory_order_relaxed) == 0)
        return false;
    gp_lock_take(&memory.lock);
    m = entry_at(addr);
    freed = m && !is_live(m);
    gp_lock_release(&memory.lock);
    return freed;
}

bool
stub_memory_is_device(uint64_t addr)
{
    struct stub_memory m;

    if (stub_memory_find(addr, &m))
        return m.kind == STUB_MEMORY_DEVICE || m.kind == STUB_MEMORY_MANAGED;
    /* Memory that was not allocated by a call (a module's global, a pool's) is in a
     * reserved block, where the application has nothing of its own. */
    return stub_range_find(&reserved, addr, &m.range, sizeof(m.range));
}

/* Blocks are never given up, so the last one seen stays valid.  A fill of memory
 * that the host has, too, is waited for (stub_managed_calls.c), so its result must
 * be known. */
bool
stub_memory_is_plausible(uint64_t addr)
{
    struct stub_range *last = &stub_tls.block;

    bool (*shared)(uint64_t) =
        atomic_load_explicit(&stub_memory_shared, memory_order_relaxed);

    if (unlikely(shared != NULL) && shared(addr))
        return false;
    if (addr - last->start >= last->size &&
        !stub_range_find(&reserved, addr, last, sizeof(*last)))
        return false;
    return !stub_memory_is_freed(addr);
}

bool
stub_memory_takes_values(uint64_t addr, unsigned size)
{
    struct stub_memory m;

    return addr % size == 0 && stub_memory_is_plausible(addr) &&
           !(stub_memory_find(addr, &m) && m.pool);
}

static bool
takes_operation(const CUstreamBatchMemOpParams *op)
{
    switch ((int)op->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return stub_memory_takes_values(op->waitValue.address, 4);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return stub_memory_takes_values(op->waitValue.address, 8);
    case CU_STREAM_MEM_OP_BARRIER:
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        return true;
    default:
        return false;
    }
}

bool
stub_memory_takes_batch(const CUstreamBatchMemOpParams *ops, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (!takes_operation(&ops[i]))
            return false;
    return n != 0;
}

/* ---- reservation ------------------------------------------------------------ */

/* The thread sanitizer ends a program that maps outside of its own ranges, of which the
 * highest begins here; nothing of the application lies outside either. */
static bool
reservable(uint64_t start)
{
#if defined(__SANITIZE_THREAD__)
    return start >= UINT64_C(0x7e8000000000);
#else
    return true;
#endif
}

/* Keep others out of [start, start + size); false when somebody is there. */
static bool
reserve_hold(uint64_t start, uint64_t size)
{
    void *want = (void *)(uintptr_t)start, *at;

    if (!reservable(start))
        return true;
    at = mmap(want, size, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (at != MAP_FAILED && at != want)
        munmap(at, size); /* a kernel that takes the address for a hint */
    return at == want;
}

/* True when [start, start + size) is ours now. */
static bool
reserve_map(uint64_t start, uint64_t size)
{
    struct memory_block *block;

    if (!reserve_hold(start, size))
        return false;
    block = malloc(sizeof(*block));
    if (!block)
        return true; /* held, only not known as such */
    *block = (struct memory_block){.node.range = {start, size},
                                   .link = stub_link_here()->number};
    if (stub_range_add(&reserved, &block->node) < 0)
        free(block);
    return true;
}

/* Blocks are never given up, so the last one seen stays reserved.  Which server
 * reserved it matters only with several servers. */
GP_HOT static bool
reserved_by_last(uint64_t start, uint64_t size)
{
    const struct stub_range *last = &stub_tls.block;

    return stub_links_n == 1 && size <= last->size &&
           start - last->start <= last->size - size;
}

static bool
reserve_blocks(uint64_t start, uint64_t size)
{
    uint64_t pos = start & ~(RESERVE_BLOCK - 1), end;
    struct memory_block held;

    if (!gp_add_ok(start, size, &end) || end > USER_SPACE_END)
        return true; /* beyond what any host pointer can be */
    end = GP_ALIGN_UP(end, RESERVE_BLOCK);
    while (pos < end) {
        if (stub_range_find(&reserved, pos, &held, sizeof(held))) {
            if (held.link != stub_link_here()->number) {
                gp_log_error("stub",
                             "servers %u and %u of the session both hand out address "
                             "%" PRIx64 ": use one of them at a time",
                             held.link, stub_link_here()->number, pos);
                return false;
            }
            stub_tls.block = held.node.range;
            pos = held.node.range.start + held.node.range.size;
        } else if (reserve_map(pos, end - pos)) {
            return true;
        } else {
            if (!reserve_map(pos, RESERVE_BLOCK))
                gp_log_debug("stub", "server address %" PRIx64 " is in use here", pos);
            pos += RESERVE_BLOCK;
        }
    }
    return true;
}

GP_HOT static bool
reserve(uint64_t start, uint64_t size)
{
    return likely(reserved_by_last(start, size)) || reserve_blocks(start, size);
}

bool
stub_memory_reserve(uint64_t start, uint64_t size)
{
    memory_forget_freed(start, size);
    return reserve(start, size);
}

/* Memory that was freed without a call of the program (a pool, a context's end on
 * the server): what the server says about the owner of an address counts. */
GP_HOT CUresult
stub_memory_handed_out(enum stub_memory_kind kind, uint64_t addr, uint64_t size,
                       unsigned int flags)
{
    const struct stub_range where = {addr, size};

    if (unlikely(!reserve(addr, size)) ||
        unlikely(memory_add(kind, &where, flags, true, NULL) < 0))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

bool
stub_memory_is_everywhere(uint64_t addr)
{
    struct stub_memory m;

    return stub_memory_find(addr, &m) &&
           (m.kind == STUB_MEMORY_DEVICE || m.kind == STUB_MEMORY_MANAGED) &&
           (m.flags & STUB_MEMORY_EVERYWHERE);
}

bool
stub_memory_overruns(uint64_t addr, uint64_t n)
{
    struct stub_memory m;

    if (likely(stub_links_n == 1 && !stub_memory_any_longer()))
        return false;
    if (!stub_memory_find(addr, &m))
        return n && stub_memory_is_rest(addr);
    return (m.kind == STUB_MEMORY_DEVICE || m.kind == STUB_MEMORY_MANAGED) &&
           (m.flags & STUB_MEMORY_EVERYWHERE || has_rest(&m)) &&
           n > m.range.size - (addr - m.range.start);
}

bool
stub_memory_where(uint64_t addr, uint32_t *ret_link, uint32_t *ret_ctx)
{
    return !stub_memory_is_everywhere(addr) &&
           stub_memory_owner(addr, ret_link, ret_ctx);
}

bool
stub_memory_owner(uint64_t addr, uint32_t *ret_link, uint32_t *ret_ctx)
{
    struct memory_block block;
    struct stub_memory m;

    *ret_ctx = 0;
    *ret_link = 0;
    if (stub_memory_find(addr, &m)) {
        *ret_link = wire_handle_link(m.ctx);
        *ret_ctx = wire_handle_index(m.ctx);
        return m.kind == STUB_MEMORY_DEVICE || m.kind == STUB_MEMORY_MANAGED;
    }
    if (!stub_range_find(&reserved, addr, &block, sizeof(block)))
        return false;
    *ret_link = block.link;
    return true;
}

/* ---- opening ---------------------------------------------------------------- */

#define PAGE_SIZE UINT64_C(4096)

static bool
memory_is_held(uint64_t start, uint64_t end)
{
    struct stub_range held;

    for (uint64_t pos = start; pos < end; pos = held.start + held.size)
        if (!stub_range_find(&reserved, pos, &held, sizeof(held)))
            return false;
    return true;
}

/* Allocations smaller than a page leave their page, and what they wrote to it, to their
 * neighbours.  An allocation that has the whole page later must not find it. */
static bool
memory_empty(uint64_t start, uint64_t end)
{
    uint64_t first = GP_ALIGN_UP(start, PAGE_SIZE), last = end & ~(PAGE_SIZE - 1);

    return first >= last ||
           madvise((void *)(uintptr_t)first, last - first, MADV_DONTNEED) == 0;
}

bool
stub_memory_open(uint64_t start, uint64_t size)
{
    uint64_t first = start & ~(PAGE_SIZE - 1),
             end = GP_ALIGN_UP(start + size, PAGE_SIZE);

    return memory_is_held(first, end) && memory_empty(start, start + size) &&
           mprotect((void *)(uintptr_t)first, end - first, PROT_READ | PROT_WRITE) == 0;
}

void
stub_memory_close(uint64_t start, uint64_t size)
{
    uint64_t first = GP_ALIGN_UP(start, PAGE_SIZE),
             end = (start + size) & ~(PAGE_SIZE - 1);

    if (first < end)
        mmap((void *)(uintptr_t)first, end - first, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}
