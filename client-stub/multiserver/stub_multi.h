/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What calls between two servers of a session share: stub_multi.c and
 * stub_multi_rect.c.
 *
 * Nothing of it is used where the session has one server.  Any thread.
 */
#ifndef STUB_MULTI_H
#define STUB_MULTI_H

#include "cuda_abi.h"

#include <stdbool.h>

struct stub_ctx;
struct stub_move;

/* The context that device memory at @addr belongs to; NULL: it is no such memory. */
struct stub_ctx *stub_multi_owner(CUdeviceptr addr);

/* Make @move in the order of @stream, or after all that the default streams of both
 * sides hold, before this returns. */
CUresult stub_multi_copy_async(const struct stub_move *move, CUstream stream,
                               bool per_thread);
CUresult stub_multi_copy_now(const struct stub_move *move);

#endif
