/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's state as Prometheus text: the pool, its cards, its sessions, and the
 * four container_* names of old dashboards.
 *
 * Reads, changes nothing; event loop thread only.  Not HTTP (gp_metrics.h).
 */
#ifndef SCHED_METRICS_TEXT_H
#define SCHED_METRICS_TEXT_H

#include <stdio.h>

/* @sched is a struct sched.  Errors of @f are the caller's to look at. */
void sched_metrics_write(const void *sched, FILE *f);

#endif
