/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's side of a link that is replaced (xport_resume.h): new links come from
 * the supervisor, which has checked who brings them, over WRK_FD_LINK.
 *
 * One connection per process.  Any thread.
 */
#ifndef WRK_RESUME_H
#define WRK_RESUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gp_err;
struct gp_wire;
struct wrk;
struct xport_conn;
struct xport_rdma_port;

/* A connection over @fd that outlives it. */
int wrk_resume_open(struct wrk *w, int fd, struct xport_conn **ret, struct gp_err *err);

/* The same for the RDMA connection @rdma, which was offered at the @n @ports and goes
 * on over TCP or RDMA then, as the client wants; it is gone in any case. */
int wrk_resume_open_rdma(struct wrk *w, struct xport_conn *rdma,
                         const struct xport_rdma_port *ports, size_t n,
                         struct xport_conn **ret, struct gp_err *err);

/* The client's control connection (wrk_control.h), which comes over WRK_FD_LINK too.
 *
 * Take what has come over it. */
void wrk_resume_collect(void);
/* Have @eventfd written to whenever anybody has collected a control connection. */
void wrk_resume_control_wake(int eventfd);
/* Write to it for another reason: a host function is urgent (wrk_hooks.h).  Any thread.
 */
void wrk_resume_wake_control(struct wrk *w);
/* The last one that came, the caller's then.  False: none, or none that can be used. */
bool wrk_resume_take_control(int *ret_fd, struct gp_wire **ret_wire);

/* Has a link been replaced since this was asked last? */
bool wrk_resume_was_replaced(void);

/* The attachment ends: a link that is broken now stays broken. */
void wrk_resume_end(void);

#endif
