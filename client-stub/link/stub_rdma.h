/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server offers over RDMA, and the way back to it.
 *
 * An attachment that has lost its link over RDMA goes on over TCP (stub_resume.h) and
 * looks for a way back: with each link that is replaced anyway, and in a thread of its
 * own that asks from time to time whether a port of the server's answers.  Only then is
 * the link over TCP replaced, because the connection stands still meanwhile.  After
 * each attempt the next one is STUB_RDMA_PAUSE_MIN_S later, and then twice as late each
 * time, up to STUB_RDMA_PAUSE_MAX_S, until RDMA has held for that long: a way that
 * carries handshakes but no data costs little.
 *
 * Owned by the connection's struct resume; any thread.
 */
#ifndef STUB_RDMA_H
#define STUB_RDMA_H

#include "gp_lock.h"
#include "xport_resume.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STUB_RDMA_PAUSE_MIN_S 1
#define STUB_RDMA_PAUSE_MAX_S 60

struct Gpupool__AttachReply;
struct Gpupool__AttachTransport;
struct gp_err;
struct gp_wire;

/* The offer of that transport in @reply; NULL: there is none. */
const struct Gpupool__AttachTransport *
stub_rdma_offer(const struct Gpupool__AttachReply *reply, const char *name);

/* The ports of an offer, and its cookie if it has one (else zeros); how many. */
size_t stub_rdma_ports(const struct Gpupool__AttachTransport *offer,
                       struct xport_rdma_port ports[XPORT_RDMA_PORTS_MAX],
                       uint8_t cookie[XPORT_RDMA_COOKIE]);

/* Say what this end goes on with, and why not RDMA. */
int stub_rdma_choose(struct gp_wire *wire, int fd, const char *transport,
                     const char *why, uint64_t deadline, struct gp_err *err);

struct stub_rdma {
    const char *address;     /* of the server, for the log */
    struct xport_conn *conn; /* NULL: it did not begin over RDMA */
    atomic_bool on;          /* the link in use is RDMA */
    struct gp_lock lock;     /* of what follows */
    struct xport_rdma_port ports[XPORT_RDMA_PORTS_MAX];
    size_t n_ports;
    uint64_t since;    /* when the link in use began, if it is RDMA */
    uint64_t after_ns; /* no attempt before that */
    uint64_t pause_ns; /* from the next attempt to the one behind it */
    bool watching;     /* the thread lives */
};

/* @conn began over RDMA, at the ports that @reply offers. */
void stub_rdma_began(struct stub_rdma *rdma, struct xport_conn *conn,
                     const char *address, const struct Gpupool__AttachReply *reply);

/* Is it time to ask for RDMA with a link that is replaced anyway? */
bool stub_rdma_is_wanted(struct stub_rdma *rdma);

/* Behind @reply to a request that wanted it: true when the link is RDMA; else it is TCP
 * when *ret_error is 0. */
bool stub_rdma_take(struct stub_rdma *rdma, const struct Gpupool__AttachReply *reply,
                    const uint8_t *key, uint32_t link, int fd, struct gp_wire *wire,
                    int *ret_error);

/* Another link is in use; @tls: its TCP connection is TLS. */
void stub_rdma_replaced(struct stub_rdma *rdma, bool tls);

#endif
