/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies to pinned host memory that nobody waits for.
 *
 * The frame leaves marked WIRE_F_LAND, and the call returns.  The bytes come later as
 * an event, which whoever reads the connection puts in place; the worker sends it in
 * front of every answer that says that the stream got so far.  When nobody reads
 * because the program waits for nothing, a thread of the stub does: the flusher calls
 * it.
 *
 * Memory is bounded on both sides by what wire_format.h says may be under way; who
 * wants more waits.  Whoever gives up, reads or writes host memory itself asks
 * stub_d2h_async_wait() first.  Any thread.
 */
#ifndef STUB_D2H_ASYNC_H
#define STUB_D2H_ASYNC_H

#include "cuda_abi.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct stub_call;
struct stub_feature;
struct stub_d2h_async;
struct stub_link;

/* Where the bytes go: @rows rows of @width bytes, @pitch apart. */
struct stub_d2h_place {
    uint8_t *base;
    uint64_t width, pitch, rows;
};

/* Copies under way, of all links. */
extern _Atomic uint32_t stub_d2h_async_in_flight;

/* May a copy to [dst, dst + span) of host memory go this way?  Only to pinned memory,
 * while nothing is captured, and when the server can. */
bool stub_d2h_async_possible(struct stub_link *link, const void *dst, uint64_t span);

/* Room for one more copy, of at most WIRE_LAND_LARGE bytes; waits for it.  NULL: the
 * link is dead. */
struct stub_d2h_async *stub_d2h_async_claim(struct stub_link *link,
                                            const struct stub_d2h_place *place);

/* Send the filled call of stub_call_begin(). */
CUresult stub_d2h_async_post(struct stub_call *c, struct stub_d2h_async *copy);

/* The call could not begin. */
void stub_d2h_async_drop(struct stub_d2h_async *copy);

/* Takes WIRE_EVENT_LANDED, and has it read when nobody else does (stub_hooks.h). */
extern const struct stub_feature stub_d2h_async_feature;

void stub_d2h_async_wait_slow(const void *addr, uint64_t len);

/* Until nothing is under way to [addr, addr + len). */
static inline void
stub_d2h_async_wait(const void *addr, uint64_t len)
{
    if (__builtin_expect(
            atomic_load_explicit(&stub_d2h_async_in_flight, memory_order_acquire) != 0,
            0))
        stub_d2h_async_wait_slow(addr, len);
}

/* Until nothing is under way at all. */
static inline void
stub_d2h_async_wait_all(void)
{
    stub_d2h_async_wait((void *)0, UINT64_MAX);
}

#endif
