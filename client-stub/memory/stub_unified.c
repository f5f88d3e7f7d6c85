/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_unified.h"

#include "gp_lock.h"
#include "gp_log.h"
#include "gp_scan.h"
#include "gp_time.h"
#include "stub_call.h"
#include "stub_device.h"
#include "stub_hooks.h"
#include "stub_link.h"
#include "stub_memory.h"
#include "wire_api.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)

/* The range is where no loader, allocator or sanitizer puts anything in a 48-bit
 * address space, far from where drivers put their own memory, and behind the addresses
 * of the software card, which reserves some of them only when they are asked for
 * (sg_dev.c).  It ends before handles begin, which frames are full of: one that looks
 * like an address of page-locked memory has that sent to the server for nothing.  Which
 * of the places it is, is random, so that two programs' ranges are hardly ever the
 * same. */
#if !defined(__SANITIZE_THREAD__)
#define CANDIDATES_FROM (UINT64_C(0x34) << 40)
#define CANDIDATES 192u
static_assert(CANDIDATES_FROM + CANDIDATES * STUB_UNIFIED_SIZE <= WIRE_HANDLE_MARK,
              "no address looks like a handle");
#else
/* The thread sanitizer ends a program that maps outside of its own ranges; the kernel
 * places nothing in the lower part of the highest one. */
#define CANDIDATES_FROM (UINT64_C(0x7e8) << 36)
#define CANDIDATES 8u
#endif
#define TRIES 8u

static struct {
    struct gp_lock lock;
    bool tried;
    bool at[STUB_LINKS_MAX];
    _Atomic uint64_t base; /* 0: there is none */
    uint64_t next;         /* where the search for room begins */
    struct stub_ranges used;
} unified;

/* ---- the range -------------------------------------------------------------- */

static uint64_t
candidate_hold(uint64_t want)
{
    void *at = mmap((void *)(uintptr_t)want, STUB_UNIFIED_SIZE, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
                        (want ? MAP_FIXED_NOREPLACE : 0),
                    -1, 0);

    if (at == MAP_FAILED)
        return 0;
    if (want && (uintptr_t)at != want) {
        munmap(at, STUB_UNIFIED_SIZE);
        return 0;
    }
    return (uintptr_t)at;
}

/* Another one with each @try: 37 has no factor in common with their number. */
static uint64_t
candidate(uint64_t chance, uint32_t try)
{
    return candidate_hold(try + 1 < TRIES
                              ? CANDIDATES_FROM +
                                    (chance + 37 * try) % CANDIDATES * STUB_UNIFIED_SIZE
                              : 0);
}

/* With @size 0: the server is to give the range back. */
static bool
window_ask(struct stub_link *link, uint64_t base, uint64_t size)
{
    struct wire_gp_window_rep_view rep = {0};
    struct stub_call c;
    bool done;

    if (stub_call_begin_on(&c, link, WIRE_CALL_gp_window,
                           sizeof(struct wire_gp_window_req)) != CUDA_SUCCESS)
        return false;
    *(struct wire_gp_window_req *)c.body =
        (struct wire_gp_window_req){.base = base, .size = size};
    done = stub_call_wait(&c) == CUDA_SUCCESS &&
           wire_gp_window_rep_open(&rep, c.reply, c.reply_size, 0) && rep.f->taken;
    stub_call_end(&c);
    return done;
}

/* True if every server has the range now. */
static bool
window_offer(uint64_t base)
{
    for (uint32_t i = 0; i < stub_links_n; i++) {
        unified.at[i] = window_ask(&stub_links[i], base, STUB_UNIFIED_SIZE);
        if (!unified.at[i])
            return false;
    }
    return true;
}

/* False: a server of an earlier version keeps what it has taken. */
static bool
window_withdraw(uint64_t base)
{
    bool all = true;

    for (uint32_t i = 0; i < stub_links_n; i++) {
        if (unified.at[i])
            unified.at[i] = !window_ask(&stub_links[i], base, 0);
        all = all && !unified.at[i];
    }
    return all;
}

/* A range that one server refuses may be where that server's cards have memory, whose
 * addresses the program then could not tell from those of the range; and its cards
 * could not reach what is in the range, at any address.  So another one is offered to
 * all.  False: there is no use in a further try. */
static bool
window_try(uint64_t chance, uint32_t try, uint64_t *ret_base)
{
    uint64_t base = candidate(chance, try);
    bool again;

    if (!base)
        return true;
    if (window_offer(base)) {
        *ret_base = base;
        return false;
    }
    again = window_withdraw(base);
    munmap((void *)(uintptr_t)base, STUB_UNIFIED_SIZE);
    return again;
}

static uint64_t
window_agree(void)
{
    uint64_t base = 0, chance = gp_now_ns() / 64 ^ (uint64_t)getpid() << 3;
    bool again = true;

    for (uint32_t i = 0; i < stub_links_n; i++)
        again = again && stub_link_can(&stub_links[i], "unified");
    for (uint32_t try = 0; again && try < TRIES; try++)
        again = window_try(chance, try, &base);
    return base;
}

bool
stub_unified_open(void)
{
    uint64_t base;

    gp_lock_take(&unified.lock);
    if (!unified.tried) {
        base = window_agree();
        if (!base && stub_link_can(stub_link_here(), "unified"))
            gp_log_warn("stub",
                        "no addresses that this process and all servers have free: "
                        "page-locked memory has another address on the card");
        unified.next = base;
        unified.tried = true;
        atomic_store(&unified.base, base);
        atomic_store(&stub_device_no_unified, !base);
    }
    base = atomic_load(&unified.base);
    gp_lock_release(&unified.lock);
    return base != 0;
}

bool
stub_unified_any(void)
{
    return atomic_load(&unified.base) != 0;
}

bool
stub_unified_holds(uint64_t addr)
{
    uint64_t base = atomic_load_explicit(&unified.base, memory_order_relaxed);

    return base && addr - base < STUB_UNIFIED_SIZE;
}

/* ---- addresses -------------------------------------------------------------- */

/* The first room behind @from, with a page nobody has behind it; 0: none up to @end. */
static uint64_t
room_from(uint64_t from, uint64_t size, uint64_t end)
{
    const struct stub_range_node *in_use;

    while (from < end && size < end - from) {
        in_use =
            stub_range_touching(&unified.used, &(struct stub_range){from, size + PAGE});
        if (!in_use)
            return from;
        from = in_use->range.start + in_use->range.size + PAGE;
    }
    return 0;
}

/* Addresses are reused as late as possible, so that a use of freed memory is an error.
 */
uint64_t
stub_unified_hold(uint64_t size)
{
    struct stub_range_node *node = malloc(sizeof(*node));
    uint64_t base = atomic_load(&unified.base), addr;

    size = GP_ALIGN_UP(size, PAGE);
    if (!node || !base) {
        free(node);
        return 0;
    }
    gp_lock_take(&unified.lock);
    addr = room_from(unified.next, size, base + STUB_UNIFIED_SIZE);
    if (!addr)
        addr = room_from(base, size, base + STUB_UNIFIED_SIZE);
    if (addr) {
        *node = (struct stub_range_node){.range = {addr, size}};
        stub_range_insert(&unified.used, node);
        unified.next = addr + size + PAGE;
        if (unified.next >= base + STUB_UNIFIED_SIZE)
            unified.next = base;
        node = NULL;
    }
    gp_lock_release(&unified.lock);
    free(node);
    return addr;
}

void *
stub_unified_map(uint64_t size, int fd)
{
    uint64_t addr = stub_unified_hold(size);
    void *at = (void *)(uintptr_t)addr;
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED | MAP_POPULATE;

    if (!addr)
        return NULL;
    if (mmap(at, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0) ==
        MAP_FAILED) {
        stub_unified_release(addr, size);
        return NULL;
    }
    return at;
}

void
stub_unified_release(uint64_t addr, uint64_t size)
{
    struct stub_range_node *node;

    if (mmap((void *)(uintptr_t)addr, GP_ALIGN_UP(size, PAGE), PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) == MAP_FAILED)
        return; /* the addresses stay taken */
    gp_lock_take(&unified.lock);
    node = stub_range_touching(&unified.used, &(struct stub_range){addr, 1});
    if (node)
        stub_range_remove(&unified.used, node);
    gp_lock_release(&unified.lock);
    free(node);
}

/* ---- addresses on their way to a card --------------------------------------- */

/* Every address in the range has one of few upper halves; programs align pointers to 4
 * bytes at least, packed or not. */
bool
stub_unified_seek(const void *bytes, size_t n)
{
    uint64_t base = atomic_load_explicit(&unified.base, memory_order_relaxed), value;
    uint32_t upper = (uint32_t)(base >> 32);
    const uint8_t *p = bytes;
    bool some = false;

    if (!base)
        return false;
    for (size_t at = 4; at + 4 <= n; at += 4) {
        at += gp_scan_words(p + at, n - at, upper, STUB_UNIFIED_SIZE >> 32);
        if (at + 4 > n)
            break;
        memcpy(&value, p + at - 4, sizeof(value));
        if (stub_unified_holds(value) && stub_memory_want(value))
            some = true;
    }
    return some;
}

/* True if there is a word that can be the upper half of an address. */
static bool
unified_copy(void *to, const void *bytes, size_t n)
{
    uint64_t base = atomic_load_explicit(&unified.base, memory_order_relaxed);

    return gp_scan_copy(to, bytes, n, (uint32_t)(base >> 32), STUB_UNIFIED_SIZE >> 32);
}

const struct stub_feature stub_unified_feature = {
    .name = "page-locked memory at one address",
    .needs = stub_unified_seek,
    .copy_needs = unified_copy,
};
