/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of a pod's ResourceClaims are of our driver, and by what name the session of
 * one is known: the ElasticGPUClaim that stands for it (ctrl_dra.h).
 *
 * For the webhook; no state.
 */
#ifndef KUBE_DRA_POD_H
#define KUBE_DRA_POD_H

#include "gp_base.h"

#include <jansson.h>

struct gp_err;
struct kube_http;

/* Does @entry of spec.resourceClaims ask for devices of ours?  Reads the claim, or its
 * template, and the DeviceClasses that it names.  -EINVAL with words: the claim is not
 * there yet, or has several requests for ours. */
int kube_dra_pod_ours(struct kube_http *http, const char *ns, const json_t *entry,
                      bool *ret_ours, struct gp_err *err);

#endif
