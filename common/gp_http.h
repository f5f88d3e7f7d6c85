/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP server on a daemon's event loop: listening, limits, one answer for each
 * request.  For metrics and pages that a daemon shows of itself, not for uploads: the
 * body of a request is read and dropped.
 *
 * libmicrohttpd, without a thread: the loop accepts (gp_listener.h, so that a process
 * without descriptors waits and does not spin) and drives it.  Above a mark one
 * connection ends for each that comes: the oldest idle one of the address that holds
 * most of them, so that an address can only crowd out itself.  A request must be
 * complete, and an answer read, within a time, however slowly bytes trickle.  Owned by
 * whoever started it; loop thread only.
 */
#ifndef GP_HTTP_H
#define GP_HTTP_H

#include "gp_base.h"

#include <stdio.h>

struct MHD_Connection;
struct gp_err;
struct gp_http;
struct gp_loop;

/* Scrapers are few, and one comes at a time; more connections are somebody else's. */
#define GP_HTTP_CONNECTIONS_MAX 32
/* A connection that says nothing for so long ends. */
#define GP_HTTP_IDLE_S 10
/* A request is complete (TLS handshake, headers and body) so long after its connection
 * was made or may have begun it: a client that sends a byte now and then is ended too.
 */
#define GP_HTTP_REQUEST_MS 10000
/* An answer is read within this time: the largest, 70 MiB of a pool of 80,000 cards,
 * over a link of 2 Mbit/s. */
#define GP_HTTP_ANSWER_MS 300000

/* What is asked.  Strings are the peer's: any bytes but NUL, of any length below
 * GP_HTTP_HEAD_MAX together. */
struct gp_http_request {
    const char *method, *path;
    int fd;      /* the connection's, to learn who the peer is */
    bool secure; /* over TLS */
    struct MHD_Connection *connection;
};

/* The value of a header, or NULL. */
const char *gp_http_header(const struct gp_http_request *request, const char *name);
/* Call @fn for each "name=value" behind the question mark, decoded, until it returns
 * false. */
void gp_http_query(const struct gp_http_request *request,
                   bool (*fn)(void *arg, const char *name, const char *value),
                   void *arg);

/* The request line and the headers; a bearer token is far below it. */
#define GP_HTTP_HEAD_MAX ((size_t)16 * 1024)

/* What a request is answered.  It starts as 200, text/plain and empty. */
struct gp_http_answer {
    unsigned status;
    const char *type;        /* Content-Type: static storage */
    char retry_after[16];    /* header Retry-After, seconds; or empty */
    const char *const *more; /* headers: name, value, ..., NULL; static, or NULL */
    FILE *body;              /* is written to; closed by gp_http */
    /* What is too large for one turn of the loop: called for the next piece of the body
     * when the one before has gone out, until it returns false.  @state is its own;
     * @done is called for it at the end, if there is @next or @tail. */
    bool (*next)(void *state, FILE *body);
    /* Or, without @next, what follows @body as it is and is not copied: it must stay
     * until @done. */
    const void *tail;
    size_t tail_size;
    void (*done)(void *state);
    void *state;
};

typedef void gp_http_handler(void *arg, const struct gp_http_request *request,
                             struct gp_http_answer *answer);

struct gp_http_config {
    const char *listen;     /* "host:port", "unix:/path", or "host" with */
    unsigned default_port;  /* ... this; 0: the port must be there */
    const char *cert, *key; /* PEM texts: TLS; NULL: clear text */
    gp_http_handler *handler;
    /* Accepting failed with this -errno; it is tried again by itself. */
    void (*on_trouble)(void *arg, int error);
    void *arg;           /* of both */
    unsigned request_ms; /* 0: GP_HTTP_REQUEST_MS */
    unsigned answer_ms;  /* 0: GP_HTTP_ANSWER_MS */
};

int gp_http_start(struct gp_loop *loop, const struct gp_http_config *config,
                  struct gp_http **ret, struct gp_err *err);
void gp_http_stop(struct gp_http *http); /* NULL is a no-op */
DEFINE_CLEANUP(struct gp_http, gp_http_stop)

/* Another certificate and its key, PEM texts that the server takes for the connections
 * that come.  Made on any thread, used on the loop's; -EIO: they do not belong
 * together.
 */
struct gp_http_cert;
int gp_http_cert_new(struct gp_http *http, const char *cert, const char *key,
                     struct gp_http_cert **ret, struct gp_err *err);
void gp_http_cert_free(struct gp_http_cert *cert); /* NULL is a no-op */
DEFINE_CLEANUP(struct gp_http_cert, gp_http_cert_free)
/* Takes @cert over.  A connection that is open gets the answer to what it has asked, or
 * asks next, and ends then; one that is left from an earlier call ends now. */
int gp_http_cert_use(struct gp_http *http, struct gp_http_cert *cert,
                     struct gp_err *err);

unsigned gp_http_port(const struct gp_http *http);
/* Where it listens, for the log; @buf >= GP_NET_NAME_MAX. */
const char *gp_http_name(const struct gp_http *http, char *buf, size_t size);

#endif
