/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker writes to its standard error: a pipe of its own, which the supervisor
 * copies into its log.
 *
 * The worker may be under a client's control.  So it never has a descriptor of the log:
 * each line gets the attachment's name in front ("s7.c2: "), control characters are
 * escaped, and a session writes SRV_WORKER_LOG_RATE bytes a second at most.  Beyond
 * that the pipe is not read; when it is full, what the worker writes is lost, and the
 * worker does not wait, because its end is non-blocking.
 *
 * Owned by a struct srv_worker; event-loop thread only.
 */
#ifndef SRV_WORKER_LOG_H
#define SRV_WORKER_LOG_H

#include <stdint.h>

struct gp_err;
struct srv_worker;
struct srv_worker_log;

/* Of the workers of a session together: the stack of a crash and the lines of a debug
 * level at once, and at most 345 MB on a day. */
#define SRV_WORKER_LOG_BURST (256u << 10)
#define SRV_WORKER_LOG_RATE (4u << 10)

/* Make the pipe; *ret_fd is the worker's end, the caller's. */
int srv_worker_log_new(struct srv_worker *w, int *ret_fd, struct gp_err *err);
/* After a supervisor that is gone, which had @fd.  On failure it stays the caller's. */
int srv_worker_log_adopt(struct srv_worker *w, int fd);

/* Our end, for the keeper; -1: there is none. */
int srv_worker_log_fd(const struct srv_worker *w);

/* Copy what is left, as far as the limit goes, and close the pipe. */
void srv_worker_log_free(struct srv_worker *w); /* none: a no-op */

#endif
