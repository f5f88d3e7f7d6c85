/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A claim, from its request to its end.
 *
 *   Pending --(a consumer, if its class waits; quota; the pool has room)--> Bound
 *   Bound --(its ElasticGPU is deleted, or its session is gone for good)--> Lost
 *
 * The order of what is written: finalizer and name, session, ElasticGPU, its status and
 * the claim's at the same time.  Whoever looks at it after a kill finds how far it came
 * and goes on; what nothing stands for any more is found by ctrl_session_tick().
 */
#include "ctrl_claim.h"

#include "gp_err.h"
#include "gp_log.h"
#include "gp_str.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Is it the claim's, by the word of the ElasticGPU?  Tenants write no ElasticGPUs. */
static bool
holds_gpu(const struct ctrl_work *work, const json_t *gpu)
{
    return gpu &&
           strcmp(kube_str(gpu, "spec.claimRef.uid"), kube_uid(work->claim)) == 0;
}

/* Was it made for one of the pods that use the claim (ctrl_pod.c)? */
static bool
named_after_consumer(const struct ctrl_work *work)
{
    json_t *item;
    size_t i;

    json_array_foreach(work->consumers, i, item)
    {
        char prefix[80];
        int n = snprintf(prefix, sizeof(prefix), "egpu-%s-", kube_str(item, "uid"));

        if (n > 0 && (size_t)n < sizeof(prefix) &&
            strncmp(work->name, prefix, (size_t)n) == 0)
            return true;
    }
    return false;
}

/* An ElasticGPU is a claim's own when its name has the uid of the claim or of a pod
 * that uses it: whoever writes a claim chooses neither.  What its labels say would be
 * its writer's word, and name the session of another. */
static void
name_of(struct ctrl_work *work)
{
    const char *name = kube_str(work->claim, "spec.elasticGPUName");
    char own[254];

    snprintf(own, sizeof(own), "egpu-%s", kube_uid(work->claim));
    gp_str_copy(work->name, sizeof(work->name), *name ? name : own);
    work->chosen = strcmp(work->name, own) != 0 && !named_after_consumer(work);
}

void
ctrl_work_init(struct ctrl_work *work, struct ctrl *ctrl, const char *key)
{
    memset(work, 0, sizeof(*work));
    work->ctrl = ctrl;
    work->key = key;
    work->claim = json_incref(json_object_get(ctrl->claims.objects, key));
    if (!work->claim)
        return;
    work->consumers = ctrl_pod_consumers(ctrl, work->claim);
    name_of(work);
}

void
ctrl_work_fini(struct ctrl_work *work)
{
    json_decref(work->claim);
    json_decref(work->consumers);
    json_decref(work->gpu);
}

/* ------------------------------------------------------------------ status -- */

static json_t *
conditions_of(const struct ctrl_work *work)
{
    json_t *list = json_deep_copy(kube_at(work->claim, "status.conditions"));

    return list ? list : json_array();
}

static void
queue_pods(const struct ctrl_work *work)
{
    const char *key;
    json_t *value;

    json_object_foreach(json_object_get(work->ctrl->users, work->key), key, value)
        ctrl_queue_name(work->ctrl, "p:", key);
}

/* Its ElasticGPU says so, too, when there is no session behind it any more. */
static int
fail_gpu(struct ctrl_work *work, const char *message, struct gp_err *err)
{
    const json_t *gpu = kube_watch_get(&work->ctrl->gpus, "", work->name);

    if (!holds_gpu(work, gpu) || kube_deleted(gpu) ||
        ctrl_session_known(work->ctrl, work->name))
        return 0;
    return ctrl_gpu_phase(work->ctrl, gpu, "Failed", "SessionLost", message, err);
}

/* Is it waiting already, for the same reason in other words? */
static bool
is_reworded(const struct ctrl_work *work, const char *phase, const char *reason,
            const char *message)
{
    const json_t *ready =
        kube_condition(kube_at(work->claim, "status.conditions"), "Ready");

    return strcmp(kube_str(work->claim, "status.phase"), phase) == 0 &&
           strcmp(kube_str(ready, "reason"), reason) == 0 &&
           strcmp(kube_str(work->claim, "status.message"), message) != 0;
}

/* Not bound, and why. */
int
ctrl_work_set_waiting(struct ctrl_work *work, const char *phase, const char *reason,
                      const char *message, struct gp_err *err)
{
    json_t *conditions;
    int r;

    ctrl_set_waiting(work->ctrl, "c:", work->key, true);
    if (is_reworded(work, phase, reason, message) &&
        !ctrl_words_due(work->ctrl, "c:", work->key))
        return 0;
    conditions = conditions_of(work);
    kube_condition_set(conditions, "Ready", false, reason, message);
    r = ctrl_status(work->ctrl, &work->ctrl->claims, work->claim,
                    json_pack("{s:s, s:s, s:n, s:n, s:n, s:n, s:[], s:o}", "phase",
                              phase, "message", message, "server", "session",
                              "elasticGPUName", "capacity", "consumers", "conditions",
                              conditions),
                    err);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    if (strcmp(reason, "WaitForFirstConsumer") != 0)
        ctrl_event(work->ctrl, &KUBE_CLAIMS, work->claim, true, reason, message);
    ctrl_dra_report(work->ctrl, work->claim, false, reason, message);
    queue_pods(work);
    return fail_gpu(work, message, err);
}

static int
set_bound(struct ctrl_work *work, const struct ctrl_grant *grant, struct gp_err *err)
{
    bool was = strcmp(kube_str(work->claim, "status.phase"), "Bound") == 0 &&
               strcmp(kube_str(work->claim, "status.session"), grant->session) == 0;
    struct kube_ask got = work->ask;
    json_t *conditions = conditions_of(work);
    char words[400];
    int r;

    got.memory = grant->memory;
    ctrl_set_waiting(work->ctrl, "c:", work->key, false);
    kube_condition_set(conditions, "Ready", true, "Bound", "a session is open");
    r = ctrl_status(work->ctrl, &work->ctrl->claims, work->claim,
                    json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:O, s:o}", "phase",
                              "Bound", "message", "", "server", grant->server,
                              "session", grant->session, "elasticGPUName", work->name,
                              "capacity", kube_ask_write(&got), "consumers",
                              work->consumers, "conditions", conditions),
                    err);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    snprintf(words, sizeof(words),
             "%u %% and %" PRIu64 " MiB of %u card%s of server %s",
             work->ask.core / work->ask.cards, grant->memory >> 20, grant->n_slices,
             grant->n_slices > 1 ? "s" : "", grant->server);
    if (!was)
        ctrl_event(work->ctrl, &KUBE_CLAIMS, work->claim, false, "Bound", words);
    ctrl_dra_report(work->ctrl, work->claim, true, "Bound", words);
    if (work->ctrl->config.legacy_gpus) /* who uses which card */
        ctrl_queue_name(work->ctrl, "cards", "");
    queue_pods(work);
    return 0;
}

/* --------------------------------------------------------------- the class -- */

static const json_t *
default_class(const struct ctrl *ctrl)
{
    const char *key;
    json_t *class;

    json_object_foreach(
        ctrl->classes.objects, key,
        class) if (strcmp(kube_str_key(class, "metadata.annotations",
                                       "elasticgpu.io/is-default-class"),
                          "true") == 0) return class;
    return NULL;
}

/* 0: ours; 1: somebody else's; -errno with words that the user can act on. */
int
ctrl_work_find_class(struct ctrl_work *work, struct gp_err *err)
{
    const char *name = "";
    const json_t *class;
    int r = kube_claim_class(work->claim, &name, err);

    if (r < 0)
        return r;
    class = *name ? kube_watch_get(&work->ctrl->classes, "", name)
                  : default_class(work->ctrl);
    if (!class && *name)
        return gp_err_set(err, -ENOENT, "there is no ElasticGPUClass %s", name);
    if (!class)
        return gp_err_set(
            err, -ENOENT,
            "no class is named, and no ElasticGPUClass has the annotation "
            "elasticgpu.io/is-default-class");
    if (strcmp(kube_str(class, "provisioner"), KUBE_PROVISIONER) != 0)
        return 1;
    return kube_class_read(class, &work->class, err);
}

/* ------------------------------------------------------------------ ending -- */

static int
drop_finalizer(struct ctrl_work *work, struct gp_err *err)
{
    CLEANUP_JSON json_t *patch = NULL, *answer = NULL;
    int r;

    if (!kube_has_finalizer(work->claim, CTRL_FINALIZER))
        return 0;
    patch =
        json_pack("{s:{s:s, s:o}}", "metadata", "uid", kube_uid(work->claim),
                  "finalizers", kube_finalizers(work->claim, CTRL_FINALIZER, false));
    r = kube_api_patch(work->ctrl->http, &KUBE_CLAIMS, kube_ns(work->claim),
                       kube_name(work->claim), NULL, patch, &answer, err);
    return r == -ENOENT ? 0 : r;
}

/* A claim that is deleted goes when no pod uses it any more.  A ResourceClaim is
 * deallocated only then, and pods that name its next stand-in wait for that. */
static int
end_claim(struct ctrl_work *work, struct gp_err *err)
{
    const json_t *gpu =
        *work->name ? kube_watch_get(&work->ctrl->gpus, "", work->name) : NULL;
    bool ours = holds_gpu(work, gpu);
    bool retain = ours && strcmp(kube_str(gpu, "spec.reclaimPolicy"), "Retain") == 0 &&
                  !kube_deleted(gpu);
    int r = 0;

    if (json_array_size(work->consumers) && !ctrl_dra_gone(work->ctrl, work->claim)) {
        ctrl_event(work->ctrl, &KUBE_CLAIMS, work->claim, false, "InUse",
                   "the claim is deleted when its pod has ended");
        return 0;
    }
    ctrl_set_waiting(work->ctrl, "c:", work->key, false);
    if (retain)
        r = ctrl_gpu_phase(
            work->ctrl, gpu, "Released", "ClaimDeleted",
            "its claim is gone; delete it, or take spec.claimRef away to "
            "let another claim name it",
            err);
    else if (ours || (!gpu && !work->chosen))
        r = ctrl_gpu_delete(work->ctrl, work->name, err);
    else if (!gpu) /* opened for it, perhaps, and for a pod that is gone by now */
        work->ctrl->orphans_ns = 0;
    return r < 0 ? r : drop_finalizer(work, err);
}

/* The pod, or the ResourceClaim, that a claim was made for has ended. */
static bool
orphaned(const struct ctrl_work *work)
{
    const char *uid = kube_str_key(work->claim, "metadata.labels", CTRL_GENERATED);

    return (*uid && !json_array_size(work->consumers)) ||
           ctrl_dra_gone(work->ctrl, work->claim);
}

/* ----------------------------------------------------------------- binding -- */

int
ctrl_work_hold(struct ctrl_work *work, struct gp_err *err)
{
    CLEANUP_JSON json_t *patch = NULL, *answer = NULL;
    int r;

    if (kube_has_finalizer(work->claim, CTRL_FINALIZER) &&
        *kube_str(work->claim, "spec.elasticGPUName"))
        return 0;
    patch = json_pack("{s:{s:s, s:o}, s:{s:s, s:s}}", "metadata", "resourceVersion",
                      kube_str(work->claim, "metadata.resourceVersion"), "finalizers",
                      kube_finalizers(work->claim, CTRL_FINALIZER, true), "spec",
                      "elasticGPUName", work->name, "elasticGPUClassName",
                      work->class.name);
    r = kube_api_patch(work->ctrl->http, &KUBE_CLAIMS, kube_ns(work->claim),
                       kube_name(work->claim), NULL, patch, &answer, err);
    if (r < 0)
        return r;
    kube_watch_put(&work->ctrl->claims, answer);
    json_decref(work->claim);
    work->claim = TAKE_PTR(answer);
    return 0;
}

/* One whose claim is another, or an earlier one of the same name, is not taken. */
static int
check_owner(const struct ctrl_work *work, const json_t *gpu, struct gp_err *err)
{
    const char *ns = kube_str(gpu, "spec.claimRef.namespace");
    const char *name = kube_str(gpu, "spec.claimRef.name");
    const char *uid = kube_str(gpu, "spec.claimRef.uid");

    if (!*name || (strcmp(ns, kube_ns(work->claim)) == 0 &&
                   strcmp(name, kube_name(work->claim)) == 0 &&
                   (!*uid || !work->chosen || holds_gpu(work, gpu))))
        return 0;
    return gp_err_set(err, -EBUSY, "ElasticGPU %s belongs to claim %s/%s", work->name,
                      ns, name);
}

/* An ElasticGPU that the user named: it must be there, free, and enough. */
static int
check_chosen(struct ctrl_work *work, const json_t *gpu, struct gp_err *err)
{
    CLEANUP_JSON json_t *capacity =
        json_pack("{s:O*}", "requests", kube_at(gpu, "spec.capacity"));
    struct kube_ask has;
    int r;

    if (!gpu)
        return gp_err_set(err, -ENOENT, "there is no ElasticGPU %s", work->name);
    if (strcmp(kube_str_key(gpu, "metadata.labels", CTRL_KIND), "slice") != 0)
        return gp_err_set(err, -EINVAL, "ElasticGPU %s is a card, not a slice",
                          work->name);
    r = check_owner(work, gpu, err);
    if (r < 0)
        return r;
    if (kube_ask_read(capacity, NULL, &has, err) < 0)
        return -EINVAL;
    if (has.core < work->ask.core || has.memory < work->ask.memory)
        return gp_err_set(err, -EINVAL,
                          "ElasticGPU %s has %u %% and %" PRIu64
                          " MiB, which is less than the claim asks for",
                          work->name, has.core, has.memory >> 20);
    work->ask = has;
    return 0;
}

/* May the claim hold the ElasticGPU that it names? */
int
ctrl_work_check_gpu(struct ctrl_work *work, struct gp_err *err)
{
    const json_t *gpu = kube_watch_get(&work->ctrl->gpus, "", work->name);

    if (work->chosen)
        return check_chosen(work, gpu, err);
    return gpu ? check_owner(work, gpu, err) : 0;
}

/* Whole cards bring their memory, which is known afterwards. */
static int
check_quota(struct ctrl_work *work, uint64_t memory, struct gp_err *err)
{
    CLEANUP_JSON json_t *except = json_pack("{s:b}", work->key, 1);
    struct kube_ask ask = work->ask;

    ask.memory = memory;
    return ctrl_quota_check(work->ctrl, kube_ns(work->claim), except, &ask, 1, err);
}

/* Where the first pod that uses it runs, or will. */
static const char *
node_of(const struct ctrl_work *work)
{
    const json_t *first = json_array_get(work->consumers, 0);
    const json_t *pod = first ? kube_watch_get(&work->ctrl->pods, kube_ns(work->claim),
                                               kube_str(first, "name"))
                              : NULL;

    return pod ? ctrl_pod_node(pod) : "";
}

/* One that was opened, perhaps by the controller before this one, for more than the
 * quota allows.  0: it has ended. */
static int
end_refused(struct ctrl_work *work)
{
    return work->chosen ? 0 : ctrl_session_end(work->ctrl, work->name, 0, NULL);
}

/* What is asked of the pool besides what the claim says. */
void
ctrl_work_fill_ask(struct ctrl_work *work)
{
    work->ask.card = kube_str_key(work->claim, "metadata.annotations", CTRL_CARD);
    work->ask.node = node_of(work);
    snprintf(work->program, sizeof(work->program), "%s", work->key);
}

static int
open_session(struct ctrl_work *work, const struct ctrl_grant **ret, struct gp_err *err)
{
    const json_t *gpu = kube_watch_get(&work->ctrl->gpus, "", work->name);
    bool held = holds_gpu(work, gpu) && ctrl_session_known(work->ctrl, work->name);
    const struct ctrl_wanted wanted = {.name = work->name,
                                       .program = work->program,
                                       .ask = &work->ask,
                                       .class = &work->class};
    int r = held ? 0 : check_quota(work, work->ask.memory, err), ended;

    ctrl_work_fill_ask(work);
    if (!r && !held)
        r = ctrl_place_look(work->ctrl, work->key, &wanted, err);
    if (r == -EAGAIN) {
        work->in_place = true;
        return -ENOSPC;
    }
    if (!r)
        r = ctrl_session_ensure(work->ctrl, work->name, work->program, &work->ask,
                                &work->class, ret, err);
    if (!r && !held && !work->ask.memory)
        r = check_quota(work, (*ret)->memory, err);
    if (r == -ENOSPC)
        work->in_place =
            ctrl_place_take(work->ctrl, work->key, &wanted, gp_err_msg(err, r));
    if (r != -EDQUOT)
        return r;
    ended = end_refused(work);
    return ended < 0 ? ended : r;
}

int
ctrl_work_refused(struct ctrl_work *work, int r, struct gp_err *err)
{
    bool lost = *kube_str(work->claim, "status.phase") &&
                strcmp(kube_str(work->claim, "status.phase"), "Pending") != 0;
    char words[sizeof(err->msg)];

    gp_str_copy(words, sizeof(words), gp_err_msg(err, r));
    switch (r) {
    case -ENOSPC:
        return ctrl_work_set_waiting(work, lost ? "Lost" : "Pending", "NoRoom", words,
                                     err);
    case -EDQUOT:
        return ctrl_work_set_waiting(work, "Pending", "QuotaExceeded", words, err);
    case -EINVAL:
        return ctrl_work_set_waiting(work, "Pending", "BadRequest", words, err);
    case -EHOSTUNREACH:
    case -EACCES:
        if (lost) /* it holds what it has; the scheduler will be back */
            return -EAGAIN;
        r = ctrl_work_set_waiting(work, "Pending", "NoScheduler", words, err);
        return r < 0 ? r : -EAGAIN;
    default:
        return r;
    }
}

/* ------------------------------------------------------------------- bound -- */

static int
bind_claim(struct ctrl_work *work, struct gp_err *err)
{
    const struct ctrl_grant *grant = NULL;
    int r = ctrl_work_hold(work, err), flushed;

    if (!r)
        r = ctrl_work_open_with_pod(work, err);
    if (r)
        return gp_min(r, 0);
    r = open_session(work, &grant, err);
    if (r < 0)
        return ctrl_work_refused(work, r, err);
    ctrl_status_hold(work->ctrl);
    r = ctrl_gpu_put(work->ctrl, work->name, work->claim, &work->ask, &work->class,
                     grant, work->consumers, err);
    if (!r)
        r = set_bound(work, grant, err);
    flushed = ctrl_status_flush(work->ctrl, r < 0, err);
    return r < 0 ? r : flushed;
}

/* Bound, and then somebody deleted its ElasticGPU. */
static bool
gpu_is_lost(const struct ctrl_work *work)
{
    const char *phase = kube_str(work->claim, "status.phase");
    const json_t *gpu = kube_watch_get(&work->ctrl->gpus, "", work->name);

    return (strcmp(phase, "Bound") == 0 || strcmp(phase, "Lost") == 0) &&
           (!gpu || kube_deleted(gpu));
}

static void
find_held_gpu(struct ctrl_work *work)
{
    json_t *gpu = kube_watch_get(&work->ctrl->gpus, "", work->name);

    if (holds_gpu(work, gpu) &&
        strcmp(kube_str(work->claim, "status.phase"), "Bound") == 0 &&
        ctrl_session_known(work->ctrl, work->name))
        work->gpu = json_incref(gpu);
}

/* A bound claim keeps what it has when its class is deleted, or would not allow it any
 * more: as a volume does its StorageClass. */
static int
as_it_was_bound(struct ctrl_work *work, struct gp_err *err)
{
    CLEANUP_JSON json_t *capacity =
        json_pack("{s:O*}", "requests", kube_at(work->gpu, "spec.capacity"));

    work->class = (struct kube_class){
        .name = kube_str(work->gpu, "spec.elasticGPUClassName"),
        .provisioner = KUBE_PROVISIONER,
        .retain = strcmp(kube_str(work->gpu, "spec.reclaimPolicy"), "Retain") == 0,
        .core_min = 1,
        .core_step = 1,
    };
    return kube_ask_read(capacity, NULL, &work->ask, err);
}

/* ------------------------------------------------------------------- whole -- */

/* Its class waits for a pod, and there is none: what it held goes back. */
static int
wait_for_pod(struct ctrl_work *work, struct gp_err *err)
{
    int r = ctrl_work_set_waiting(work, "Pending", "WaitForFirstConsumer",
                                  "waits for the first pod that uses it", err);

    if (r < 0 || work->chosen)
        return r;
    return ctrl_gpu_delete(work->ctrl, work->name, err);
}

static int
look_at(struct ctrl_work *work, struct gp_err *err)
{
    char words[sizeof(err->msg)];
    int r;

    if (kube_deleted(work->claim))
        return end_claim(work, err);
    if (orphaned(work)) {
        r = kube_api_delete(work->ctrl->http, &KUBE_CLAIMS, kube_ns(work->claim),
                            kube_name(work->claim), kube_uid(work->claim), err);
        return r == -ENOENT ? 0 : r;
    }
    r = ctrl_work_find_class(work, err);
    if (r > 0)
        return 0;
    if (gpu_is_lost(work))
        return ctrl_work_set_waiting(
            work, "Lost", "ElasticGPUDeleted",
            "its ElasticGPU was deleted; delete the claim, too", err);
    if (!r)
        r = kube_ask_read(json_object_get(kube_at(work->claim, "spec"), "resources"),
                          &work->class, &work->ask, err);
    if (r < 0 && work->gpu)
        r = as_it_was_bound(work, err);
    if (!r)
        r = ctrl_work_check_gpu(work, err);
    gp_str_copy(words, sizeof(words), gp_err_msg(err, r));
    if (r == -ENOENT)
        return ctrl_work_set_waiting(work, "Pending", "NotFound", words, err);
    if (r < 0)
        return ctrl_work_set_waiting(work, "Pending",
                                     r == -EBUSY ? "InUse" : "BadRequest", words, err);
    if (work->class.wait && !json_array_size(work->consumers))
        return wait_for_pod(work, err);
    return bind_claim(work, err);
}

int
ctrl_claim(struct ctrl *ctrl, const char *key, struct gp_err *err)
{
    CLEANUP(ctrl_work_fini) struct ctrl_work work;

    int r = 0;

    ctrl_work_init(&work, ctrl, key);
    if (work.claim) {
        find_held_gpu(&work);
        r = look_at(&work, err);
    } else {
        ctrl_set_waiting(ctrl, "c:", key, false);
    }
    /* Where nobody could say what becomes of it, it waits where it did. */
    if (!work.in_place && (r == 0 || ctrl_session_open(ctrl, work.name)))
        ctrl_place_leave(ctrl, key);
    return r;
}
