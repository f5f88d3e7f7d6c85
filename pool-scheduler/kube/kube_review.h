/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An AdmissionReview in, an AdmissionReview out: the webhook without its server.
 */
#ifndef KUBE_REVIEW_H
#define KUBE_REVIEW_H

#include "kube_inject.h"

/* An AdmissionReview holds an object twice at most, and etcd takes none over 1.5 MiB; a
 * pod is some kilobytes. */
#define KUBE_REVIEW_MAX ((size_t)4 * 1024 * 1024)
/* Values of its JSON: 200 for each of KUBE_CONTAINERS_MAX containers, twice, and as
 * many again in managedFields.  Parsed and copied they take 60 MiB. */
#define KUBE_REVIEW_VALUES_MAX ((size_t)200 * 1000)

/* Answer @body, @class being what the pod's namespace selects ("" for nothing).
 * Returns the HTTP status; *ret_body is malloc'ed. */
unsigned kube_review(const struct kube_inject *inject,
                     int (*class_of)(void *arg, const char *ns, char ret[254],
                                     struct gp_err *err),
                     const char *body, size_t len, char **ret_body);

#endif
