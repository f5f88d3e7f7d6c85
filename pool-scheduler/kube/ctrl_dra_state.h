/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller's side of dynamic resource allocation (kube_dra.h).
 *
 * The pool's cards are published as one ResourceSlice per server, for all nodes.  A
 * ResourceClaim that kube-scheduler allocated gets an ElasticGPUClaim that stands for
 * it, with the same amounts and pinned to the same card; everything else (session,
 * ElasticGPU, quota, who may use it) is that claim's.  When the ResourceClaim is not
 * allocated any more, or has another device, its ElasticGPUClaim is deleted, and
 * another one made then.
 *
 * This is its part of struct ctrl; event loop thread; ctrl.h has the functions. Nothing
 * of it runs when --dra is not given.
 */
#ifndef CTRL_DRA_STATE_H
#define CTRL_DRA_STATE_H

#include "kube_watch.h"

#define CTRL_DRA_LABEL "elasticgpu.io/resource-claim-uid"
#define CTRL_DRA_NAME "elasticgpu.io/resource-claim" /* annotation */
#define CTRL_DRA_DEVICE "elasticgpu.io/device"       /* annotation: the allocation */
#define CTRL_DRA_POD "elasticgpu.io/dra-"            /* annotation of pods, + entry */
#define CTRL_CARD "elasticgpu.io/card"               /* annotation: only this card */

struct ctrl_dra {
    bool on;
    unsigned parts; /* of a card, where devices are exclusive */
    bool probed, shared;
    struct kube_watch claims, slices;
};

#endif
