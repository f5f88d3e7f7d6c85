/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a namespace may hold: lines of its ResourceQuota objects.
 *
 *   requests.elasticgpu.io/gpu-core    percent, over all cards
 *   requests.elasticgpu.io/gpu-memory  bytes, over all cards
 *   requests.elasticgpu.io/gpu-cards   cards that are held whole or in part
 *
 * Kubernetes counts pods, and pods of ours ask the node for nothing, so the controller
 * counts: the claims of the namespace that hold a session, and what is retained of
 * claims that are gone.  It is the only one who opens sessions, so what it counts is
 * what there is.
 */
#include "ctrl.h"
#include "gp_err.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct sum {
    uint64_t core, memory, cards;
};

static const struct {
    const char *name, *words;
    size_t at;
} LINES[] = {
    {"requests.elasticgpu.io/gpu-core", "percent of cards", offsetof(struct sum, core)},
    {"requests.elasticgpu.io/gpu-memory", "bytes of memory",
     offsetof(struct sum, memory)},
    {"requests.elasticgpu.io/gpu-cards", "cards", offsetof(struct sum, cards)},
};

static void
add(struct sum *sum, const struct kube_ask *ask, uint64_t memory)
{
    uint64_t bytes;

    sum->core += ask->core;
    sum->cards += ask->cards;
    if (!gp_mul_ok(memory, ask->cards, &bytes) ||
        !gp_add_ok(sum->memory, bytes, &sum->memory))
        sum->memory = UINT64_MAX;
}

/* What a claim with a session holds: its ElasticGPU says so, and what was asked for
 * where a controller was killed before it wrote that.  -ENOENT: the ElasticGPU that it
 * names is another's. */
static int
what_it_holds(const struct ctrl *ctrl, const json_t *claim, const char *gpu_name,
              struct kube_ask *ret)
{
    const json_t *gpu = kube_watch_get(&ctrl->gpus, "", gpu_name);
    CLEANUP_JSON json_t *capacity =
        json_pack("{s:O*}", "requests", kube_at(gpu, "spec.capacity"));

    if (gpu && strcmp(kube_str(gpu, "spec.claimRef.uid"), kube_uid(claim)) != 0)
        return -ENOENT;
    return kube_ask_read(gpu ? capacity : kube_at(claim, "spec.resources"), NULL, ret,
                         NULL);
}

/* Is it retained for @ns: its claim is gone, and nobody has let it go? */
static bool
retained_for(const struct ctrl *ctrl, const json_t *gpu, const char *ns)
{
    const char *of = kube_str(gpu, "spec.claimRef.namespace");
    const json_t *claim;

    if (strcmp(of, ns) != 0 ||
        strcmp(kube_str(gpu, "spec.reclaimPolicy"), "Retain") != 0 ||
        strcmp(kube_str_key(gpu, "metadata.labels", CTRL_KIND), "slice") != 0)
        return false;
    claim = kube_watch_get(&ctrl->claims, of, kube_str(gpu, "spec.claimRef.name"));
    return !claim || strcmp(kube_uid(claim), kube_str(gpu, "spec.claimRef.uid")) != 0;
}

/* Whoever may make and delete claims could otherwise hold the whole pool, a claim after
 * the other: a slice is taken from others while it is retained.  Its phase is Released,
 * Failed (it gets a session when there is room), or not written yet. */
static void
add_retained(const struct ctrl *ctrl, const char *ns, struct sum *sum)
{
    const char *key;
    json_t *gpu;

    json_object_foreach(ctrl->gpus.objects, key, gpu)
    {
        CLEANUP_JSON json_t *capacity = NULL;
        struct kube_ask ask;

        if (!retained_for(ctrl, gpu, ns))
            continue;
        capacity = json_pack("{s:O*}", "requests", kube_at(gpu, "spec.capacity"));
        if (kube_ask_read(capacity, NULL, &ask, NULL) == 0)
            add(sum, &ask, ask.memory);
    }
}

/* Claims of @ns that hold a session, but for those in @except, and what is retained. */
static struct sum
held_in(const struct ctrl *ctrl, const char *ns, const json_t *except)
{
    struct sum sum = {0};
    size_t n = strlen(ns);
    const char *key;
    json_t *claim;

    json_object_foreach(ctrl->claims.objects, key, claim)
    {
        const char *name = kube_str(claim, "spec.elasticGPUName");
        struct kube_ask ask;

        if (strncmp(key, ns, n) != 0 || key[n] != '/' || !*name ||
            json_object_get(except, key) || !ctrl_session_holds(ctrl, name))
            continue;
        if (what_it_holds(ctrl, claim, name, &ask) == 0)
            add(&sum, &ask, ask.memory);
    }
    add_retained(ctrl, ns, &sum);
    return sum;
}

static int
check_line(const json_t *quota, size_t i, const struct sum *held,
           const struct sum *more, struct gp_err *err)
{
    const json_t *hard = json_object_get(kube_at(quota, "spec.hard"), LINES[i].name);
    uint64_t limit, have, want;

    if (!hard)
        return 0;
    memcpy(&have, (const char *)held + LINES[i].at, sizeof(have));
    memcpy(&want, (const char *)more + LINES[i].at, sizeof(want));
    if (kube_quantity(hard, &limit, err) < 0)
        return gp_err_wrap(err, -EDQUOT, "ResourceQuota %s: %s", kube_name(quota),
                           LINES[i].name);
    if (have <= limit && want <= limit - have)
        return 0;
    return gp_err_set(err, -EDQUOT,
                      "ResourceQuota %s: the namespace holds %" PRIu64 " of %" PRIu64
                      " %s, and %" PRIu64 " more are asked for",
                      kube_name(quota), have, limit, LINES[i].words, want);
}

static bool
says_something(const json_t *quota)
{
    for (size_t i = 0; i < ARRAY_SIZE(LINES); i++)
        if (json_object_get(kube_at(quota, "spec.hard"), LINES[i].name))
            return true;
    return false;
}

int
ctrl_quota_check(struct ctrl *ctrl, const char *ns, const json_t *except,
                 const struct kube_ask *list, size_t n, struct gp_err *err)
{
    struct sum held, more = {0};
    bool counted = false;
    const char *key;
    json_t *quota;
    int r = 0;

    for (size_t i = 0; i < n; i++)
        add(&more, &list[i], list[i].memory);
    json_object_foreach(ctrl->quotas.objects, key, quota)
    {
        if (strcmp(kube_ns(quota), ns) != 0 || !says_something(quota))
            continue;
        if (!counted)
            held = held_in(ctrl, ns, except);
        counted = true;
        for (size_t i = 0; !r && i < ARRAY_SIZE(LINES); i++)
            r = check_line(quota, i, &held, &more, err);
    }
    return r;
}
