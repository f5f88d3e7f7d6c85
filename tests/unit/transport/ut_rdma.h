/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connected pair over RDMA in one process, for the tests of transport/.
 *
 * It needs a device: GPUPOOL_TEST_RDMA=address names one of its ports (`make test-rdma`
 * has a guest with Soft-RoCE), else the cases skip themselves.
 */
#ifndef UT_RDMA_H
#define UT_RDMA_H

#include "ut.h"

#include "gp_err.h"
#include "gp_str.h"
#include "gp_time.h"
#include "xport.h"

#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#define UT_FRAME_MAX 4096u

/* Both ends of the connection set up each other, so in two threads. */
struct ut_rdma_side {
    int fd;
    struct xport_rdma_port port;
    struct xport_rdma_listener *listener;
    struct xport_conn *conn;
    struct gp_err err;
    int r;
};

static const uint8_t ut_rdma_cookie[XPORT_RDMA_COOKIE] = "a one-time word";

static inline uint64_t
ut_soon(void)
{
    return gp_now_ns() + 20 * GP_NS_PER_S;
}

static inline const char *
ut_rdma_addr(void)
{
    return getenv("GPUPOOL_TEST_RDMA");
}

#define UT_NEEDS_RDMA()                                                                \
    do {                                                                               \
        if (!ut_rdma_addr()) {                                                         \
            print_message(                                                             \
                "skip: no RDMA device; `make test-rdma` has a guest with one\n");      \
            skip();                                                                    \
        }                                                                              \
    } while (0)

static void *
ut_rdma_acceptor(void *arg)
{
    struct ut_rdma_side *s = arg;

    s->r = xport_rdma_accept(s->listener, s->fd, ut_rdma_cookie, UT_FRAME_MAX,
                             ut_soon(), &s->conn, &s->err);
    return NULL;
}

static inline void
ut_rdma_listen(struct ut_rdma_side *side, const char *host)
{
    struct gp_err err = {0};

    gp_str_copy(side->port.host, sizeof(side->port.host), host);
    if (xport_rdma_listen(&side->port, 1, &side->listener, &err) < 0)
        fail_msg("%s", err.msg);
}

static inline void
ut_rdma_pair(const char *host, const int fd[2], struct xport_conn **client,
             struct xport_conn **worker)
{
    struct ut_rdma_side side = {.fd = fd[1]};
    struct gp_err err = {0};
    pthread_t thread;
    int r;

    ut_rdma_listen(&side, host);
    pthread_create(&thread, NULL, ut_rdma_acceptor, &side);
    r = xport_rdma_connect(fd[0], &side.port, 1, ut_rdma_cookie, UT_FRAME_MAX,
                           ut_soon(), client, &err);
    pthread_join(thread, NULL);
    if (r < 0 || side.r < 0)
        fail_msg("client: %s; worker: %s", err.msg, side.err.msg);
    xport_rdma_listener_free(side.listener);
    *worker = side.conn;
}

/* Both ends of one connection, in this process. */
struct pair {
    struct xport_conn *client, *worker;
};

static inline void
pair_open(struct pair *pair, const char *host)
{
    int fd[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    ut_rdma_pair(host, fd, &pair->client, &pair->worker);
}

static inline void
pair_close(struct pair *pair)
{
    xport_free(pair->client);
    xport_free(pair->worker);
}

static inline void
put_frame(struct xport_conn *conn, uint32_t size, uint8_t fill)
{
    uint8_t *p = xport_reserve(conn, size);

    if (!p) { /* no compiler knows that cmocka's assertions do not come back */
        fail_msg("there is no room for a frame of %u bytes", size);
        return;
    }
    memset(p, fill, size);
    memcpy(p, &size, sizeof(size));
    xport_commit(conn, size);
    assert_int_equal(xport_flush(conn), 0);
}

static inline void
want_frame(struct xport_conn *conn, uint32_t size, uint8_t fill)
{
    const uint8_t *frame;
    uint32_t got;

    assert_int_equal(xport_recv(conn, (const void **)&frame, &got, ut_soon()), 0);
    assert_int_equal(got, size);
    assert_int_equal(frame[size - 1], fill);
}

#endif
