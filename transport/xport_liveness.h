/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the peer's host still answers on a TCP connection that has bytes under way.
 * Private to transport/.
 *
 * Keep-alive probes cover an idle connection only.  While sent bytes are
 * unacknowledged, the kernel retransmits them for about 15 minutes, and
 * TCP_USER_TIMEOUT is no remedy: it also ends a connection whose reader is held up by
 * a long kernel, because a closed window counts as no progress although the peer
 * acknowledges every window probe.  TCP_INFO tells the two apart: a living peer
 * acknowledges retransmissions and window probes, a dead one does not.
 *
 * One object per socket, embedded in its owner.  Any thread may check it at any time.
 * It is not a timer: whoever waits for the connection calls it about once a second.
 */
#ifndef XPORT_LIVENESS_H
#define XPORT_LIVENESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The longest interval between retransmissions, and between window probes, where the
 * kernel lets it be set (Linux 6.15).  The default of two minutes would hide the loss
 * of a link whose peer has not read for a while. */
#define XPORT_RTO_MAX_MS 2000

/* How long a blocked send sleeps before the connection is checked. */
#define XPORT_CHECK_S 1

struct xport_liveness {
    atomic_uint_fast64_t silent_since; /* gp_now_ns(); 0: the peer answers */
};

/* Keep-alive alone: an idle connection whose peer's host is dead ends after @timeout_s.
 */
void xport_keepalive(int fd, uint32_t timeout_s);

/* Prepare the connected socket @fd: keep-alive, interval of probes, and blocked sends
 * that return -EAGAIN every XPORT_CHECK_S.  Does nothing to sockets that are not TCP.
 */
void xport_liveness_start(int fd);

/* True: the peer's host has acknowledged nothing for the link timeout although
 * something is outstanding.  *ret_again (may be NULL): bytes are unacknowledged, so
 * check again in XPORT_CHECK_S. */
bool xport_liveness_lost(struct xport_liveness *live, int fd, bool *ret_again);

#endif
