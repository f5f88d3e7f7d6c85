/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_keep_msg.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

union control {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int) * SRV_KEEP_FDS_MAX)];
};

void
srv_keep_fds_close(struct srv_keep_fds *fds)
{
    for (unsigned i = 0; i < fds->n; i++)
        if (fds->fd[i] >= 0)
            close(fds->fd[i]);
    fds->n = 0;
}

int
srv_keep_send(int sock, const struct srv_keep_msg *msg, const struct srv_keep_fds *fds)
{
    union control control = {0};
    struct iovec iov = {(void *)(uintptr_t)msg, sizeof(*msg)};
    struct msghdr head = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (fds && fds->n) {
        size_t size = fds->n * sizeof(int);

        head.msg_control = &control;
        head.msg_controllen = CMSG_SPACE(size);
        control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(size),
                                        .cmsg_level = SOL_SOCKET,
                                        .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), fds->fd, size);
    }
    do
        n = sendmsg(sock, &head, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

int
srv_keep_recv(int sock, struct srv_keep_msg *ret, struct srv_keep_fds *ret_fds,
              int flags)
{
    union control control;
    struct iovec iov = {ret, sizeof(*ret)};
    struct msghdr head = {.msg_iov = &iov,
                          .msg_iovlen = 1,
                          .msg_control = &control,
                          .msg_controllen = sizeof(control)};
    const struct cmsghdr *part;
    ssize_t n;

    ret_fds->n = 0;
    do
        n = recvmsg(sock, &head, flags | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    part = CMSG_FIRSTHDR(&head);
    if (part && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS) {
        ret_fds->n = (unsigned)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(ret_fds->fd, CMSG_DATA(part), ret_fds->n * sizeof(int));
    }
    if (n == (ssize_t)sizeof(*ret) && !(head.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        return 0;
    srv_keep_fds_close(ret_fds);
    if (n != (ssize_t)sizeof(*ret) || head.msg_flags & MSG_TRUNC)
        return n == 0 ? -ECONNRESET : -EPROTO;
    return -EMFILE;
}
