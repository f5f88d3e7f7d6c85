/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /metrics in the Prometheus text format.
 *
 * libmicrohttpd in external-epoll mode, driven by the scheduler's own loop: no
 * thread, so it reads the scheduler's objects directly.  Owned by struct sched.
 * Serves totals per server and per card, never one series per session and card.
 */
#ifndef SCHED_METRICS_H
#define SCHED_METRICS_H

#include "gp_base.h"

struct gp_err;
struct sched;
struct sched_metrics;

/* @listen is "host:port". */
int sched_metrics_start(struct sched *sched, const char *listen,
                        struct sched_metrics **ret_metrics, struct gp_err *err);
void sched_metrics_stop(struct sched_metrics *metrics); /* NULL is a no-op */
DEFINE_CLEANUP(struct sched_metrics, sched_metrics_stop)

#endif
