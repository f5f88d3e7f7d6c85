/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_request.h"

#include "gp_base.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* Room for one descriptor; a sender that puts more in gets them closed by the kernel.
 */
union control {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
};

int
wrk_request_send(int sock, const struct wrk_request *ask, int fd, int flags)
{
    union control control = {0};
    struct iovec iov = {(void *)(uintptr_t)ask, sizeof(*ask)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (fd >= 0) {
        msg.msg_control = &control;
        msg.msg_controllen = sizeof(control);
        control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
                                        .cmsg_level = SOL_SOCKET,
                                        .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
    }
    do
        n = sendmsg(sock, &msg, flags | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

int
wrk_request_recv(int sock, struct wrk_request *ret, int *ret_fd, int flags)
{
    union control control;
    struct iovec iov = {ret, sizeof(*ret)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    const struct cmsghdr *head;
    ssize_t n;

    *ret_fd = -1;
    do
        n = recvmsg(sock, &msg, flags | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    head = CMSG_FIRSTHDR(&msg);
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(ret_fd, CMSG_DATA(head), sizeof(*ret_fd));
    if (n >= WRK_REQUEST_MIN) {
        size_t got = gp_min((size_t)n, sizeof(*ret));

        memset((char *)ret + got, 0, sizeof(*ret) - got);
        return 0;
    }
    if (*ret_fd >= 0)
        close(*ret_fd);
    *ret_fd = -1;
    return n == 0 ? -ECONNRESET : -EPROTO;
}
