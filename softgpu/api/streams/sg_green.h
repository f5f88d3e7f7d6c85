/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which multiprocessors work runs on when the current context was made from a green
 * one (sg_green.c).  Lock held.
 */
#ifndef SG_GREEN_H
#define SG_GREEN_H

#include "sg_sm_set.h"

#include <stdint.h>

struct sg_stream;

/* Where work put into @stream now runs. */
struct sg_sm_set sg_green_part(const struct sg_stream *stream);

/* Handle of the green context that @stream belongs to: of default streams, the one that
 * the current context was made from; or 0, also when it has ended. */
uint64_t sg_green_of(const struct sg_stream *stream);

/* Handle of the context that @stream belongs to: the one made from its green context,
 * or the stream's own.  0: out of memory. */
uint64_t sg_green_ctx_of(const struct sg_stream *stream);

/* The number (cuCtxGetId) of a context that was made from a green one; 0: it was not.
 */
uint64_t sg_green_ctx_id(uint64_t ctx);

/* A stream made just now belongs to the current context's part. */
void sg_green_confine(struct sg_stream *stream);

/* That primary context ends: so do its other handles. */
void sg_green_ctx_gone(uint64_t ctx);

#endif
