/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker is told before it starts: its configuration (wrk_conf.h), as a file that
 * nobody can change, and the cards that its driver shows.
 *
 * Event-loop thread only.
 */
#ifndef SRV_WORKER_CONF_H
#define SRV_WORKER_CONF_H

#include <stddef.h>
#include <stdint.h>

struct gp_err;
struct srv;
struct srv_session;
struct srv_worker;
struct srv_worker_client;

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
