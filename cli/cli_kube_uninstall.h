/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool kube uninstall: the pool out of a Kubernetes cluster, so that nothing of it
 * is left and nothing waits for it.
 *
 * Claims and slices have a finalizer that the controller takes away.  Without a
 * controller they, their kinds and their namespaces would be deleted for ever, so what
 * it has not ended is released here.
 */
#ifndef CLI_KUBE_UNINSTALL_H
#define CLI_KUBE_UNINSTALL_H

#include "gp_base.h"

struct gp_err;

struct cli_kube_uninstall {
    const char *ns;       /* of the pool */
    const char *manifest; /* the text that it was installed from */
    uint64_t wait_s;      /* for each step of the cluster */
    bool force;           /* though pods use slices */
};

/* -EBUSY: pods use slices, and nothing has been changed.  May be repeated after any
 * error: what is gone already is passed over. */
int cli_kube_uninstall(const struct cli_kube_uninstall *o, struct gp_err *err);

#endif
