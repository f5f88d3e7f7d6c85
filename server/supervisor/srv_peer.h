/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections between the servers of one session, for copies between their cards.
 *
 * A worker may open none; the supervisor does it, to addresses that stand in the
 * session's ticket and nowhere else, and shows the cookie that the client was given by
 * the other worker.  Connecting takes a thread of its own, because the event loop does
 * not wait.
 */
#ifndef SRV_PEER_H
#define SRV_PEER_H

struct srv_worker;
struct wrk_request;

/* Answer @ask of @w, later: with a descriptor when the other side took us.  -errno: the
 * question is none that a worker asks. */
int srv_peer_dial(struct srv_worker *w, const struct wrk_request *ask);

#endif
