/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The raw transport that ratios are taken against: two processes and either one TCP
 * connection or two rings in shared memory, nothing else, set as well as a plain
 * program can set them (raw_setting.h).
 *
 * The peer is a child process that inherits the pinning; each link has a thread of the
 * peer's and a setting of its own, and one of them is in use at a time.  It checks no
 * data; it is the limit, not a program.  One thread.
 */
#ifndef RAW_LINK_H
#define RAW_LINK_H

#include "raw_ring.h"
#include "raw_setting.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct raw_place {
    int shm;           /* rings; otherwise TCP */
    int core;          /* where the peer runs; -1: where this process is */
    const char *netns; /* of the peer's socket, a path; NULL: this one */
    const char *host;  /* that it listens on; NULL: 127.0.0.1 */
};

struct raw_peer {
    pid_t pid;
    int control; /* a socket over which rings are handed to the peer */
    int shm;
    struct sockaddr_in address;
    char *shared; /* memory that both ends map, of bulk_max bytes */
    size_t bulk_max;
};

struct raw_link {
    int fd; /* TCP, or -1 */
    uint32_t wait;
    int resting; /* the peer sleeps until the next request */
    size_t piece;
    struct raw_ring out, in; /* shared memory */
    struct raw_ring_shared *rings[2];
    size_t mapped;
    int events[4];
};

/* Bytes of a request, and of an answer without payload: more than the product's calls
 * take, and in shared memory a cache line together with what publishes them. */
#define RAW_ANSWER RAW_RING_LINE

/* Before CUDA is there, so that the peer inherits nothing of it. */
void raw_peer_start(struct raw_peer *peer, const struct raw_place *place,
                    size_t bulk_max);
/* Ends with this process in any case. */
void raw_peer_stop(struct raw_peer *peer);
/* Processor time of all of the peer's threads, ns. */
uint64_t raw_peer_cpu_ns(const struct raw_peer *peer);

void raw_link_open(struct raw_link *link, const struct raw_peer *peer,
                   const struct raw_setting *setting);
void raw_link_close(struct raw_link *link);

/* A peer that polls leaves its core to others until the next request.  Others are left
 * alone: they sleep. */
void raw_link_rest(struct raw_link *link);

/* One round trip of RAW_ANSWER bytes each way. */
void raw_link_ping(struct raw_link *link);

/* One round trip that carries @up bytes there, which the peer has received and copied
 * to its card when it answers, and @down bytes back, which come from there: the card of
 * the null driver is memory, and no server could do without that copy.  At most the
 * bulk_max of the peer each. */
void raw_link_move(struct raw_link *link, const void *data, size_t up, void *back,
                   size_t down);

/* The same where the peer copies out of and into peer->shared: one copy. */
void raw_link_move_shared(struct raw_link *link, size_t up, size_t down);

#endif
