/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's handle tables: which ids are alive, and what the stub knows about them.
 *
 * The application has ids (proto/wire_format.h has the layout), never pointers, so
 * every handle that it passes is looked up here before use.  Looking up takes no lock;
 * allocating and deleting take one.  What `data` points to belongs to the module that
 * set it.  Any thread.
 */
#ifndef STUB_HANDLE_H
#define STUB_HANDLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The worker refuses ids past this index (wrk_handle.h), so we do not allocate them. */
#define STUB_HANDLE_MAX (1u << 20)

/* new: 0 when the kind's table is full.  ok: live and of that kind (enum wire_kind).
 * del: the id becomes unknown at once; its index is reused later with another
 * generation. */
uint64_t stub_handle_new(uint32_t kind);
bool stub_handle_ok(uint32_t kind, uint64_t handle);
void stub_handle_del(uint32_t kind, uint64_t handle);

/* Allocate a handle of an object on @link; stub_handle_new() takes the current link. */
uint64_t stub_handle_new_on(uint32_t link, uint32_t kind);

/* Allocate the handle with exactly this index (primary contexts). Returns 0 if it is
 * taken. */
uint64_t stub_handle_new_at(uint32_t kind, uint32_t link, uint32_t index);

/* Index of the context that was current when a live handle was allocated; 0 = none. */
uint32_t stub_handle_ctx(uint32_t kind, uint64_t handle);

/* Two words about a live handle that belong to the module of its kind: 0 when it was
 * allocated, and memory for ever.  NULL: unknown, or allocated by the worker. */
#define STUB_HANDLE_NOTES 2u
_Atomic uint64_t *stub_handle_notes(uint32_t kind, uint64_t handle);

/* The object behind @handle is of the context with this index, whichever was current
 * when the handle was allocated. */
void stub_handle_set_ctx(uint32_t kind, uint64_t handle, uint32_t ctx_index);

/* Delete the handles of @kind that were allocated in the context of that index. */
void stub_handle_del_of_ctx(uint32_t kind, uint32_t ctx_index);

/* Has any handle of @kind ever been allocated? */
bool stub_handle_any(uint32_t kind);

/* What the stub remembers about a live handle; NULL for unknown handles too. */
void *stub_handle_data(uint32_t kind, uint64_t handle);

/* Remember @data for a live handle; it is not freed by the table. */
void stub_handle_set_data(uint32_t kind, uint64_t handle, void *data);

/* Have @drop called with the data of every handle of @kind that is deleted (data NULL:
 * not called).  Set once, before the first such handle. */
void stub_handle_on_del(uint32_t kind, void (*drop)(void *data));

/* Call @fn for every live handle of @kind, without a lock: handles that are
 * allocated or deleted meanwhile may or may not be seen. */
void stub_handle_each(uint32_t kind,
                      void (*fn)(uint64_t handle, void *data, void *user), void *user);

#endif
