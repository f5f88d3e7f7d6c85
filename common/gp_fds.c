/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_fds.h"

#include "gp_base.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* One more than the caller takes shows that there were too many, and CMSG_SPACE()
 * rounds up to a further one. */
#define ROOM (GP_FDS_MAX + 2)

union control {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int) * ROOM)];
};

/* The descriptors that have come, at most ROOM. */
struct arrived {
    int fd[ROOM];
    unsigned n;
};

ssize_t
gp_fds_send(int sock, const void *data, size_t size, const int *fds, unsigned n,
            int flags)
{
    union control control = {0};
    struct iovec iov = {(void *)(uintptr_t)data, size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t sent;

    if (n > GP_FDS_MAX)
        return -EINVAL;
    if (n) {
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
        control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(n * sizeof(int)),
                                        .cmsg_level = SOL_SOCKET,
                                        .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), fds, n * sizeof(int));
    }
    do
        sent = sendmsg(sock, &msg, flags | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

void
gp_fds_close(const int *fds, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static void
collect(struct msghdr *msg, struct arrived *all)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(msg); part;
         part = CMSG_NXTHDR(msg, part)) {
        unsigned n = (unsigned)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));

        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        n = gp_min(n, ROOM - all->n);
        memcpy(all->fd + all->n, CMSG_DATA(part), n * sizeof(int));
        all->n += n;
    }
}

ssize_t
gp_fds_recv(int sock, void *data, size_t size, int *fds, unsigned max, unsigned *ret_n,
            int flags)
{
    union control control;
    struct iovec iov = {data, size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control};
    struct arrived all = {.n = 0};
    ssize_t got;

    assert(max <= GP_FDS_MAX);
    *ret_n = 0;
    msg.msg_controllen = CMSG_SPACE((max + 1) * sizeof(int));
    do
        got = recvmsg(sock, &msg, flags | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    collect(&msg, &all);
    /* There was room for one more: what is cut with fewer, the kernel could not
     * install. */
    if (all.n > max || msg.msg_flags & MSG_CTRUNC) {
        gp_fds_close(all.fd, all.n);
        return all.n > max ? -EPROTO : -EMFILE;
    }
    memcpy(fds, all.fd, all.n * sizeof(int));
    *ret_n = all.n;
    return got;
}
