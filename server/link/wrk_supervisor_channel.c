/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_supervisor_channel.h"

#include "gp_time.h"
#include "gp_wire.h"
#include "wrk_conf.h"
#include "wrk_desk.h"
#include "wrk_hooks.h"
#include "wrk_link.h"
#include "wrk_request.h"
#include "wrk_resume.h"
#include "wrk_stripes.h"
#include "wrk_tls.h"
#include "xport.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* A supervisor that takes longer is in trouble: go on without it, unless there may be
 * none for a while. */
#define ANSWER_S 2
/* How often to see whether another has taken over. */
#define LOOK_NS (200 * GP_NS_PER_MS)

static const struct wrk_desks *desks;

static struct {
    int fd[XPORT_STRIPES_MAX]; /* 0: none */
    struct gp_wire *wire[XPORT_STRIPES_MAX];
    uint64_t round;
    bool failed;
} stripes;

void
wrk_stripes_fini(struct wrk_stripes *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        gp_wire_free(TAKE_PTR(s->wire[i]));
        if (s->fd[i] > 0)
            close(s->fd[i]);
        s->fd[i] = 0;
    }
    s->n = 0;
}

/* All that are kept, which are none then. */
static struct wrk_stripes
stripes_take(void)
{
    struct wrk_stripes all = {.n = XPORT_STRIPES_MAX};

    memcpy(all.fd, stripes.fd, sizeof(all.fd));
    memcpy(all.wire, stripes.wire, sizeof(all.wire));
    memset(stripes.fd, 0, sizeof(stripes.fd));
    memset(stripes.wire, 0, sizeof(stripes.wire));
    return all;
}

static void
keep_stripe(uint64_t round, uint32_t index, int fd, const struct tls_keys *tls)
{
    if (fd < 0)
        return;
    if (round > stripes.round) { /* the client could not make those before */
        struct wrk_stripes old = stripes_take();

        wrk_stripes_fini(&old);
        stripes.round = round;
    }
    if (round < stripes.round || index >= XPORT_STRIPES_MAX || stripes.fd[index] ||
        wrk_tls_layer(tls, &stripes.wire[index], NULL) < 0)
        close(fd);
    else
        stripes.fd[index] = fd;
}

/* One message; a connection is kept and gives -EINPROGRESS.  -EAGAIN: none came. */
static int
next(struct wrk_request *ret, int *ret_fd)
{
    struct timeval patience = {.tv_usec = LOOK_NS / 1000};
    int r = stripes.failed ? -EPIPE : 0;

    if (r == 0) {
        setsockopt(WRK_FD_REQUEST, SOL_SOCKET, SO_RCVTIMEO, &patience,
                   sizeof(patience));
        r = wrk_request_recv(WRK_FD_REQUEST, ret, ret_fd, 0);
    }
    if (r == 0 && ret->kind == WRK_REQUEST_PEER_IN) {
        wrk_hooks.peer_arrived(ret->own, *ret_fd, &ret->tls);
        return -EINPROGRESS;
    }
    if (r < 0 || ret->kind != WRK_REQUEST_STRIPE)
        return r;
    keep_stripe(ret->bytes, ret->own, *ret_fd, &ret->tls);
    return -EINPROGRESS;
}

void
wrk_supervisor_open(const struct wrk_desks *of)
{
    desks = of;
}

static uint64_t
patience_end(void)
{
    return gp_now_ns() + (ANSWER_S + desks->window_s) * GP_NS_PER_S;
}

/* The reply to request @seq; one to a request before it came twice, because two
 * supervisors were asked. */
static int
await(uint32_t seq, uint64_t until, uint32_t successors, struct wrk_request *ret,
      int *ret_fd)
{
    for (;;) {
        int r = next(ret, ret_fd);

        if (r == 0 && ret->seq == seq)
            return 0;
        if (r == 0 && *ret_fd >= 0)
            close(*ret_fd);
        if (r < 0 && r != -EINPROGRESS && r != -EAGAIN)
            return r;
        if (r == -EAGAIN && atomic_load(&desks->successors) != successors)
            return -ESTALE;
        if (gp_now_ns() >= until)
            return -ETIMEDOUT;
    }
}

int
wrk_supervisor_ask(struct wrk_request *ask, int fd, int *ret_fd)
{
    static uint32_t last;
    uint64_t until = patience_end();
    struct wrk_request reply;
    uint32_t successors;
    int r;

    ask->seq = ++last;
    do {
        successors = atomic_load(&desks->successors);
        r = stripes.failed ? -EPIPE
                           : wrk_request_send(WRK_FD_REQUEST, ask, fd, MSG_NOSIGNAL);
        if (r == 0)
            r = await(ask->seq, until, successors, &reply, ret_fd);
    } while (r == -ESTALE);
    stripes.failed |= r < 0;
    if (r == 0)
        *ask = reply;
    return r;
}

void
wrk_supervisor_collect(void)
{
    struct wrk_request ask;
    struct pollfd pending = {.fd = WRK_FD_REQUEST, .events = POLLIN};
    int fd;

    while (poll(&pending, 1, 0) == 1 && next(&ask, &fd) == -EINPROGRESS)
        ;
}

void
wrk_supervisor_idle(struct wrk *w)
{
    (void)w;
    if (wrk_resume_was_replaced())
        wrk_supervisor_collect();
}

static bool
all_here(uint64_t round, uint32_t n)
{
    while (n && stripes.fd[n - 1])
        n--;
    return n == 0 && round == stripes.round;
}

int
wrk_supervisor_stripes(uint32_t round, uint32_t n, struct wrk_stripes *ret)
{
    struct wrk_request ask;
    int fd;

    /* The supervisor replied to the client after it had sent them: they are here. */
    while (!all_here(round, n) && round >= stripes.round &&
           next(&ask, &fd) == -EINPROGRESS)
        ;
    if (!all_here(round, n))
        return -ENOENT;
    *ret = stripes_take();
    return 0;
}
