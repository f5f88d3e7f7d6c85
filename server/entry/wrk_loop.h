/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receive loop: takes frames in order until the client is gone.
 */
#ifndef WRK_LOOP_H
#define WRK_LOOP_H

struct wrk;

/* Returns 0 when the client went away, -EPROTO after a bad frame, -ECANCELED when
 * the attachment was ended from outside. */
int wrk_loop_run(struct wrk *w);

#endif
