/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection that has not become an attachment yet.
 *
 * One message is read, under a deadline and a cap: the AttachRequest.  If its ticket is
 * valid, a second one has to prove that it was made for this client (attach_proof.h).
 * Over TCP all of it goes inside TLS, if the client speaks that (tls_door.h): the
 * handshake is made here, and the worker gets the keys with the socket.
 * Then the socket is handed to a new worker, which replies; all other connections are
 * refused here with a reason.  Unauthenticated peers reach no code beyond this file.
 *
 * So many workers start at a time as the processors can start without getting in each
 * other's way (SRV_STARTING_PER_CORE); further clients wait for that in a queue, in
 * order.  With all of 500 started at once the last ones would be given up by their
 * clients, and the supervisor would get one part in 500 of a processor.
 * Owned by srv->pending or srv->queued, event-loop thread only.
 */
#ifndef SRV_ATTACH_H
#define SRV_ATTACH_H

#include "gp_base.h"

#include <stddef.h>
#include <stdint.h>

struct srv;
struct srv_attach;

/* Largest AttachRequest. */
#define SRV_REQUEST_MAX (64u * 1024)

/* Take over the accepted socket @fd; @local: a Unix socket, so the client is on this
 * host. */
void srv_attach_accept(struct srv *srv, int fd, bool local);

/* The key of a client that shows @identity in a TLS hello; for tls_context_psk(), with
 * the server as @arg. */
int srv_attach_find_psk(void *arg, const void *identity, size_t size, uint8_t *ret_key);
void srv_attach_free_all(struct srv *srv);

#endif
