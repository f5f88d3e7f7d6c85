/* SPDX-License-Identifier: Apache-2.0 */
#include "gp_listener.h"

#include "gp_log.h"
#include "gp_net.h"
#include "gp_time.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

void
gp_listener_resume(struct gp_listener *l)
{
    if (!l->paused)
        return;
    l->paused = false;
    gp_loop_timer_del(&l->pause);
    gp_loop_fd_set(&l->src, EPOLLIN);
}

static void
on_pause_over(struct gp_loop_timer *timer)
{
    gp_listener_resume(container_of(timer, struct gp_listener, pause));
}

void
gp_listener_hold(struct gp_listener *l, uint64_t ns)
{
    if (!l->src.loop)
        return;
    l->paused = true;
    gp_loop_fd_set(&l->src, 0);
    gp_loop_timer_set(l->loop, &l->pause, gp_now_ns() + ns, on_pause_over);
}

static void
on_readable(struct gp_loop_fd *src, uint32_t revents)
{
    struct gp_listener *l = container_of(src, struct gp_listener, src);

    (void)revents;
    for (int i = 0; i < GP_LISTENER_BATCH; i++) {
        int fd;
        int r = gp_net_accept(src->fd, &fd);

        if (r == -EAGAIN)
            return;
        if (r < 0) {
            gp_listener_hold(l, GP_LISTENER_PAUSE_MS * GP_NS_PER_MS);
            l->on_trouble(l, r);
            return;
        }
        l->on_accept(l, fd);
        if (!src->loop || l->paused) /* the callback has ended or held the listener */
            return;
    }
}

int
gp_listener_init(struct gp_listener *l, struct gp_loop *loop, int fd,
                 void (*on_accept)(struct gp_listener *, int fd),
                 void (*on_trouble)(struct gp_listener *, int error))
{
    *l = (struct gp_listener){
        .loop = loop, .on_accept = on_accept, .on_trouble = on_trouble};
    return gp_loop_fd_add(loop, &l->src, fd, EPOLLIN, on_readable);
}

void
gp_listener_fini(struct gp_listener *l)
{
    int fd = l->src.fd;

    if (!l->src.loop)
        return;
    l->paused = false;
    gp_loop_timer_del(&l->pause);
    gp_loop_fd_del(&l->src);
    close(fd);
}

/* Clients wait in the kernel's queue meanwhile. */
void
gp_listener_log_trouble(struct gp_log_limit *limit, const char *area, int error)
{
    uint32_t skipped;

    if (gp_log_limit_ok(limit, &skipped))
        gp_log_warn(area,
                    "cannot accept a connection: %s; it is tried again every %d ms%s "
                    "(%u such lines left out)",
                    strerror(-error), GP_LISTENER_PAUSE_MS,
                    error == -EMFILE ? ", raise the limit of open files (ulimit -n, "
                                       "LimitNOFILE= of the unit)"
                                     : "",
                    skipped);
}
