/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's numbers as Prometheus text, served on --metrics-listen.
 *
 * Reads, changes nothing; event loop thread only.  Not HTTP (gp_metrics.h).
 */
#ifndef SRV_METRICS_H
#define SRV_METRICS_H

struct gp_err;
struct srv;

/* Sets srv->metrics, which gp_metrics_stop() ends; a no-op without --metrics-listen. */
int srv_metrics_start(struct srv *srv, struct gp_err *err);

#endif
