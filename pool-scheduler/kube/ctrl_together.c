/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The claims of a pod that is not there yet, bound together.
 *
 * A pod starts when it has all of its claims, so it gets the sessions of those that
 * live only as long as it does by one request: all of them, or none.  Else two pods
 * could each hold what the other waits for.  Of those that have no session the first by
 * name asks, and the others wait for what becomes of it; where there is no room all of
 * them take places in the scheduler's queue, as a gang.
 */
#include "ctl_limits.h"
#include "ctrl_claim.h"
#include "gp_err.h"
#include "gp_str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The message of a claim that waits for others begins so. */
#define TOGETHER "a pod gets the sessions of its claims together"

/* Those that have no session yet. */
struct group {
    size_t n;
    struct ctrl_work works[CTL_OPEN_MANY_MAX];
};

static void
group_free(struct group *group)
{
    for (size_t i = 0; group && i < group->n; i++)
        ctrl_work_fini(&group->works[i]);
    free(group);
}
DEFINE_CLEANUP(struct group, group_free)

static bool
is_shared(const struct ctrl_work *work)
{
    return strcmp(kube_str_key(work->claim, "metadata.annotations",
                               "elasticgpu.io/shared"),
                  "true") == 0;
}

/* Was it made for its pod, or does its class give back what no pod uses? */
static bool
lives_with_pod(const struct ctrl_work *work)
{
    return !work->chosen && !is_shared(work) &&
           (work->class.wait ||
            *kube_str_key(work->claim, "metadata.labels", CTRL_GENERATED));
}

/* 1: somebody else's.  -errno: it cannot be bound, and why. */
static int
read_other(struct ctrl_work *work, struct gp_err *err)
{
    int r;

    if (!work->claim)
        return gp_err_set(err, -ENOENT, "it does not exist");
    if (kube_deleted(work->claim))
        return gp_err_set(err, -EBUSY, "it is being deleted");
    r = ctrl_work_find_class(work, err);
    if (!r)
        r = kube_ask_read(json_object_get(kube_at(work->claim, "spec"), "resources"),
                          &work->class, &work->ask, err);
    return r ? r : ctrl_work_check_gpu(work, err);
}

/* Another claim of the pod, or the one at hand.  -EBUSY, -EINVAL, -ENOENT: the pod
 * cannot start, whatever else it has. */
static int
group_add(struct group *group, struct ctrl *ctrl, const char *key, const char *pod_uid,
          struct gp_err *err)
{
    CLEANUP(ctrl_work_fini) struct ctrl_work work;
    const json_t *user;
    int r;

    ctrl_work_init(&work, ctrl, key);
    r = read_other(&work, err);
    if (r < 0)
        return r;
    user = json_array_get(work.consumers, 0);
    if (!r && !is_shared(&work) && user && strcmp(kube_str(user, "uid"), pod_uid) != 0)
        return gp_err_set(err, -EBUSY, "it is in use by pod %s",
                          kube_str(user, "name"));
    if (r > 0 || !lives_with_pod(&work) || ctrl_session_open(ctrl, work.name))
        return 0;
    if (group->n == ARRAY_SIZE(group->works))
        return -E2BIG;
    ctrl_work_fill_ask(&work);
    group->works[group->n++] = work;
    memset(&work, 0, sizeof(work));
    return 0;
}

/* *ret_key: the claim for which the pod cannot start. */
static int
group_read(struct group *group, const struct ctrl_work *work, const json_t *keys,
           const char **ret_key, struct gp_err *err)
{
    const char *uid = kube_str(json_array_get(work->consumers, 0), "uid");
    json_t *value;
    const char *key;
    int r = 0;

    json_object_foreach((json_t *)(uintptr_t)keys, key, value)
    {
        if (r < 0)
            break;
        *ret_key = key;
        r = group_add(group, work->ctrl, key, uid, err);
    }
    return r;
}

static const struct ctrl_work *
group_first(const struct group *group)
{
    const struct ctrl_work *first = &group->works[0];

    for (size_t i = 1; i < group->n; i++)
        if (strcmp(group->works[i].key, first->key) < 0)
            first = &group->works[i];
    return first;
}

/* Whoever waits for the first one looks at what became of it. */
static void
group_queue(const struct group *group, const struct ctrl_work *first)
{
    for (size_t i = 0; i < group->n; i++)
        if (strcmp(group->works[i].key, first->key) != 0)
            ctrl_queue_name(first->ctrl, "c:", group->works[i].key);
}

static int
group_quota(const struct group *group, const struct kube_ask *asks, struct gp_err *err)
{
    const struct ctrl_work *first = &group->works[0];
    CLEANUP_JSON json_t *except = json_object();

    for (size_t i = 0; i < group->n; i++)
        json_object_set_new(except, group->works[i].key, json_true());
    return ctrl_quota_check(first->ctrl, kube_ns(first->claim), except, asks, group->n,
                            err);
}

/* Their sessions are open; of whole cards the memory is known only now. */
static int
group_grants(struct group *group, struct kube_ask *asks, struct gp_err *err)
{
    const struct ctrl_grant *grant;
    int r = 0;

    for (size_t i = 0; !r && i < group->n; i++) {
        struct ctrl_work *work = &group->works[i];

        r = ctrl_session_ensure(work->ctrl, work->name, work->program, &work->ask,
                                &work->class, &grant, err);
        if (!r)
            asks[i].memory = grant->memory;
    }
    if (!r)
        r = group_quota(group, asks, err);
    for (size_t i = 0; r == -EDQUOT && i < group->n; i++)
        ctrl_session_end(group->works[i].ctrl, group->works[i].name, 0, NULL);
    return r;
}

/* There was no room for them.  Fewer of them are another gang. */
static bool
group_wait(const struct group *group, const json_t *pod,
           struct ctrl_wanted list[CTL_OPEN_MANY_MAX])
{
    const char *keys[CTL_OPEN_MANY_MAX];
    char gang[64];

    snprintf(gang, sizeof(gang), "%.20s-%.36s-%zu", kube_str(pod, "name"),
             kube_str(pod, "uid"), group->n);
    for (size_t i = 0; i < group->n; i++) {
        keys[i] = group->works[i].key;
        list[i].gang = gang;
        list[i].gang_size = (unsigned)group->n;
    }
    return ctrl_places_take(group->works[0].ctrl, keys, list, group->n,
                            "takes places in the scheduler's queue");
}

static int
group_open(struct group *group, struct ctrl_work *asking, size_t *ret_failed,
           struct gp_err *err)
{
    struct ctrl_wanted list[CTL_OPEN_MANY_MAX];
    struct kube_ask asks[CTL_OPEN_MANY_MAX];
    int r = 0;

    for (size_t i = 0; !r && i < group->n; i++) {
        struct ctrl_work *work = &group->works[i];

        r = ctrl_work_hold(work, err);
        asks[i] = work->ask;
        list[i] = (struct ctrl_wanted){.name = work->name,
                                       .program = work->program,
                                       .ask = &work->ask,
                                       .class = &work->class};
    }
    if (!r)
        r = group_quota(group, asks, err);
    if (!r)
        r = ctrl_session_ensure_many(asking->ctrl, list, group->n, ret_failed, err);
    if (r == -ENOSPC)
        asking->in_place =
            group_wait(group, json_array_get(asking->consumers, 0), list);
    return r ? r : group_grants(group, asks, err);
}

/* The others wait for what the first one says. */
static int
follow(struct ctrl_work *work, const struct ctrl_work *first, struct gp_err *err)
{
    const char *words = kube_str(first->claim, "status.message");
    char text[sizeof(err->msg)];

    work->in_place = ctrl_place_words(work->ctrl, work->key);
    if (strncmp(words, TOGETHER, sizeof(TOGETHER) - 1) == 0)
        gp_str_copy(text, sizeof(text), words);
    else
        snprintf(text, sizeof(text), TOGETHER ": it waits for claim %s", first->key);
    return ctrl_work_set_waiting(work, "Pending", "WaitForPodClaims", text, err);
}

static int
group_refused(struct ctrl_work *work, const struct group *group, size_t failed, int r,
              struct gp_err *err)
{
    const char *place = ctrl_place_words(work->ctrl, work->key);

    char words[sizeof(err->msg)];

    gp_str_copy(words, sizeof(words), gp_err_msg(err, r));
    if (r == -ENOSPC || r == -EINVAL)
        gp_err_set(err, r, TOGETHER ": claim %s: %s%s%s", group->works[failed].key,
                   words, place ? "; " : "", place ? place : "");
    else if (r == -EDQUOT)
        gp_err_wrap(err, r, TOGETHER);
    r = ctrl_work_refused(work, r, err);
    group_queue(group, work);
    return r;
}

int
ctrl_work_open_with_pod(struct ctrl_work *work, struct gp_err *err)
{
    CLEANUP(group_freep) struct group *group = NULL;
    CLEANUP_JSON json_t *keys = NULL;
    CLEANUP_FREE char *pod = kube_key_of(
        kube_ns(work->claim), kube_str(json_array_get(work->consumers, 0), "name"));
    const char *key = "";
    const struct ctrl_work *first;
    size_t failed = 0;
    int r;

    if (!pod || !lives_with_pod(work) || !json_array_size(work->consumers))
        return 0;
    keys = ctrl_pod_gate_claims(work->ctrl, pod);
    if (json_object_size(keys) < 2 || ctrl_session_open(work->ctrl, work->name))
        return 0;
    group = calloc(1, sizeof(*group));
    if (!group)
        return -ENOMEM;
    r = group_read(group, work, keys, &key, err);
    if (r == -EBUSY || r == -EINVAL || r == -ENOENT) {
        char words[sizeof(err->msg)];

        gp_err_wrap(err, r, TOGETHER ": claim %s", key);
        gp_str_copy(words, sizeof(words), gp_err_msg(err, r));
        r = ctrl_work_set_waiting(work, "Pending", "WaitForPodClaims", words, err);
        return r < 0 ? r : 1;
    }
    if (r < 0 && r != -E2BIG)
        return r;
    if (r == -E2BIG || group->n < 2)
        return 0;
    first = group_first(group);
    if (strcmp(first->key, work->key) != 0) {
        r = follow(work, first, err);
        return r < 0 ? r : 1;
    }
    r = group_open(group, work, &failed, err);
    if (r == -ENOTSUP)
        return 0;
    if (r < 0) {
        r = group_refused(work, group, failed, r, err);
        return r < 0 ? r : 1;
    }
    group_queue(group, work);
    return 0;
}
