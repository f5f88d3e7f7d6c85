/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cards of the pool as GPU objects (gpus.elasticgpu.io), which older dashboards
 * and tools read.  Everything in them is in ElasticGPU objects as well; nothing is read
 * back.  Part of struct ctrl; event loop thread; nothing here without --legacy-gpus.
 */
#ifndef CTRL_LEGACY_H
#define CTRL_LEGACY_H

#include "control.pb-c.h"
#include "gp_base.h"

struct ctrl;
struct gp_err;

int ctrl_legacy_start(struct ctrl *ctrl, struct gp_err *err);
bool ctrl_legacy_synced(const struct ctrl *ctrl);
int ctrl_legacy_publish(struct ctrl *ctrl, const Gpupool__Ctl__CtlStatusReply *status,
                        struct gp_err *err);

#endif
