/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts as the client knows them, and each thread's stack of them.
 *
 * A context is made by stub_ctx_new() (or stub_ctx_init() for the primary ones, which
 * live as long as the process). Its handle and every entry of a stack hold a reference;
 * the last reference frees it.  Its memory is used for contexts alone from then on, so
 * that who finds one while another thread destroys it can look whether it may be used.
 * `alive` says whether the driver still has it.
 *
 * The current context is the top of the calling thread's stack.  It is part of every
 * frame, so that changing it needs no message.
 *
 * A context made from a green one is a part of a primary context: it has a handle, can
 * be current and is what frames name; in everything else it is the primary context, to
 * which all that is made in it belongs.  This module makes no calls to the
 * server: stub_ctx_calls.c and stub_primary.c do.
 */
#ifndef STUB_CTX_H
#define STUB_CTX_H

#include "cuda_abi.h"
#include "gp_lock.h"
#include "stub_ctx_storage.h"
#include "stub_tls.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define STUB_CTX_STATE_KNOWN (UINT64_C(1) << 32)

struct stub_ctx {
    uint64_t handle;
    uint32_t index; /* of the handle: what frames carry */
    CUdevice dev;
    bool primary;
    struct stub_ctx *whole; /* the primary context of one made from a green one */
    _Atomic bool alive;
    _Atomic bool failed; /* stub_sticky.h */
    _Atomic uint32_t refs;
    _Atomic uint32_t flags;
    _Atomic uint64_t unique; /* cuCtxGetId: never used twice in a process */
    struct gp_lock lock;
    uint32_t retains;          /* of a primary context, under lock */
    _Atomic uint64_t state;    /* of a primary context: its flags and
                                * STUB_CTX_STATE_KNOWN, or 0; set under lock */
    _Atomic uint32_t attached; /* by cuCtxAttach, beside its maker */
    struct stub_ctx_storage storage;
    struct stub_ctx *next_unused, *next_green;
};

/* Make the primary contexts of all devices, not alive yet.  -ENOMEM. */
int stub_ctx_init(void);

/* The primary context of a device that exists. */
struct stub_ctx *stub_ctx_primary(CUdevice dev);

/* A new context with its own handle, one reference, alive.  NULL: out of memory. */
struct stub_ctx *stub_ctx_new(CUdevice dev, unsigned int flags);

/* The context @handle, which the server named, of a green context of @whole's device:
 * with one reference, alive.  NULL: out of memory. */
struct stub_ctx *stub_ctx_new_green(uint64_t handle, struct stub_ctx *whole);

/* Its green context ends: the handle is nobody's any more, and a thread that has it as
 * its current context has one that is destroyed.  Drops the reference; NULL is a no-op.
 */
void stub_ctx_end_green(struct stub_ctx *ctx);

/* The driver has destroyed the context, and stub_hooks_ctx_end() was called.  Deletes
 * the handles of what lives and dies with it and that of a non-primary context, runs
 * the destructors of its context-local storage, and drops the handle's reference. */
void stub_ctx_end(struct stub_ctx *ctx);

/* The same of a primary context, whose next life may begin as soon as @ctx->lock, which
 * the caller holds, is released.  The destructors are the caller's to run after that,
 * with stub_ctx_storage_destroy(). */
struct stub_ctx_storage_removed *stub_ctx_end_primary(struct stub_ctx *ctx);

/* The context behind a handle, alive or (primary) not yet; NULL if unknown.  The second
 * one is for the stack: of a green context the part and not the whole. */
struct stub_ctx *stub_ctx_get(CUcontext handle);
struct stub_ctx *stub_ctx_get_part(CUcontext handle);

/* The same, with NULL meaning the current one, which must be alive: the usual check of
 * calls that take a context.  CUDA_ERROR_INVALID_CONTEXT otherwise. */
CUresult stub_ctx_resolve(CUcontext handle, struct stub_ctx **ret);

/* May calls that need a current context be made from here?  stub_enter(), and the
 * context's answer. */
CUresult stub_ctx_enter(void);

/* The result of a call with a wrong argument: a missing context comes before it. */
static inline CUresult
stub_ctx_refuse(void)
{
    CUresult r = stub_ctx_enter();

    return r == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : r;
}

/* Keep @ctx, dead or alive, in memory. */
void stub_ctx_ref(struct stub_ctx *ctx);
void stub_ctx_unref(struct stub_ctx *ctx);

/* The handle of the calling thread's current context; NULL: none.  And: it is a part
 * that has been destroyed. */
CUcontext stub_ctx_current(void);
bool stub_ctx_current_is_gone(void);

/* Of the calling thread.  push: -ENOMEM.  pop: NULL when the stack is empty. */
int stub_ctx_push(struct stub_ctx *ctx);
CUcontext stub_ctx_pop(void);
/* Replace the top; NULL pops it. */
int stub_ctx_set(struct stub_ctx *ctx);

/* A living context of @link: the one with @index if there is, else a primary one before
 * others; or, to be pushed only, one that frames show as none.  For callers that nobody
 * lets it be destroyed under. */
struct stub_ctx *stub_ctx_on(uint32_t link, uint32_t index);

/* Such a context with a reference of the caller's, whatever other threads destroy;
 * *ret_alive: it is one. */
struct stub_ctx *stub_ctx_ref_on(uint32_t link, uint32_t index, bool *ret_alive);

/* The same, and push it.  -ENOMEM. */
int stub_ctx_push_on(uint32_t link, uint32_t index, bool *ret_alive);

static inline CUcontext
stub_ctx_handle(const struct stub_ctx *ctx)
{
    return ctx ? (CUcontext)(uintptr_t)ctx->handle : NULL;
}

#endif
