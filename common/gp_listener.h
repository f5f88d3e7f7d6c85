/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listening socket on an event loop.
 *
 * Accepts in batches, so that a flood of connections does not starve the loop's other
 * sources.  When the process or the host is out of descriptors or memory, the
 * connections stay in the kernel's queue and the socket is left alone for
 * GP_LISTENER_PAUSE_MS: a level-triggered loop would otherwise spin, because the
 * listener stays readable.  The cause is logged once per pause at most, by the owner's
 * on_trouble.  An owner that is at a limit of its own leaves them there as well
 * (gp_listener_hold()): they wait in the order in which they came.
 *
 * Storage is the caller's; loop thread only.
 */
#ifndef GP_LISTENER_H
#define GP_LISTENER_H

#include "gp_loop.h"

/* Long enough that a pause costs nothing, short enough that a client does not notice.
 */
#define GP_LISTENER_PAUSE_MS 250

/* Connections per turn of the loop. */
#define GP_LISTENER_BATCH 32

struct gp_log_limit;

struct gp_listener {
    struct gp_loop *loop;
    struct gp_loop_fd src;
    struct gp_loop_timer pause;
    bool paused;
    /* The owner of the listener also owns @fd, a connected non-blocking socket. */
    void (*on_accept)(struct gp_listener *listener, int fd);
    /* accept() failed with @error (-errno); it is tried again by itself. */
    void (*on_trouble)(struct gp_listener *listener, int error);
};

/* @fd is listening and belongs to @listener on success. */
int gp_listener_init(struct gp_listener *listener, struct gp_loop *loop, int fd,
                     void (*on_accept)(struct gp_listener *, int fd),
                     void (*on_trouble)(struct gp_listener *, int error));
/* Accept none for so long.  May be called by on_accept. */
void gp_listener_hold(struct gp_listener *listener, uint64_t ns);
/* Accept again before that is over; not held: a no-op. */
void gp_listener_resume(struct gp_listener *listener);
void gp_listener_fini(struct gp_listener *listener); /* not initialised: a no-op */

/* For an owner's on_trouble: a warning in the log with the remedy, at most as often as
 * @limit allows. */
void gp_listener_log_trouble(struct gp_log_limit *limit, const char *area, int error);

#endif
