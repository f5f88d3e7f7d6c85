/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_rdma.h"

#include "attach.pb-c.h"
#include "gp_err.h"
#include "gp_msg.h"
#include "gp_str.h"
#include "gp_time.h"
#include "gp_wire.h"

#include <errno.h>
#include <string.h>

#define CHOICE_MAX 1024
#define CHOICE_NS (5 * GP_NS_PER_S)

/* What the client needs to come to one of those ports that listen. */
static int
pack(const struct xport_rdma_port *ports, size_t n, const uint8_t *cookie,
     struct wrk_rdma_offer *offer, struct gp_err *err)
{
    Gpupool__AttachRdmaPort port[XPORT_RDMA_PORTS_MAX];
    Gpupool__AttachRdmaPort *pointers[XPORT_RDMA_PORTS_MAX];
    Gpupool__AttachRdma msg = GPUPOOL__ATTACH_RDMA__INIT;

    for (size_t i = 0; i < n; i++) {
        Gpupool__AttachRdmaPort *p = &port[msg.n_ports];

        if (!ports[i].port)
            continue;
        gpupool__attach_rdma_port__init(p);
        p->host = (char *)(uintptr_t)ports[i].host;
        p->port = ports[i].port;
        pointers[msg.n_ports++] = p;
    }
    msg.ports = pointers;
    msg.host = pointers[0]->host;
    msg.port = pointers[0]->port;
    msg.cookie.data = (uint8_t *)(uintptr_t)cookie;
    msg.cookie.len = cookie ? XPORT_RDMA_COOKIE : 0;
    if (gpupool__attach_rdma__get_packed_size(&msg) > sizeof(offer->parameters))
        return gp_err_set(err, -EMSGSIZE, "addresses too long");
    offer->parameters_len = gpupool__attach_rdma__pack(&msg, offer->parameters);
    return 0;
}

int
wrk_rdma_listen(struct xport_rdma_port *ports, size_t n, const uint8_t *cookie,
                struct wrk_rdma_offer *ret, struct gp_err *err)
{
    int r = xport_rdma_listen(ports, n, &ret->listener, err);

    if (r == 0)
        r = pack(ports, n, cookie, ret, err);
    if (r < 0)
        wrk_rdma_offer_fini(ret);
    return r;
}

void
wrk_rdma_offer_fini(struct wrk_rdma_offer *offer)
{
    xport_rdma_listener_free(TAKE_PTR(offer->listener));
}

int
wrk_rdma_choice(struct gp_wire *wire, int fd, bool *ret_rdma, char why[256],
                struct gp_err *err)
{
    CLEANUP_FREE void *bytes = NULL;
    Gpupool__AttachChoice *msg;
    size_t len;
    int r = gp_msg_recv_over(wire, fd, CHOICE_MAX, gp_now_ns() + CHOICE_NS, &bytes,
                             &len, err);

    if (r < 0)
        return r;
    msg = gpupool__attach_choice__unpack(NULL, len, bytes);
    if (!msg)
        return gp_err_set(err, -EPROTO, "no transport was chosen");
    *ret_rdma = strcmp(msg->transport, "rdma") == 0;
    gp_str_copy(why, 256, msg->why);
    gpupool__attach_choice__free_unpacked(msg, NULL);
    return 0;
}
