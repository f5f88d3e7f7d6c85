/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The webhook's certificate: made here, kept in a Secret that its replicas share, made
 * anew in time; or read from files that somebody else renews.
 *
 * It signs itself and is its own authority, so nothing else can be made with its key.
 * Plain values; no thread.
 */
#ifndef KUBE_CERT_H
#define KUBE_CERT_H

#include "gp_base.h"

#include <jansson.h>

struct gp_err;

struct kube_cert {
    char *cert, *key; /* PEM */
    char *old;        /* the certificate before: still believed for a while, or NULL */
};

void kube_cert_fini(struct kube_cert *cert);
/* @names: DNS names and IP addresses, a NULL at the end. */
int kube_cert_make(const char *const *names, uint64_t seconds, struct kube_cert *ret,
                   struct gp_err *err);
/* Is it time for another?  When a third of its life is left, or it does not parse. */
bool kube_cert_due(const struct kube_cert *cert);
/* Does it speak for each of @names? */
bool kube_cert_covers(const struct kube_cert *cert, const char *const *names);

int kube_cert_files(const char *cert_file, const char *key_file, struct kube_cert *ret,
                    struct gp_err *err);
/* From and to the data of a Secret. -EINVAL: it holds none. */
int kube_cert_from_secret(const json_t *secret, struct kube_cert *ret,
                          struct gp_err *err);
json_t *kube_cert_to_data(const struct kube_cert *cert);

/* Standard base64, as in JSON of Kubernetes.  malloc'ed. */
char *kube_base64(const void *data, size_t len);

#endif
