/* SPDX-License-Identifier: Apache-2.0 */
/* What the client's connection goes over, for `gpupool status`.  Any thread. */
#ifndef WRK_TRANSPORT_H
#define WRK_TRANSPORT_H

struct wrk;
struct xport_conn;

/* @conn has another link. */
void wrk_transport_note(struct wrk *w, const struct xport_conn *conn);

#endif
