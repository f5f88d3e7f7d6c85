/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prometheus metrics of the server: GET /metrics on --metrics-listen.
 *
 * libmicrohttpd behind the supervisor's own event loop, no thread; text is made
 * when asked for.  Numbers only, nothing can be changed from here.
 */
#ifndef SRV_METRICS_H
#define SRV_METRICS_H

struct gp_err;
struct srv;
struct srv_metrics;

/* Without --metrics-listen a no-op with *ret = NULL. */
int srv_metrics_start(struct srv *srv, struct srv_metrics **ret, struct gp_err *err);
void srv_metrics_free(struct srv_metrics *m); /* NULL is a no-op */

#endif
