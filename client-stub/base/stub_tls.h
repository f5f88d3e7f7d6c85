/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stub keeps per application thread.
 *
 * Small and initial-exec, so that reaching it costs one instruction even though the
 * library is usually dlopen'ed (the C library keeps room for a few hundred such bytes).
 * Touched by its own thread only.
 */
#ifndef STUB_TLS_H
#define STUB_TLS_H

#include "cuda_abi.h"
#include "stub_range.h"

#include <stdint.h>

struct stub_ctx;
struct stub_func;
struct stub_link;
struct stub_own_stream;

/* A cache line, where that can be had: on 64-bit ARM a C library before 2.32 refuses to
 * load a library at run time whose thread-local storage is aligned more than its own.
 */
#if defined(__x86_64__)
#define STUB_TLS_ALIGN 64
#else
#define STUB_TLS_ALIGN 16
#endif

struct stub_tls {
    /* Read by every call, in one cache line. */
    _Alignas(STUB_TLS_ALIGN) uint32_t ctx_index; /* of the current context, 0 = none */
    uint32_t ctx_frame;     /* what frames say of it: another number for a context made
                             * from a green one (stub_ctx.h) */
    struct stub_link *link; /* of ctx; without a context, the first */
    uint64_t func_handle;   /* the kernel launched last */
    struct stub_func *func;
    struct stub_ctx *ctx; /* stack[depth - 1], or what that is a part of, or NULL */
    /* The last frame this thread waited for left this stream with nothing to do. */
    uint64_t idle_stream;
    uint32_t idle_seq;
    uint32_t idle_ctx;  /* index, 0 = nothing known */
    uint32_t refusal;   /* the result of every call: it runs a host function; 0: none */
    uint32_t func_gone; /* stub_func_gone when func was found */
    uint32_t trips;     /* replies waited for in the outermost call (stub_report.h) */
    uint32_t nested;    /* exported calls that this thread is in */
    uint32_t stay;      /* calls go to `link`, whatever their arguments say */

    uint32_t depth; /* contexts on the stack */
    uint32_t cap;
    struct stub_ctx **stack;         /* each entry holds a reference */
    struct stub_own_stream *streams; /* the thread's default streams, per context */
    struct stub_range block;         /* of server addresses, the one seen last */
    uint32_t frames;                 /* placed, to links with STUB_ATTEND_COUNT */
    uint32_t capture_mode;           /* cuThreadExchangeStreamCaptureMode */
    uint32_t internal; /* nested calls of our own (stub_internal_ctx_push) */
    /* As idle_stream, of one that has blocking copies to the device to do, at most. */
    uint64_t uploads_stream;
    uint32_t uploads_seq;
    uint32_t uploads_ctx;
    uint32_t upload_seq;    /* of the last copy to a device with a payload, 0 = none; */
    uint32_t upload_waited; /* the program waited right behind it */
};

extern __thread struct stub_tls stub_tls __attribute__((tls_model("initial-exec")));

/* Around calls of the library's own in the middle of one of the program: no capture
 * forbids them, nor do they end one.  The thread's mode before. */
static inline uint32_t
stub_tls_relax(void)
{
    uint32_t mode = stub_tls.capture_mode;

    stub_tls.capture_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    return mode;
}

static inline void
stub_tls_restore(uint32_t mode)
{
    stub_tls.capture_mode = mode;
}

#endif
