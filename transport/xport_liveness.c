/* SPDX-License-Identifier: Apache-2.0 */
#include "xport_liveness.h"

#include "gp_base.h"
#include "gp_time.h"
#include "xport_conn.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>

/* linux/tcp.h, Linux 6.15; the C library's header does not have it yet. */
#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44
#endif

/* A single window probe may be on its way; two in a row without an answer may not. */
#define PROBES_LOST 2

/* Of the process, because every connection of a process has the same operator. */
static _Atomic uint32_t link_timeout_s = XPORT_LINK_TIMEOUT_S;

void
xport_set_link_timeout(uint32_t seconds)
{
    atomic_store(&link_timeout_s, gp_max(seconds, (uint32_t)XPORT_LINK_TIMEOUT_MIN_S));
}

uint32_t
xport_link_timeout(void)
{
    return atomic_load(&link_timeout_s);
}

/* Three probes in the last half of the timeout: an idle connection is found dead after
 * the same time as a busy one. */
void
xport_keepalive(int fd, uint32_t timeout_s)
{
    int on = 1, count = 3;
    int interval = gp_max((int)timeout_s / 6, 1);
    int idle = gp_max((int)timeout_s - count * interval, 1);

    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

void
xport_liveness_start(int fd)
{
    struct timeval check = {.tv_sec = XPORT_CHECK_S};
    int rto_max = XPORT_RTO_MAX_MS;

    xport_keepalive(fd, atomic_load(&link_timeout_s));
    setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &rto_max, sizeof(rto_max));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &check, sizeof(check));
}

/* Retransmissions or window probes that nobody has answered so far. */
static bool
unanswered(const struct tcp_info *info)
{
    return info->tcpi_retransmits > 0 || info->tcpi_probes >= PROBES_LOST;
}

bool
xport_liveness_lost(struct xport_liveness *live, int fd, bool *ret_again)
{
    uint64_t now = gp_now_ns(), since = atomic_load(&live->silent_since);
    uint64_t limit = (uint64_t)atomic_load(&link_timeout_s) * GP_NS_PER_S;
    struct tcp_info info;
    socklen_t len = sizeof(info);
    uint64_t ack_age;
    int queued = 0;

    if (ret_again)
        *ret_again = false;
    if (ioctl(fd, SIOCOUTQ, &queued) < 0 || queued == 0 ||
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
        len < offsetof(struct tcp_info, tcpi_pmtu)) {
        atomic_store(&live->silent_since, 0);
        return false;
    }
    if (ret_again)
        *ret_again = true;
    if (!unanswered(&info)) {
        atomic_store(&live->silent_since, 0);
        return false;
    }
    /* An acknowledgement that came between two checks starts the silence again. */
    ack_age = (uint64_t)info.tcpi_last_ack_recv * GP_NS_PER_MS;
    since = since ? gp_max(since, now - gp_min(ack_age, now)) : now;
    atomic_store(&live->silent_since, since);
    return now - since >= limit;
}
