/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running a function on the scheduler's event loop, for another thread that waits for
 * it.
 *
 * The loop takes one call per turn of its own descriptor, so that requests of the view
 * and decisions take turns.  Storage is the owner's; init, close and fini on the loop's
 * thread, view_calls_do() on any other.
 */
#ifndef VIEW_CALL_H
#define VIEW_CALL_H

#include "gp_loop.h"

#include <pthread.h>

struct view_call;

struct view_calls {
    struct view_call *running; /* the loop's alone */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct view_call *first, **end;
    bool closed;
    int event_fd;
    struct gp_loop_fd src;
};

int view_calls_init(struct view_calls *calls, struct gp_loop *loop);
/* No call runs from now on; those that wait are told so. */
void view_calls_close(struct view_calls *calls);
void view_calls_fini(struct view_calls *calls); /* closed, and nobody waits */

/* Within @fn, on the loop's thread: the call does not end with it, but with
 * view_calls_end(), which is due whatever happens. */
struct view_call *view_calls_defer(struct view_calls *calls);
void view_calls_end(struct view_calls *calls, struct view_call *call);

/* Run @fn on the loop's thread and wait.  False: it is closed, and @fn did not run. */
bool view_calls_do(struct view_calls *calls, void (*fn)(void *arg), void *arg);

#endif
