/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has to be known of a copy before its path can be chosen (stub_path_table.h):
 * where its two sides are, and how far its stream is.  No state.
 */
#ifndef STUB_COPY_FACTS_H
#define STUB_COPY_FACTS_H

#include "cuda_abi.h"
#include "stub_path_table.h"

#include <stdbool.h>
#include <stdint.h>

struct stub_copy;

/* Bytes that are cheaper to copy into the frame than to send behind it.  Over TCP to a
 * peer nearby the payload is a write and a wake-up of its own, which cost more than a
 * copy of 64 KiB; a longer line has better uses for its bytes (compression, stripes).
 */
#define STUB_COPY_INLINE (16u * 1024u)
#define STUB_COPY_INLINE_NEAR (64u * 1024u)

/* Fills in @copy->facts and what goes with them.  Facts that no row of the table can
 * need any more are left out, because some cost a search.  An error: the server could
 * not say whether the stream is being captured. */
CUresult stub_copy_find_facts(struct stub_copy *copy);

/* Is all of [addr, addr + n) inside one device allocation of ours, or one mapping? */
bool stub_copy_inside(uint64_t addr, uint64_t n);

/* Is it page-locked memory that the device has at the same address?  A kernel may have
 * changed it, or may read it, in stream order. */
bool stub_copy_has_same_address(uint64_t host, uint64_t n);

/* The address of the device's own pages of memory at @host that it has at another
 * address, where a copy has to use them; 0: it need not. */
CUdeviceptr stub_copy_find_alias(enum stub_direction direction, uint64_t host);

/* Is it all inside one range of the host's pinned memory? */
bool stub_copy_is_host(uint64_t addr, uint64_t n);

/* A blocking copy to the device comes behind the work of its stream, and the program
 * may see that: by what a function of its own has written, the source included, and by
 * copies and kernels that write its memory.  Then this waits for the stream. */
CUresult stub_copy_await_turn(const struct stub_copy *copy);

/* Must a blocking copy of @n bytes to the device be complete when it returns?  Then it
 * is answered.  CUDA lets up to 64 KiB of pageable memory be in flight still, but not
 * the work before; and where the program has made no streams, nothing that it calls
 * could overtake either. */
bool stub_copy_wants_reply(const struct stub_copy *copy, uint64_t n);

/* Has an asynchronous copy between a device and [host, host + n) to read or write there
 * at its turn in the stream, by the path graph?  That is page-locked memory. */
bool stub_copy_has_turn(const struct stub_copy *copy, const void *host, uint64_t n);

#endif
