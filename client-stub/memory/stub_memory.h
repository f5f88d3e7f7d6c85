/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry of memory: device allocations, page-locked host memory, and the
 * reservation of the server's addresses in this process.
 *
 * Device addresses are the server's own.  They are reserved here without access, so
 * that no host allocation of the application gets the same address, and host and device
 * pointers can be told apart by value.
 *
 * Addresses that were device memory stay known after the free until the server hands
 * them out again.  A fill or a copy there is an error, which a driver returns from that
 * very call.  Most such calls are posted here, so those with such addresses are waited
 * for (stub_memory_is_plausible()). This proves nothing: memory that was freed without
 * a call of the program is not known, and past STUB_FREED_MAX ranges nothing is kept.
 *
 * Any thread.
 */
#ifndef STUB_MEMORY_H
#define STUB_MEMORY_H

#include "cuda_abi.h"
#include "stub_range.h"
#include "stub_tls.h"

#include <stdatomic.h>
#include <stdbool.h>

enum stub_memory_kind {
    STUB_MEMORY_DEVICE,     /* cuMemAlloc and the like */
    STUB_MEMORY_MANAGED,    /* cuMemAllocManaged */
    STUB_MEMORY_HOST,       /* cuMemHostAlloc: ours, given back by cuMemFreeHost */
    STUB_MEMORY_REGISTERED, /* cuMemHostRegister: the application's */
    STUB_MEMORY_FREED,      /* was one of the first: of the registry alone */
};

/* 6 MiB of entries; programs that hold more addresses than that back reuse them. */
#define STUB_FREED_MAX 65536u

/* A flag of our own: every server of the session has, or can have, this memory at
 * this address (stub_managed.h). */
#define STUB_MEMORY_EVERYWHERE (1u << 30)

/* And one for device memory of a pool, or of a graph: it is of no context, and its
 * device is the pool's. */
#define STUB_MEMORY_ORDERED (1u << 29)

/* Where memory of STUB_MEMORY_HOST is that has one address for host and device. */
enum stub_memory_reach {
    STUB_REACH_NONE,    /* it has no such address */
    STUB_REACH_WAITING, /* on the host only: no device has its address */
    STUB_REACH_WANTED,  /* its address is about to be sent to a device */
    STUB_REACH_MOVED,   /* devices have pages of their own for it */
    STUB_REACH_SHARED,  /* the device uses the same pages */
};

struct stub_memory {
    union {
        struct stub_range range;
        struct stub_range_node node; /* the registry's */
    };
    enum stub_memory_kind kind;
    enum stub_memory_reach reach;
    unsigned int flags; /* as given at allocation */
    CUdevice dev;       /* of the context that allocated */
    uint64_t ctx;       /* handle of that context */
    uint64_t ctx_unique;
    uint64_t id;     /* CU_POINTER_ATTRIBUTE_BUFFER_ID: never used twice */
    uint64_t mapped; /* of STUB_MEMORY_HOST: bytes to unmap.  Of a pool: bytes of the
                      * server's block if that is longer, or 0 */
    uint32_t pool;   /* of stream-ordered memory: stub_spare.h's number, or 0 */
    uint32_t pinned; /* stub_pinned.h: its number, on... */
    uint32_t pinned_link;
};

/* What a call that frees must know of the memory. */
struct stub_memory_end {
    enum stub_memory_kind kind;
    uint32_t pool; /* as in struct stub_memory */
    uint64_t size;
    uint64_t block; /* bytes that the server has for it: not less */
};

/* Blocks of which the program has a part (stub_memory_set_pool()). */
extern _Atomic uint32_t stub_memory_longer;

/* The process has exported memory to others (cuIpcGetMemHandle). */
extern _Atomic bool stub_memory_exported;

/* Enter a range under the current context.  -EEXIST: overlaps another one.  -ENOMEM. */
int stub_memory_add(enum stub_memory_kind kind, uint64_t start, uint64_t size,
                    unsigned int flags, uint64_t mapped);

/* The same for memory of STUB_MEMORY_HOST, with its number on the current link if
 * the worker has mapped it, too. */
int stub_memory_add_pinned(uint64_t start, uint64_t size, unsigned int flags,
                           uint64_t mapped, uint32_t number,
                           enum stub_memory_reach reach);

/* If the entry of @addr is WAITING, it becomes WANTED, and the result is true. */
bool stub_memory_want(uint64_t addr);

/* The first memory at @from or behind it that is WANTED; false: there is none. */
bool stub_memory_find_wanted(uint64_t from, struct stub_memory *ret);

/* Some memory that was WANTED, and now counts as MOVED. */
bool stub_memory_take_wanted(struct stub_memory *ret);

/* The entry of @addr; false: there is none. */
bool stub_memory_find(uint64_t addr, struct stub_memory *ret);

/* The kind of the entry that holds all of [addr, addr + n); false: there is none.  For
 * the copies, which need no more of it. */
bool stub_memory_find_kind(uint64_t addr, uint64_t n, enum stub_memory_kind *ret);

/* The server of the current link handed out @addr: reserve it and enter it, over what
 * was there.  CUDA_ERROR_OUT_OF_MEMORY: nobody could tell whose memory it is, or there
 * is no room. */
CUresult stub_memory_handed_out(enum stub_memory_kind kind, uint64_t addr,
                                uint64_t size, unsigned int flags);

/* The memory that was handed out at @addr is of that pool (stub_spare.h), in a block of
 * @block bytes.  What the program does not have of a longer one counts as freed, and
 * stub_memory_overruns() and stub_memory_is_rest() know it. */
void stub_memory_set_pool(uint64_t addr, uint32_t pool, uint64_t block);

/* Device memory (@managed: or managed memory) that begins at @addr is about to be
 * freed; returns which of the two.  To be called before the free is sent, because
 * the server may hand the addresses out at once.  False: there is none. */
bool stub_memory_freeing(uint64_t addr, bool managed, struct stub_memory_end *ret);

/* Forget the range that begins at @start; false if there is none of @kind. */
bool stub_memory_remove(uint64_t start, enum stub_memory_kind kind,
                        struct stub_memory *ret);

/* A context has ended: removes its next entry at *@pos or behind it, and returns it.
 * False: there is none.  stub_memory_end.h frees the memory. */
bool stub_memory_end_of_ctx(uint64_t ctx_unique, uint64_t *pos,
                            struct stub_memory *ret);

/* Keep the application's own mappings out of [start, start + size), which the server
 * of the current link uses.  Best effort: existing mappings stay.  False: another
 * server of the session uses those addresses, so that the owner could not be told. */
bool stub_memory_reserve(uint64_t start, uint64_t size);

/* cuMemAddressReserve at the current link's server, without reserving here
 * (stub_vmm.c).
 */
CUresult stub_vmm_reserve(CUdeviceptr *ptr, size_t size, size_t alignment,
                          CUdeviceptr addr, unsigned long long flags);

/* True if all of it was mapped (cuMemMap) and made readable and writable in one call,
 * and is still. */
bool stub_vmm_is_usable(uint64_t addr, uint64_t n);

/* The owner of the memory at @addr: number of the link, and index of the context
 * that allocated it or 0. False: no server has handed it out. */
bool stub_memory_owner(uint64_t addr, uint32_t *ret_link, uint32_t *ret_ctx);

/* The same for callers that want the bytes: false for memory that every server has,
 * too. */
bool stub_memory_where(uint64_t addr, uint32_t *ret_link, uint32_t *ret_ctx);
bool stub_memory_is_everywhere(uint64_t addr);

/* True if [addr, addr + n) begins in memory that every server of several has, or in a
 * block of which the program has a part, and ends behind what it has.  A copy or fill
 * there is an error, which a server that has more memory mapped than this, or a longer
 * block, would not find (stub_managed_mirror.h, stub_spare.h). */
bool stub_memory_overruns(uint64_t addr, uint64_t n);

/* Whether there is such a block. */
static inline bool
stub_memory_any_longer(void)
{
    return __builtin_expect(
        atomic_load_explicit(&stub_memory_longer, memory_order_relaxed) != 0, false);
}

/* True if @addr is in a block of the server's, behind what the program has of it. */
bool stub_memory_is_rest(uint64_t addr);

/* Make the reserved pages of [start, start + size) ordinary memory: for a range that
 * exists on both sides.  Pages that lie inside as a whole are empty then.  False: they
 * are not ours to open. */
bool stub_memory_open(uint64_t start, uint64_t size);

/* Back to being reserved, but for pages at the ends that lie only partly inside. */
void stub_memory_close(uint64_t start, uint64_t size);

/* True if @addr is in memory that the host has, too.  Set once, by the module of
 * such memory. */
extern _Atomic(bool (*)(uint64_t addr)) stub_memory_shared;

/* Entries that are STUB_REACH_WAITING. */
extern _Atomic uint32_t stub_memory_waiting;

static inline bool
stub_memory_is_waiting(void)
{
    return __builtin_expect(
        atomic_load_explicit(&stub_memory_waiting, memory_order_relaxed) != 0, false);
}

/* True if @addr is in a range that the server hands out addresses from, and not in
 * freed memory.  Another address is most likely wrong. */
bool stub_memory_is_plausible(uint64_t addr);

/* The same where a stream is to write a value of @size bytes at @addr, or wait for one:
 * it has to be aligned, and no driver takes memory of a pool. */
bool stub_memory_takes_values(uint64_t addr, unsigned size);

/* The same of every operation of a batch, of which there must be one: false if any is
 * perhaps one that a driver refuses. */
bool stub_memory_takes_batch(const CUstreamBatchMemOpParams *ops, uint64_t n);

/* True if it is in freed memory. */
bool stub_memory_is_freed(uint64_t addr);

/* A quick test, and mostly false: true if @addr may be the host's, which is then
 * looked up. */
static inline bool
stub_memory_may_be_host(uint64_t addr)
{
    return addr - stub_tls.block.start >= stub_tls.block.size;
}

/* True for every device range that is known. */
bool stub_memory_is_device(uint64_t addr);

#endif
