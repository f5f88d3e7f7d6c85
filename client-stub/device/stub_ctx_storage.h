/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Context-local storage: values that runtimes hang onto a context, by key.
 *
 * Runtimes read it in nearly every call, so reading takes no lock: a context's entries
 * form a list that only grows; a removed entry stays in it, keyless, for reuse. Writers
 * hold the storage's lock.  All of it lives on the client.
 */
#ifndef STUB_CTX_STORAGE_H
#define STUB_CTX_STORAGE_H

#include "cuda_abi.h"
#include "gp_lock.h"

#include <stdatomic.h>

struct stub_ctx_storage_entry;

/* The storage of one context, part of it. */
struct stub_ctx_storage {
    struct gp_lock lock;
    _Atomic(struct stub_ctx_storage_entry *) first;
};

typedef void stub_ctx_storage_dtor(CUcontext ctx, void *key, void *value);

/* Put replaces an older value of the same key.  -ENOMEM. */
int stub_ctx_storage_put(struct stub_ctx_storage *storage, void *key, void *value,
                         stub_ctx_storage_dtor *dtor);

/* -ENOENT: no such key.  The destructor is not called. */
int stub_ctx_storage_del(struct stub_ctx_storage *storage, const void *key);

/* -ENOENT: no such key. */
int stub_ctx_storage_get(struct stub_ctx_storage *storage, const void *key, void **ret);

/* The context dies: remove every entry, so that the next life of a primary context
 * begins without them.  Returns those that have a destructor, for
 * stub_ctx_storage_destroy(); NULL: there are none, or no memory to remember them, and
 * then their values are leaked. */
struct stub_ctx_storage_removed *
stub_ctx_storage_remove_all(struct stub_ctx_storage *storage);

/* Call the destructors and free @removed; NULL is a no-op.  They are the program's and
 * may call anything, so the caller holds no lock. */
void stub_ctx_storage_destroy(struct stub_ctx_storage_removed *removed, CUcontext ctx);

/* Free the entries, when nobody can look any more. */
void stub_ctx_storage_free(struct stub_ctx_storage *storage);

#endif
