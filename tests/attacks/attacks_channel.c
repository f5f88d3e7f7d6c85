/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks by what a worker and its supervisor share: the socket for requests, the
 * client's socket.  They are let in, because a sound worker does the like; what the
 * supervisor makes of them is the test's to look at. */
#include "hostile.h"

#include "wrk_conf.h"
#include "wrk_request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define ATTACK(name) static int name(struct hostile *c)

/* A message with @n descriptors, as often as it takes. */
static int
send_request(const struct wrk_request *ask, const int *fds, unsigned n)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(8 * sizeof(int))];
    } control = {0};
    struct iovec iov = {(void *)(uintptr_t)ask, sizeof(*ask)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (n) {
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
        control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(n * sizeof(int)),
                                        .cmsg_level = SOL_SOCKET,
                                        .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), fds, n * sizeof(int));
    }
    return sendmsg(WRK_FD_REQUEST, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int
send_often(const struct hostile *c, const struct wrk_request *ask, const int *fds,
           unsigned n)
{
    int r = 0;

    for (uint64_t i = 0; r == 0 && i < c->amount; i++)
        r = send_request(ask, fds, n);
    return r;
}

/* Two where one at most may be. */
ATTACK(surplus_descriptors)
{
    const struct wrk_request ask = {.kind = WRK_REQUEST_UNSHARE};

    return send_often(c, &ask, (int[]){STDIN_FILENO, STDIN_FILENO}, 2);
}

/* One where none may be. */
ATTACK(unexpected_descriptors)
{
    const struct wrk_request ask = {.kind = WRK_REQUEST_UNSHARE};

    return send_often(c, &ask, (int[]){STDIN_FILENO}, 1);
}

/* The worker's own end of the socket as an object to share: whoever of the session
 * fetches it speaks with the supervisor in this worker's name after its end.  0: it was
 * taken. */
ATTACK(share_socket)
{
    struct wrk_request ask = {
        .kind = WRK_REQUEST_SHARE, .own = WRK_SHARE_MEMORY, .bytes = 4096};
    int r = send_request(&ask, (int[]){WRK_FD_REQUEST}, 1);

    (void)c;
    if (r == 0 && recv(WRK_FD_REQUEST, &ask, sizeof(ask), 0) != (ssize_t)sizeof(ask))
        return -errno;
    return r < 0 ? r : ask.own ? 0 : -EACCES;
}

/* A socket whose close waits until the peer has taken all, and a peer that takes
 * nothing: the supervisor has the last descriptor of it when this process is gone. */
ATTACK(linger_and_die)
{
    static char nothing[65536];
    const struct linger wait = {.l_onoff = 1, .l_linger = 600};
    unsigned full = 0;

    atomic_store(&c->armed, 2);
    while (atomic_load(&c->armed) == 2) /* the test stops the client */
        usleep(1000);
    setsockopt(WRK_FD_CONN, SOL_SOCKET, SO_LINGER, &wait, sizeof(wait));
    while (full < 20) {
        if (send(WRK_FD_CONN, nothing, sizeof(nothing), MSG_DONTWAIT) < 0) {
            full++;
            usleep(50000);
        }
    }
    /* What is unread would make the close an abort. */
    while (recv(WRK_FD_CONN, nothing, sizeof(nothing), MSG_DONTWAIT) > 0)
        ;
    _exit(1);
}

/* A line of the supervisor, and what clears a terminal. */
ATTACK(forge_log)
{
    static const char text[] =
        "00:00:00.000 server error server: forged\x1b[2J\x1b[H\rforged\n";

    (void)c;
    return write(STDERR_FILENO, text, sizeof(text) - 1) < 0 ? -errno : 0;
}

/* The log's file, if it is one.  0: it was one. */
ATTACK(truncate_log)
{
    (void)c;
    return ftruncate(STDERR_FILENO, 0) < 0 && lseek(STDERR_FILENO, 0, SEEK_SET) < 0
               ? -errno
               : 0;
}

/* As much as goes in @amount tries. */
ATTACK(flood_log)
{
    static char text[4096];

    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\n';
    for (uint64_t i = 0; i < c->amount; i++)
        if (write(STDERR_FILENO, text, sizeof(text)) < 0)
            usleep(100);
    return 0;
}

/* More files than anybody exports, in the session's own folder. */
ATTACK(fill_exports)
{
    const char *folder = getenv("SOFTGPU_EXPORTS");
    char path[512];

    for (uint64_t i = 0; i < c->amount; i++) {
        int fd;

        snprintf(path, sizeof(path), "%s/%llu", folder, (unsigned long long)i);
        fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        if (fd < 0)
            return -errno;
        close(fd);
    }
    return 0;
}

/* Requests that are refused, each with an answer that nobody reads. */
ATTACK(refused_requests)
{
    struct wrk_request ask = {
        .kind = WRK_REQUEST_SHARE, .own = WRK_SHARE_MEMORY, .slice = UINT32_MAX};
    int fd = memfd_create("attack", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : send_often(c, &ask, &fd, 1);

    if (fd >= 0)
        close(fd);
    return r;
}

static const struct {
    const char *name;
    int (*run)(struct hostile *c);
} attacks[] = {
#define A(name)                                                                        \
    {                                                                                  \
#name, name                                                                    \
    }
    A(surplus_descriptors), A(unexpected_descriptors),
    A(share_socket),        A(linger_and_die),
    A(forge_log),           A(truncate_log),
    A(flood_log),           A(fill_exports),
    A(refused_requests),
};

bool
hostile_channel_attack(struct hostile *control, int *ret)
{
    for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++)
        if (strcmp(attacks[i].name, control->name) == 0) {
            *ret = attacks[i].run(control);
            return true;
        }
    return false;
}
