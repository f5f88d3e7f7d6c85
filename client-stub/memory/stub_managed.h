/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that host and card both use: managed memory and mapped host memory.
 *
 * Every such range exists twice, here and on the server, and changes travel at the
 * points where CUDA's contract for devices without concurrent access makes them
 * visible: what the host changed goes up before the next work of the card, what the
 * card changed comes down after the program has waited for it (docs/managed.md).
 *
 * Programs without such memory pay one branch per call.  Any thread.
 */
#ifndef STUB_MANAGED_H
#define STUB_MANAGED_H

#include "cuda_abi.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct stub_feature;
struct stub_link;

/* There was a range at some time. */
extern _Atomic bool stub_managed_on;

/* What a wait was for, besides a stream's id. */
#define STUB_MANAGED_ALL UINT64_MAX        /* the whole context */
#define STUB_MANAGED_SOME (UINT64_MAX - 1) /* who knows */

/*
 * [dev, dev + size) on the current link's server is the range at @host here; @host 0:
 * at the same address, in memory that is made for it.  Its content becomes zeros. Needs
 * a current context.
 */
CUresult stub_managed_add(uint64_t dev, uint64_t host, uint64_t size);

/* The same for a variable of @library, whose content is brought down. */
CUresult stub_managed_add_variable(uint64_t dev, uint64_t size, CUlibrary library,
                                   const char *name);

/* The range that begins at @addr, here or there, is no more.  False: there was none. */
bool stub_managed_drop(uint64_t addr);

/* Where a range of @library begins; 0: it has none (any more). */
uint64_t stub_managed_variable(CUlibrary library);

/* The address of @host, which lies in a range, at the current link's server, or where
 * it was allocated; 0 if it does not. */
uint64_t stub_managed_device(uint64_t host);

/* Page-locked memory at @host that the card knows at @dev, in the range that both ends
 * have (stub_unified.h): pages at the current link's server, now. */
CUresult stub_managed_add_pages(uint64_t dev, uint64_t host, uint64_t size);

/* Take in what has become STUB_REACH_WANTED, and make it what the host sees. */
CUresult stub_managed_adopt(void);

/* Is it all page-locked memory that the current link's server has pages for, at the
 * same address? */
bool stub_managed_is_pages(uint64_t addr, uint64_t size);

/* Memory on the server for @size bytes of the host at @host (stub_alloc.c); given back
 * by cuMemFree of its address, after stub_managed_drop(). */
CUresult stub_alloc_mapped(CUdeviceptr *dptr, void *host, uint64_t size);

/* Does the range of the server [dev, dev + size) touch one of ours? */
bool stub_managed_touches(uint64_t dev, uint64_t size);

/* Work for the card goes into @stream (STUB_MANAGED_SOME: into several) next.  Here and
 * below: of the current link. */
void stub_managed_work(uint64_t stream);

/* Bring up what the host has, while the cards may be at work: for work that waits for
 * it, and for calls that will only name such memory. */
void stub_managed_carry(void);

/* The program has waited for @stream, successfully.  Anything but CUDA_SUCCESS: memory
 * could not be moved, now or since the last wait, and the waiting call returns that. */
CUresult stub_managed_waited(uint64_t stream);

/* Around a function of the host in a stream of @link, which sees what the work before
 * it did, and whose changes the work behind it sees. */
void stub_managed_host_begin(struct stub_link *link);
void stub_managed_host_end(struct stub_link *link);

/* May the card have changed shared memory since the last wait? */
bool stub_managed_pending(void);

/* The program has attached memory to a stream, and may write other memory meanwhile. */
void stub_managed_attached(void);

/* The host is about to use, or must see, what the card did: wait for all of it. */
CUresult stub_managed_sync(void);

/* Looks at every call before it is made and after it was waited for (stub_hooks.h). */
extern const struct stub_feature stub_managed_feature;

static inline bool
stub_managed_is_on(void)
{
    return __builtin_expect(
        atomic_load_explicit(&stub_managed_on, memory_order_relaxed), false);
}

#endif
