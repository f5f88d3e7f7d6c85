/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections between the servers of one session, for copies between their GPUs.
 *
 * A worker may open none; the supervisor does it, to addresses in the session's ticket
 * only, and presents the cookie that the client got from the other worker.  Connecting
 * takes a thread of its own, because the event loop does not wait.
 */
#ifndef SRV_PEER_H
#define SRV_PEER_H

struct srv_worker;
struct wrk_request;

/* Reply to @ask of @w, later: with a descriptor when the other side accepted.  -errno:
 * it is not a request that a worker makes. */
int srv_peer_dial(struct srv_worker *w, const struct wrk_request *ask);

#endif
