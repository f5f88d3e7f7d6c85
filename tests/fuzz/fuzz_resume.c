/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peer of a connection whose links break: what it says that it has received, what
 * it acknowledges and what it sends over each link.
 *
 * The input is cut into links of up to 255 bytes: 24 bytes that the peer says when the
 * link is made, then what comes over it; the bytes of a link that come first are its
 * acknowledgements.  Every link ends, so nothing is waited for.
 */
#include "xport_resume.h"

#include "gp_err.h"
#include "gp_time.h"
#include "xport.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FRAME_MAX 4096u
#define LINKS_MAX 8u

static const uint8_t *rest;
static size_t left;
static unsigned links;

static size_t
take(void *to, size_t n)
{
    n = gp_min(n, left);
    memcpy(to, rest, n);
    rest += n;
    left -= n;
    return n;
}

/* A socket from which @n bytes of the input come, and then the end. */
static int
socket_with(size_t n)
{
    uint8_t bytes[256];
    int fd[2];

    n = take(bytes, n);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0 ||
        (n && write(fd[1], bytes, n) != (ssize_t)n))
        __builtin_trap();
    shutdown(fd[1], SHUT_WR);
    close(fd[1]);
    return fd[0];
}

static int
reconnect(struct xport_conn *conn, const struct xport_resume_have *have,
          struct xport_resume_link *ret)
{
    struct xport_resume_have peer = {0};
    uint8_t lens[2] = {0};

    (void)conn;
    if (!left || ++links > LINKS_MAX)
        return -ECONNRESET;
    take(&peer, sizeof(peer));
    take(lens, sizeof(lens));
    /* Mostly what can be, else the first check ends everything. */
    if (lens[0] & 1) {
        peer.received %= 1u << 14;
        peer.striped %= 64;
        peer.striped_sent = have->striped;
    }
    *ret = (struct xport_resume_link){.number = links, .peer = peer};
    ret->ack_fd = lens[0] & 2 ? socket_with(lens[0] >> 2) : -1;
    ret->fd = socket_with(lens[1]);
    return 0;
}

static int
ack_link(struct xport_conn *conn, struct xport_resume_link *ret)
{
    (void)conn;
    ret->ack_wire = NULL;
    if (!left)
        return -EAGAIN;
    ret->ack_fd = socket_with(16);
    return 0;
}

static bool
knocks(struct xport_conn *conn)
{
    (void)conn;
    return false;
}

static int
send_some(struct xport_conn *conn, uint8_t op)
{
    size_t n = 8u * (1 + op % 64);
    uint8_t *frame = xport_reserve(conn, n);

    if (!frame)
        return xport_error(conn) < 0 ? xport_error(conn) : -ENOMEM;
    memset(frame, op, n);
    xport_commit(conn, n);
    return xport_flush(conn);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct xport_resume_owner near = {.reconnect = reconnect,
                                                   .ack_link = ack_link};
    static const struct xport_resume_owner far = {.reconnect = reconnect,
                                                  .knocks = knocks};
    struct xport_conn *conn = NULL;
    const void *frame;
    uint32_t n;
    uint8_t ops[16] = {0};
    uint8_t bulk[300];
    int r = 0, first, acks;

    signal(SIGPIPE, SIG_IGN);
    rest = data;
    left = size;
    links = 0;
    take(ops, sizeof(ops));
    first = socket_with(ops[0]);
    acks = ops[1] & 1 ? socket_with(16) : -1;
    if (xport_resume_new(first, acks, FRAME_MAX, ops[1] & 2 ? &far : &near, &conn,
                         NULL) < 0)
        __builtin_trap();
    for (size_t i = 2; i < sizeof(ops) && r == 0; i++) {
        if (ops[i] % 4 == 0)
            r = send_some(conn, ops[i]);
        else if (ops[i] % 4 == 1)
            r = xport_recv(conn, &frame, &n, gp_now_ns() + GP_NS_PER_MS);
        else if (ops[i] % 4 == 2)
            r = xport_recv_bulk(conn, bulk, ops[i]);
        else
            xport_look(conn);
        r = r == -ETIMEDOUT ? 0 : r;
    }
    xport_free(conn);
    return 0;
}
