/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to the scheduler that is made by a thread of its own, for those who are
 * on an event loop.
 *
 * It can take seconds, and must be allowed to: after a restart of the scheduler all of
 * a pool connects at once, and its handshakes are made one after the other, in the
 * order in which they came.  Who gives up and comes back begins at the end again, and
 * the scheduler's work for it was in vain; so deadlines grow, and the pauses between
 * attempts differ (ctl_dial_timeout_ns(), ctl_dial_pause_ns()).
 *
 * Storage is the caller's; event loop thread only.
 */
#ifndef CTL_DIAL_H
#define CTL_DIAL_H

#include "ctl_link.h"
#include "gp_loop.h"

struct ctl_dial_job;

struct ctl_dial {
    struct ctl_dial_job *job; /* NULL: none is being made */
    struct gp_loop_fd src;
    /* How it ended, as ctl_link_open(); @link may be taken. */
    void (*on_done)(struct ctl_dial *dial, int r, struct ctl_link *link,
                    const struct gp_err *err);
};

/* Begin one to @address, as ctl_link_open() without blocking.  -errno: no thread, and
 * nothing is called back. */
int ctl_dial_start(struct ctl_dial *dial, struct gp_loop *loop, const char *address,
                   const struct tls_api *tls, const struct ctl_pins *pins,
                   uint64_t timeout_ns,
                   void (*on_done)(struct ctl_dial *dial, int r, struct ctl_link *link,
                                   const struct gp_err *err));
/* Nothing is called back any more; none is being made: a no-op.  The thread, which may
 * be in a resolver, ends by itself. */
void ctl_dial_cancel(struct ctl_dial *dial);

/* What attempt number @attempts, from 0 on, may take.  @several: there are other
 * schedulers to try, and this one's host may be gone. */
uint64_t ctl_dial_timeout_ns(unsigned attempts, bool several);
/* About @ns: half of it to one and a half, another one each time. */
uint64_t ctl_dial_pause_ns(uint64_t ns);

#endif
