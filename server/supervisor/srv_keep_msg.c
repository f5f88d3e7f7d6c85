/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_keep_msg.h"

#include <errno.h>
#include <sys/socket.h>

void
srv_keep_fds_close(struct srv_keep_fds *fds)
{
    gp_fds_close(fds->fd, fds->n);
    fds->n = 0;
}

int
srv_keep_send(int sock, const struct srv_keep_msg *msg, const struct srv_keep_fds *fds)
{
    ssize_t n =
        gp_fds_send(sock, msg, sizeof(*msg), fds ? fds->fd : NULL, fds ? fds->n : 0, 0);

    return n < 0 ? (int)n : 0;
}

int
srv_keep_recv(int sock, struct srv_keep_msg *ret, struct srv_keep_fds *ret_fds,
              int flags)
{
    ssize_t n = gp_fds_recv(sock, ret, sizeof(*ret), ret_fds->fd, SRV_KEEP_FDS_MAX,
                            &ret_fds->n, flags | MSG_TRUNC);

    if (n == (ssize_t)sizeof(*ret))
        return 0;
    srv_keep_fds_close(ret_fds);
    return n < 0 ? (int)n : n == 0 ? -ECONNRESET : -EPROTO;
}
