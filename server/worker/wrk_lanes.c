/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_lanes.h"

#include "gp_err.h"
#include "gp_log.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_ask.h"
#include "wrk_conf.h"
#include "wrk_hooks.h"
#include "xport.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

/* A supervisor that takes longer is in trouble: go on without it. */
#define ANSWER_S 2

static struct {
    int fd[XPORT_LANES_MAX]; /* 0: none */
    bool failed;
} lanes;

static void
keep_lane(uint32_t index, int fd)
{
    if (fd < 0)
        return;
    if (index >= XPORT_LANES_MAX || lanes.fd[index])
        close(fd);
    else
        lanes.fd[index] = fd;
}

/* One message; a connection is kept and gives -EINPROGRESS. */
static int
next(struct wrk_ask *ret, int *ret_fd)
{
    struct timeval patience = {.tv_sec = ANSWER_S};
    int r = lanes.failed ? -EPIPE : 0;

    if (r == 0) {
        setsockopt(WRK_FD_ASK, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        r = wrk_ask_recv(WRK_FD_ASK, ret, ret_fd, 0);
        lanes.failed = r < 0; /* a late answer would be taken for another's */
    }
    if (r == 0 && ret->kind == WRK_ASK_PEER_IN) {
        wrk_hooks.peer_arrived(ret->own, *ret_fd);
        return -EINPROGRESS;
    }
    if (r < 0 || ret->kind != WRK_ASK_LANE)
        return r;
    keep_lane(ret->own, *ret_fd);
    return -EINPROGRESS;
}

int
wrk_lanes_answer(struct wrk_ask *ret, int *ret_fd)
{
    int r;

    do
        r = next(ret, ret_fd);
    while (r == -EINPROGRESS);
    return r;
}

void
wrk_lanes_collect(void)
{
    struct wrk_ask ask;
    struct pollfd pending = {.fd = WRK_FD_ASK, .events = POLLIN};
    int fd;

    while (poll(&pending, 1, 0) == 1 && next(&ask, &fd) == -EINPROGRESS)
        ;
}

static bool
all_here(uint32_t n)
{
    while (n && lanes.fd[n - 1])
        n--;
    return n == 0;
}

CUresult
h_gp_lanes(struct wrk *w, const struct wire_args_gp_lanes *a, struct wrk_reply *rep)
{
    struct wire_gp_lanes_rep *body = rep->body;
    struct gp_err err = {0};
    struct wrk_ask ask;
    int fd;

    if (a->n == 0 || a->n > XPORT_LANES_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    /* The supervisor answered the client after it had sent them: they are there. */
    while (!all_here(a->n) && next(&ask, &fd) == -EINPROGRESS)
        ;
    if (!all_here(a->n) || xport_lanes_add(w->priv->conn, lanes.fd, a->n, &err) < 0) {
        gp_log_warn("worker", "no further connections: %s",
                    err.code ? err.msg : "they did not come");
        return CUDA_SUCCESS;
    }
    xport_lanes_use(w->priv->conn);
    body->taken = a->n;
    return CUDA_SUCCESS;
}
