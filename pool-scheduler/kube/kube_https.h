/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small server of JSON over HTTP or HTTPS: the webhook's and the extender's.
 *
 * Anybody in the cluster may connect: kube_crowd.h says whose connections end first.
 * A thread of its own (libmicrohttpd's), or two while the certificate changes; @answer
 * is called for one request at a time all the same.  The certificate can change while
 * it serves: requests that have begun are answered with the one they began with.
 *
 * Not common/gp_http.h, which serves what a daemon shows of itself: it runs on the
 * daemon's event loop, so an answer must not wait, drops the bodies of requests, and
 * speaks no TLS.  An answer here waits for the API server or the scheduler, a body is
 * the question, and the listening socket passes from one certificate's daemon to the
 * next.  One server for both would have each of these as an option, and the part that
 * they have in common is a dozen lines around libmicrohttpd.
 */
#ifndef KUBE_HTTPS_H
#define KUBE_HTTPS_H

#include "gp_base.h"

struct gp_err;
struct kube_cert;
struct kube_https;

/* What one request may be: bytes, and values of its JSON (kube_https_values()).  More
 * is answered with 413. */
struct kube_https_limits {
    size_t body, values;
};
/* Bodies of requests that are not complete, of all callers together: eight of the
 * largest AdmissionReviews.  Beyond it the largest is answered with 503. */
#define KUBE_HTTPS_BUFFERED_MAX ((size_t)32 * 1024 * 1024)
size_t kube_https_values(const char *text, size_t len);

/* @path is without its query.  Returns the HTTP status; *ret_body is malloc'ed and may
 * stay NULL. */
typedef unsigned kube_https_answer(void *arg, const char *method, const char *path,
                                   const char *body, size_t len, char **ret_body);

/* @cert NULL: no TLS. */
int kube_https_start(const char *listen, const struct kube_cert *cert,
                     const struct kube_https_limits *limits, kube_https_answer *answer,
                     void *arg, struct kube_https **ret, struct gp_err *err);
/* Both answer first what has begun, for ten seconds at most. */
int kube_https_renew(struct kube_https *server, const struct kube_cert *cert,
                     struct gp_err *err);
unsigned kube_https_port(const struct kube_https *server);
void kube_https_stop(struct kube_https *server); /* NULL is a no-op */

#endif
