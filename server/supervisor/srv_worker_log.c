/* SPDX-License-Identifier: Apache-2.0 */
#include "srv_worker_log.h"

#include "gp_err.h"
#include "gp_log.h"
#include "gp_loop.h"
#include "gp_time.h"
#include "srv.h"
#include "srv_types.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Longer lines are cut in pieces. */
#define LINE_MAX_BYTES 1024

#define BURST_NS ((uint64_t)SRV_WORKER_LOG_BURST * GP_NS_PER_S / SRV_WORKER_LOG_RATE)

struct srv_worker_log {
    struct srv_worker *worker;
    struct gp_loop_fd in;
    struct gp_loop_timer again; /* the session may write again */
    bool told;                  /* that it wrote too much */
    size_t len;                 /* of the line that has no end yet */
    char line[LINE_MAX_BYTES];
};

/* Write the first @len bytes of it, and take them and @more behind them away. */
static void
line_out(struct srv_worker_log *log, size_t len, size_t more)
{
    if (len)
        gp_log_relay(log->worker->name, log->line, len);
    log->len -= len + more;
    memmove(log->line, log->line + len + more, log->len);
}

/* False: there is nothing more, or its end. */
static bool
copy_some(struct srv_worker_log *log)
{
    ssize_t n = read(log->in.fd, log->line + log->len, sizeof(log->line) - log->len);
    uint64_t now = gp_now_ns();
    const char *end;

    if (n <= 0)
        return n < 0 && errno == EINTR;
    log->len += (size_t)n;
    while ((end = memchr(log->line, '\n', log->len)))
        line_out(log, (size_t)(end - log->line), 1);
    if (log->len == sizeof(log->line))
        line_out(log, log->len, 0);
    log->worker->session->log_ns = gp_max(log->worker->session->log_ns, now) +
                                   (uint64_t)n * GP_NS_PER_S / SRV_WORKER_LOG_RATE;
    return true;
}

/* How long its session has to wait; 0: it may write. */
static uint64_t
excess_ns(const struct srv_worker_log *log)
{
    uint64_t limit = gp_now_ns() + BURST_NS, used = log->worker->session->log_ns;

    return used > limit ? used - limit : 0;
}

static void on_text(struct gp_loop_fd *src, uint32_t revents);

static void
on_again(struct gp_loop_timer *timer)
{
    struct srv_worker_log *log = container_of(timer, struct srv_worker_log, again);

    if (gp_loop_fd_add(log->worker->srv->loop, &log->in, log->in.fd, EPOLLIN, on_text) <
        0)
        gp_log_warn("server", "%s: its log is not read any more", log->worker->name);
}

static void
on_text(struct gp_loop_fd *src, uint32_t revents)
{
    struct srv_worker_log *log = container_of(src, struct srv_worker_log, in);
    uint64_t excess = excess_ns(log);

    if (!excess) {
        if (!copy_some(log) && revents & EPOLLHUP)
            gp_loop_fd_del(src); /* nobody can write any more */
        return;
    }
    if (!log->told)
        gp_log_warn("server",
                    "%s: the workers of its session write more than %u bytes a second "
                    "to the log; some of it is lost",
                    log->worker->name, SRV_WORKER_LOG_RATE);
    log->told = true;
    /* Not asked for: the end of the pipe would be reported again and again. */
    gp_loop_fd_del(src);
    gp_loop_timer_set(log->worker->srv->loop, &log->again, gp_now_ns() + excess,
                      on_again);
}

int
srv_worker_log_adopt(struct srv_worker *w, int fd)
{
    struct srv_worker_log *log = calloc(1, sizeof(*log));
    int r = log ? 0 : -ENOMEM;

    if (r == 0) {
        log->worker = w;
        r = gp_loop_fd_add(w->srv->loop, &log->in, fd, EPOLLIN, on_text);
    }
    if (r < 0) {
        free(log);
        return r;
    }
    w->log = log;
    return 0;
}

int
srv_worker_log_new(struct srv_worker *w, int *ret_fd, struct gp_err *err)
{
    int ends[2], r;

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return gp_err_set(err, -errno, "pipe of a worker: %s", strerror(errno));
    r = srv_worker_log_adopt(w, ends[0]);
    if (r < 0) {
        close(ends[0]);
        close(ends[1]);
        return gp_err_set(err, r, "pipe of a worker");
    }
    *ret_fd = ends[1];
    return 0;
}

int
srv_worker_log_fd(const struct srv_worker *w)
{
    return w->log ? w->log->in.fd : -1;
}

void
srv_worker_log_free(struct srv_worker *w)
{
    struct srv_worker_log *log = w->log;

    if (!log)
        return;
    /* A successor reads it where it goes on. */
    while (!w->srv->leaving && !excess_ns(log) && copy_some(log))
        ;
    line_out(log, log->len, 0);
    gp_loop_timer_del(&log->again);
    gp_loop_fd_del(&log->in);
    close(log->in.fd);
    free(log);
    w->log = NULL;
}
