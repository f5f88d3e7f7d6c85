/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's end of what a worker asks while it serves (wrk_request.h).
 *
 * Part of a struct srv_worker; event-loop thread only.  A worker that sends what no
 * worker sends, or does not take its answers, loses its end and serves on without.
 */
#ifndef SRV_REQUEST_H
#define SRV_REQUEST_H

struct gp_err;
struct srv_worker;

/* Make the pair; *ret_fd is the worker's end, the caller's to hand over and close. */
int srv_request_open(struct srv_worker *w, int *ret_fd, struct gp_err *err);

/* The worker is gone: take what it still sent, and close.  Not open: a no-op. */
void srv_request_finish(struct srv_worker *w);

#endif
