/* SPDX-License-Identifier: Apache-2.0 */
/* Context-local storage; see stub_ctx_storage.h for why reading takes no lock. */
#include "stub_ctx_storage.h"

#include "gp_base.h"

#include <errno.h>
#include <stdlib.h>

struct stub_ctx_storage_entry {
    struct stub_ctx_storage_entry *next; /* constant once published */
    atomic_uint changes;                 /* odd while one is being made */
    _Atomic(void *) key;                 /* NULL: unused */
    _Atomic(void *) value;
    stub_ctx_storage_dtor *dtor;
};

static struct stub_ctx_storage_entry *
storage_find(struct stub_ctx_storage *storage, const void *key)
{
    struct stub_ctx_storage_entry *e =
        atomic_load_explicit(&storage->first, memory_order_acquire);

    while (e && atomic_load_explicit(&e->key, memory_order_acquire) != key)
        e = e->next;
    return e;
}

/* Under the lock.  A reader who saw anything of it sees that @changes is another. */
static void
storage_change(struct stub_ctx_storage_entry *e, void *key, void *value)
{
    atomic_fetch_add_explicit(&e->changes, 1, memory_order_relaxed);
    atomic_store_explicit(&e->value, value, memory_order_release);
    atomic_store_explicit(&e->key, key, memory_order_release);
    atomic_fetch_add_explicit(&e->changes, 1, memory_order_release);
}

static struct stub_ctx_storage_entry *
storage_add(struct stub_ctx_storage *storage)
{
    struct stub_ctx_storage_entry *e = storage_find(storage, NULL);

    if (e)
        return e;
    e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    e->next = atomic_load_explicit(&storage->first, memory_order_relaxed);
    atomic_store_explicit(&storage->first, e, memory_order_release);
    return e;
}

int
stub_ctx_storage_put(struct stub_ctx_storage *storage, void *key, void *value,
                     stub_ctx_storage_dtor *dtor)
{
    struct stub_ctx_storage_entry *e;

    if (!key)
        return -EINVAL;
    gp_lock_take(&storage->lock);
    e = storage_find(storage, key);
    if (!e)
        e = storage_add(storage);
    if (e) {
        e->dtor = dtor;
        storage_change(e, key, value);
    }
    gp_lock_release(&storage->lock);
    return e ? 0 : -ENOMEM;
}

int
stub_ctx_storage_del(struct stub_ctx_storage *storage, const void *key)
{
    struct stub_ctx_storage_entry *e;

    if (!key)
        return -EINVAL;
    gp_lock_take(&storage->lock);
    e = storage_find(storage, key);
    if (e)
        storage_change(e, NULL, NULL);
    gp_lock_release(&storage->lock);
    return e ? 0 : -ENOENT;
}

static int
storage_get_locked(struct stub_ctx_storage *storage, const void *key, void **ret)
{
    struct stub_ctx_storage_entry *e;

    gp_lock_take(&storage->lock);
    e = storage_find(storage, key);
    if (e)
        *ret = atomic_load_explicit(&e->value, memory_order_relaxed);
    gp_lock_release(&storage->lock);
    return e ? 0 : -ENOENT;
}

/* Between reading the key and reading the value, the entry may have been given to
 * another key and back.  A reader that finds the entry changed meanwhile reads
 * again, and waits for the writer. */
int
stub_ctx_storage_get(struct stub_ctx_storage *storage, const void *key, void **ret)
{
    struct stub_ctx_storage_entry *e = key ? storage_find(storage, key) : NULL;
    unsigned changes;
    void *found, *value;

    if (!e)
        return -ENOENT;
    changes = atomic_load_explicit(&e->changes, memory_order_acquire);
    found = atomic_load_explicit(&e->key, memory_order_acquire);
    value = atomic_load_explicit(&e->value, memory_order_acquire);
    if (unlikely(found != key || changes % 2 ||
                 atomic_load_explicit(&e->changes, memory_order_relaxed) != changes))
        return storage_get_locked(storage, key, ret);
    *ret = value;
    return 0;
}

struct stub_ctx_storage_removed {
    uint32_t n;
    struct {
        stub_ctx_storage_dtor *dtor;
        void *key, *value;
    } list[];
};

/* Room for all there are.  Under the lock. */
static struct stub_ctx_storage_removed *
removed_new(struct stub_ctx_storage *storage)
{
    struct stub_ctx_storage_removed *removed;
    size_t n = 0;

    for (struct stub_ctx_storage_entry *e = storage->first; e; e = e->next)
        n += e->key && e->dtor;
    removed = n ? malloc(sizeof(*removed) + n * sizeof(removed->list[0])) : NULL;
    if (removed)
        removed->n = 0;
    return removed;
}

struct stub_ctx_storage_removed *
stub_ctx_storage_remove_all(struct stub_ctx_storage *storage)
{
    struct stub_ctx_storage_removed *removed;

    gp_lock_take(&storage->lock);
    removed = removed_new(storage);
    for (struct stub_ctx_storage_entry *e = storage->first; e; e = e->next) {
        if (removed && e->key && e->dtor) {
            removed->list[removed->n].dtor = e->dtor;
            removed->list[removed->n].key = e->key;
            removed->list[removed->n++].value = e->value;
        }
        storage_change(e, NULL, NULL);
    }
    gp_lock_release(&storage->lock);
    return removed;
}

void
stub_ctx_storage_destroy(struct stub_ctx_storage_removed *removed, CUcontext ctx)
{
    for (uint32_t i = 0; removed && i < removed->n; i++)
        removed->list[i].dtor(ctx, removed->list[i].key, removed->list[i].value);
    free(removed);
}

void
stub_ctx_storage_free(struct stub_ctx_storage *storage)
{
    struct stub_ctx_storage_entry *e = storage->first, *next;

    for (; e; e = next) {
        next = e->next;
        free(e);
    }
    storage->first = NULL;
}
