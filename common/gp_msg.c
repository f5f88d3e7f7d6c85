/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_msg.h"

#include "gp_err.h"
#include "gp_net.h"
#include "gp_time.h"
#include "gp_wire.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define MSG_HEAD 4 /* bytes of the length in front */
/* A buffer of this size is kept between messages. */
#define KEEP_BUFFER (64 * 1024)
#define READ_END 1

int
gp_msg_send_over(struct gp_wire *wire, int fd, const void *data, size_t len,
                 uint64_t deadline_ns, struct gp_err *err)
{
    uint32_t head = htole32((uint32_t)len);
    struct iovec iov[2] = {{&head, sizeof(head)}, {(void *)(uintptr_t)data, len}};

    while (iov[0].iov_len + iov[1].iov_len) {
        ssize_t n = gp_wire_send(wire, fd, iov, 2, MSG_DONTWAIT);
        size_t first;

        if (n == -EAGAIN) {
            int r = gp_net_wait(fd, POLLOUT, deadline_ns);

            if (r < 0)
                return gp_err_set(err, r, "send: %s", strerror(-r));
            continue;
        }
        if (n < 0)
            return gp_err_set(err, (int)n, "send: %s", strerror((int)-n));
        first = gp_min((size_t)n, iov[0].iov_len);
        iov[0].iov_base = (char *)iov[0].iov_base + first;
        iov[0].iov_len -= first;
        iov[1].iov_base = (char *)iov[1].iov_base + ((size_t)n - first);
        iov[1].iov_len -= (size_t)n - first;
    }
    return 0;
}

int
gp_msg_send(int fd, const void *data, size_t len, uint64_t deadline_ns,
            struct gp_err *err)
{
    return gp_msg_send_over(NULL, fd, data, len, deadline_ns, err);
}

static int
recv_exactly(struct gp_wire *wire, int fd, void *buf, size_t len, uint64_t deadline_ns,
             struct gp_err *err)
{
    uint8_t *p = buf;

    while (len) {
        ssize_t n = gp_wire_recv(wire, fd, p, len, MSG_DONTWAIT);

        if (n == 0)
            return gp_err_set(err, -ECONNRESET, "the other side closed the connection");
        if (n > 0) {
            p += n;
            len -= (size_t)n;
        } else if (n == -EAGAIN) {
            int r = gp_net_wait(fd, POLLIN, deadline_ns);

            if (r < 0)
                return gp_err_set(err, r, "no answer: %s", strerror(-r));
        } else {
            return gp_err_set(err, (int)n, "receive: %s", strerror((int)-n));
        }
    }
    return 0;
}

int
gp_msg_recv_over(struct gp_wire *wire, int fd, size_t max, uint64_t deadline_ns,
                 void **ret, size_t *ret_len, struct gp_err *err)
{
    CLEANUP_FREE uint8_t *buf = NULL;
    uint32_t len;
    int r;

    r = recv_exactly(wire, fd, &len, sizeof(len), deadline_ns, err);
    if (r < 0)
        return r;
    len = le32toh(len);
    if (len > max)
        return gp_err_set(err, -EMSGSIZE,
                          "a message of %u bytes, over the limit of %zu", len, max);
    buf = malloc((size_t)len + 1);
    if (!buf)
        return gp_err_set(err, -ENOMEM, "out of memory");
    r = recv_exactly(wire, fd, buf, len, deadline_ns, err);
    if (r < 0)
        return r;
    buf[len] = 0;
    *ret = TAKE_PTR(buf);
    *ret_len = len;
    return 0;
}

int
gp_msg_recv(int fd, size_t max, uint64_t deadline_ns, void **ret, size_t *ret_len,
            struct gp_err *err)
{
    return gp_msg_recv_over(NULL, fd, max, deadline_ns, ret, ret_len, err);
}

static int
grow(uint8_t **buf, size_t *cap, size_t need)
{
    size_t want = gp_max(*cap, (size_t)4096);
    uint8_t *grown;

    if (need <= *cap)
        return 0;
    while (want < need)
        want *= 2;
    grown = realloc(*buf, want);
    if (!grown)
        return -ENOMEM;
    *buf = grown;
    *cap = want;
    return 0;
}

static void
fail(struct gp_msg_conn *conn, int code)
{
    gp_loop_fd_del(&conn->src);
    conn->on_close(conn, code);
}

/* A large buffer that has run empty is given back: most peers are large once. */
static void
drop_when_empty(uint8_t **buf, size_t *cap, size_t len)
{
    if (len || *cap <= KEEP_BUFFER)
        return;
    free(*buf);
    *buf = NULL;
    *cap = 0;
}

/* --------------------------------------------------------------- readiness -- */

/* Reading stops above the mark and resumes at half of it, so that a peer which reads a
 * little at a time does not toggle the descriptor for every answer. */
static bool
held_back(const struct gp_msg_conn *conn)
{
    size_t unsent = gp_msg_conn_unsent(conn);

    return conn->held ||
           (conn->busy_mark &&
            (conn->backlog ? unsent > conn->busy_mark / 2 : unsent > conn->busy_mark));
}

/* A connection that is held for a moment keeps its EPOLLIN: a peer that waits for its
 * answer sends nothing meanwhile, and two system calls are saved.  One that does send
 * is not @trusted any more until it is let go. */
static int
watch(struct gp_msg_conn *conn, bool trusted)
{
    uint32_t events = trusted && conn->held ? conn->events & EPOLLIN : 0;

    conn->backlog = held_back(conn) && !conn->held;
    if (!held_back(conn))
        events |= EPOLLIN;
    if (gp_msg_conn_unsent(conn))
        events |= EPOLLOUT;
    /* Messages that were held back are in our buffer, where no event announces them:
     * the writable socket brings us back to deliver(). */
    if (conn->undelivered && !held_back(conn))
        events |= EPOLLOUT;
    if (events == conn->events)
        return 0;
    conn->events = events;
    return gp_loop_fd_set(&conn->src, events);
}

/* Whether the message of @len bytes that begins at in_at may be taken. */
static bool
fits(struct gp_msg_conn *conn, size_t len, bool *ret_wait)
{
    size_t have = conn->in_len - conn->in_at - MSG_HEAD;
    size_t peek = gp_min(len, (size_t)GP_MSG_PEEK);

    *ret_wait = false;
    if (len <= conn->max_msg)
        return true;
    if (!conn->on_large)
        return false;
    *ret_wait = have < peek;
    return *ret_wait ||
           (conn->on_large(conn, conn->in + conn->in_at + MSG_HEAD, peek, len) &&
            len <= conn->max_msg);
}

/* Hand over the whole messages in the buffer until the peer is held back.  The callback
 * may fini the connection or take its socket away: false then, and after an error. */
static bool
deliver(struct gp_msg_conn *conn)
{
    bool gone = false, wait;
    uint32_t len;

    conn->gone = &gone;
    conn->undelivered = false;
    while (conn->src.loop && conn->in_len - conn->in_at >= MSG_HEAD) {
        if (held_back(conn)) {
            conn->undelivered = true;
            break;
        }
        memcpy(&len, conn->in + conn->in_at, MSG_HEAD);
        len = le32toh(len);
        if (!fits(conn, len, &wait)) {
            conn->gone = NULL;
            fail(conn, -EMSGSIZE);
            return false;
        }
        if (wait || conn->in_len - conn->in_at - MSG_HEAD < len)
            break;
        conn->in_at += MSG_HEAD + len;
        conn->on_msg(conn, conn->in + conn->in_at - len, len);
        if (gone)
            return false;
    }
    conn->gone = NULL;
    conn->in_len -= conn->in_at;
    if (conn->in_len)
        memmove(conn->in, conn->in + conn->in_at, conn->in_len);
    conn->in_at = 0;
    drop_when_empty(&conn->in, &conn->in_cap, conn->in_len);
    return conn->src.loop;
}

static int
flush_out(struct gp_msg_conn *conn)
{
    while (conn->out_at < conn->out_len) {
        struct iovec iov = {conn->out + conn->out_at, conn->out_len - conn->out_at};
        ssize_t n = gp_wire_send(conn->wire, conn->src.fd, &iov, 1, MSG_DONTWAIT);

        if (n == -EAGAIN)
            return watch(conn, true);
        if (n < 0)
            return (int)n;
        conn->out_at += (size_t)n;
        conn->sent += (size_t)n;
    }
    conn->out_at = conn->out_len = 0;
    drop_when_empty(&conn->out, &conn->out_cap, 0);
    return watch(conn, true);
}

/* Read what there is; -EAGAIN: nothing, READ_END: the peer has closed. */
static int
read_in(struct gp_msg_conn *conn)
{
    ssize_t n;
    int r = grow(&conn->in, &conn->in_cap, conn->in_len + 4096);

    if (r < 0)
        return r;
    n = gp_wire_recv(conn->wire, conn->src.fd, conn->in + conn->in_len,
                     conn->in_cap - conn->in_len, MSG_DONTWAIT);
    if (n < 0)
        return (int)n;
    conn->in_len += (size_t)n;
    return n ? 0 : READ_END;
}

/* True: messages may go. */
static bool
has_begun(struct gp_msg_conn *conn)
{
    uint32_t events = EPOLLIN;
    int r;

    if (likely(!conn->begin))
        return true;
    r = conn->begin(conn, &events);
    if (r == -EAGAIN && events != conn->events) {
        conn->events = events;
        r = gp_loop_fd_set(&conn->src, events) < 0 ? -EIO : -EAGAIN;
    }
    if (r == -EAGAIN)
        return false;
    conn->begin = NULL;
    if (r < 0)
        fail(conn, r);
    return r == 0;
}

static void
on_ready(struct gp_loop_fd *src, uint32_t revents)
{
    struct gp_msg_conn *conn = container_of(src, struct gp_msg_conn, src);
    bool sends_while_held = conn->held && (revents & EPOLLIN);
    int r = 0;

    if (!has_begun(conn))
        return;
    if (revents & EPOLLOUT)
        r = flush_out(conn);
    if (!r && held_back(conn) && (revents & (EPOLLHUP | EPOLLERR)))
        r = -ECONNRESET; /* a link that is down and not read would spin */
    /* What was held back is taken first and the rest stays in the socket, whose room is
     * the kernel's to bound: a peer that is held at each message would fill our memory.
     */
    if (!r && !conn->undelivered && !held_back(conn) &&
        (revents & (EPOLLIN | EPOLLHUP | EPOLLERR))) {
        do
            r = read_in(conn);
        while (!r && gp_wire_pending(conn->wire)); /* no event announces these */
        r = r == -EAGAIN ? 0 : r;
    }
    if (!r) {
        if (!deliver(conn))
            return;
        r = watch(conn, !sends_while_held);
    }
    if (r)
        fail(conn, r == READ_END ? 0 : r);
}

void
gp_msg_conn_hold(struct gp_msg_conn *conn, bool hold)
{
    conn->held = hold;
    if (conn->src.loop && !conn->gone)
        watch(conn, true);
}

int
gp_msg_conn_init(struct gp_msg_conn *conn, struct gp_loop *loop, int fd, size_t max_msg,
                 size_t max_queue,
                 void (*on_msg)(struct gp_msg_conn *, const void *, size_t),
                 void (*on_close)(struct gp_msg_conn *, int))
{
    *conn = (struct gp_msg_conn){.loop = loop,
                                 .max_msg = max_msg,
                                 .max_queue = max_queue,
                                 .on_msg = on_msg,
                                 .on_close = on_close};
    conn->src.fd = fd;
    conn->events = EPOLLIN;
    return gp_loop_fd_add(loop, &conn->src, fd, EPOLLIN, on_ready);
}

void
gp_msg_conn_fini(struct gp_msg_conn *conn)
{
    if (conn->gone)
        *conn->gone = true;
    gp_loop_fd_del(&conn->src);
    gp_wire_free(conn->wire);
    if (conn->src.fd >= 0)
        close(conn->src.fd);
    free(conn->in);
    free(conn->out);
    *conn = (struct gp_msg_conn){.src.fd = -1};
}

/* Room for @len bytes behind what is queued.  Bytes that have been sent are moved out
 * once they are half of the queue, which costs each byte one move at most, and always
 * before the buffer would pass the queue's limit. */
static int
make_room(struct gp_msg_conn *conn, size_t len)
{
    size_t need = conn->out_len + len;

    if (conn->out_at && need > conn->out_cap &&
        (conn->out_at >= conn->out_len / 2 || need > conn->max_queue)) {
        conn->out_len -= conn->out_at;
        memmove(conn->out, conn->out + conn->out_at, conn->out_len);
        conn->out_at = 0;
    }
    return grow(&conn->out, &conn->out_cap, conn->out_len + len);
}

int
gp_msg_conn_send(struct gp_msg_conn *conn, const void *data, size_t len)
{
    uint32_t head = htole32((uint32_t)len);
    int r;

    if (!conn->src.loop)
        return -ENOTCONN;
    if (gp_msg_conn_unsent(conn) + len + MSG_HEAD > conn->max_queue)
        return -ENOBUFS;
    r = make_room(conn, len + MSG_HEAD);
    if (r < 0)
        return r;
    memcpy(conn->out + conn->out_len, &head, MSG_HEAD);
    memcpy(conn->out + conn->out_len + MSG_HEAD, data, len);
    conn->out_len += len + MSG_HEAD;
    /* A broken link shows as EPOLLHUP in the loop: on_close is not called here. */
    r = flush_out(conn);
    return r == -ECONNRESET ? 0 : r;
}

int
gp_msg_conn_take_fd(struct gp_msg_conn *conn, int *ret_fd)
{
    if (conn->out_len != conn->out_at || conn->in_len != conn->in_at ||
        gp_wire_pending(conn->wire))
        return -EBUSY;
    gp_loop_fd_del(&conn->src);
    *ret_fd = TAKE_FD(conn->src.fd);
    return 0;
}
