/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's state as Prometheus text.
 *
 * /metrics has the pool, its servers and its tenants: the number of series grows with
 * servers and tenants (up to a thousand, the rest summed up), never with cards or
 * sessions.  It is made in one turn of the loop, so its numbers are of one moment, and
 * it is held until it is sent: 5 MiB with 10,000 servers, for each of the few
 * connections that gp_http.h allows.
 * /metrics/cards has a series of each card: sched_metrics_cards.h.
 * /metric is what an earlier exporter had and dashboards of it read: the container_*
 * names, which are per session, and the sessions' own numbers; it ends after
 * SCHED_METRICS_SESSIONS_MAX of them, and comes in pieces, so that decisions go on
 * between them.
 *
 * Reads, changes nothing; event loop thread only.  Not HTTP (gp_metrics.h).
 */
#ifndef SCHED_METRICS_TEXT_H
#define SCHED_METRICS_TEXT_H

struct gp_http_answer;
struct gp_http_request;

/* As many as one server runs at most: what that exporter was made for. */
#define SCHED_METRICS_SESSIONS_MAX 4096

/* @sched is a struct sched. */
void sched_metrics_answer(void *sched, const struct gp_http_request *request,
                          struct gp_http_answer *answer);

#endif
