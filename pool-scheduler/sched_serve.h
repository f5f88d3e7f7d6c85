/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves the connections to the scheduler: accepts them, decodes requests, applies
 * caps, calls the handler, and lets go.  It decides nothing.
 *
 * A peer that breaks the protocol (bytes that are no message, a request without an
 * id, an unknown request) is disconnected; a refusal keeps the connection.  Event loop
 * thread only.
 */
#ifndef SCHED_SERVE_H
#define SCHED_SERVE_H

#include "sched_types.h"

/* A new connection; takes @fd.  It may have to wait for its turn (sched_door.h). */
void sched_serve_accept(struct sched *sched, int fd);
/* Its turn has come. */
void sched_serve_begin(struct sched *sched, int fd, uint64_t from);
void sched_serve_end(struct sched_conn *conn);

/* Answer a read whose turn it is (sched_reads.h); @conn may be gone afterwards. */
void sched_serve_read(struct sched_conn *conn, const Gpupool__Ctl__CtlRequest *req);

/* Disconnect the peers that have not read their answers for too long. */
void sched_serve_sweep_unread(struct sched *sched, uint64_t now);

#endif
