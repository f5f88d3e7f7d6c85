/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_link.h"

#include "gp_err.h"
#include "gp_log.h"
#include "gp_net.h"
#include "gp_str.h"
#include "gp_time.h"
#include "gp_wire.h"
#include "wire_format.h"
#include "wrk_conf.h"
#include "wrk_priv.h"
#include "wrk_resume.h"
#include "wrk_state.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

/* The client decides when to give up; then it sends a refusal or disconnects. */
#define RDMA_NS (60 * GP_NS_PER_S)

/* The port that the client reached already comes first: that way is known to exist. */
static void
put_first(struct xport_rdma_port *ports, size_t n, int fd)
{
    char name[GP_NET_NAME_MAX];
    struct gp_net_addr addr;

    if (gp_net_parse(gp_net_own_name(fd, name, sizeof(name)), 0, &addr, NULL) < 0)
        return;
    for (size_t i = 1; i < n; i++) {
        struct xport_rdma_port port = ports[i];

        if (strcmp(port.host, addr.host) != 0)
            continue;
        memmove(&ports[1], &ports[0], i * sizeof(port));
        ports[0] = port;
        return;
    }
}

static int
listen_rdma(struct wrk_link *link, const struct wrk_conf *conf, int fd,
            struct gp_err *err)
{
    struct xport_rdma_port *ports = link->ports;
    bool all = strcmp(conf->rdma_at, "auto") == 0;
    size_t n = all ? xport_rdma_ports(ports, err)
                   : xport_rdma_parse_ports(conf->rdma_at, ports);

    link->n_ports = n;
    if (!n)
        return err->code ? err->code
                         : gp_err_set(err, -EINVAL, "--rdma names no address");
    if (all)
        put_first(ports, n, fd);
    static_assert(sizeof(link->cookie) == sizeof(conf->rdma_cookie),
                  "one is the other");
    if (conf->proven)
        memcpy(link->cookie, conf->rdma_cookie, sizeof(link->cookie));
    else if (getrandom(link->cookie, sizeof(link->cookie), 0) != sizeof(link->cookie))
        return gp_err_set(err, -EIO, "no random bytes for the cookie");
    return wrk_rdma_listen(ports, n, conf->proven ? NULL : link->cookie, &link->rdma,
                           err);
}

void
wrk_link_prepare(struct wrk_link *link, const struct wrk_conf *conf, int fd)
{
    struct gp_err err = {0};
    int r;

    xport_tcp_start();
    link->payloads = gp_min(conf->payloads, 1u + XPORT_PACK_ALWAYS);
    if (link->payloads > 1 + XPORT_PACK_NEVER && !xport_pack_usable())
        link->payloads = 1 + XPORT_PACK_NEVER;
    link->rereads = conf->rereads;
    if (conf->shm) {
        link->offer = "shm";
        link->wakefds = conf->wakefds;
        link->parameters = (const uint8_t *)"bells";
        link->parameters_len = link->wakefds ? strlen("bells") : 0;
    } else if (conf->rdma) {
        r = listen_rdma(link, conf, fd, &err);
        if (r == 0) {
            link->offer = "rdma";
            link->parameters = link->rdma.parameters;
            link->parameters_len = link->rdma.parameters_len;
        } else {
            gp_str_copy(link->refusal, sizeof(link->refusal), gp_err_msg(&err, r));
        }
    }
}

static int
open_tcp(struct wrk_link *link, struct wrk *w, int fd, struct xport_conn **ret,
         struct gp_err *err)
{
    int r;

    r = w->priv->conf.resume_s ? wrk_resume_open(w, fd, ret, err)
                               : xport_tcp_new(fd, WIRE_FRAME_MAX, ret, err);
    if (r == 0 && link->wire)
        r = xport_wire_start(*ret, TAKE_PTR(link->wire), err);
    return r;
}

static int
open_rdma(struct wrk_link *link, struct wrk *w, int fd, struct xport_conn **ret,
          struct gp_err *err)
{
    struct gp_err why = {0};
    char words[256] = "";
    bool rdma = false;
    int r = wrk_rdma_choice(link->wire, fd, &rdma, words, err);

    if (r == 0 && rdma) {
        r = xport_rdma_accept(link->rdma.listener, fd, link->cookie, WIRE_FRAME_MAX,
                              gp_now_ns() + RDMA_NS, ret, &why);
        if (r == 0)
            return w->priv->conf.resume_s && w->priv->conf.resume_rdma
                       ? wrk_resume_open_rdma(w, *ret, link->ports, link->n_ports, ret,
                                              err)
                       : 0;
        r = wrk_rdma_choice(link->wire, fd, &rdma, words, err);
        gp_log_info("worker", "no RDMA: %s; the client says: %s", why.msg, words);
    }
    if (r == 0 && rdma)
        r = gp_err_set(err, -EPROTO, "the client insists on RDMA");
    return r < 0 ? r : open_tcp(link, w, fd, ret, err);
}

static int
open_conn(struct wrk_link *link, struct wrk *w, int fd, struct xport_conn **ret,
          struct gp_err *err)
{
    if (!link->offer)
        return open_tcp(link, w, fd, ret, err);
    if (link->rdma.listener)
        return open_rdma(link, w, fd, ret, err);
    return xport_shm_offer(fd, link->wakefds, WIRE_FRAME_MAX, ret, err);
}

int
wrk_link_open(struct wrk_link *link, struct wrk *w, int fd, struct xport_conn **ret,
              struct gp_err *err)
{
    int r = open_conn(link, w, fd, ret, err);

    if (r < 0 || link->payloads == 0 || !xport_can(*ret, XPORT_CAN_BLOCKS))
        return r;
    r = xport_blocks_start(*ret, (enum xport_pack)(link->payloads - 1), err);
    if (r == 0 && link->rereads)
        xport_blocks_peer_rereads(*ret);
    return r;
}

void
wrk_link_fini(struct wrk_link *link)
{
    wrk_rdma_offer_fini(&link->rdma);
    gp_wire_free(TAKE_PTR(link->wire));
}
