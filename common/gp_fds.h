/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages with file descriptors over Unix sockets (SCM_RIGHTS), with a bound on the
 * descriptors that a message may bring.
 *
 * The peer chooses how many descriptors it attaches to a message and what they are, and
 * the kernel installs them in the receiver before the receiver has looked at anything.
 * Those that nobody closes add up until the receiver has none left.  So every message
 * that may carry descriptors is received here, and nowhere else with recvmsg().
 *
 * No state, any thread.
 */
#ifndef GP_FDS_H
#define GP_FDS_H

#include <stddef.h>
#include <sys/types.h>

/* The most of one message; the kernel's own limit is 253 (SCM_MAX_FD). */
#define GP_FDS_MAX 96

/* Send @size bytes of @data, with the @n descriptors of @fds, which stay the caller's.
 * @flags of sendmsg(); there is no SIGPIPE.  The number of bytes, or -errno; -EINVAL:
 * more than GP_FDS_MAX. */
ssize_t gp_fds_send(int sock, const void *data, size_t size, const int *fds, unsigned n,
                    int flags);

/* Receive up to @size bytes into @data, with at most @max (up to GP_FDS_MAX)
 * descriptors, which are close-on-exec and the caller's: *ret_n of them in @fds.
 * @flags of recvmsg().
 *
 * The number of bytes, 0 at the end of the stream.  On failure no descriptor is left
 * open and *ret_n is 0: -EPROTO: the message had more than @max descriptors; -EMFILE:
 * this process has no room for them, and @data is the message without them; else
 * -errno.  A message of a packet socket that is longer than @size is cut there. */
ssize_t gp_fds_recv(int sock, void *data, size_t size, int *fds, unsigned max,
                    unsigned *ret_n, int flags);

/* Close the @n descriptors of @fds; -1 is none. */
void gp_fds_close(const int *fds, unsigned n);

#endif
