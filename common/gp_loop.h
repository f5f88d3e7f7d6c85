/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop of the daemons: descriptors, timers, signals, over epoll.
 *
 * One loop per thread; nothing here is thread-safe.  Sources are the caller's storage
 * (embedded in its objects); a source must be removed before its storage goes away, and
 * may be removed in any callback, its own included.  Not used by the stub or the
 * worker's hot path.
 */
#ifndef GP_LOOP_H
#define GP_LOOP_H

#include "gp_base.h"
#include "gp_tree.h"

struct gp_err;
struct gp_loop;

/* A watched descriptor.  @events and @revents are EPOLLIN, EPOLLOUT...; EPOLLHUP and
 * EPOLLERR are always reported. */
struct gp_loop_fd {
    int fd;
    void (*cb)(struct gp_loop_fd *src, uint32_t revents);
    struct gp_loop *loop; /* NULL when not added */
};

/* A one-shot timer on the gp_now_ns() clock; re-arm it in its callback to repeat. */
struct gp_loop_timer {
    void (*cb)(struct gp_loop_timer *src);
    struct gp_loop *loop; /* NULL when not armed */
    uint64_t deadline_ns;
    struct gp_tree_node node;
};

int gp_loop_new(struct gp_loop **ret, struct gp_err *err);
void gp_loop_free(struct gp_loop *loop); /* NULL is a no-op */
DEFINE_CLEANUP(struct gp_loop, gp_loop_free)

int gp_loop_fd_add(struct gp_loop *loop, struct gp_loop_fd *src, int fd,
                   uint32_t events, void (*cb)(struct gp_loop_fd *, uint32_t));
int gp_loop_fd_set(struct gp_loop_fd *src, uint32_t events);
void gp_loop_fd_del(struct gp_loop_fd *src); /* not added: a no-op */

/* Arms or re-arms. */
void gp_loop_timer_set(struct gp_loop *loop, struct gp_loop_timer *src,
                       uint64_t deadline_ns, void (*cb)(struct gp_loop_timer *));
void gp_loop_timer_del(struct gp_loop_timer *src); /* not armed: a no-op */

/* Block @signals (a zero-terminated list) in this thread and have @cb called from the
 * loop for each that arrives.  Once per loop, before any thread is made. */
int gp_loop_signals(struct gp_loop *loop, const int *signals,
                    void (*cb)(struct gp_loop *loop, int signo, void *arg), void *arg,
                    struct gp_err *err);

/* Run until gp_loop_stop(); returns what was given there, or -errno. */
int gp_loop_run(struct gp_loop *loop);
void gp_loop_stop(struct gp_loop *loop, int result);

#endif
