/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control messages on a stream socket: a little-endian u32 length, then its bytes.
 *
 * Two ways to use it.  Blocking with a deadline: gp_msg_send(), gp_msg_recv() on any
 * socket (the attach handshake, the command line).  On an event loop: struct
 * gp_msg_conn, loop thread only.  What the bytes mean is the caller's business
 * (protobuf).
 */
#ifndef GP_MSG_H
#define GP_MSG_H

#include "gp_base.h"
#include "gp_loop.h"

struct gp_err;
struct gp_wire;

/* Of a message over the limit, on_large sees so many bytes (or all of it). */
#define GP_MSG_PEEK 1024

/* Send one message; waits for room until @deadline_ns. */
int gp_msg_send(int fd, const void *data, size_t len, uint64_t deadline_ns,
                struct gp_err *err);

/* Receive one message into a malloc'ed buffer.  -EMSGSIZE: its length is over @max;
 * -ECONNRESET: the other side closed; -ETIMEDOUT.  Reads not one byte too many, so the
 * socket can change hands afterwards. */
int gp_msg_recv(int fd, size_t max, uint64_t deadline_ns, void **ret, size_t *ret_len,
                struct gp_err *err);

/* The same through a layer between the messages and the socket (gp_wire.h). */
int gp_msg_send_over(struct gp_wire *wire, int fd, const void *data, size_t len,
                     uint64_t deadline_ns, struct gp_err *err);
int gp_msg_recv_over(struct gp_wire *wire, int fd, size_t max, uint64_t deadline_ns,
                     void **ret, size_t *ret_len, struct gp_err *err);

/*
 * A connection on an event loop.  Embed it, gp_msg_conn_init() it with a non-blocking
 * socket (which it owns from then on), gp_msg_conn_fini() it.
 *
 * Back pressure: while more than busy_mark bytes of answers wait to be read, or while
 * the owner holds the connection, no message is delivered and the socket is not read,
 * so that the peer's own sends block.  Delivery goes on by itself when half of the mark
 * has been sent, or with gp_msg_conn_hold(conn, false).
 *
 * Memory: the output buffer never exceeds max_queue (rounded up to a power of two) and
 * the input buffer holds little more than one message of max_msg; a large buffer is
 * freed when it runs empty.
 *
 * on_msg: one whole message; may send, may close, may fini the connection and free it.
 * on_large: optional; a message of @total bytes, over max_msg, begins with the @len
 * bytes at @data (GP_MSG_PEEK of them).  Returns whether it may come; the callback has
 * then raised max_msg. on_close: the link ended (@code: -errno, 0 for an orderly end);
 * called once, the owner then calls fini.  Not called by gp_msg_conn_fini().
 */
struct gp_msg_conn {
    struct gp_loop *loop;
    struct gp_loop_fd src;
    size_t max_msg;   /* longer ones end the connection */
    size_t max_queue; /* more unsent bytes are refused with -ENOBUFS */
    size_t busy_mark; /* more unsent bytes stop reading; 0: no such mark */
    void (*on_msg)(struct gp_msg_conn *conn, const void *data, size_t len);
    bool (*on_large)(struct gp_msg_conn *conn, const void *data, size_t len,
                     size_t total);
    void (*on_close)(struct gp_msg_conn *conn, int code);
    uint64_t sent;    /* bytes that the socket has taken so far */
    bool held;        /* by gp_msg_conn_hold() */
    bool backlog;     /* over busy_mark, and not yet under half of it */
    bool undelivered; /* messages wait in @in */
    /* A handshake before the first message, or NULL.  Called when the socket is ready;
     * 0: done, @wire is set; -EAGAIN: wait for *ret_events (EPOLLIN or EPOLLOUT);
     * another error ends the connection.  The owner sets it right after
     * gp_msg_conn_init(). */
    int (*begin)(struct gp_msg_conn *conn, uint32_t *ret_events);
    uint32_t events;      /* that the loop watches */
    struct gp_wire *wire; /* between the messages and the socket; NULL: nothing */
    uint8_t *in;
    size_t in_at, in_len, in_cap; /* bytes before in_at have been handed over */
    uint8_t *out;
    size_t out_len, out_at, out_cap;
    bool *gone; /* set when fini runs inside a callback */
};

int gp_msg_conn_init(struct gp_msg_conn *conn, struct gp_loop *loop, int fd,
                     size_t max_msg, size_t max_queue,
                     void (*on_msg)(struct gp_msg_conn *, const void *, size_t),
                     void (*on_close)(struct gp_msg_conn *, int));
void gp_msg_conn_fini(struct gp_msg_conn *conn);

/* Queue one message and send what the socket takes.  -ENOBUFS: the queue is full. */
int gp_msg_conn_send(struct gp_msg_conn *conn, const void *data, size_t len);

static inline size_t
gp_msg_conn_unsent(const struct gp_msg_conn *conn)
{
    return conn->out_len - conn->out_at;
}

/* Deliver nothing and read nothing until it is let go; allowed in on_msg. */
void gp_msg_conn_hold(struct gp_msg_conn *conn, bool hold);

/* Give the socket away (nothing unsent, nothing half-received); -EBUSY otherwise.  Who
 * set a layer takes it as well, before gp_msg_conn_fini(). */
int gp_msg_conn_take_fd(struct gp_msg_conn *conn, int *ret_fd);

#endif
