/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of a pod's ResourceClaims are of our driver, and by what name the session of
 * one is known: the ElasticGPUClaim that stands for it (ctrl_dra.c).
 *
 * For the webhook; the state is the caller's.
 */
#ifndef KUBE_DRA_POD_H
#define KUBE_DRA_POD_H

#include "gp_base.h"

#include <jansson.h>

struct gp_err;
struct kube_http;

/* Claims, templates and DeviceClasses that are read for one pod.  The API server waits
 * for the webhook for timeoutSeconds (10 at most in the chart), and other pods wait
 * meanwhile: 64 reads of 10 ms are far below.  A pod has a claim or two, each with a
 * class or two. */
#define KUBE_DRA_READS_MAX 64

/* Does @entry of spec.resourceClaims ask for devices of ours?  Reads the claim, or its
 * template, and the DeviceClasses that it names, each once as long as @notes is the
 * same object.  -EINVAL with words: the claim is not there yet, or has several requests
 * for ours, or more than KUBE_DRA_READS_MAX objects would be read. */
int kube_dra_pod_ours(struct kube_http *http, const char *ns, const json_t *entry,
                      json_t *notes, bool *ret_ours, struct gp_err *err);

#endif
