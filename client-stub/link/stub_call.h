/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One CUDA call on its way to the worker: what generated and hand-written stubs use.
 *
 * A struct stub_call lives on the stack of the application thread that makes the
 * call.  stub_call_begin() claims the next place in the attachment's one ordered
 * queue and hands out the body of the frame; exactly one of the post/wait functions
 * sends it, or stub_call_cancel() does not; stub_call_end() follows every wait,
 * whatever it returned.  Between begin and post/wait the calling thread holds the
 * queue, so it only stores the arguments there: everything that can be refused is
 * checked before begin.
 *
 * Results are CUresult as the application sees them.  Any thread.
 */
#ifndef STUB_CALL_H
#define STUB_CALL_H

#include "cuda_abi.h"
#include "gp_base.h"
#include "stub_handle.h"
#include "stub_inflight.h"
#include "wire_format.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Claim the next place in the queue for @call with @body_size bytes of body (a
 * multiple of 8, uninitialised: the caller writes every byte).  Fails without
 * claiming when cuInit was not called, in a forked child, or when the link is dead. */
CUresult stub_call_begin(struct stub_call *c, uint16_t call, uint32_t body_size);

/* The same for a body of @fixed bytes and @inlined ones behind them (both multiples of
 * 8), which stub_call_inline() writes: @n, no more than those, at @fixed. */
CUresult stub_call_begin_inline(struct stub_call *c, uint16_t call, uint32_t fixed,
                                uint32_t inlined);
void stub_call_inline(struct stub_call *c, uint32_t fixed, const void *bytes, size_t n);

/* The same for a call to a link of choice, which may come before cuInit, once attached.
 */
CUresult stub_call_begin_on(struct stub_call *c, struct stub_link *link, uint16_t call,
                            uint32_t body_size);

/* The frame becomes one of @call with @body_size bytes of body, no more than it had:
 * the same call in another form. */
void stub_call_become(struct stub_call *c, uint16_t call, uint32_t body_size);

/* Give the place in the queue back instead of sending; returns when the place behind it
 * would be in the connection's buffer. */
void stub_call_cancel(struct stub_call *c);

/* Send without a reply.  Blocks only while the send buffer is full. */
CUresult stub_call_post(struct stub_call *c);

/* Send, with everything queued before it, and wait for the reply. */
CUresult stub_call_wait(struct stub_call *c);

/* Like post/wait, with @len bytes straight from the caller's buffer behind the frame.
 * The frame carries WIRE_F_BULK; its last fixed field is the u64 length. */
CUresult stub_call_post_bulk(struct stub_call *c, const void *data, uint64_t len);
CUresult stub_call_wait_bulk(struct stub_call *c, const void *data, uint64_t len);

/* The payload gathered from @n chunks; none of them is empty. */
struct iovec;
CUresult stub_call_wait_chunks(struct stub_call *c, const struct iovec *chunks,
                               size_t n);
CUresult stub_call_post_chunks(struct stub_call *c, const struct iovec *chunks,
                               size_t n);

/* Send, wait, and receive the bulk bytes of the reply straight into @dst.  @rep_size
 * is the size of the reply's fixed struct, whose last field says how many bytes
 * there are; more than @len end the attachment.  With @dst NULL they go to malloc'ed
 * memory, which the caller finds in c->dst and owns.  A small reply may be inline:
 * then reply_flags lacks WIRE_F_BULK, and the bytes are part of the reply.  @said: what
 * stub_received_say() returned before stub_call_begin(), or 0. */
CUresult stub_call_wait_into(struct stub_call *c, void *dst, uint64_t len,
                             uint32_t rep_size, uint64_t said);

/* Send a call that is normally posted, and wait for its result.  For arguments that
 * the stub cannot check itself, so that the program gets the error from this very
 * call. */
CUresult stub_call_post_checked(struct stub_call *c);

/* Post a call that frees or unloads.  One of every WIRE_RELEASES_POSTED is waited
 * for, which bounds the queue in which the worker keeps the releases of a busy
 * context. */
CUresult stub_call_post_release(struct stub_call *c);

/* Mark the call as an asynchronous copy to the host (WIRE_F_D2H_ASYNC;
 * stub_d2h_async.h) before stub_call_post(). Returns its sequence number. */
uint32_t stub_call_mark_d2h_async(struct stub_call *c);

/* The number of a call that has begun and will be posted: the server makes the calls of
 * a link in that order. */
uint32_t stub_call_seq(const struct stub_call *c);

/* Send without a reply, and at once instead of with the frames that follow. */
CUresult stub_call_post_now(struct stub_call *c);
/* The same, but behind a payload that another thread is sending the call is left to
 * that thread and not waited for. */
CUresult stub_call_post_soon(struct stub_call *c);
/* Send without a reply, with the frame that follows, whoever makes it: nobody wakes to
 * send this one alone. */
CUresult stub_call_post_along(struct stub_call *c);

/* To be called after every wait: the reply becomes invalid, and another thread may
 * read.  A call that succeeded may fail here, by c->result: work that belongs to the
 * wait could not be done (stub_managed.h). */
void stub_call_end(struct stub_call *c);

/* May calls be made from here?  The check that stub_call_begin() makes, for calls that
 * are answered locally. */
CUresult stub_enter(void);

/* The reply to @call does not match its description: the link is lost. */
CUresult stub_call_bad(uint16_t call);

/* A call that gpupool does not carry: CUDA_ERROR_NOT_SUPPORTED, counted, named once
 * in the log.  @call is its number in proto/api. */
CUresult stub_unsupported(uint16_t call);

/* The stream's id on the wire.  NULL and CU_STREAM_LEGACY are 0, handles stay as
 * they are.  CU_STREAM_PER_THREAD, and NULL with @per_thread (the _ptsz/_ptds
 * names), are this thread's own stream of the current context, which is created on
 * first use; its id is never 0, and UINT64_MAX when it cannot be created. */
uint64_t stub_stream_slow(CUstream stream, bool per_thread);

static inline uint64_t
stub_stream_id(CUstream stream, bool per_thread)
{
    if (likely((uintptr_t)stream > 2 || (!stream && !per_thread)))
        return (uintptr_t)stream;
    return stub_stream_slow(stream, per_thread);
}

/* The same for a stream that must exist: any other handle is a mistake of the
 * program. */
static inline CUresult
stub_stream_get(CUstream stream, bool per_thread, uint64_t *ret_id)
{
    uint64_t id = stub_stream_id(stream, per_thread);

    *ret_id = id;
    if (likely(id <= 2 || stub_handle_ok(WIRE_KIND_STREAM, id)))
        return CUDA_SUCCESS;
    return id == UINT64_MAX ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_HANDLE;
}

/* Exported functions take their slow form, stub_slow_cuX(): there is a trace or a
 * report to write, or the session has several servers. */
extern bool stub_slow;

#endif
