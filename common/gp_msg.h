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

/* Send one message; waits for room until @deadline_ns. */
int gp_msg_send(int fd, const void *data, size_t len, uint64_t deadline_ns,
                struct gp_err *err);

/* Receive one message into a malloc'ed buffer.  -EMSGSIZE: its length is over @max;
 * -ECONNRESET: the other side closed; -ETIMEDOUT.  Reads not one byte too many, so the
 * socket can change hands afterwards. */
int gp_msg_recv(int fd, size_t max, uint64_t deadline_ns, void **ret, size_t *ret_len,
                struct gp_err *err);

/*
 * A connection on an event loop.  Embed it, gp_msg_conn_init() it with a non-blocking
 * socket (which it owns from then on), gp_msg_conn_fini() it.
 *
 * on_msg: one whole message; may send, may close, may fini the connection and free it.
 * on_close: the link ended (@code: -errno, 0 for an orderly end); called once, the
 * owner then calls fini.  Not called by gp_msg_conn_fini().
 */
struct gp_msg_conn {
    struct gp_loop *loop;
    struct gp_loop_fd src;
    size_t max_msg;   /* longer ones end the connection */
    size_t max_queue; /* more unsent bytes end it too: a reader too slow */
    void (*on_msg)(struct gp_msg_conn *conn, const void *data, size_t len);
    void (*on_close)(struct gp_msg_conn *conn, int code);
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

/* Give the socket away (nothing unsent, nothing half-received); -EBUSY otherwise. */
int gp_msg_conn_take_fd(struct gp_msg_conn *conn, int *ret_fd);

#endif
