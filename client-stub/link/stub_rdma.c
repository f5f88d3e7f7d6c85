/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_rdma.h"

#include "attach.pb-c.h"
#include "attach_proof.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_msg.h"
#include "gp_str.h"
#include "gp_time.h"
#include "stub_thread.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define PAUSE_MIN_NS (STUB_RDMA_PAUSE_MIN_S * GP_NS_PER_S)
#define PAUSE_MAX_NS (STUB_RDMA_PAUSE_MAX_S * GP_NS_PER_S)
/* How long the connection may stand still for an attempt: a port that answers does so
 * in milliseconds. */
#define CONNECT_NS GP_NS_PER_S
/* How long the thread waits for an answer, while the connection goes on. */
#define PROBE_NS (1500 * GP_NS_PER_MS)
/* How long it waits for a moment when nothing is under way. */
#define QUIET_NS GP_NS_PER_S
/* How often it looks whether it is still wanted. */
#define LOOK_NS (200 * GP_NS_PER_MS)
#define CHOICE_NS (5 * GP_NS_PER_S)

/* ---- offers --------------------------------------------------------------------- */

const Gpupool__AttachTransport *
stub_rdma_offer(const Gpupool__AttachReply *reply, const char *name)
{
    for (size_t i = 0; i < reply->n_transports; i++)
        if (strcmp(reply->transports[i]->name, name) == 0)
            return reply->transports[i];
    return NULL;
}

size_t
stub_rdma_ports(const Gpupool__AttachTransport *offer,
                struct xport_rdma_port ports[XPORT_RDMA_PORTS_MAX],
                uint8_t cookie[XPORT_RDMA_COOKIE])
{
    Gpupool__AttachRdma *rdma = gpupool__attach_rdma__unpack(
        NULL, offer->parameters.len, offer->parameters.data);
    size_t n = 0;

    memset(cookie, 0, XPORT_RDMA_COOKIE);
    if (!rdma)
        return 0;
    if (rdma->cookie.len == XPORT_RDMA_COOKIE)
        memcpy(cookie, rdma->cookie.data, XPORT_RDMA_COOKIE);
    for (; n < rdma->n_ports && n < XPORT_RDMA_PORTS_MAX; n++) {
        ports[n] = (struct xport_rdma_port){.port = rdma->ports[n]->port};
        gp_str_copy(ports[n].host, sizeof(ports[n].host), rdma->ports[n]->host);
    }
    gpupool__attach_rdma__free_unpacked(rdma, NULL);
    return n;
}

int
stub_rdma_choose(struct gp_wire *wire, int fd, const char *transport, const char *why,
                 uint64_t deadline, struct gp_err *err)
{
    Gpupool__AttachChoice msg = GPUPOOL__ATTACH_CHOICE__INIT;
    uint8_t bytes[640];

    msg.transport = (char *)(uintptr_t)transport;
    msg.why = (char *)(uintptr_t)why;
    if (gpupool__attach_choice__get_packed_size(&msg) > sizeof(bytes))
        msg.why = (char *)"";
    return gp_msg_send_over(wire, fd, bytes, gpupool__attach_choice__pack(&msg, bytes),
                            deadline, err);
}

/* ---- when ------------------------------------------------------------------------ */

void
stub_rdma_began(struct stub_rdma *rdma, struct xport_conn *conn, const char *address,
                const Gpupool__AttachReply *reply)
{
    const Gpupool__AttachTransport *offer = stub_rdma_offer(reply, "rdma");
    uint8_t cookie[XPORT_RDMA_COOKIE];

    rdma->address = address;
    rdma->n_ports = offer ? stub_rdma_ports(offer, rdma->ports, cookie) : 0;
    rdma->pause_ns = PAUSE_MIN_NS;
    rdma->since = gp_now_ns();
    atomic_store(&rdma->on, true);
    rdma->conn = conn;
}

/* Under the lock: an attempt has been made. */
static void
attempted(struct stub_rdma *rdma)
{
    rdma->after_ns = gp_now_ns() + rdma->pause_ns;
    rdma->pause_ns = gp_min(2 * rdma->pause_ns, (uint64_t)PAUSE_MAX_NS);
}

bool
stub_rdma_is_wanted(struct stub_rdma *rdma)
{
    uint64_t now = gp_now_ns();
    bool wanted;

    if (!rdma->conn)
        return false;
    gp_lock_take(&rdma->lock);
    if (atomic_load(&rdma->on) && now - rdma->since >= PAUSE_MAX_NS) {
        rdma->pause_ns = PAUSE_MIN_NS;
        rdma->after_ns = 0;
    }
    wanted = rdma->n_ports && now >= rdma->after_ns;
    gp_lock_release(&rdma->lock);
    return wanted;
}

/* ---- with a new link --------------------------------------------------------------
 */

/* Tell the worker, connect, and tell it if that fails.  True: the link is RDMA. */
static bool
take_offer(struct stub_rdma *rdma, const Gpupool__AttachTransport *offer,
           const uint8_t *key, uint32_t link, int fd, struct gp_wire *wire,
           int *ret_error)
{
    struct xport_rdma_port ports[XPORT_RDMA_PORTS_MAX];
    uint8_t none[XPORT_RDMA_COOKIE], cookie[ATTACH_COOKIE_SIZE];
    uint64_t deadline = gp_now_ns() + CHOICE_NS;
    size_t n = stub_rdma_ports(offer, ports, none);
    struct gp_err err = {0};
    int r;

    attach_cookie_make(key, ATTACH_COOKIE_RDMA, link, cookie);
    *ret_error = stub_rdma_choose(wire, fd, "rdma", "", deadline, NULL);
    if (*ret_error < 0)
        return false;
    r = xport_resume_rdma_connect(rdma->conn, fd, ports, n, cookie,
                                  gp_now_ns() + CONNECT_NS, &err);
    if (r >= 0)
        return true;
    gp_log_info("stub", "not back to RDMA: %s", gp_err_msg(&err, r));
    *ret_error = stub_rdma_choose(wire, fd, "tcp", gp_err_msg(&err, r), deadline, NULL);
    return false;
}

bool
stub_rdma_take(struct stub_rdma *rdma, const Gpupool__AttachReply *reply,
               const uint8_t *key, uint32_t link, int fd, struct gp_wire *wire,
               int *ret_error)
{
    const Gpupool__AttachTransport *offer = stub_rdma_offer(reply, "rdma");
    bool taken;

    *ret_error = 0;
    if (!offer && !reply->n_refusals) { /* from before servers could */
        rdma->n_ports = 0;
        return false;
    }
    if (!offer)
        gp_log_info("stub", "not back to RDMA: %s", reply->refusals[0]);
    taken = offer && take_offer(rdma, offer, key, link, fd, wire, ret_error);
    gp_lock_take(&rdma->lock);
    attempted(rdma);
    if (taken)
        rdma->since = gp_now_ns();
    gp_lock_release(&rdma->lock);
    return taken;
}

/* ---- the thread --------------------------------------------------------------------
 */

/* Until an attempt is due.  False: none will be. */
static bool
watch_wait(struct stub_rdma *rdma)
{
    for (;;) {
        uint64_t now = gp_now_ns(), until;
        bool wanted;

        gp_lock_take(&rdma->lock);
        wanted =
            rdma->n_ports && xport_error(rdma->conn) == 0 && !atomic_load(&rdma->on);
        rdma->watching = wanted;
        until = rdma->after_ns;
        gp_lock_release(&rdma->lock);
        if (!wanted || now >= until)
            return wanted;
        gp_sleep_ns(gp_min(until - now, (uint64_t)LOOK_NS));
    }
}

static bool
watch_probe(struct stub_rdma *rdma)
{
    struct gp_err err = {0};
    int r = xport_rdma_probe(rdma->ports, rdma->n_ports, gp_now_ns() + PROBE_NS, &err);

    if (r >= 0)
        return true;
    gp_log_debug("stub", "no way back to RDMA yet: %s", gp_err_msg(&err, r));
    gp_lock_take(&rdma->lock);
    attempted(rdma);
    gp_lock_release(&rdma->lock);
    return false;
}

static void
watch_main(void *arg)
{
    struct stub_rdma *rdma = arg;

    while (watch_wait(rdma))
        if (watch_probe(rdma))
            xport_resume_move(rdma->conn, QUIET_NS);
}

void
stub_rdma_replaced(struct stub_rdma *rdma, bool tls)
{
    bool is, was;

    if (!rdma->conn)
        return;
    is = xport_link_kind(rdma->conn) == XPORT_KIND_RDMA;
    was = atomic_exchange(&rdma->on, is);
    if (is != was)
        gp_log_info("stub", "the link to %s %s; going on over %s%s", rdma->address,
                    was ? "was RDMA" : "can be RDMA again", is ? "RDMA" : "TCP",
                    !is && tls ? " with TLS" : "");
    gp_lock_take(&rdma->lock);
    if (!is && rdma->n_ports && !rdma->watching)
        rdma->watching = stub_thread_start("gpupool-rdma", watch_main, rdma) >= 0;
    gp_lock_release(&rdma->lock);
}
