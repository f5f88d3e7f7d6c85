/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller's side of dynamic resource allocation (kube_dra.h).
 *
 * The pool's cards are published as one ResourceSlice per server, for all nodes.  A
 * ResourceClaim that kube-scheduler allocated gets an ElasticGPUClaim that stands for
 * it, with the same amounts and pinned to the same card; everything else (session,
 * ElasticGPU, quota, who may use it) is that claim's.  When the ResourceClaim is not
 * allocated any more, its ElasticGPUClaim is deleted.
 *
 * Part of struct ctrl; event loop thread; nothing here when --dra is not given.
 */
#ifndef CTRL_DRA_H
#define CTRL_DRA_H

#include "control.pb-c.h"
#include "kube_watch.h"

struct ctrl;
struct gp_err;

#define CTRL_DRA_LABEL "elasticgpu.io/resource-claim-uid"
#define CTRL_DRA_NAME "elasticgpu.io/resource-claim" /* annotation */
#define CTRL_DRA_POD "elasticgpu.io/dra-"            /* annotation of pods, + entry */
#define CTRL_CARD "elasticgpu.io/card"               /* annotation: only this card */

struct ctrl_dra {
    bool on;
    unsigned parts; /* of a card, where devices are exclusive */
    bool probed, shared;
    struct kube_watch claims, slices;
};

int ctrl_dra_start(struct ctrl *ctrl, struct gp_err *err);
bool ctrl_dra_synced(const struct ctrl *ctrl);
/* Everything again, after the lease was taken. */
void ctrl_dra_queue_all(struct ctrl *ctrl);
/* Bring the ResourceSlices up to what the pool says. */
int ctrl_dra_publish(struct ctrl *ctrl, const Gpupool__Ctl__CtlStatusReply *status,
                     struct gp_err *err);
/* Look at a ResourceClaim. */
int ctrl_dra_claim(struct ctrl *ctrl, const char *key, struct gp_err *err);

/* Does @claim stand for a ResourceClaim? */
bool ctrl_dra_stands(const json_t *claim);
/* It does, and that is not allocated any more. */
bool ctrl_dra_gone(const struct ctrl *ctrl, const json_t *claim);
/* Write onto the ResourceClaim what became of it. */
void ctrl_dra_report(struct ctrl *ctrl, const json_t *claim, bool ready,
                     const char *reason, const char *message);

#endif
