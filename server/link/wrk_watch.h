/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watch over the receive thread and the client: a thread that sees whether the
 * receive thread makes progress and whether the client is alive, and that waits for
 * SIGTERM, by which the supervisor ends the attachment.
 *
 * While there is work it checks every WATCH_BUSY_MS.  When the receive thread only
 * waits for the next frame and nothing that was sent is unacknowledged, it sleeps
 * without a timer, so that an idle attachment costs no processor time; then it is woken
 * by whoever receives or sends a frame (wrk_wake.h).  A hang-up of shared memory's
 * socket, and a link that replaces the client's, wake it at any time.
 */
#ifndef WRK_WATCH_H
#define WRK_WATCH_H

struct wrk;

/* Before the sandbox's filter; every thread blocks SIGTERM. */
int wrk_watch_init(void);

/* Returns when SIGTERM has come. */
void wrk_watch_run(struct wrk *w);

#endif
