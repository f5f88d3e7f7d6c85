/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that a driver may wait in although their contract does not ask for it.
 *
 * Copies between two places on the card and fills of its memory return before they
 * are done, by their contract; a driver may still wait when there is work before
 * them, and the reader must not.  Their forms in a stream, put into the default
 * stream, mean the same and never wait.
 */
#ifndef WRK_ASYNC_H
#define WRK_ASYNC_H

struct drv;

/* Replace them in @drv, once, before the first frame. */
void wrk_async_prefer(struct drv *drv);

#endif
