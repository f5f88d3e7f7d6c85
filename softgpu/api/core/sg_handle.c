/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handle table: slots with generations, reused first in, first out, so that
 * a generation of 24 bits comes round as late as possible.
 *
 * Layout of a handle: bits 48..55 hold kind + 0x10 (never zero, so a handle is
 * neither NULL nor one of the special streams 1 and 2), bits 24..47 the
 * generation, bits 0..23 the slot.
 */
#include "sg_handle.h"

#include <stdlib.h>

enum {
    SLOT_BITS = 24, /* 16 million live objects; the table grows as needed */
    GEN_MASK = (1 << 24) - 1,
    KIND_BASE = 0x10,
    NO_SLOT = -1,
};

struct slot {
    void *obj;
    uint32_t gen;
    int32_t next_free;
    enum sg_kind kind;
};

static struct {
    struct slot *slots;
    uint32_t n_slots, n_used;
    int32_t free_head, free_tail;
} table = {.free_head = NO_SLOT, .free_tail = NO_SLOT};

static struct slot *
slot_of(uint64_t handle)
{
    uint32_t index = handle & ((1u << SLOT_BITS) - 1);
    struct slot *slot;

    if (index >= table.n_used)
        return NULL;
    slot = &table.slots[index];
    if (slot->kind == SG_KIND_NONE ||
        handle >> 48 != (uint64_t)slot->kind + KIND_BASE ||
        ((handle >> SLOT_BITS) & GEN_MASK) != slot->gen)
        return NULL;
    return slot;
}

static int
table_grow(void)
{
    uint32_t n = table.n_slots ? table.n_slots * 2 : 256;
    struct slot *slots;

    if (n > 1u << SLOT_BITS)
        return -1;
    slots = realloc(table.slots, n * sizeof(*slots));
    if (!slots)
        return -1;
    table.slots = slots;
    table.n_slots = n;
    return 0;
}

uint64_t
sg_handle_new(enum sg_kind kind, void *obj)
{
    struct slot *slot;
    uint32_t index;

    /* Keep a few free slots unused before reusing one: see the top. */
    if (table.free_head != NO_SLOT && table.n_used >= 64) {
        index = (uint32_t)table.free_head;
        slot = &table.slots[index];
        table.free_head = slot->next_free;
        if (table.free_head == NO_SLOT)
            table.free_tail = NO_SLOT;
    } else {
        if (table.n_used == table.n_slots && table_grow() < 0)
            return 0;
        index = table.n_used++;
        slot = &table.slots[index];
        slot->gen = 0;
    }
    slot->gen = (slot->gen + 1) & GEN_MASK;
    slot->kind = kind;
    slot->obj = obj;
    return ((uint64_t)kind + KIND_BASE) << 48 | (uint64_t)slot->gen << SLOT_BITS |
           index;
}

void *
sg_handle_get(enum sg_kind kind, uint64_t handle)
{
    struct slot *slot = slot_of(handle);

    return slot && slot->kind == kind ? slot->obj : NULL;
}

enum sg_kind
sg_handle_kind(uint64_t handle)
{
    struct slot *slot = slot_of(handle);

    return slot ? slot->kind : SG_KIND_NONE;
}

void
sg_handle_set(uint64_t handle, void *obj)
{
    struct slot *slot = slot_of(handle);

    if (slot)
        slot->obj = obj;
}

void
sg_handle_drop(uint64_t handle)
{
    struct slot *slot = slot_of(handle);
    int32_t index;

    if (!slot)
        return;
    index = (int32_t)(slot - table.slots);
    slot->kind = SG_KIND_NONE;
    slot->obj = NULL;
    slot->next_free = NO_SLOT;
    if (table.free_tail == NO_SLOT)
        table.free_head = index;
    else
        table.slots[table.free_tail].next_free = index;
    table.free_tail = index;
}
