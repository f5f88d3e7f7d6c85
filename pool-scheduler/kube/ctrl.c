/* SPDX-License-Identifier: Apache-2.0 */
#include "ctrl.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_log.h"
#include "gp_str.h"
#include "gp_time.h"
#include "kube_config.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#define TICK_NS (500 * GP_NS_PER_MS)
/* Cards are published, and those who wait tried again, at most this often. */
#define POOL_PAUSE_NS (500 * GP_NS_PER_MS)
/* Why something waits has other words after each change of the pool, such as how much
 * is free.  Thousands may wait, and each status that is written takes some milliseconds
 * in which nothing is bound. */
#define WORDS_NS (20 * GP_NS_PER_S)

static void work_soon(struct ctrl *ctrl);

void
ctrl_queue_name(struct ctrl *ctrl, const char *kind, const char *key)
{
    CLEANUP_FREE char *name = gp_str_printf("%s%s", kind, key);

    if (name)
        ctrl_queue_add(&ctrl->queue, name);
    work_soon(ctrl);
}

void
ctrl_set_waiting(struct ctrl *ctrl, const char *kind, const char *key, bool waits)
{
    CLEANUP_FREE char *name = gp_str_printf("%s%s", kind, key);

    if (name && waits && !json_object_get(ctrl->waiting, name))
        json_object_set_new(ctrl->waiting, name, json_integer(0));
    else if (name && !waits)
        json_object_del(ctrl->waiting, name);
}

bool
ctrl_words_due(struct ctrl *ctrl, const char *kind, const char *key)
{
    CLEANUP_FREE char *name = gp_str_printf("%s%s", kind, key);
    json_t *last = name ? json_object_get(ctrl->waiting, name) : NULL;
    uint64_t now = gp_now_ns(),
             due = json_integer_value(last)
                       ? (uint64_t)json_integer_value(last) + WORDS_NS
                       : 0;

    if (now >= due) {
        json_integer_set(last, (json_int_t)now);
        return true;
    }
    ctrl_queue_add_at(&ctrl->queue, name, due);
    work_soon(ctrl);
    return false;
}

/* ----------------------------------------------------------------- changes -- */

/* A claim may go without having been ended, when somebody takes its finalizer away:
 * its ElasticGPU is looked at in either case. */
static void
claim_changed(struct kube_watch *watch, const char *key, const json_t *claim)
{
    struct ctrl *ctrl = watch->owner;
    const char *gpu = kube_str(claim ? claim : watch->removed, "spec.elasticGPUName");

    ctrl_queue_name(ctrl, "c:", key);
    if (*gpu)
        ctrl_queue_name(ctrl, "g:", gpu);
    if (!claim)
        ctrl_dra_removed(ctrl, watch->removed);
}

static void
try_waiting(struct ctrl *ctrl)
{
    const char *name;
    json_t *value;

    json_object_foreach(ctrl->waiting, name, value)
    {
        ctrl_queue_add(&ctrl->queue, name);
    }
    work_soon(ctrl);
}

/* A retained slice that is let go counts in no quota any more. */
static void
gpu_changed(struct kube_watch *watch, const char *key, const json_t *gpu)
{
    struct ctrl *ctrl = watch->owner;
    const json_t *last = gpu ? gpu : watch->removed;

    if (gpu)
        ctrl_queue_name(ctrl, "g:", key);
    if (strcmp(kube_str(last, "spec.reclaimPolicy"), "Retain") == 0 &&
        (!gpu || !*kube_str(gpu, "spec.claimRef.name")))
        try_waiting(ctrl);
}

/* A class or a quota: what waits may wait for that. */
static void
rules_changed(struct kube_watch *watch, const char *key, const json_t *object)
{
    try_waiting(watch->owner);
}

static void
pool_changed(struct ctrl_pool *pool)
{
    struct ctrl *ctrl = container_of(pool, struct ctrl, pool);

    ctrl_queue_add_at(&ctrl->queue, "cards", gp_now_ns() + POOL_PAUSE_NS);
    ctrl_session_check(ctrl);
    work_soon(ctrl);
}

/* -------------------------------------------------------------------- work -- */

static bool
may_work(const struct ctrl *ctrl)
{
    return ctrl->lease.held && gp_now_ns() < ctrl->lease.until_ns &&
           ctrl->claims.synced && ctrl->classes.synced && ctrl->gpus.synced &&
           ctrl->pods.synced && ctrl->quotas.synced && ctrl_dra_synced(ctrl) &&
           ctrl_legacy_synced(ctrl);
}

static int
look_at(struct ctrl *ctrl, const char *name, struct gp_err *err)
{
    if (strncmp(name, "c:", 2) == 0)
        return ctrl_claim(ctrl, name + 2, err);
    if (strncmp(name, "p:", 2) == 0)
        return ctrl_pod(ctrl, name + 2, err);
    if (strncmp(name, "g:", 2) == 0)
        return ctrl_gpu(ctrl, name + 2, err);
    if (strncmp(name, "r:", 2) == 0)
        return ctrl_dra_claim(ctrl, name + 2, err);
    try_waiting(ctrl);
    return ctrl_cards(ctrl, err);
}

static void
work(struct ctrl *ctrl)
{
    struct ctrl_item *item = ctrl_queue_take(&ctrl->queue, gp_now_ns());
    struct gp_err err = {0};
    int r;

    if (!item)
        return;
    r = look_at(ctrl, item->name, &err);
    if (r < 0) {
        /* Somebody was faster, or the answer has not come here yet: soon again. */
        if (r == -ESTALE || r == -ENOENT)
            gp_log_debug("work", "%s: %s", item->name, gp_err_msg(&err, r));
        else
            gp_log_warn("work", "%s: %s", item->name, gp_err_msg(&err, r));
        if (r == CTRL_INVALID)
            ctrl_queue_done(&ctrl->queue, item);
        else
            ctrl_queue_again(&ctrl->queue, item, gp_now_ns());
    } else {
        ctrl_queue_done(&ctrl->queue, item);
    }
}

struct aged {
    const char *created; /* as text, which has its order; to a second */
    const char *key;
};

static int
compare_aged(const void *a, const void *b)
{
    const struct aged *x = a, *y = b;
    int r = strcmp(x->created, y->created);

    return r ? r : strcmp(x->key, y->key);
}

/* Who has waited longest comes first, as with the controller before. */
static int
queue_claims(struct ctrl *ctrl)
{
    size_t n = 0, all = json_object_size(ctrl->claims.objects);
    CLEANUP_FREE struct aged *list = calloc(all ? all : 1, sizeof(*list));
    const char *key;
    json_t *object;

    if (!list)
        return -ENOMEM;
    json_object_foreach(ctrl->claims.objects, key, object)
    {
        list[n++] = (struct aged){kube_str(object, "metadata.creationTimestamp"), key};
    }
    qsort(list, n, sizeof(*list), compare_aged);
    for (size_t i = 0; i < n; i++)
        ctrl_queue_name(ctrl, "c:", list[i].key);
    return 0;
}

/* Everything, once, after the lease was taken: the one before may have been killed.
 * What the watches have queued meanwhile is part of it, in no order. */
static void
start_work(struct ctrl *ctrl)
{
    struct gp_err err = {0};
    const char *key;
    json_t *object;
    int r = ctrl_session_load(ctrl, &err);

    ctrl_queue_clear(&ctrl->queue);
    if (!r)
        r = queue_claims(ctrl);
    if (r < 0) {
        gp_log_warn("pool", "%s", gp_err_msg(&err, r));
        return;
    }
    json_object_foreach(ctrl->gpus.objects, key, object)
        ctrl_queue_name(ctrl, "g:", key);
    json_object_foreach(ctrl->pods.objects, key, object)
        ctrl_queue_name(ctrl, "p:", key);
    ctrl_dra_queue_all(ctrl);
    ctrl_queue_add(&ctrl->queue, "cards");
    ctrl->orphans_ns = gp_now_ns() + 5 * GP_NS_PER_S;
    ctrl->started = true;
    gp_log_info("work", "%zu claims, %zu ElasticGPUs, %zu pods, %zu sessions",
                json_object_size(ctrl->claims.objects),
                json_object_size(ctrl->gpus.objects),
                json_object_size(ctrl->pods.objects), json_object_size(ctrl->sessions));
}

/* One name per turn of the loop, so that watches are read between. */
static void
on_work(struct gp_loop_timer *timer)
{
    struct ctrl *ctrl = container_of(timer, struct ctrl, work);

    if (may_work(ctrl) && ctrl->started)
        work(ctrl);
    work_soon(ctrl);
}

static void
work_soon(struct ctrl *ctrl)
{
    uint64_t due = ctrl_queue_due(&ctrl->queue);

    if (!ctrl->loop || !ctrl->started || !may_work(ctrl) || due == UINT64_MAX)
        gp_loop_timer_del(&ctrl->work); /* the tick comes back to it */
    else
        gp_loop_timer_set(ctrl->loop, &ctrl->work, gp_max(due, gp_now_ns()), on_work);
}

static void
on_tick(struct gp_loop_timer *timer)
{
    struct ctrl *ctrl = container_of(timer, struct ctrl, tick);

    gp_loop_timer_set(ctrl->loop, timer, gp_now_ns() + TICK_NS, on_tick);
    ctrl_lease_tick(ctrl);
    if (!ctrl->lease.held)
        ctrl->started = false;
    if (!ctrl->lease.held || gp_now_ns() >= ctrl->lease.until_ns)
        ctrl_places_leave(ctrl); /* the next controller takes them */
    if (!may_work(ctrl))
        return;
    if (!ctrl->started)
        start_work(ctrl);
    if (ctrl->started)
        ctrl_session_tick(ctrl);
    work_soon(ctrl);
}

/* ------------------------------------------------------------- start, stop -- */

static void
on_signal(struct gp_loop *loop, int signo, void *arg)
{
    gp_log_info("work", "%s: stopping", strsignal(signo));
    gp_loop_stop(loop, 0);
}

static int
watch(struct ctrl *ctrl, struct kube_watch *watch, const struct kube_resource *res,
      const char *query,
      void (*on_change)(struct kube_watch *, const char *, const json_t *),
      struct gp_err *err)
{
    watch->res = res;
    watch->query = query;
    watch->on_change = on_change;
    watch->owner = ctrl;
    return kube_watch_start(watch, ctrl->http, ctrl->loop, err);
}

/* Of a pod only a little is read; specs are large. */
static void
trim_pod(json_t *pod)
{
    json_t *spec = json_object_get(pod, "spec"),
           *status = json_object_get(pod, "status");
    json_t *small_spec =
        json_pack("{s:O*, s:O*, s:s}", "nodeName", json_object_get(spec, "nodeName"),
                  "schedulingGates", json_object_get(spec, "schedulingGates"),
                  "onlyNode", ctrl_pod_only_node(spec));
    json_t *small = json_pack("{s:O*}", "phase", json_object_get(status, "phase"));

    json_object_set_new(pod, "spec", small_spec);
    json_object_set_new(pod, "status", small);
    kube_trim_annotations(pod, NULL);
}

static void
trim_claim(json_t *claim)
{
    kube_trim_annotations(claim, NULL);
}

static int
start_watches(struct ctrl *ctrl, struct gp_err *err)
{
    int r;

    ctrl->claims.trim = trim_claim;
    r = watch(ctrl, &ctrl->claims, &KUBE_CLAIMS, NULL, claim_changed, err);
    if (!r)
        r = watch(ctrl, &ctrl->classes, &KUBE_CLASSES, NULL, rules_changed, err);
    if (!r)
        r = watch(ctrl, &ctrl->gpus, &KUBE_GPUS, NULL, gpu_changed, err);
    if (!r)
        r = watch(ctrl, &ctrl->quotas, &KUBE_QUOTAS, NULL, rules_changed, err);
    ctrl->pods.trim = trim_pod;
    if (!r)
        r = watch(ctrl, &ctrl->pods, &KUBE_PODS,
                  "labelSelector=elasticgpu.io%2Fremote%3Dtrue", ctrl_pod_changed, err);
    if (!r)
        r = ctrl_lease_start(ctrl, err);
    if (!r)
        r = ctrl_legacy_start(ctrl, err);
    return r < 0 ? r : ctrl_dra_start(ctrl, err);
}

static bool
make_tables(struct ctrl *ctrl)
{
    ctrl->waiting = json_object();
    ctrl->users = json_object();
    ctrl->uses = json_object();
    ctrl->sessions = json_object();
    ctrl->told = json_object();
    return ctrl->waiting && ctrl->users && ctrl->uses && ctrl->sessions && ctrl->told;
}

int
ctrl_init(struct ctrl *ctrl, const struct ctrl_config *config,
          const struct kube_config *kube, const char *scheduler, const char *token_file,
          uint32_t session_lease_ms, struct gp_err *err)
{
    static const int signals[] = {SIGTERM, SIGINT, 0};
    int r;

    memset(ctrl, 0, sizeof(*ctrl));
    ctrl->config = *config;
    ctrl->pool.link.fd = -1;
    ctrl->dra.on = config->dra;
    ctrl->dra.parts = config->dra_parts;
    ctrl->pool.route.list = scheduler;
    ctrl->pool.token_file = token_file;
    ctrl->pool.lease_ms = session_lease_ms;
    r = make_tables(ctrl) ? ctrl_queue_init(&ctrl->queue) : -ENOMEM;
    if (!r)
        r = gp_loop_new(&ctrl->loop, err);
    if (!r)
        r = gp_loop_signals(ctrl->loop, signals, on_signal, ctrl, err);
    if (!r)
        r = kube_http_new(kube, ctrl->loop, &ctrl->http, err);
    if (!r)
        r = start_watches(ctrl, err);
    if (r < 0)
        return r;
    ctrl_pool_watch(&ctrl->pool, ctrl->loop, pool_changed);
    gp_loop_timer_set(ctrl->loop, &ctrl->tick, gp_now_ns(), on_tick);
    return config->ready_file
               ? gp_file_replace(config->ready_file, "ready\n", 6, 0644, err)
               : 0;
}

int
ctrl_run(struct ctrl *ctrl)
{
    return gp_loop_run(ctrl->loop);
}

void
ctrl_fini(struct ctrl *ctrl)
{
    struct kube_watch *watches[] = {&ctrl->claims,     &ctrl->classes,   &ctrl->gpus,
                                    &ctrl->pods,       &ctrl->quotas,    &ctrl->legacy,
                                    &ctrl->dra.claims, &ctrl->dra.slices};
    json_t *tables[] = {ctrl->waiting, ctrl->users, ctrl->uses, ctrl->sessions,
                        ctrl->told};

    if (ctrl->http)
        ctrl_lease_stop(ctrl);
    gp_loop_timer_del(&ctrl->tick);
    gp_loop_timer_del(&ctrl->work);
    for (size_t i = 0; i < ARRAY_SIZE(watches); i++)
        kube_watch_stop(watches[i]);
    ctrl_places_leave(ctrl);
    ctrl_pool_fini(&ctrl->pool);
    ctrl_events_stop(ctrl);
    if (ctrl->sessions)
        ctrl_session_fini(ctrl);
    ctrl_queue_fini(&ctrl->queue);
    for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
        json_decref(tables[i]);
    kube_http_free(ctrl->http);
    gp_loop_free(ctrl->loop);
}
