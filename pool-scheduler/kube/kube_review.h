/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An AdmissionReview in, an AdmissionReview out: the webhook without its server.
 */
#ifndef KUBE_REVIEW_H
#define KUBE_REVIEW_H

#include "kube_inject.h"

/* Answer @body, @class being what the pod's namespace selects ("" for nothing).
 * Returns the HTTP status; *ret_body is malloc'ed. */
unsigned kube_review(const struct kube_inject *inject,
                     int (*class_of)(void *arg, const char *ns, char ret[254],
                                     struct gp_err *err),
                     const char *body, size_t len, char **ret_body);

#endif
