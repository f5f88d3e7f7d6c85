/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which multiprocessors work runs on when the current context was made from a green
 * one (sg_green.c).  Lock held.
 */
#ifndef SG_GREEN_H
#define SG_GREEN_H

#include <stdint.h>

struct sg_stream;

/* Where work put into @stream now runs. */
void sg_green_part(const struct sg_stream *stream, unsigned *ret_first,
                   unsigned *ret_n);

/* Handle of the green context that @stream belongs to: of default streams, the one that
 * the current context was made from; or 0. */
uint64_t sg_green_of(const struct sg_stream *stream);

/* A stream made just now belongs to the current context's part. */
void sg_green_confine(struct sg_stream *stream);

/* That primary context ends: so do its other handles. */
void sg_green_ctx_gone(uint64_t ctx);

#endif
