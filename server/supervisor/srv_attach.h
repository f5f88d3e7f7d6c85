/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection that has not become an attachment yet.
 *
 * One message is read, under a deadline and a cap: the AttachRequest.  If its ticket is
 * valid, a second one has to prove that it was made for this client (attach_proof.h).
 * Then the socket is handed to a new worker, which replies; all other connections are
 * refused here with a reason.  Unauthenticated peers reach no code beyond this file.
 * Owned by srv->pending, event-loop thread only.
 */
#ifndef SRV_ATTACH_H
#define SRV_ATTACH_H

#include "gp_base.h"

struct srv;
struct srv_attach;

/* Largest AttachRequest. */
#define SRV_REQUEST_MAX (64u * 1024)

/* Take over the accepted socket @fd; @local: a Unix socket, so the client is on this
 * host. */
void srv_attach_accept(struct srv *srv, int fd, bool local);
void srv_attach_free_all(struct srv *srv);

#endif
