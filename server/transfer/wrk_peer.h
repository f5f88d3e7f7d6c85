/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections to the other workers of one client, one per direction, for copies between
 * GPUs of different servers.
 *
 * Made by the receive thread when the client first needs one, kept until the end, used
 * by waiter threads.  A connection that breaks stays broken; the client then carries
 * the bytes itself.  Both workers serve one client and trust each other as far as that
 * client does; lengths are checked all the same.
 */
#ifndef WRK_PEER_H
#define WRK_PEER_H

#include "gp_time.h"
#include "wrk_staging.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* A worker at the other end that is silent for so long in the middle of a transfer is
 * given up, and so is a header that nobody takes. */
#define WRK_PEER_SILENCE_NS (60 * GP_NS_PER_S)

/* In front of the bytes of each transfer. */
struct wrk_peer_head {
    uint64_t xfer;
    uint64_t len;   /* bytes that follow */
    int32_t result; /* a CUresult: why there are none */
    uint32_t zero;
};

static_assert(sizeof(struct wrk_peer_head) == 24, "wire layout");

struct gp_wire;
struct tls_keys;

struct wrk_peer {
    pthread_mutex_t lock; /* of a sender for a whole transfer; of receivers, briefly */
    pthread_cond_t changed;
    struct gp_wire *wire; /* TLS of the socket; NULL: clear text */
    int fd;               /* -1: none */
    bool reading;         /* a receiver waits for the next head */
    bool have_head;       /* and it is somebody's */
    bool taken;           /* who has come for it */
    struct wrk_peer_head head;
    uint64_t head_ns;           /* when it came */
    struct wrk_staging slot[2]; /* of the sender, or of the receiver whose head it is */
};

/* What we send over, receive from.  NULL: no such link. */
struct wrk_peer *wrk_peer_out(uint32_t link);
struct wrk_peer *wrk_peer_in(uint32_t link);

/* @fd is one from server @link, and ours, with the keys of its TLS. */
void wrk_peer_arrived(uint32_t link, int fd, const struct tls_keys *tls);

/* All of it.  -errno: the connection is broken. */
int wrk_peer_write(struct wrk_peer *peer, const void *data, size_t len);
int wrk_peer_read(struct wrk_peer *peer, void *data, size_t len);

/* Nobody uses it any more. */
void wrk_peer_break(struct wrk_peer *peer);

#endif
