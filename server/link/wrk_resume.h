/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's side of a link that is replaced (xport_resume.h): new links come from
 * the supervisor, which has checked who brings them, over WRK_FD_LINK.
 *
 * One connection per process.  Any thread.
 */
#ifndef WRK_RESUME_H
#define WRK_RESUME_H

#include <stdint.h>

struct gp_err;
struct wrk;
struct xport_conn;

/* A connection over @fd that outlives it. */
int wrk_resume_open(struct wrk *w, int fd, struct xport_conn **ret, struct gp_err *err);

/* The same for the RDMA connection @rdma, which goes on over TCP then; it is gone in
 * any case. */
int wrk_resume_open_rdma(struct wrk *w, struct xport_conn *rdma,
                         struct xport_conn **ret, struct gp_err *err);

/* The attachment ends: a link that is broken now stays broken. */
void wrk_resume_end(void);

#endif
