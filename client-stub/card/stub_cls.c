/* SPDX-License-Identifier: Apache-2.0 */
/* Context-local storage; see stub_cls.h for why reading takes no lock. */
#include "stub_cls.h"

#include "gp_base.h"
#include "stub_ctx.h"

#include <errno.h>

struct stub_cls_entry {
    struct stub_cls_entry *next; /* constant once published */
    _Atomic(void *) key;         /* NULL: unused */
    _Atomic(void *) value;
    stub_cls_dtor *dtor;
};

static struct stub_cls_entry *
cls_find(struct stub_ctx *ctx, const void *key)
{
    struct stub_cls_entry *e = atomic_load_explicit(&ctx->cls, memory_order_acquire);

    while (e && atomic_load_explicit(&e->key, memory_order_acquire) != key)
        e = e->next;
    return e;
}

static struct stub_cls_entry *
cls_add(struct stub_ctx *ctx)
{
    struct stub_cls_entry *e = cls_find(ctx, NULL);

    if (e)
        return e;
    e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    e->next = atomic_load_explicit(&ctx->cls, memory_order_relaxed);
    atomic_store_explicit(&ctx->cls, e, memory_order_release);
    return e;
}

int
stub_cls_put(struct stub_ctx *ctx, void *key, void *value, stub_cls_dtor *dtor)
{
    struct stub_cls_entry *e;

    if (!key)
        return -EINVAL;
    stub_lock_take(&ctx->lock);
    e = cls_find(ctx, key);
    if (!e)
        e = cls_add(ctx);
    if (e) {
        e->dtor = dtor;
        atomic_store_explicit(&e->value, value, memory_order_relaxed);
        atomic_store_explicit(&e->key, key, memory_order_release);
    }
    stub_lock_release(&ctx->lock);
    return e ? 0 : -ENOMEM;
}

int
stub_cls_del(struct stub_ctx *ctx, const void *key)
{
    struct stub_cls_entry *e;

    if (!key)
        return -EINVAL;
    stub_lock_take(&ctx->lock);
    e = cls_find(ctx, key);
    if (e)
        atomic_store_explicit(&e->key, NULL, memory_order_release);
    stub_lock_release(&ctx->lock);
    return e ? 0 : -ENOENT;
}

/* The key is looked at twice: between the two the entry may have been removed and given
 * to another key, and then the value was not ours. */
int
stub_cls_get(struct stub_ctx *ctx, const void *key, void **ret)
{
    struct stub_cls_entry *e = key ? cls_find(ctx, key) : NULL;
    void *value;

    if (!e)
        return -ENOENT;
    value = atomic_load_explicit(&e->value, memory_order_acquire);
    if (atomic_load_explicit(&e->key, memory_order_relaxed) != key)
        return -ENOENT;
    *ret = value;
    return 0;
}

/* Destructors run without the lock: they may call back into the storage. */
void
stub_cls_drop_all(struct stub_ctx *ctx)
{
    struct stub_cls_entry *e = atomic_load_explicit(&ctx->cls, memory_order_acquire);

    for (; e; e = e->next) {
        stub_cls_dtor *dtor;
        void *key, *value;

        stub_lock_take(&ctx->lock);
        key = atomic_load_explicit(&e->key, memory_order_relaxed);
        value = atomic_load_explicit(&e->value, memory_order_relaxed);
        dtor = e->dtor;
        atomic_store_explicit(&e->key, NULL, memory_order_release);
        stub_lock_release(&ctx->lock);
        if (key && dtor)
            dtor(stub_ctx_handle(ctx), key, value);
    }
}

void
stub_cls_free(struct stub_ctx *ctx)
{
    struct stub_cls_entry *e = ctx->cls, *next;

    for (; e; e = next) {
        next = e->next;
        free(e);
    }
    ctx->cls = NULL;
}
