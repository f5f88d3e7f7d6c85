/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The send overflow queue: frames that other threads post while one of them sends.
 *
 * A payload takes as long as the network needs, and so does a full buffer whose reader
 * is slow.  The thread that sends either releases the queue meanwhile: frames that
 * others post go into a buffer of the link, and are sent behind the payload, in the one
 * order.  A call that needs a reply, has a payload itself, or finds the overflow buffer
 * full waits until the sender has finished; it would have to wait for the connection
 * anyway.
 *
 * One per link, part of it.  Everything under link->send.
 */
#ifndef STUB_SEND_OVERFLOW_H
#define STUB_SEND_OVERFLOW_H

#include "gp_base.h"
#include "stub_link.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct wire_req;

/* As much as a connection itself buffers.  A program that fills it faster than the
 * connection sends has to wait. */
#define STUB_SEND_OVERFLOW_MAX (64u * 1024u)

static inline bool
stub_send_overflow_busy(const struct stub_send_overflow *overflow)
{
    return atomic_load_explicit(&overflow->busy, memory_order_relaxed) != 0;
}

/* Releases link->send.  No other thread uses the connection's sending end until
 * stub_send_overflow_end(). */
void stub_send_overflow_begin(struct stub_link *link);

/* Takes link->send again and moves the queued frames into the connection's buffer;
 * returns their bytes.  -ECONNRESET: there is no connection any more. */
int64_t stub_send_overflow_end(struct stub_link *link);

/* Room for a frame of @size bytes while somebody sends; NULL: there is none. */
struct wire_req *stub_send_overflow_reserve(struct stub_send_overflow *overflow,
                                            uint32_t size);

static inline void
stub_send_overflow_commit(struct stub_send_overflow *overflow, uint32_t size)
{
    overflow->used += size;
}

/* Waits until no thread sends; releases link->send meanwhile. */
void stub_send_overflow_wait(struct stub_link *link);

/* At the end of the process: take the lock of sending.  false: another thread has sent
 * for a tenth of a second, and may do so for ever. */
bool stub_send_last(struct stub_link *link);

#endif
