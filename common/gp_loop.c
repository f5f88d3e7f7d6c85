/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_loop.h"

#include "gp_err.h"
#include "gp_time.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

/* Events taken from the kernel at once.  A callback may remove a source whose event is
 * still in the batch, so removal scrubs the batch. */
#define LOOP_BATCH 64

struct gp_loop {
    int epoll_fd;
    bool stopped;
    int result;
    struct gp_tree timers; /* by deadline, then in the order of arming */
    uint64_t n_armed;      /* that ever were */
    int batch_at, batch_len;
    struct epoll_event batch[LOOP_BATCH];
    int signal_fd;
    struct gp_loop_fd signal_src;
    void (*signal_cb)(struct gp_loop *loop, int signo, void *arg);
    void *signal_arg;
};

int
gp_loop_new(struct gp_loop **ret, struct gp_err *err)
{
    struct gp_loop *loop = calloc(1, sizeof(*loop));

    if (!loop)
        return gp_err_set(err, -ENOMEM, "event loop: out of memory");
    loop->signal_fd = -1;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0) {
        int r = gp_err_set(err, -errno, "event loop: %s", strerror(errno));

        free(loop);
        return r;
    }
    *ret = loop;
    return 0;
}

void
gp_loop_free(struct gp_loop *loop)
{
    if (!loop)
        return;
    if (loop->signal_fd >= 0)
        close(loop->signal_fd);
    close(loop->epoll_fd);
    free(loop);
}

int
gp_loop_fd_add(struct gp_loop *loop, struct gp_loop_fd *src, int fd, uint32_t events,
               void (*cb)(struct gp_loop_fd *, uint32_t))
{
    struct epoll_event ev = {.events = events, .data.ptr = src};

    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
        return -errno;
    src->fd = fd;
    src->cb = cb;
    src->loop = loop;
    return 0;
}

int
gp_loop_fd_set(struct gp_loop_fd *src, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = src};

    return epoll_ctl(src->loop->epoll_fd, EPOLL_CTL_MOD, src->fd, &ev) < 0 ? -errno : 0;
}

void
gp_loop_fd_del(struct gp_loop_fd *src)
{
    struct gp_loop *loop = src->loop;

    if (!loop)
        return;
    epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, src->fd, NULL);
    for (int i = loop->batch_at; i < loop->batch_len; i++)
        if (loop->batch[i].data.ptr == src)
            loop->batch[i].data.ptr = NULL;
    src->loop = NULL;
}

void
gp_loop_timer_set(struct gp_loop *loop, struct gp_loop_timer *src, uint64_t deadline_ns,
                  void (*cb)(struct gp_loop_timer *))
{
    gp_loop_timer_del(src);
    *src = (struct gp_loop_timer){.cb = cb, .loop = loop, .deadline_ns = deadline_ns};
    gp_tree_insert(&loop->timers, &src->node, deadline_ns, loop->n_armed++);
}

void
gp_loop_timer_del(struct gp_loop_timer *src)
{
    if (!src->loop)
        return;
    gp_tree_remove(&src->loop->timers, &src->node);
    src->loop = NULL;
}

static struct gp_loop_timer *
first_timer(const struct gp_loop *loop)
{
    struct gp_tree_node *node = gp_tree_first(&loop->timers);

    return node ? container_of(node, struct gp_loop_timer, node) : NULL;
}

static void
on_signal(struct gp_loop_fd *src, uint32_t revents)
{
    struct gp_loop *loop = container_of(src, struct gp_loop, signal_src);
    struct signalfd_siginfo info;

    while (read(src->fd, &info, sizeof(info)) == sizeof(info))
        loop->signal_cb(loop, (int)info.ssi_signo, loop->signal_arg);
}

int
gp_loop_signals(struct gp_loop *loop, const int *signals,
                void (*cb)(struct gp_loop *, int, void *), void *arg,
                struct gp_err *err)
{
    sigset_t set;

    sigemptyset(&set);
    for (; *signals; signals++)
        sigaddset(&set, *signals);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return gp_err_set(err, -errno, "sigprocmask: %s", strerror(errno));
    loop->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (loop->signal_fd < 0)
        return gp_err_set(err, -errno, "signalfd: %s", strerror(errno));
    loop->signal_cb = cb;
    loop->signal_arg = arg;
    return gp_loop_fd_add(loop, &loop->signal_src, loop->signal_fd, EPOLLIN, on_signal);
}

static void
run_timers(struct gp_loop *loop)
{
    uint64_t now = gp_now_ns();
    struct gp_loop_timer *timer;

    while (!loop->stopped && (timer = first_timer(loop)) && timer->deadline_ns <= now) {
        gp_loop_timer_del(timer);
        timer->cb(timer);
    }
}

int
gp_loop_run(struct gp_loop *loop)
{
    loop->stopped = false;
    while (!loop->stopped) {
        const struct gp_loop_timer *first = first_timer(loop);
        uint64_t deadline = first ? first->deadline_ns : GP_FOREVER;
        int n =
            epoll_wait(loop->epoll_fd, loop->batch, LOOP_BATCH, gp_poll_ms(deadline));

        if (n < 0 && errno != EINTR)
            return -errno;
        loop->batch_len = gp_max(n, 0);
        for (loop->batch_at = 0; loop->batch_at < loop->batch_len && !loop->stopped;) {
            const struct epoll_event *ev = &loop->batch[loop->batch_at++];
            struct gp_loop_fd *src = ev->data.ptr;

            if (src)
                src->cb(src, ev->events);
        }
        loop->batch_len = 0;
        run_timers(loop);
    }
    return loop->result;
}

void
gp_loop_stop(struct gp_loop *loop, int result)
{
    loop->stopped = true;
    loop->result = result;
}
