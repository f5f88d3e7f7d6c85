/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP with the API server: requests that wait, and requests on an event loop.
 *
 * One struct kube_http per thread.  A call that waits (kube_http_call()) reuses one
 * connection; requests on the loop (struct kube_stream) share a set of connections and
 * deliver bytes as they arrive, which is what a watch needs.
 *
 * It knows nothing of Kubernetes beyond the bearer token; see kube_api.h.
 */
#ifndef KUBE_HTTP_H
#define KUBE_HTTP_H

#include "gp_base.h"

struct gp_err;
struct gp_loop;
struct kube_config;
struct kube_http;
struct kube_stream_curl;

/* A list of 10,000 objects of 4 KiB, with room. */
#define KUBE_BODY_MAX (256u * 1024u * 1024u)
/* The longest that a call which waits may take.  A stopped API server refuses at once;
 * this bounds one that accepts and says nothing. */
#define KUBE_CALL_TIMEOUT_MS 10000

struct kube_reply {
    long status;
    char *body; /* terminated */
    size_t len;
    unsigned retry_after_s;
};
void kube_reply_fini(struct kube_reply *reply);

/* @config must outlive it.  @loop may be NULL when only calls that wait are made. */
int kube_http_new(const struct kube_config *config, struct gp_loop *loop,
                  struct kube_http **ret_http, struct gp_err *err);
void kube_http_free(struct kube_http *http); /* NULL is a no-op */
DEFINE_CLEANUP(struct kube_http, kube_http_free)

struct kube_request {
    const char *method, *path; /* path begins with "/" and may hold a query */
    const char *content_type;  /* with a body */
    const char *body;          /* NULL: none */
};

/* 0: the server answered, whatever the status.  -errno: it did not. */
int kube_http_call(struct kube_http *http, const struct kube_request *req,
                   struct kube_reply *ret_reply, struct gp_err *err);
/* Two independent requests at the same time, each as kube_http_call(). */
void kube_http_call_both(struct kube_http *http, const struct kube_request reqs[2],
                         struct kube_reply replies[2], int ret_results[2],
                         struct gp_err *errs);

/*
 * A request on the loop.  Caller's storage; zero it before the first start.
 *
 * on_data: bytes of the body; returns 0, or -errno to end the request.  It must not
 * start or stop a stream.  on_end: the request is over (@r 0: answered to the end;
 * -errno with words); the stream may be started again or freed there.
 */
struct kube_stream {
    int (*on_data)(struct kube_stream *stream, const char *data, size_t len);
    void (*on_end)(struct kube_stream *stream, int r, const char *words);
    long status; /* of the response, 0 until known */
    unsigned retry_after_s;
    struct kube_stream_curl *running; /* NULL when not started */
};

/* @idle_s: seconds without a byte after which it is given up; 0: none. */
int kube_stream_start(struct kube_http *http, struct kube_stream *stream,
                      const struct kube_request *req, unsigned idle_s,
                      struct gp_err *err);
void kube_stream_stop(struct kube_stream *stream); /* not started: a no-op */

#endif
