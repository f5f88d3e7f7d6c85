/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between page-locked memory that the worker maps as well (stub_pinned.h) and a
 * card: each is a frame, and the card's own copy.
 *
 * What else touches such memory (arrays, rectangles, asynchronous copies down) goes the
 * usual ways.  Any thread.
 */
#ifndef STUB_PINNED_COPY_H
#define STUB_PINNED_COPY_H

#include "cuda_abi.h"
#include "stub_pinned.h"

#include <stdbool.h>
#include <stdint.h>

struct stub_pinned_place {
    uint32_t id;
    uint64_t offset, n;
};

bool stub_pinned_look(const void *host, uint64_t n, struct stub_pinned_place *ret);

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
