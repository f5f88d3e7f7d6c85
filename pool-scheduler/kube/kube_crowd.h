/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of a server that anybody in the cluster reaches: who has how many of
 * them, and since when each keeps the server waiting.
 *
 * Above KUBE_CROWD_MAX one connection ends for each that comes: the one that has been
 * silent longest, of the address that holds most, so that an address can only crowd out
 * itself.  A request must be complete within KUBE_CROWD_REQUEST_NS, however slowly its
 * bytes trickle; a thread ends the connections that are overdue.
 *
 * common/gp_http.c does the same on an event loop, which the server here has not:
 * libmicrohttpd's own threads call in, so the list has a lock.  Owned by its
 * kube_https.
 */
#ifndef KUBE_CROWD_H
#define KUBE_CROWD_H

#include "gp_base.h"
#include "gp_time.h"

#include <pthread.h>

/* Connections that are served at a time.  An API server keeps a few open, and opens
 * one more for each pod that is made at the same time: bursts of some dozens. */
#define KUBE_CROWD_MAX 128
/* A request (handshake, headers and body) is complete so long after its connection was
 * made: an API server waits for an answer for ten seconds at most in the chart. */
#define KUBE_CROWD_REQUEST_NS (10 * GP_NS_PER_S)
/* Between two requests. */
#define KUBE_CROWD_IDLE_NS (30 * GP_NS_PER_S)

struct kube_crowd_peer {
    const void *connection; /* by which it is found */
    int fd;
    uint64_t from; /* gp_net_peer_hash() of its address */
    uint64_t deadline_ns;
};

struct kube_crowd {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started, stopping;
    unsigned n;
    struct kube_crowd_peer oldest_first[KUBE_CROWD_MAX];
};

int kube_crowd_init(struct kube_crowd *crowd);
void kube_crowd_fini(struct kube_crowd *crowd); /* zeroed: no-op */
void kube_crowd_add(struct kube_crowd *crowd, const void *connection, int fd);
/* Before its descriptor is closed.  One that was ended is unknown already. */
void kube_crowd_remove(struct kube_crowd *crowd, const void *connection);
/* Its request is complete: the answer takes as long as it takes. */
void kube_crowd_answering(struct kube_crowd *crowd, const void *connection);
/* And is answered: the next request, if any, may come. */
void kube_crowd_answered(struct kube_crowd *crowd, const void *connection);

#endif
