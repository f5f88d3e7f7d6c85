/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reading loop: frames in, in order, until the client is gone.
 */
#ifndef WRK_LOOP_H
#define WRK_LOOP_H

#include <stdint.h>

struct wire_req;
struct wrk;

/* Returns 0 when the client went away, -EPROTO after a bad frame, -ECANCELED when
 * the attachment was ended from outside. */
int wrk_loop_run(struct wrk *w);

/* The frame behind @req, whose call is being executed and has no payload: if it is
 * here, of @size bytes too, with the same header, and next in order.  NULL: the loop
 * will see to it.  wrk_loop_take(): the caller executes it. */
const struct wire_req *wrk_loop_ahead(struct wrk *w, const struct wire_req *req,
                                      uint32_t size);
void wrk_loop_take(struct wrk *w, uint32_t size);

#endif
