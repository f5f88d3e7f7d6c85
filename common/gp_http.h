/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP server on a daemon's event loop: listening, limits, one answer for each
 * request.  For metrics and pages that a daemon shows of itself, not for uploads: the
 * body of a request is read and dropped.
 *
 * libmicrohttpd, without a thread: the loop accepts (gp_listener.h, so that a process
 * without descriptors waits and does not spin) and drives it.  Above a mark the oldest
 * connection ends for each that comes, so that idle clients cannot keep a scraper out
 * until a timeout.  Owned by whoever started it; loop thread only.
 */
#ifndef GP_HTTP_H
#define GP_HTTP_H

#include "gp_base.h"

#include <stdio.h>

struct gp_err;
struct gp_http;
struct gp_loop;

/* Scrapers are few, and one comes at a time; more connections are somebody else's. */
#define GP_HTTP_CONNECTIONS_MAX 32
/* A connection that says nothing for so long ends. */
#define GP_HTTP_IDLE_S 10

/* What a request is answered.  It starts as 200, text/plain and empty. */
struct gp_http_answer {
    unsigned status;
    const char *type; /* Content-Type: static storage */
    FILE *body;       /* is written to; closed by gp_http */
};

typedef void gp_http_handler(void *arg, const char *method, const char *path,
                             struct gp_http_answer *answer);

/* @listen is "host:port", or "host" with @default_port.  @handler gets @arg.
 * @on_trouble: accepting failed with this -errno; it is tried again by itself. */
int gp_http_start(struct gp_loop *loop, const char *listen, unsigned default_port,
                  gp_http_handler *handler, void (*on_trouble)(void *arg, int error),
                  void *arg, struct gp_http **ret, struct gp_err *err);
void gp_http_stop(struct gp_http *http); /* NULL is a no-op */
DEFINE_CLEANUP(struct gp_http, gp_http_stop)

unsigned gp_http_port(const struct gp_http *http);

#endif
