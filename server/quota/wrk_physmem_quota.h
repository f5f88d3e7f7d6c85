/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounting of physical memory without an address (cuMemCreate): its references and
 * mappings.
 *
 * The driver keeps such memory while it has a reference or a mapping, in whatever order
 * the client drops them, and the session is charged for exactly that time.  So the
 * references and mappings of each allocation are counted here as well.  An allocation
 * belongs to no context.  Any thread.
 */
#ifndef WRK_PHYSMEM_QUOTA_H
#define WRK_PHYSMEM_QUOTA_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct wrk;

/* Allocations, references and mappings of one client.  An allocator that grows in steps
 * of 2 MiB needs 40,960 for a GPU of 80 GiB. */
#define WRK_PIECES_MAX 65536u

/* Each that returns a bool has entered nothing when it is false: there are too many. */

/* The driver gave @handle for new memory; the bytes have been taken from the quota. */
bool wrk_physmem_add(uint64_t handle, uint64_t bytes, uint32_t slice);

/* Ask the driver for a handle of what is mapped at @addr. */
CUresult wrk_physmem_retain(struct wrk *w, void *addr,
                            CUmemGenericAllocationHandle *ret);

/* The driver has released @handle once. */
void wrk_physmem_release(struct wrk *w, uint64_t handle);

/*
 * Allocations that other processes of the session may hold too (wrk_export.h): the
 * descriptor that the client got for one counts as a reference until the client reports
 * that it has been closed everywhere.
 */
struct wrk_export;

/* @fd is the driver's descriptor for @handle and stays the caller's; *ret is what the
 * client gets.  -EDQUOT and others of wrk_export_offer(). */
int wrk_physmem_export(struct wrk *w, uint64_t handle, int fd, struct wrk_export *ret);
/* A descriptor that the client got is closed; false: it was not for memory. */
bool wrk_physmem_closed(struct wrk *w, const struct wrk_export *share);
/* The driver gave @handle for @share, which has been fetched. */
bool wrk_physmem_import(uint64_t handle, const struct wrk_export *share);

/* The driver has mapped @handle. */
bool wrk_physmem_map(uint64_t at, uint64_t len, uint64_t handle);
/* The driver is about to take whole mappings away, and has, or has refused: what the
 * first call returned.  Meanwhile another thread may map something else there. */
uint64_t wrk_physmem_unmap_begin(uint64_t at, uint64_t len);
void wrk_physmem_unmap_end(struct wrk *w, uint64_t begun, bool done);

#endif
