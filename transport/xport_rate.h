/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a socket really takes bytes away, measured while we send anyway.
 *
 * send(2) returns when the bytes lie in the kernel's queue, so its time says nothing on
 * a slow link.  What the link took meanwhile is what we gave less what the queue grew.
 * Sums fade, so the last fraction of a second of sending counts most.  Storage is the
 * caller's, zero-initialised; the sending thread only.
 */
#ifndef XPORT_RATE_H
#define XPORT_RATE_H

#include "gp_base.h"
#include "gp_time.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

/* How many measurements the best is taken of. */
#define XPORT_RATE_BEST 8

/* Of sending: a change of the link shows after about this. */
#define XPORT_RATE_NS (50 * GP_NS_PER_MS)

struct xport_rate {
    double bytes, ns;
    uint64_t taken; /* by the link, since ever */
    uint64_t began_ns;
    double took_ns; /* the last one */
    int64_t began_queue;
    double recent[XPORT_RATE_BEST]; /* ns a byte; 0: not measured yet */
    unsigned next;
};

static inline int64_t
xport_rate_queue(const int *fds, unsigned n)
{
    int64_t sum = 0;

    for (unsigned i = 0; i < n; i++) {
        int queued = 0;

        if (ioctl(fds[i], SIOCOUTQ, &queued) == 0)
            sum += queued;
    }
    return sum;
}

static inline void
xport_rate_begin(struct xport_rate *rate, const int *fds, unsigned n)
{
    rate->began_queue = xport_rate_queue(fds, n);
    rate->began_ns = gp_now_ns();
}

/* @len bytes were given to the sockets since. */
static inline void
xport_rate_end(struct xport_rate *rate, const int *fds, unsigned n, uint64_t len)
{
    int64_t taken = (int64_t)len + rate->began_queue - xport_rate_queue(fds, n);
    double ns = (double)(gp_now_ns() - rate->began_ns);

    rate->took_ns = ns;
    taken = gp_max(taken, INT64_C(1));
    /* What an idle connection takes goes into the peer's buffers, which says nothing.
     */
    if (rate->began_queue > 0)
        rate->recent[rate->next++ % XPORT_RATE_BEST] = ns / (double)taken;
    rate->taken += (uint64_t)taken;
    rate->bytes += (double)taken;
    rate->ns += ns;
    if (rate->ns > XPORT_RATE_NS) {
        rate->bytes /= 2;
        rate->ns /= 2;
    }
}

/* What the last send took, in ns. */
static inline double
xport_rate_took(const struct xport_rate *rate)
{
    return rate->took_ns;
}

/* Nanoseconds a byte takes; 0: not known yet. */
static inline double
xport_rate_cost(const struct xport_rate *rate)
{
    return rate->bytes > 0 ? rate->ns / rate->bytes : 0;
}

/* The least that a byte took lately; 0 until there are enough measurements.  On a slow
 * link all are slow; on a fast one some are, because the processor went to others. */
static inline double
xport_rate_best(const struct xport_rate *rate)
{
    double best = rate->recent[0];

    for (unsigned i = 1; i < XPORT_RATE_BEST; i++)
        best = gp_min(best, rate->recent[i]);
    return best;
}

#endif
