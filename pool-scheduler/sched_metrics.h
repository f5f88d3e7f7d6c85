/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /metrics (and /metric, as an earlier exporter had it) in the Prometheus format.
 *
 * libmicrohttpd in external-epoll mode, driven by the scheduler's own loop: no
 * thread, so the scheduler's objects are read directly (sched_metrics_text.h).  Owned
 * by struct sched.
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
