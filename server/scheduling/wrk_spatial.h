/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multiprocessors of a session's own: its contexts are made from green contexts.
 *
 * The driver divides each GPU into partitions, the same ones in every worker; the
 * arbiter says which are the session's when the worker joins it (gov_card.h).  From
 * then on every context that the client creates is one of a green context on these
 * partitions.  Such contexts share the memory of the device's primary one, so the
 * objects that a client made in one are destroyed one by one when it ends.
 *
 * NULL for sessions that share in time, and for those that the driver's multi-process
 * service confines (set in the environment by srv_spawn.c).  Receive thread.
 */
#ifndef WRK_SPATIAL_H
#define WRK_SPATIAL_H

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct gp_err;
struct wrk;
struct wrk_spatial;

/* -ENOTSUP: the driver cannot do it; words say what is missing. */
int wrk_spatial_new(struct wrk *w, struct wrk_spatial **ret, struct gp_err *err);

/* Into how many pieces the card of slice @i is cut; 0 when @sp is NULL. */
uint32_t wrk_spatial_units(const struct wrk_spatial *sp, uint32_t i);

/* The pieces of slice @i that are the session's: from now on the card shows so many
 * multiprocessors. */
int wrk_spatial_confine(struct wrk *w, uint32_t i, uint64_t units, struct gp_err *err);

/* A context on the session's part of @dev, beside the primary one. */
CUresult wrk_spatial_create(struct wrk *w, CUdevice dev, CUcontext *ret);

/* End that context with all that was made in it, known as context @index. */
CUresult wrk_spatial_destroy(struct wrk *w, CUcontext ctx, uint32_t index);

/* The client's primary context: made when it is retained first, and ended when it is
 * released as often, or with @all at once. */
CUresult wrk_spatial_retain(struct wrk *w, CUdevice dev, CUcontext *ret);
CUresult wrk_spatial_release(struct wrk *w, CUdevice dev, bool all, bool *ret_gone);

/* The client's context where the driver names the primary one. */
CUcontext wrk_spatial_named(struct wrk *w, CUcontext ctx);

#endif
