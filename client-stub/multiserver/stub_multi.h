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

/* A copy between contexts that the program has named. */
struct stub_peer_copy {
    struct stub_ctx *dst_ctx, *src_ctx; /* NULL: the handle is of no context */
    const void *what;
    /* The driver's two forms: behind all work of the contexts, or of one stream. */
    CUresult (*now)(const void *what);
    CUresult (*in_stream)(const void *what, CUstream stream);
    bool waits; /* now() waits for the card, as copies of host memory do */
};

/* The context that device memory at @addr belongs to; NULL: it is no such memory. */
struct stub_ctx *stub_multi_owner(CUdeviceptr addr);

/* Make @move in the order of @stream, or after all that the default streams of both
 * sides hold, before this returns. */
CUresult stub_multi_copy_async(const struct stub_move *move, CUstream stream,
                               bool per_thread);
CUresult stub_multi_copy_now(const struct stub_move *move);

/* A stream of another server than @link; -1: of none.  Waits for its work then, so that
 * a copy there comes behind it. */
bool stub_multi_wait_elsewhere(CUresult *ret, int link, CUstream stream,
                               bool per_thread);

/* Are both contexts known, and of two servers? */
bool stub_multi_peers_apart(const struct stub_peer_copy *copy);
/* All work of both contexts, and of the current one, is done. */
CUresult stub_multi_peers_wait(const struct stub_peer_copy *copy);
/* The copy without a stream, if both contexts are at one server.  False: some context
 * is not known, or this is the call that @copy->now makes there. */
bool stub_multi_peers_here(CUresult *ret, const struct stub_peer_copy *copy);

#endif
