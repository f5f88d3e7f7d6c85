/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that host and device share: managed memory and mapped host memory.
 *
 * Every such range exists here and on the server.  Changes are moved at the points
 * where CUDA's contract for devices without concurrent access makes them visible: the
 * host's changes are sent before the next work of the device, the device's changes are
 * received after the program has waited for it (docs/managed.md).
 *
 * Programs without such memory pay one branch per call.  Any thread.
 */
#ifndef STUB_MANAGED_H
#define STUB_MANAGED_H

#include "cuda_abi.h"
#include "stub_managed_turn.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct stub_ctx;
struct stub_feature;
struct stub_link;

/* There was a range at some time. */
extern _Atomic bool stub_managed_on;

/*
 * [dev, dev + size) on the current link's server is the range at @host here; @host 0:
 * at the same address, in memory that is made for it.  Its content becomes zeros. Needs
 * a current context.
 */
CUresult stub_managed_add(uint64_t dev, uint64_t host, uint64_t size);

/* The same for a variable of @library, whose content is brought down. */
CUresult stub_managed_add_variable(uint64_t dev, uint64_t size, CUlibrary library,
                                   const char *name);

/* The range that begins at @addr, here or at the server, is freed.  False: there was
 * none. */
bool stub_managed_drop(uint64_t addr);

/* The address of a range of @library; 0: it has none (any more). */
uint64_t stub_managed_variable(CUlibrary library);

/* The address of @host, which lies in a range, at the current link's server, or where
 * it was allocated; 0 if it does not. */
uint64_t stub_managed_device(uint64_t host);

/* The same, where the current link's server has a copy of the memory by now; else 0. */
uint64_t stub_managed_alias(uint64_t host);

/* Page-locked memory at @host, at @dev for the device, in the range of addresses
 * that both ends have (stub_unified.h): makes pages at the current link's server,
 * now. */
CUresult stub_managed_add_pages(uint64_t dev, uint64_t host, uint64_t size);

/* Adopt memory that has become STUB_REACH_WANTED, and send the host's content. */
CUresult stub_managed_adopt(void);

/* True if all of it is page-locked memory for which the current link's server has
 * pages at the same address. */
bool stub_managed_is_pages(uint64_t addr, uint64_t size);

/* Memory on the server for @size bytes of the host at @host (stub_alloc.c); given back
 * by cuMemFree of its address, after stub_managed_drop(). */
CUresult stub_alloc_mapped(CUdeviceptr *dptr, void *host, uint64_t size);

/* Device work goes into @stream (STUB_MANAGED_SOME: into several) next.  Here and
 * below: of the current link. */
void stub_managed_work(uint64_t stream);

/* A frame of this thread is the @seq-th of @link.  Under the lock of the send queue. */
void stub_managed_placed(struct stub_link *link, uint32_t seq);

/* Send the host's changes while devices may be at work: for work that waits for it,
 * and for calls that will only name such memory. */
void stub_managed_carry(void);

/* The devices will want [dev, dev + size), which lies in one range: send what the host
 * has changed in it already now. */
void stub_managed_prefetch(uint64_t dev, uint64_t size);

/* The program has waited for @stream, successfully.  Any other result than
 * CUDA_SUCCESS means that memory could not be moved, now or since the last wait, and
 * is to be returned by the waiting call. */
CUresult stub_managed_waited(uint64_t stream);

/* A context is gone, and with it what was registered in it for memory that lives on. */
void stub_managed_ctx_end(struct stub_ctx *ctx);

/* Around a host function in a stream of @link: it sees the changes of the work
 * before it, and the work behind it sees its changes. */
void stub_managed_host_begin(struct stub_link *link);
void stub_managed_host_end(struct stub_link *link);

/* The program has attached memory to a stream, and may write other memory meanwhile. */
void stub_managed_attached(void);

/* The host is about to use what the device did: wait for all its work and receive
 * its changes. */
CUresult stub_managed_sync(void);

/* Has hooks before every call and after every wait (stub_hooks.h). */
extern const struct stub_feature stub_managed_feature;

static inline bool
stub_managed_is_on(void)
{
    return __builtin_expect(
        atomic_load_explicit(&stub_managed_on, memory_order_relaxed), false);
}

bool stub_managed_overlaps(uint64_t dev, uint64_t size);
bool stub_managed_has_work(void);

/* True if the device range [dev, dev + size) overlaps one of ours. */
static inline bool
stub_managed_touches(uint64_t dev, uint64_t size)
{
    return stub_managed_is_on() && stub_managed_overlaps(dev, size);
}

/* True if the device may have changed shared memory since the last wait. */
static inline bool
stub_managed_pending(void)
{
    return stub_managed_is_on() && stub_managed_has_work();
}

#endif
