/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the thread of wrk_watch.h is woken from a sleep without a timer, by whoever
 * receives or sends a frame.  Any thread.
 */
#ifndef WRK_WAKE_H
#define WRK_WAKE_H

#include "gp_base.h"
#include "wrk_priv.h"
#include "wrk_state.h"

#include <stdatomic.h>

/* Makes the descriptor that the thread sleeps on, which is readable once it is woken;
 * -errno. */
int wrk_wake_init(void);

/* That descriptor, and whether it was readable; then it is no more. */
int wrk_wake_fd(void);
void wrk_wake_clear(void);

void wrk_wake_now(struct wrk *w);

/* A frame has been received or sent.  There is no fence between that and this load, and
 * watch_sleeps() says why none is needed. */
static GP_INLINE void
wrk_wake(struct wrk *w)
{
    if (unlikely(atomic_load_explicit(&w->priv->watch_asleep, memory_order_relaxed)))
        wrk_wake_now(w);
}

#endif
