/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_transport.h"

#include "wrk_priv.h"
#include "wrk_segment.h"
#include "wrk_state.h"
#include "xport.h"

#include <stdatomic.h>

void
wrk_transport_note(struct wrk *w, const struct xport_conn *conn)
{
    static const enum wrk_transport transports[] = {
        [XPORT_KIND_TCP] = WRK_TRANSPORT_TCP,
        [XPORT_KIND_SHM] = WRK_TRANSPORT_SHM,
        [XPORT_KIND_RDMA] = WRK_TRANSPORT_RDMA,
    };

    atomic_store(&w->priv->usage->transport, transports[xport_link_kind(conn)]);
}
