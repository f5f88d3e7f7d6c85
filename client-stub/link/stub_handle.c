/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handle tables: one two-level array per kind, read without a lock.
 *
 * Chunks are allocated as indices are first used and never freed, so a reader that
 * holds a stale id still reads valid memory and finds another generation there.
 */
#include "stub_handle.h"

#include "gp_lock.h"
#include "stub_link.h"
#include "wire_format.h"

#include <stdatomic.h>
#include <stdlib.h>

#define HANDLE_KINDS WIRE_KIND_COUNT
#define CHUNK_BITS 10
#define CHUNK_SIZE (1u << CHUNK_BITS)
#define CHUNKS (STUB_HANDLE_MAX >> CHUNK_BITS)
#define NO_INDEX UINT32_MAX

struct handle_slot {
    _Atomic(void *) data;
    _Atomic uint64_t notes[STUB_HANDLE_NOTES];
    _Atomic uint32_t live; /* link << 16 | generation + 1, 0 = free */
    uint32_t gen;          /* of the next handle allocated here */
    uint32_t ctx;          /* current when it was allocated */
    uint32_t next_free;    /* list of freed indices, under the lock */
};

struct handle_kind {
    struct gp_lock lock;
    uint32_t high; /* first index never used; index 0 stays unused */
    uint32_t free; /* index + 1 of the first freed slot, 0 = none */
    uint32_t free_last;
    void (*drop)(void *data);
    _Atomic(struct handle_slot *) chunk[CHUNKS];
};

static struct handle_kind *_Atomic kinds[HANDLE_KINDS];

/* Conversion between a handle and its entry in `live`. */
static uint32_t
handle_live(uint64_t handle)
{
    return wire_handle_link(handle) << 16 | (wire_handle_gen(handle) + 1);
}

static uint64_t
handle_of_live(uint32_t kind, uint32_t live, uint32_t index)
{
    return wire_handle_make(kind, (live & 0xffff) - 1, index) | live >> 16;
}

/* The table of a kind, created on first use. */
static struct handle_kind *
handle_kind_get(uint32_t kind)
{
    struct handle_kind *k, *none = NULL;

    if (kind >= HANDLE_KINDS)
        return NULL;
    k = atomic_load_explicit(&kinds[kind], memory_order_acquire);
    if (k)
        return k;
    k = calloc(1, sizeof(*k));
    if (!k)
        return NULL;
    k->high = 1;
    if (!atomic_compare_exchange_strong(&kinds[kind], &none, k)) {
        free(k);
        k = none;
    }
    return k;
}

static struct handle_slot *
handle_slot_at(struct handle_kind *k, uint32_t index)
{
    struct handle_slot *chunk;

    if (index >= STUB_HANDLE_MAX)
        return NULL;
    chunk = atomic_load_explicit(&k->chunk[index >> CHUNK_BITS], memory_order_acquire);
    return chunk ? &chunk[index & (CHUNK_SIZE - 1)] : NULL;
}

/* The slot of a live handle, or NULL. */
static struct handle_slot *
handle_find(uint32_t kind, uint64_t handle)
{
    struct handle_kind *k;
    struct handle_slot *slot;

    if (kind >= HANDLE_KINDS || !wire_handle_is(handle, kind))
        return NULL;
    k = atomic_load_explicit(&kinds[kind], memory_order_acquire);
    slot = k ? handle_slot_at(k, wire_handle_index(handle)) : NULL;
    if (!slot ||
        atomic_load_explicit(&slot->live, memory_order_acquire) != handle_live(handle))
        return NULL;
    return slot;
}

/* Make sure that the chunk of @index exists.  Under the lock. */
static struct handle_slot *
handle_slot_make(struct handle_kind *k, uint32_t index)
{
    struct handle_slot *chunk;

    if (index >= STUB_HANDLE_MAX)
        return NULL;
    if (!handle_slot_at(k, index)) {
        chunk = calloc(CHUNK_SIZE, sizeof(*chunk));
        if (!chunk)
            return NULL;
        atomic_store_explicit(&k->chunk[index >> CHUNK_BITS], chunk,
                              memory_order_release);
    }
    return handle_slot_at(k, index);
}

/* Freed indices are reused first in, first out: a stale id stays recognisable for as
 * long as possible before its eight bits of generation come round. */
static uint32_t
handle_index_take(struct handle_kind *k)
{
    uint32_t index;

    if (k->free && k->high > CHUNK_SIZE / 2) {
        index = k->free - 1;
        k->free = handle_slot_at(k, index)->next_free;
        if (!k->free)
            k->free_last = 0;
        return index;
    }
    if (!handle_slot_make(k, k->high))
        return NO_INDEX;
    return k->high++;
}

static uint64_t
handle_publish(struct handle_slot *slot, uint32_t kind, uint32_t link, uint32_t index)
{
    uint64_t handle = wire_handle_make(kind, slot->gen & 0xff, index) | link;

    slot->ctx = stub_tls.ctx_index;
    atomic_store_explicit(&slot->data, NULL, memory_order_relaxed);
    for (uint32_t i = 0; i < STUB_HANDLE_NOTES; i++)
        atomic_store_explicit(&slot->notes[i], 0, memory_order_relaxed);
    atomic_store_explicit(&slot->live, handle_live(handle), memory_order_release);
    return handle;
}

uint64_t
stub_handle_new(uint32_t kind)
{
    return stub_handle_new_on(stub_link_here()->number, kind);
}

uint64_t
stub_handle_new_on(uint32_t link, uint32_t kind)
{
    struct handle_kind *k = handle_kind_get(kind);
    uint64_t handle = 0;
    uint32_t index;

    if (!k)
        return 0;
    gp_lock_take(&k->lock);
    index = handle_index_take(k);
    if (index != NO_INDEX)
        handle = handle_publish(handle_slot_at(k, index), kind, link, index);
    gp_lock_release(&k->lock);
    return handle;
}

uint64_t
stub_handle_new_at(uint32_t kind, uint32_t link, uint32_t index)
{
    struct handle_kind *k = handle_kind_get(kind);
    struct handle_slot *slot;
    uint64_t handle = 0;

    if (!k || index == 0)
        return 0;
    gp_lock_take(&k->lock);
    /* Indices below must exist too, or handle_index_take() would hand this one out. */
    while (k->high <= index && handle_slot_make(k, k->high))
        k->high++;
    slot = handle_slot_at(k, index);
    if (slot && k->high > index &&
        !atomic_load_explicit(&slot->live, memory_order_relaxed))
        handle = handle_publish(slot, kind, link, index);
    gp_lock_release(&k->lock);
    return handle;
}

bool
stub_handle_any(uint32_t kind)
{
    return atomic_load_explicit(&kinds[kind], memory_order_acquire) != NULL;
}

bool
stub_handle_ok(uint32_t kind, uint64_t handle)
{
    /* Only the worker can check handles that it has allocated. */
    if (wire_handle_is(handle, kind) && wire_handle_index(handle) >= WIRE_INDEX_SERVER)
        return wire_handle_link(handle) < stub_links_n;
    return handle_find(kind, handle) != NULL;
}

void
stub_handle_del(uint32_t kind, uint64_t handle)
{
    struct handle_kind *k = handle_kind_get(kind);
    uint32_t index = wire_handle_index(handle);
    struct handle_slot *slot;
    void *data = NULL;

    if (!k)
        return;
    gp_lock_take(&k->lock);
    slot = handle_find(kind, handle);
    if (slot) {
        data = atomic_exchange_explicit(&slot->data, NULL, memory_order_acq_rel);
        atomic_store_explicit(&slot->live, 0, memory_order_release);
        slot->gen++;
        slot->next_free = 0;
        if (k->free_last)
            handle_slot_at(k, k->free_last - 1)->next_free = index + 1;
        else
            k->free = index + 1;
        k->free_last = index + 1;
    }
    gp_lock_release(&k->lock);
    if (data && k->drop)
        k->drop(data);
}

void
stub_handle_on_del(uint32_t kind, void (*drop)(void *data))
{
    struct handle_kind *k = handle_kind_get(kind);

    if (k)
        k->drop = drop;
}

void *
stub_handle_data(uint32_t kind, uint64_t handle)
{
    struct handle_slot *slot = handle_find(kind, handle);

    return slot ? atomic_load_explicit(&slot->data, memory_order_acquire) : NULL;
}

_Atomic uint64_t *
stub_handle_notes(uint32_t kind, uint64_t handle)
{
    struct handle_slot *slot = handle_find(kind, handle);

    return slot ? slot->notes : NULL;
}

uint32_t
stub_handle_ctx(uint32_t kind, uint64_t handle)
{
    struct handle_slot *slot = handle_find(kind, handle);

    return slot ? slot->ctx : 0;
}

void
stub_handle_set_ctx(uint32_t kind, uint64_t handle, uint32_t ctx_index)
{
    struct handle_slot *slot = handle_find(kind, handle);

    if (slot)
        slot->ctx = ctx_index;
}

void
stub_handle_set_data(uint32_t kind, uint64_t handle, void *data)
{
    struct handle_slot *slot = handle_find(kind, handle);

    if (slot)
        atomic_store_explicit(&slot->data, data, memory_order_release);
}

void
stub_handle_each(uint32_t kind, void (*fn)(uint64_t handle, void *data, void *user),
                 void *user)
{
    struct handle_kind *k =
        kind < HANDLE_KINDS ? atomic_load_explicit(&kinds[kind], memory_order_acquire)
                            : NULL;
    uint32_t high, live;

    if (!k)
        return;
    gp_lock_take(&k->lock);
    high = k->high;
    gp_lock_release(&k->lock);
    for (uint32_t i = 1; i < high; i++) {
        struct handle_slot *slot = handle_slot_at(k, i);

        live = atomic_load_explicit(&slot->live, memory_order_acquire);
        if (live)
            fn(handle_of_live(kind, live, i),
               atomic_load_explicit(&slot->data, memory_order_acquire), user);
    }
}

struct of_ctx {
    uint32_t kind;
    uint32_t ctx_index;
};

static void
del_if_of_ctx(uint64_t handle, void *data, void *user)
{
    const struct of_ctx *of = user;

    (void)data;
    if (stub_handle_ctx(of->kind, handle) == of->ctx_index)
        stub_handle_del(of->kind, handle);
}

void
stub_handle_del_of_ctx(uint32_t kind, uint32_t ctx_index)
{
    stub_handle_each(kind, del_if_of_ctx,
                     &(struct of_ctx){.kind = kind, .ctx_index = ctx_index});
}
