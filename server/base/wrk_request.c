/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_request.h"

#include "gp_base.h"
#include "gp_fds.h"

#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>

/* Some twenty messages, as the kernel counts them: two rounds of connections. */
#define UNREAD_MAX 16384

int
wrk_request_send(int sock, const struct wrk_request *ask, int fd, int flags)
{
    ssize_t n = gp_fds_send(sock, ask, sizeof(*ask), &fd, fd >= 0, flags);

    return n < 0 ? (int)n : 0;
}

bool
wrk_request_is_full(int sock)
{
    int bytes = 0;

    return ioctl(sock, SIOCOUTQ, &bytes) == 0 && bytes > UNREAD_MAX;
}

int
wrk_request_recv(int sock, struct wrk_request *ret, int *ret_fd, int flags)
{
    unsigned n_fds;
    ssize_t n;

    *ret = (struct wrk_request){0};
    *ret_fd = -1;
    n = gp_fds_recv(sock, ret, sizeof(*ret), ret_fd, 1, &n_fds, flags);
    if (n == -EMFILE)
        return 0; /* a message without its descriptor: the kind says what follows */
    if (n >= WRK_REQUEST_MIN)
        return 0;
    if (n_fds)
        close(*ret_fd);
    *ret_fd = -1;
    return n < 0 ? (int)n : n == 0 ? -ECONNRESET : -EPROTO;
}
