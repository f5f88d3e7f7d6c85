/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of memory and the reservation of the server's addresses. */
#include "stub_memory.h"

#include "gp_base.h"
#include "gp_log.h"
#include "stub_ctx.h"
#include "stub_freed.h"
#include "stub_link.h"
#include "stub_managed.h"
#include "stub_pinned.h"

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
    struct stub_range range;
    uint32_t link;
};

static struct stub_ranges memory;
static struct stub_ranges reserved; /* struct memory_block */
static _Atomic uint64_t next_id = 1;

/* ---- the registry ------------------------------------------------------------- */

static int
memory_add(enum stub_memory_kind kind, uint64_t start, uint64_t size,
           unsigned int flags, uint64_t mapped, uint32_t pinned)
{
    struct stub_memory *m = malloc(sizeof(*m));
    const struct stub_ctx *ctx = stub_tls.ctx;
    int r;

    if (!m)
        return -ENOMEM;
    *m = (struct stub_memory){
        .range = {start, size},
        .kind = kind,
        .flags = flags,
        .dev = ctx ? ctx->dev : 0,
        .ctx = ctx ? ctx->handle : 0,
        .ctx_unique = ctx ? atomic_load(&ctx->unique) : 0,
        .id = atomic_fetch_add(&next_id, 1),
        .mapped = mapped,
        .pinned = pinned,
        .pinned_link = stub_link_here()->number,
    };
    r = stub_range_add(&memory, &m->range);
    if (r < 0)
        free(m);
    return r;
}

int
stub_memory_add(enum stub_memory_kind kind, uint64_t start, uint64_t size,
                unsigned int flags, uint64_t mapped)
{
    return memory_add(kind, start, size, flags, mapped, 0);
}

int
stub_memory_add_pinned(uint64_t start, uint64_t size, unsigned int flags,
                       uint64_t mapped, uint32_t number)
{
    return memory_add(STUB_MEMORY_HOST, start, size, flags, mapped, number);
}

bool
stub_memory_find(uint64_t addr, struct stub_memory *ret)
{
    return stub_range_find(&memory, addr, ret, sizeof(*ret));
}

bool
stub_memory_find_overlap(uint64_t start, uint64_t size, struct stub_memory *ret)
{
    struct stub_range where = {start, size};

    return stub_range_overlap(&memory, &where, ret, sizeof(*ret));
}

static bool
memory_of_kind(const struct stub_range *range, void *user)
{
    return ((const struct stub_memory *)range)->kind ==
           *(const enum stub_memory_kind *)user;
}

bool
stub_memory_remove(uint64_t start, enum stub_memory_kind kind, struct stub_memory *ret)
{
    struct stub_memory *m =
        (struct stub_memory *)stub_range_take(&memory, start, memory_of_kind, &kind);

    if (!m)
        return false;
    if (ret)
        *ret = *m;
    free(m);
    return true;
}

static bool
memory_of_ctx(const struct stub_range *range, void *user)
{
    const struct stub_memory *m = (const struct stub_memory *)range;

    return m->ctx_unique == *(const uint64_t *)user &&
           m->kind != STUB_MEMORY_REGISTERED;
}

void
stub_memory_drop_ctx(uint64_t ctx_unique)
{
    struct stub_memory *m;

    while ((m = (struct stub_memory *)stub_range_remove_if(&memory, memory_of_ctx,
                                                           &ctx_unique))) {
        stub_managed_drop(m->range.start);
        if (m->kind == STUB_MEMORY_DEVICE)
            stub_freed_add(&m->range);
        if (m->kind == STUB_MEMORY_HOST)
            munmap((void *)(uintptr_t)m->range.start, m->mapped);
        if (m->pinned)
            stub_pinned_drop(m->pinned_link, m->pinned);
        free(m);
    }
}

bool
stub_memory_is_device(uint64_t addr)
{
    struct stub_memory m;

    if (stub_memory_find(addr, &m))
        return m.kind == STUB_MEMORY_DEVICE || m.kind == STUB_MEMORY_MANAGED;
    /* Memory that came another way (a module's global, a pool's) lies in a reserved
     * block, where the application has nothing of its own. */
    return stub_range_find(&reserved, addr, &m.range, sizeof(m.range));
}

/* Blocks are never given up, so the last one seen holds for ever.  A fill of memory
 * that the host has too is waited for (stub_managed_after()), so it has to have an
 * answer. */
bool
stub_memory_is_plausible(uint64_t addr)
{
    struct stub_range *last = &stub_tls.block;

    if (stub_managed_is_on() && stub_managed_touches(addr, 1))
        return false;
    if (addr - last->start >= last->size &&
        !stub_range_find(&reserved, addr, last, sizeof(*last)))
        return false;
    return !stub_freed_has(addr);
}

/* ---- reservation ---------------------------------------------------------------- */

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
    *block = (struct memory_block){{start, size}, stub_link_here()->number};
    if (stub_range_add(&reserved, &block->range) < 0)
        free(block);
    return true;
}

/* Blocks are never given up, so the last one seen is held for ever; by whom, matters
 * where there are several servers. */
static bool
reserved_by_last(uint64_t start, uint64_t size)
{
    const struct stub_range *last = &stub_tls.block;

    return stub_links_n == 1 && size <= last->size &&
           start - last->start <= last->size - size;
}

bool
stub_memory_reserve(uint64_t start, uint64_t size)
{
    uint64_t pos = start & ~(RESERVE_BLOCK - 1), end;
    struct memory_block held;

    stub_freed_forget(start, size);
    if (reserved_by_last(start, size))
        return true;
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
            stub_tls.block = held.range;
            pos = held.range.start + held.range.size;
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

bool
stub_memory_is_everywhere(uint64_t addr)
{
    struct stub_memory m;

    return stub_memory_find(addr, &m) &&
           (m.kind == STUB_MEMORY_DEVICE || m.kind == STUB_MEMORY_MANAGED) &&
           (m.flags & STUB_MEMORY_EVERYWHERE);
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

/* ---- opening ----------------------------------------------------------------------
 */

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

bool
stub_memory_open(uint64_t start, uint64_t size)
{
    uint64_t first = start & ~(PAGE_SIZE - 1),
             end = GP_ALIGN_UP(start + size, PAGE_SIZE);

    return memory_is_held(first, end) &&
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
