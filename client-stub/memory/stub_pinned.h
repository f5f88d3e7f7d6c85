/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page-locked memory that the worker maps as well, over shared memory: a linear copy
 * between it and the card is a frame, and the card's own copy.
 *
 * Made by cuMemHostAlloc where the link and the worker can; the registry of memory
 * (stub_memory.h) says which number it has.  What else touches such memory (arrays,
 * rectangles, asynchronous copies down) goes the usual ways.  Any thread.
 */
#ifndef STUB_PINNED_H
#define STUB_PINNED_H

#include "cuda_abi.h"
#include "gp_base.h"
#include "stub_memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Below this an allocation stays private: a number is worth more than the copy. */
#define STUB_PINNED_MIN (256u * 1024)

struct stub_pinned_place {
    uint32_t id;
    uint64_t offset, n;
};

/* Memory that the worker of the current link has mapped too, @size a multiple of the
 * page size, and its number, which is not 0; NULL: not here, or there is no more.  With
 * one address for both (stub_unified.h) kernels use it, whatever its size. */
void *stub_pinned_new(size_t size, uint32_t *ret_number,
                      enum stub_memory_reach *ret_reach);

/* Pages of the current link's worker at @addr, whole ones: their number, or 0.  leave:
 * they are not needed any more. */
uint32_t stub_pinned_place(uint64_t addr, uint64_t size);
void stub_pinned_leave(uint32_t link, uint32_t number);

/* It is unmapped here: the worker may let it go.  @link is the number of the link. */
void stub_pinned_drop(uint32_t link, uint32_t number);

extern _Atomic uint32_t stub_pinned_count;
bool stub_pinned_look(const void *host, uint64_t n, struct stub_pinned_place *ret);

static inline bool
stub_pinned_any(void)
{
    return unlikely(atomic_load_explicit(&stub_pinned_count, memory_order_relaxed) !=
                    0);
}

/* Does [host, host + n) lie in such memory of the current link, and may it be used? */
static inline bool
stub_pinned_find(const void *host, uint64_t n, struct stub_pinned_place *ret)
{
    return stub_pinned_any() && stub_pinned_look(host, n, ret);
}

/* A copy up in @stream that nobody waits for; the program keeps its hands off the
 * memory, as page-locked memory wants it. */
CUresult stub_pinned_up(const struct stub_pinned_place *place, CUdeviceptr dst,
                        uint64_t stream);

/* A copy that has been done when the call returns.  WIRE_RESULT_SEND_BYTES: it would
 * wait for work before it, and has not begun. */
CUresult stub_pinned_copy(const struct stub_pinned_place *place, CUdeviceptr device,
                          bool down, uint64_t stream);

#endif
