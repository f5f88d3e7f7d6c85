/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous device-to-host copies: to page-locked host memory, and the call does not
 * wait.
 *
 * The frame is marked WIRE_F_D2H_ASYNC, and the call returns.  The bytes come later in
 * an unsolicited message; the thread that reads the connection copies them to their
 * destination.  The worker sends the message in front of every reply that says that the
 * stream has got so far.  When no thread reads because the program waits for nothing, a
 * thread of the stub does; the flusher wakes it.
 *
 * wire_format.h bounds the bytes in flight, and with them memory on both sides; a copy
 * that exceeds the bound waits.  Before host memory is freed, read or written,
 * stub_d2h_async_wait() is called.  Any thread.
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

/* Copies in flight, of all links. */
extern _Atomic uint32_t stub_d2h_async_in_flight;

/* True if a copy to [dst, dst + span) of host memory may be asynchronous: only to
 * page-locked memory, while nothing is captured, and if the server supports it. */
bool stub_d2h_async_possible(struct stub_link *link, const void *dst, uint64_t span);

/* Is there room for @n more bytes, in as many copies as they take, on the link of the
 * current context?  Others may take it meanwhile. */
bool stub_d2h_async_has_room(uint64_t n);

/* An entry for one more copy, of at most WIRE_D2H_LARGE bytes; waits for a free
 * one.  NULL: the link is dead. */
struct stub_d2h_async *stub_d2h_async_claim(struct stub_link *link,
                                            const struct stub_d2h_place *place);

/* Send the filled call of stub_call_begin(). */
CUresult stub_d2h_async_post(struct stub_call *c, struct stub_d2h_async *copy);

/* The call could not begin: give the entry back. */
void stub_d2h_async_drop(struct stub_d2h_async *copy);

/* Handles WIRE_EVENT_D2H_DONE, and reads it when no other thread does (stub_hooks.h).
 */
extern const struct stub_feature stub_d2h_async_feature;

void stub_d2h_async_wait_slow(const void *addr, uint64_t len);

/* Waits until nothing is in flight to [addr, addr + len). */
static inline void
stub_d2h_async_wait(const void *addr, uint64_t len)
{
    if (__builtin_expect(
            atomic_load_explicit(&stub_d2h_async_in_flight, memory_order_acquire) != 0,
            0))
        stub_d2h_async_wait_slow(addr, len);
}

#endif
