/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon's numbers for Prometheus: the endpoint, and its text format.
 *
 * The endpoint serves GET /metrics (and /metric, which an earlier exporter had) and GET
 * /healthz, which says "ok" as long as the loop turns; nothing can be changed there.
 * The text is made by the daemon when it is asked for, in its loop, so it reads its own
 * objects.  Owned by whoever started it; loop thread only.
 */
#ifndef GP_METRICS_H
#define GP_METRICS_H

#include "gp_base.h"

#include <stdio.h>

struct gp_err;
struct gp_loop;
struct gp_metrics;

/* What @write puts out is the answer; @area is the log's.  @listen is "host:port", or
 * "host" unless @default_port is 0. */
int gp_metrics_start(struct gp_loop *loop, const char *listen, unsigned default_port,
                     const char *area, void (*write)(const void *arg, FILE *out),
                     const void *arg, struct gp_metrics **ret, struct gp_err *err);
void gp_metrics_stop(struct gp_metrics *metrics); /* NULL is a no-op */

/* The two lines before a metric's values.  @type is "counter" or "gauge". */
void gp_metrics_head(FILE *out, const char *name, const char *type, const char *help);

/* NAME="VALUE" of a label, with what the format wants escaped. */
void gp_metrics_label(FILE *out, const char *name, const char *value);

#endif
