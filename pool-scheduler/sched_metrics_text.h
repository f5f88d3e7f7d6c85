/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's state as Prometheus text.
 *
 * /metrics has the pool, its cards and its tenants: the number of series grows with
 * cards and tenants (up to a thousand, the rest summed up), never with sessions.
 * /metric is what an earlier exporter had and dashboards of it read: the container_*
 * names, which are per session, and the sessions' own numbers; it ends after
 * SCHED_METRICS_SESSIONS_MAX of them.
 *
 * Large answers come in pieces, so that decisions go on between them; a number is of
 * the moment at which its piece was made.  Reads, changes nothing; event loop thread
 * only.  Not HTTP (gp_metrics.h).
 */
#ifndef SCHED_METRICS_TEXT_H
#define SCHED_METRICS_TEXT_H

struct gp_http_answer;

/* As many as one server runs at most: what that exporter was made for. */
#define SCHED_METRICS_SESSIONS_MAX 4096

/* @sched is a struct sched. */
void sched_metrics_answer(const void *sched, const char *path,
                          struct gp_http_answer *answer);

#endif
