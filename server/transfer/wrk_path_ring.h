/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring: the driver reads payloads from, and writes them to, the rings of shared memory
 * that client and worker both map, so no copy into a staging buffer is made.  The rings
 * are registered with the driver.
 *
 * A chunk occupies its part of the ring until the GPU has copied it, so this is for
 * copies that nothing can delay: the stream was idle when the payload came, or is the
 * worker's own.  Two chunks at a time, so that the client fills (or empties) one while
 * the GPU copies the other.  The path's functions are in wrk_path.h.
 */
#ifndef WRK_PATH_RING_H
#define WRK_PATH_RING_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stddef.h>

/* Up, the receive thread waits for the GPU's copies out of the ring: for less, one more
 * copy into a staging buffer is cheaper.  Down it waits for them in any case. */
#define WRK_RING_UP_MIN (256u * 1024)
#define WRK_RING_DOWN_MIN (16u * 1024)
/* A quarter of a ring: the client has the other half while two are the card's. */
#define WRK_RING_CHUNK (128u * 1024)

struct wrk;
struct wrk_ring;
struct xport_conn;

/* For the connection, which stays. */
int wrk_ring_new(struct xport_conn *conn, struct wrk_ring **ret);
void wrk_ring_free(struct wrk_ring *ring); /* NULL is a no-op */

/* Whether the connection has rings that are mapped, and the driver has registered
 * them; they are registered at the first call.  A context is current. */
bool wrk_ring_ready(struct wrk *w);

/* A context is gone, and with it what was registered in it. */
void wrk_ring_forget(struct wrk_ring *ring);

#endif
