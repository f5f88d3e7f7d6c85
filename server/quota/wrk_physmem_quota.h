/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The book of physical memory without an address (cuMemCreate): who still holds what.
 *
 * The driver keeps such memory for as long as it has a reference or a mapping, in
 * whatever order the client lets go of them; the session pays for exactly that long.
 * So the references and mappings of each piece are counted here, beside the driver.
 * A piece belongs to no context.  Any thread.
 */
#ifndef WRK_PHYSMEM_QUOTA_H
#define WRK_PHYSMEM_QUOTA_H

#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;

/* Pieces, references, and mappings, that a client may have.  An allocator that grows in
 * steps of 2 MiB fills an 80 GiB card with 40,960. */
#define WRK_PIECES_MAX 65536u

/* Each that returns a bool has entered nothing when it is false: there are too many. */

/* The driver gave @handle for new memory; the bytes have been taken from the quota. */
bool wrk_physmem_add(uint64_t handle, uint64_t bytes, uint32_t slice);

/* The driver gave @handle for what is mapped at @addr. */
bool wrk_physmem_retain(uint64_t addr, uint64_t handle);

/* The driver has released @handle once. */
void wrk_physmem_release(struct wrk *w, uint64_t handle);

/*
 * Pieces that other processes of the session may have as well (wrk_export.h): the
 * descriptor that the client got for one holds it like a reference, until the client
 * says that it has been closed everywhere.
 */
struct wrk_export;

/* @fd is the driver's descriptor for @handle and stays the caller's; *ret is what the
 * client gets.  -EDQUOT and others of wrk_export_offer(). */
int wrk_physmem_export(struct wrk *w, uint64_t handle, int fd, struct wrk_export *ret);
/* A descriptor that the client got is closed; false: it was not for memory. */
bool wrk_physmem_closed(struct wrk *w, const struct wrk_export *share);
/* The driver gave @handle for @share, which has been fetched. */
bool wrk_physmem_import(uint64_t handle, const struct wrk_export *share);

/* The driver has mapped @handle, and has taken whole mappings away. */
bool wrk_physmem_map(uint64_t at, uint64_t len, uint64_t handle);
void wrk_physmem_unmap(struct wrk *w, uint64_t at, uint64_t len);

#endif
