/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon's numbers for Prometheus: the endpoint, and its text format.
 *
 * The endpoint serves GET /metrics (and /metric, for what grows with sessions, and a
 * page that the daemon names) and GET /healthz, which says "ok" as long as the loop
 * turns; nothing can be changed there.
 * The text is made by the daemon when it is asked for, in its loop, so it reads its own
 * objects.  Owned by whoever started it; loop thread only.
 */
#ifndef GP_METRICS_H
#define GP_METRICS_H

#include "gp_base.h"

#include <stdio.h>

struct gp_err;
struct gp_http_answer;
struct gp_http_request;
struct gp_loop;
struct gp_metrics;

struct gp_metrics_config {
    const char *listen; /* "host:port", or "host" unless @default_port is 0 */
    unsigned default_port;
    const char *area; /* the log's */
    const char *more; /* path of one more page; NULL: none */
    /* Writes the answer to the path of @request, maybe in pieces. */
    void (*answer)(void *arg, const struct gp_http_request *request,
                   struct gp_http_answer *answer);
    void *arg;
};

int gp_metrics_start(struct gp_loop *loop, const struct gp_metrics_config *config,
                     struct gp_metrics **ret, struct gp_err *err);
void gp_metrics_stop(struct gp_metrics *metrics); /* NULL is a no-op */

/* The two lines before a metric's values.  @type is "counter" or "gauge". */
void gp_metrics_head(FILE *out, const char *name, const char *type, const char *help);

/* The metric @name with the version of this program and, as `protocol`, the major
 * version of the control protocol, by which rolling upgrades are watched. */
void gp_metrics_build_info(FILE *out, const char *name, unsigned protocol);

/* NAME="VALUE" of a label, with what the format wants escaped. */
void gp_metrics_label(FILE *out, const char *name, const char *value);

#endif
