/* SPDX-License-Identifier: Apache-2.0 */
/* Slices as ElasticGPU objects: what a claim got, and what is left of it afterwards. */
#include "ctrl.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_str.h"

#include <errno.h>
#include <string.h>

/* Where its session is. */
static json_t *
place_of(const struct ctrl_grant *grant)
{
    json_t *uuids = json_array();

    for (uint32_t i = 0; i < grant->n_slices; i++)
        json_array_append_new(uuids, json_string(grant->uuids[i]));
    return json_pack("{s:s, s:{s:s, s:s, s:s, s:s, s:o}}", "nodeName", grant->server,
                     "remoteGPU", "server", grant->server, "endpoint", grant->endpoint,
                     "model", grant->model, "session", grant->session, "gpuUUIDs",
                     uuids);
}

static json_t *
spec_of(const json_t *claim, const struct kube_ask *ask, const struct kube_class *class,
        const struct ctrl_grant *grant)
{
    struct kube_ask got = *ask;
    json_t *spec = place_of(grant);

    got.memory = grant->memory;
    json_object_update_new(
        spec, json_pack("{s:o, s:s, s:s, s:{s:s, s:s, s:s, s:s, s:s}}", "capacity",
                        kube_ask_write(&got), "elasticGPUClassName", class->name,
                        "reclaimPolicy", class->retain ? "Retain" : "Delete",
                        "claimRef", "apiVersion", kube_resource_version(&KUBE_CLAIMS),
                        "kind", KUBE_CLAIMS.kind, "namespace", kube_ns(claim), "name",
                        kube_name(claim), "uid", kube_uid(claim)));
    return spec;
}

static int
create(struct ctrl *ctrl, const char *name, json_t *spec, json_t **ret,
       struct gp_err *err)
{
    CLEANUP_JSON json_t *object = json_pack(
        "{s:s, s:s, s:{s:s, s:{s:s}, s:[s]}, s:O}", "apiVersion",
        kube_resource_version(&KUBE_GPUS), "kind", KUBE_GPUS.kind, "metadata", "name",
        name, "labels", CTRL_KIND, "slice", "finalizers", CTRL_FINALIZER, "spec", spec);
    int r = kube_api_create(ctrl->http, &KUBE_GPUS, NULL, object, ret, err);

    if (r == -EEXIST) /* made before a kill, and not seen yet */
        r = kube_api_get(ctrl->http, &KUBE_GPUS, NULL, name, ret, err);
    return r;
}

/* Are all members of @want in @have? */
static bool
within(const json_t *have, const json_t *want)
{
    const char *key;
    json_t *value;

    json_object_foreach(
        (json_t *)want, key,
        value) if (!json_equal(json_object_get(have, key), value)) return false;
    return true;
}

/* Write what of @spec *gpu does not say; it is the new object then. */
static int
set_spec(struct ctrl *ctrl, json_t **gpu, const json_t *spec, struct gp_err *err)
{
    CLEANUP_JSON json_t *patch = NULL;
    json_t *answer = NULL;
    int r;

    if (within(json_object_get(*gpu, "spec"), spec))
        return 0;
    patch = json_pack("{s:{s:s}, s:O}", "metadata", "resourceVersion",
                      kube_str(*gpu, "metadata.resourceVersion"), "spec", spec);
    r = kube_api_patch(ctrl->http, &KUBE_GPUS, NULL, kube_name(*gpu), NULL, patch,
                       &answer, err);
    if (r < 0)
        return r;
    kube_watch_put(&ctrl->gpus, answer);
    json_decref(*gpu);
    *gpu = answer;
    return 0;
}

int
ctrl_gpu_phase(struct ctrl *ctrl, const json_t *gpu, const char *phase,
               const char *reason, const char *message, struct gp_err *err)
{
    json_t *conditions = json_deep_copy(kube_at(gpu, "status.conditions"));

    if (!conditions)
        conditions = json_array();
    kube_condition_set(conditions, "Ready", strcmp(phase, "Failed") != 0, reason,
                       message);
    return ctrl_status(ctrl, &ctrl->gpus, gpu,
                       json_pack("{s:s, s:s, s:s, s:[], s:o}", "phase", phase, "reason",
                                 reason, "message", message, "pods", "conditions",
                                 conditions),
                       err);
}

static int
set_bound(struct ctrl *ctrl, const json_t *gpu, const json_t *claim,
          const json_t *consumers, struct gp_err *err)
{
    json_t *conditions = json_deep_copy(kube_at(gpu, "status.conditions"));
    json_t *pods = json_array(), *item;
    size_t i;

    if (!conditions)
        conditions = json_array();
    kube_condition_set(conditions, "Ready", true, "Bound", "a claim holds it");
    json_array_foreach((json_t *)consumers, i, item) json_array_append_new(
        pods, json_sprintf("%s/%s", kube_ns(claim), kube_str(item, "name")));
    return ctrl_status(ctrl, &ctrl->gpus, gpu,
                       json_pack("{s:s, s:s, s:s, s:o, s:o}", "phase", "Bound",
                                 "reason", "Bound", "message", "", "pods", pods,
                                 "conditions", conditions),
                       err);
}

int
ctrl_gpu_put(struct ctrl *ctrl, const char *name, const json_t *claim,
             const struct kube_ask *ask, const struct kube_class *class,
             const struct ctrl_grant *grant, const json_t *consumers,
             struct gp_err *err)
{
    CLEANUP_JSON json_t *gpu = json_incref(kube_watch_get(&ctrl->gpus, "", name));
    CLEANUP_JSON json_t *spec = spec_of(claim, ask, class, grant);
    int r = 0;

    if (!spec)
        return -ENOMEM;
    if (!gpu) {
        r = create(ctrl, name, spec, &gpu, err);
        if (r < 0)
            return r;
        kube_watch_put(&ctrl->gpus, gpu);
    }
    r = set_spec(ctrl, &gpu, spec, err);
    if (r < 0)
        return r;
    return set_bound(ctrl, gpu, claim, consumers, err);
}

/* Without the finalizer a deleted object goes. */
static int
let_go(struct ctrl *ctrl, const json_t *gpu, struct gp_err *err)
{
    CLEANUP_JSON json_t *patch =
        json_pack("{s:{s:s, s:o}}", "metadata", "uid", kube_uid(gpu), "finalizers",
                  kube_finalizers(gpu, CTRL_FINALIZER, false));
    int r;

    if (!kube_has_finalizer(gpu, CTRL_FINALIZER))
        return 0;
    r = kube_api_patch(ctrl->http, &KUBE_GPUS, NULL, kube_name(gpu), NULL, patch, NULL,
                       err);
    return r == -ENOENT ? 0 : r;
}

int
ctrl_gpu_delete(struct ctrl *ctrl, const char *name, struct gp_err *err)
{
    CLEANUP_JSON json_t *gpu = json_incref(kube_watch_get(&ctrl->gpus, "", name));
    CLEANUP_FREE char *key = NULL;
    int r = ctrl_session_end(ctrl, name, 0, err);

    if (r < 0 || !gpu)
        return r;
    r = let_go(ctrl, gpu, err);
    if (!r && !kube_deleted(gpu))
        r = kube_api_delete(ctrl->http, &KUBE_GPUS, NULL, name, kube_uid(gpu), err);
    if (r < 0 && r != -ENOENT)
        return r;
    ctrl_set_waiting(ctrl, "g:", name, false);
    key = kube_key(gpu);
    if (key)
        kube_watch_remove(&ctrl->gpus, key);
    return 0;
}

/* ------------------------------------------------------- without its claim -- */

/* The session of one that is kept, opened anew as its class says when it is lost. */
static int
keep_session(struct ctrl *ctrl, const json_t *gpu, const struct ctrl_grant **ret,
             struct gp_err *err)
{
    CLEANUP_JSON json_t *capacity =
        json_pack("{s:O*}", "requests", kube_at(gpu, "spec.capacity"));
    const json_t *object =
        kube_watch_get(&ctrl->classes, "", kube_str(gpu, "spec.elasticGPUClassName"));
    struct kube_class class;
    bool known = object && kube_class_read(object, &class, NULL) == 0;
    struct kube_ask ask;
    int r = kube_ask_read(capacity, NULL, &ask, err);

    return r < 0 ? r
                 : ctrl_session_ensure(ctrl, kube_name(gpu), "retained", &ask,
                                       known ? &class : NULL, ret, err);
}

/* Kept for an administrator: its session lives on, nobody uses it.  One that is lost is
 * asked for again whenever the pool changes. */
static int
keep(struct ctrl *ctrl, json_t **gpu, bool referred, struct gp_err *err)
{
    CLEANUP_JSON json_t *place = NULL;
    const struct ctrl_grant *grant;
    int r = keep_session(ctrl, *gpu, &grant, err);

    ctrl_set_waiting(ctrl, "g:", kube_name(*gpu), r == -ENOSPC || r == -EINVAL);
    if (r == -ENOSPC || r == -EINVAL)
        return ctrl_gpu_phase(ctrl, *gpu, "Failed", "SessionLost", err->msg, err);
    if (r < 0)
        return r;
    place = place_of(grant);
    r = place ? set_spec(ctrl, gpu, place, err) : -ENOMEM;
    if (r < 0)
        return r;
    if (referred)
        return ctrl_gpu_phase(
            ctrl, *gpu, "Released", "ClaimDeleted",
            "its claim is gone; delete it, or take spec.claimRef away "
            "to let another claim name it",
            err);
    return ctrl_gpu_phase(ctrl, *gpu, "Available", "Retained",
                          "a claim may name it in spec.elasticGPUName", err);
}

/* A slice object that somebody deleted, or whose claim may have gone. */
int
ctrl_gpu(struct ctrl *ctrl, const char *name, struct gp_err *err)
{
    CLEANUP_JSON json_t *gpu = json_incref(kube_watch_get(&ctrl->gpus, "", name));
    const char *ns = kube_str(gpu, "spec.claimRef.namespace");
    const char *claim_name = kube_str(gpu, "spec.claimRef.name");
    CLEANUP_FREE char *claim_key = kube_key_of(ns, claim_name);
    const json_t *claim = kube_watch_get(&ctrl->claims, ns, claim_name);
    bool lives;
    int r;

    lives = *claim_name && claim &&
            strcmp(kube_uid(claim), kube_str(gpu, "spec.claimRef.uid")) == 0;
    if (!gpu || lives)
        ctrl_set_waiting(ctrl, "g:", name, false);
    if (!gpu || !claim_key ||
        strcmp(kube_str_key(gpu, "metadata.labels", CTRL_KIND), "slice") != 0)
        return 0;
    if (kube_deleted(gpu)) {
        r = ctrl_gpu_delete(ctrl, name, err);
        ctrl_queue_name(ctrl, "c:", claim_key);
        return r;
    }
    if (lives) {
        ctrl_queue_name(ctrl, "c:", claim_key);
        return 0;
    }
    if (strcmp(kube_str(gpu, "spec.reclaimPolicy"), "Retain") == 0)
        return keep(ctrl, &gpu, *claim_name, err);
    gp_log_info("gpu", "%s: its claim %s is gone", name, claim_key);
    return ctrl_gpu_delete(ctrl, name, err);
}
