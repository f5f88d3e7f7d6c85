/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of a pod that asks for the remote class: a pure change of its JSON.
 *
 *   a container that names a claim, or asks for one of the resource names
 *     -> claim named in an annotation (made by the controller where none exists)
 *     -> client libraries, library path, pool address, the pod's own token
 *   a container that uses a ResourceClaim of ours
 *     -> the same, and no gate: kube-scheduler allocates, then the controller binds
 *   the pod -> a gate until its claims are bound; nothing that pins it to GPU nodes
 *
 * No thread, no requests of its own: what it must know comes through @lookup.
 */
#ifndef KUBE_INJECT_H
#define KUBE_INJECT_H

#include "gp_base.h"

#include <jansson.h>

struct gp_err;

/* Where the libraries are in a container, and the token. */
#define KUBE_LIBS "/opt/gpupool"
#define KUBE_TOKEN_DIR "/var/run/secrets/gpupool"

/* Containers of a pod that gets remote cards, init containers included: each is written
 * to, so the change grows with their number.  The largest pods known have some dozens,
 * because each is a process with an image of its own. */
#define KUBE_CONTAINERS_MAX 256

struct kube_inject {
    const char *scheduler;     /* as pods reach it */
    const char *scheduler_key; /* its public keys, as text; NULL: pods take any */
    const char *image;         /* of the client libraries */
    const char *pull_policy;
    const char *audience;
    bool image_volume; /* mount the image itself; else an init container copies */

    /* An object by name; -ENOENT when there is none.  NULL name: the default class. */
    int (*find_class)(void *arg, const char *name, json_t **ret, struct gp_err *err);
    /* Does @entry of spec.resourceClaims ask for devices of ours?  NULL: none does.
     * @notes, an object, is its own: empty for each pod, and the same for all entries
     * of one. */
    int (*find_device_claim)(void *arg, const char *ns, const json_t *entry,
                             json_t *notes, bool *ret_ours, struct gp_err *err);
    void *arg;
};

/* Change @pod of namespace @ns.  @unique goes into names of claims that are made;
 * @class is what the namespace selects, or "".
 *
 * 1: changed; 0: nothing to do; -EINVAL: refuse it, @err has the words for its user;
 * another errno: no answer is possible now. */
int kube_inject_pod(const struct kube_inject *inject, const char *ns, const char *class,
                    const char *unique, json_t *pod, struct gp_err *err);

#endif
