/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker is told before it starts: its configuration (wrk_conf.h), as a file
 * that nobody can change, and the cards that its driver shows.
 *
 * Event-loop thread only.
 */
#ifndef SRV_WORKER_CONF_H
#define SRV_WORKER_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gp_err;
struct srv;
struct srv_session;
struct srv_worker;
struct tls_keys;

/* From the client's request, already checked. */
struct srv_worker_client {
    uint32_t wire_minor;
    uint32_t cuda_version;
    uint32_t pid;
    bool shm;          /* it is on this host and can use shared memory */
    bool wakefds;      /* it takes wake-up descriptors with that */
    bool rdma;         /* it has an RDMA device */
    uint32_t payloads; /* values as in attach.proto, not checked */
    uint32_t links, link, device_base; /* as in wrk_conf.h */
    uint32_t resume_s;                 /* for how long it would replace a broken link */
    bool resume_stripes;               /* and have stripes all the same */
    bool resume_rdma;                  /* and one that was RDMA */
    bool control;                      /* it may make a control connection */
    bool rereads;                      /* it knows payloads that are read again */
    const uint8_t *key; /* of the attachment (attach_proof.h); NULL: not proven */
    const struct tls_keys *tls; /* of its connection; their suite says if it has any */
    const char *program;
    const char *hostname;
};

/* A sealed file with the configuration of @w, whose client says what it is; the
 * descriptor is the caller's. */
int srv_worker_conf(const struct srv_worker *w, const struct srv_worker_client *client,
                    int *ret_fd, struct gp_err *err);

/* For how many seconds a broken link is kept: both ends must want it. */
uint32_t srv_worker_resume_s(const struct srv_worker *w,
                             const struct srv_worker_client *client);

/* "0,2": what the driver shall show, in the order of the session's slices. */
void srv_worker_visible_cards(const struct srv *srv, const struct srv_session *s,
                              char *text, size_t size);

#endif
