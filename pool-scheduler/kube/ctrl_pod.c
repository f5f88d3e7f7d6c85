/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods that the webhook touched: their claims, who uses which, and the gate that keeps
 * a pod from a node until every claim of it is bound to it.
 */
#include "ctrl.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CLAIM_PREFIX "elasticgpu.io/egpuc-"
#define CLAIM_PREFIX_OLD "egpuc.elasticgpu.io/"
#define GENERATE_PREFIX "elasticgpu.io/generate-"
/* What is left to a pod after the end that its deletion names: its node may be gone. */
#define LOST_S 5

static const char *
annotation_claim(const char *key, const json_t *value)
{
    if (strncmp(key, CLAIM_PREFIX, sizeof(CLAIM_PREFIX) - 1) != 0 &&
        strncmp(key, CLAIM_PREFIX_OLD, sizeof(CLAIM_PREFIX_OLD) - 1) != 0)
        return NULL;
    return json_string_value(value);
}

/* ---------------------------------------------------------------- who lives -- */

static time_t
time_of(const char *text)
{
    struct tm tm = {0};

    return *text && strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm) ? timegm(&tm) : 0;
}

/* A pod on a node that does not answer is never seen to end; when its time is over it
 * is taken for ended, and its session closes under it should it still run. */
static bool
is_active(const json_t *pod)
{
    const char *phase = kube_str(pod, "status.phase");
    time_t end = time_of(kube_str(pod, "metadata.deletionTimestamp"));

    if (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0)
        return false;
    return !end || end + LOST_S > time(NULL);
}

/* ----------------------------------------------------------------- its node -- */

/* What one requirement of a selector term says: a single node, or "". */
static const char *
only_value(const json_t *requirements, const char *key)
{
    json_t *item;
    size_t i;

    json_array_foreach((json_t *)requirements, i, item)
    {
        const json_t *values = json_object_get(item, "values");

        if (strcmp(kube_str(item, "key"), key) == 0 &&
            strcmp(kube_str(item, "operator"), "In") == 0 &&
            json_array_size(values) == 1 && json_is_string(json_array_get(values, 0)))
            return json_string_value(json_array_get(values, 0));
    }
    return "";
}

const char *
ctrl_pod_only_node(const json_t *spec)
{
    const char *name = kube_str_key(spec, "nodeSelector", "kubernetes.io/hostname");
    const json_t *terms = kube_at(
        spec, "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
              "nodeSelectorTerms");
    const json_t *term = json_array_get(terms, 0);

    if (*name || json_array_size(terms) != 1) /* of several, one must hold */
        return name;
    name = only_value(json_object_get(term, "matchFields"), "metadata.name");
    return *name ? name
                 : only_value(json_object_get(term, "matchExpressions"),
                              "kubernetes.io/hostname");
}

const char *
ctrl_pod_node(const json_t *pod)
{
    const char *name = kube_str(pod, "spec.nodeName");

    return *name ? name : kube_str(pod, "spec.onlyNode");
}

/* ---------------------------------------------------------------- who uses -- */

static void
queue_uses(struct ctrl *ctrl, const char *pod_key)
{
    const char *claim;
    json_t *value;

    json_object_foreach(json_object_get(ctrl->uses, pod_key), claim, value)
        ctrl_queue_name(ctrl, "c:", claim);
}

static void
forget_uses(struct ctrl *ctrl, const char *pod_key)
{
    const char *claim;
    json_t *value;

    json_object_foreach(json_object_get(ctrl->uses, pod_key), claim, value)
    {
        json_t *pods = json_object_get(ctrl->users, claim);

        json_object_del(pods, pod_key);
        if (!json_object_size(pods))
            json_object_del(ctrl->users, claim);
    }
    json_object_del(ctrl->uses, pod_key);
}

static void
remember_uses(struct ctrl *ctrl, const char *pod_key, const json_t *pod)
{
    json_t *claims = json_object(), *value;
    const char *key;

    json_object_foreach(kube_at(pod, "metadata.annotations"), key, value)
    {
        const char *name = annotation_claim(key, value);
        CLEANUP_FREE char *claim = name ? kube_key_of(kube_ns(pod), name) : NULL;
        json_t *pods;

        if (!claim)
            continue;
        json_object_set_new(claims, claim, json_true());
        pods = json_object_get(ctrl->users, claim);
        if (!pods) {
            pods = json_object();
            json_object_set_new(ctrl->users, claim, pods);
        }
        json_object_set_new(pods, pod_key, json_true());
    }
    json_object_set_new(ctrl->uses, pod_key, claims);
}

void
ctrl_pod_changed(struct kube_watch *watch, const char *key, const json_t *pod)
{
    struct ctrl *ctrl = watch->owner;

    queue_uses(ctrl, key);
    forget_uses(ctrl, key);
    if (!pod)
        return;
    remember_uses(ctrl, key, pod);
    queue_uses(ctrl, key);
    ctrl_queue_name(ctrl, "p:", key);
}

static json_t *
consumer(const json_t *pod)
{
    return json_pack("{s:s, s:s, s:s}", "name", kube_name(pod), "uid", kube_uid(pod),
                     "node", kube_str(pod, "spec.nodeName"));
}

static bool
holds(const json_t *consumers, const char *uid)
{
    json_t *item;
    size_t i;

    json_array_foreach((json_t *)consumers, i,
                       item) if (strcmp(kube_str(item, "uid"), uid) == 0) return true;
    return false;
}

/* A pod that may become a consumer; the strings are the pod's. */
struct candidate {
    const json_t *pod;
    const char *made, *name;
};

static int
by_age(const void *a, const void *b)
{
    const struct candidate *one = a, *other = b;
    int order = strcmp(one->made, other->made);

    return order ? order : strcmp(one->name, other->name);
}

/* The active pods that name the claim and are not in @except, a set of uids. malloc'ed;
 * NULL when there are none. */
static struct candidate *
candidates(struct ctrl *ctrl, const char *claim_key, const json_t *except, size_t *ret)
{
    json_t *users = json_object_get(ctrl->users, claim_key), *value;
    struct candidate *list = calloc(json_object_size(users) + 1, sizeof(*list));
    const char *key;
    size_t n = 0;

    json_object_foreach(users, key, value)
    {
        const json_t *pod = json_object_get(ctrl->pods.objects, key);

        if (list && pod && is_active(pod) && !json_object_get(except, kube_uid(pod)))
            list[n++] = (struct candidate){
                pod, kube_str(pod, "metadata.creationTimestamp"), kube_name(pod)};
    }
    *ret = n;
    return list;
}

/* Older pods first, so that everybody who looks decides the same. */
static void
append_oldest(struct ctrl *ctrl, const char *claim_key, json_t *list,
              const json_t *except, size_t max)
{
    size_t n;
    CLEANUP_FREE struct candidate *all = candidates(ctrl, claim_key, except, &n);

    if (n)
        qsort(all, n, sizeof(*all), by_age);
    for (size_t i = 0; i < n && json_array_size(list) < max; i++)
        json_array_append_new(list, consumer(all[i].pod));
}

json_t *
ctrl_pod_consumers(struct ctrl *ctrl, const json_t *claim)
{
    CLEANUP_FREE char *claim_key = kube_key(claim);
    CLEANUP_JSON json_t *uids = json_object();
    bool shared =
        strcmp(kube_str_key(claim, "metadata.annotations", "elasticgpu.io/shared"),
               "true") == 0;
    json_t *list = json_array(), *old;
    const json_t *pod;
    size_t i;

    json_array_foreach(kube_at(claim, "status.consumers"), i, old)
    {
        const char *uid = kube_str(old, "uid");

        pod = kube_watch_get(&ctrl->pods, kube_ns(claim), kube_str(old, "name"));
        if (!pod || !is_active(pod) || strcmp(kube_uid(pod), uid) != 0 ||
            json_object_get(uids, uid))
            continue;
        json_object_set_new(uids, uid, json_true());
        json_array_append_new(list, consumer(pod));
    }
    if (shared || !json_array_size(list))
        append_oldest(ctrl, claim_key, list, uids, shared ? CTRL_CONSUMERS_MAX : 1);
    return list;
}

/* ------------------------------------------------------------ made claims -- */

static json_t *
made_claim(const json_t *pod, const char *container, const char *name,
           const json_t *spec)
{
    json_t *claim = json_pack(
        "{s:s, s:s, s:{s:s, s:s, s:{s:s}, s:[s], s:[{s:s, s:s, s:s, s:s, s:b}]}, s:O}",
        "apiVersion", kube_resource_version(&KUBE_CLAIMS), "kind", KUBE_CLAIMS.kind,
        "metadata", "name", name, "namespace", kube_ns(pod), "labels", CTRL_GENERATED,
        kube_uid(pod), "finalizers", CTRL_FINALIZER, "ownerReferences", "apiVersion",
        "v1", "kind", "Pod", "name", kube_name(pod), "uid", kube_uid(pod), "controller",
        1, "spec", spec);
    CLEANUP_FREE char *gpu = gp_str_printf("egpu-%s-%.160s", kube_uid(pod), container);

    if (claim && gpu)
        json_object_set_new(json_object_get(claim, "spec"), "elasticGPUName",
                            json_string(gpu));
    return claim;
}

static int
make_claim(struct ctrl *ctrl, const json_t *pod, const char *container,
           const char *spec_text, struct gp_err *err)
{
    CLEANUP_FREE char *key = gp_str_printf(CLAIM_PREFIX "%s", container);
    const char *name = key ? kube_str_key(pod, "metadata.annotations", key) : "";
    CLEANUP_JSON json_t *spec = json_loads(spec_text, 0, NULL), *answer = NULL;
    CLEANUP_JSON json_t *claim = NULL;
    int r;

    if (!*name || !json_is_object(spec) ||
        kube_watch_get(&ctrl->claims, kube_ns(pod), name))
        return 0;
    claim = made_claim(pod, container, name, spec);
    if (!claim)
        return -ENOMEM;
    r = kube_api_create(ctrl->http, &KUBE_CLAIMS, kube_ns(pod), claim, &answer, err);
    if (r == -EEXIST) /* we did, and have not seen it yet */
        return 0;
    if (r == -EINVAL || r == -EPERM) {
        ctrl_event(ctrl, &KUBE_PODS, pod, true, "ClaimNotMade", gp_err_msg(err, r));
        return 0;
    }
    if (r < 0)
        return r;
    kube_watch_put(&ctrl->claims, answer);
    return 0;
}

static int
make_claims(struct ctrl *ctrl, const json_t *pod, struct gp_err *err)
{
    const char *key;
    json_t *value;
    int r = 0;

    json_object_foreach(
        kube_at(pod, "metadata.annotations"), key,
        value) if (!r &&
                   strncmp(key, GENERATE_PREFIX, sizeof(GENERATE_PREFIX) - 1) == 0 &&
                   json_is_string(value)) r =
        make_claim(ctrl, pod, key + sizeof(GENERATE_PREFIX) - 1,
                   json_string_value(value), err);
    return r;
}

/* -------------------------------------------------------------------- gate -- */

/* One that stands for a ResourceClaim: that is allocated when the pod is scheduled, so
 * the pod's gate cannot wait for it. */
static bool
is_device_claim(const json_t *pod, const char *claim_key)
{
    const char *name = strchr(claim_key, '/');
    const char *key;
    json_t *value;

    json_object_foreach(kube_at(pod, "metadata.annotations"), key, value)
    {
        if (strncmp(key, CTRL_DRA_POD, sizeof(CTRL_DRA_POD) - 1) == 0 && name &&
            json_is_string(value) && strcmp(json_string_value(value), name + 1) == 0)
            return true;
    }
    return false;
}

/* NULL: every claim of the pod is bound to it; else the one that is not. */
static const char *
unbound_claim(const struct ctrl *ctrl, const char *pod_key, const json_t *pod)
{
    const char *claim_key;
    json_t *value;

    json_object_foreach(json_object_get(ctrl->uses, pod_key), claim_key, value)
    {
        const json_t *claim = json_object_get(ctrl->claims.objects, claim_key);

        if (is_device_claim(pod, claim_key))
            continue;
        if (!claim || strcmp(kube_str(claim, "status.phase"), "Bound") != 0 ||
            !holds(kube_at(claim, "status.consumers"), kube_uid(pod)))
            return claim_key;
    }
    return NULL;
}

static bool
gated(const json_t *pod, json_t **ret_others)
{
    json_t *others = json_array(), *gate;
    bool found = false;
    size_t i;

    json_array_foreach(kube_at(pod, "spec.schedulingGates"), i,
                       gate) if (strcmp(kube_str(gate, "name"), CTRL_GATE) == 0) found =
        true;
    else json_array_append(others, gate);
    *ret_others = others;
    return found;
}

json_t *
ctrl_pod_gate_claims(const struct ctrl *ctrl, const char *pod_key)
{
    const json_t *pod = json_object_get(ctrl->pods.objects, pod_key);
    CLEANUP_JSON json_t *others = NULL;
    const char *claim_key;
    json_t *keys, *value;

    if (!pod || !gated(pod, &others))
        return NULL;
    keys = json_object();
    json_object_foreach(json_object_get(ctrl->uses, pod_key), claim_key, value)
    {
        if (!is_device_claim(pod, claim_key))
            json_object_set(keys, claim_key, value);
    }
    return keys;
}

/* Say on the pod what its claim waits for. */
static void
explain(struct ctrl *ctrl, const json_t *pod, const char *reason, const char *claim_key)
{
    const json_t *claim = json_object_get(ctrl->claims.objects, claim_key);
    const char *words = kube_str(claim, "status.message");
    const json_t *consumers = kube_at(claim, "status.consumers");
    const char *holder = kube_str(json_array_get(consumers, 0), "name");
    bool bound = strcmp(kube_str(claim, "status.phase"), "Bound") == 0;
    CLEANUP_FREE char *text = NULL;

    if (!claim)
        text = gp_str_printf("claim %s does not exist", claim_key);
    else if (bound && json_array_size(consumers) >= CTRL_CONSUMERS_MAX) {
        reason = "InUse";
        text = gp_str_printf("claim %s is in use by %d pods, and no claim has more",
                             claim_key, CTRL_CONSUMERS_MAX);
    } else if (bound && *holder)
        text = gp_str_printf("claim %s is in use by pod %s", claim_key, holder);
    else if (*words)
        text = gp_str_printf("claim %s: %s", claim_key, words);
    if (text)
        ctrl_event(ctrl, &KUBE_PODS, pod, true, reason, text);
}

/* A pod that may run, and whose session is gone with no other in sight. */
static void
explain_lost(struct ctrl *ctrl, const char *pod_key, const json_t *pod)
{
    const char *claim_key;
    json_t *value;

    json_object_foreach(json_object_get(ctrl->uses, pod_key), claim_key, value)
    {
        const json_t *claim = json_object_get(ctrl->claims.objects, claim_key);

        if (strcmp(kube_str(claim, "status.phase"), "Lost") == 0)
            explain(ctrl, pod, "GPULost", claim_key);
    }
}

static int
lift_gate(struct ctrl *ctrl, const char *key, const json_t *pod, struct gp_err *err)
{
    CLEANUP_JSON json_t *others = NULL, *patch = NULL, *answer = NULL;
    const char *waits_for;
    int r;

    if (!gated(pod, &others)) {
        explain_lost(ctrl, key, pod);
        return 0;
    }
    waits_for = unbound_claim(ctrl, key, pod);
    if (waits_for) {
        explain(ctrl, pod, "WaitingForGPU", waits_for);
        return 0;
    }
    patch = json_pack("{s:{s:s}, s:{s:O}}", "metadata", "uid", kube_uid(pod), "spec",
                      "schedulingGates", others);
    r = kube_api_patch(ctrl->http, &KUBE_PODS, kube_ns(pod), kube_name(pod), NULL,
                       patch, &answer, err);
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return r;
    gp_log_info("pod", "%s: every claim is bound, it may be scheduled", key);
    kube_watch_put(&ctrl->pods, answer);
    return 0;
}

int
ctrl_pod(struct ctrl *ctrl, const char *key, struct gp_err *err)
{
    json_t *pod = json_object_get(ctrl->pods.objects, key);
    time_t end = time_of(kube_str(pod, "metadata.deletionTimestamp"));
    int r;

    if (!pod)
        return 0;
    if (!is_active(pod)) {
        queue_uses(ctrl, key);
        return 0;
    }
    if (end) { /* look again when its time is over, should nothing be heard */
        CLEANUP_FREE char *name = gp_str_printf("p:%s", key);
        time_t left = end + LOST_S - time(NULL) + 1;

        if (name)
            ctrl_queue_add_at(&ctrl->queue, name,
                              gp_now_ns() + (uint64_t)gp_max(left, 1) * GP_NS_PER_S);
        return 0;
    }
    json_incref(pod);
    r = make_claims(ctrl, pod, err);
    if (!r)
        r = lift_gate(ctrl, key, pod, err);
    json_decref(pod);
    return r;
}
