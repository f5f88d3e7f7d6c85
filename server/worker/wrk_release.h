/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Letting go of what the card may still use.
 *
 * Drivers wait for the context before they unload a module or destroy an array, and
 * what they wait for may wait for a frame that the reader has not read.  So while the
 * context is busy a waiter thread does it, and the call's result, if it is not waited
 * for, comes out with a later one.  Reader thread only; the driver may be called from
 * either.
 */
#ifndef WRK_RELEASE_H
#define WRK_RELEASE_H

#include "cuda_abi.h"

#include <stdint.h>

struct wrk;
struct wrk_reply;

/* Call @fn for @obj, now or soon; if it succeeds, the bytes that the quota has noted
 * for @key are given back (0: none).  @obj's handle is the caller's to forget. */
CUresult wrk_release(struct wrk *w, struct wrk_reply *rep,
                     CUresult (*fn)(struct wrk *w, void *obj), void *obj, uint64_t key);

#endif
