/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's side of the requests that a worker makes while it serves
 * (wrk_request.h).
 *
 * Part of a struct srv_worker; event-loop thread only.  If a worker sends an invalid
 * request or does not read its replies, the channel is closed, and the worker goes on
 * without it.
 */
#ifndef SRV_REQUEST_H
#define SRV_REQUEST_H

struct gp_err;
struct srv_worker;

/* Make the pair; *ret_fd is the worker's end, the caller's to hand over and close. */
int srv_request_open(struct srv_worker *w, int *ret_fd, struct gp_err *err);

/* For a worker that is adopted: our end, taken on success. */
int srv_request_adopt(struct srv_worker *w, int fd, struct gp_err *err);

/* The worker is gone: take what it still sent, and close.  Not open: a no-op. */
void srv_request_finish(struct srv_worker *w);

#endif
