/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cards of the pool as GPU objects (gpus.elasticgpu.io), which older dashboards
 * and tools read.  Everything in them is in ElasticGPU objects as well; nothing is read
 * back.  Part of struct ctrl; event loop thread; nothing here without --legacy-gpus.
 */
#include "ctrl.h"
#include "gp_err.h"
#include "gp_str.h"
#include "gp_time.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CLAIM_PREFIX "elasticgpu.io/egpuc-"
#define CLAIM_PREFIX_OLD "egpuc.elasticgpu.io/"

/* ---------------------------------------------------------------- contents -- */

/* The containers of @pod that use @claim, with what each may use. */
static json_t *
containers_of(const json_t *pod, const char *claim, json_t *resource)
{
    json_t *list = json_array(), *value;
    const char *key;

    json_object_foreach(kube_at(pod, "metadata.annotations"), key, value)
    {
        const char *container =
            strncmp(key, CLAIM_PREFIX, sizeof(CLAIM_PREFIX) - 1) == 0
                ? key + sizeof(CLAIM_PREFIX) - 1
            : strncmp(key, CLAIM_PREFIX_OLD, sizeof(CLAIM_PREFIX_OLD) - 1) == 0
                ? key + sizeof(CLAIM_PREFIX_OLD) - 1
                : NULL;

        if (container && json_is_string(value) &&
            strcmp(json_string_value(value), claim) == 0)
            json_array_append_new(list, json_pack("{s:s, s:O}", "container", container,
                                                  "resource", resource));
    }
    return list;
}

static void
add_pods(const struct ctrl *ctrl, json_t *allocated, const json_t *gpu)
{
    const char *ns = kube_str(gpu, "spec.claimRef.namespace");
    const char *name = kube_str(gpu, "spec.claimRef.name");
    const json_t *claim = kube_watch_get(&ctrl->claims, ns, name);
    json_t *consumer;
    size_t i;

    json_array_foreach(kube_at(claim, "status.consumers"), i, consumer)
    {
        const char *pod = kube_str(consumer, "name");
        CLEANUP_JSON json_t *containers = containers_of(
            kube_watch_get(&ctrl->pods, ns, pod), name, kube_at(gpu, "spec.capacity"));
        json_t *entry = json_object_get(allocated, kube_str(consumer, "uid"));

        if (entry)
            json_array_extend(json_object_get(entry, "containers"), containers);
        else
            json_object_set_new(allocated, kube_str(consumer, "uid"),
                                json_pack("{s:s, s:s, s:O}", "namespace", ns, "pod",
                                          pod, "containers", containers));
    }
}

static bool
is_on(const json_t *gpu, const char *uuid)
{
    json_t *item;
    size_t i;

    json_array_foreach(kube_at(gpu, "spec.remoteGPU.gpuUUIDs"), i, item)
    {
        if (strcmp(json_string_value(item), uuid) == 0)
            return strcmp(kube_str_key(gpu, "metadata.labels", CTRL_KIND), "slice") ==
                   0;
    }
    return false;
}

static json_t *
allocated_of(const struct ctrl *ctrl, const char *uuid)
{
    json_t *allocated = json_object(), *gpu;
    const char *key;

    json_object_foreach(ctrl->gpus.objects, key, gpu)
    {
        if (is_on(gpu, uuid))
            add_pods(ctrl, allocated, gpu);
    }
    return allocated;
}

static json_t *
spec_of(const Gpupool__Ctl__CtlServerStatus *server, size_t index)
{
    const Gpupool__Ctl__CtlCard *card = server->cards[index]->card;
    char uuid[48], path[32];

    ctrl_pool_uuid(uuid, &card->uuid);
    snprintf(path, sizeof(path), "/dev/nvidia%zu", index);
    return json_pack("{s:I, s:s, s:s, s:s, s:I, s:s}", "index", (json_int_t)index,
                     "uuid", uuid, "model", card->name, "path", path, "memory",
                     (json_int_t)card->memory_bytes, "nodeName", server->server);
}

static json_t *
status_of(const struct ctrl *ctrl, const Gpupool__Ctl__CtlServerStatus *server,
          size_t index)
{
    static const char *const STATES[] = {
        [CTRL_CARD_OPEN] = "Healthy",      [CTRL_CARD_DEAD] = "Unhealthy",
        [CTRL_CARD_DRAINING] = "Draining", [CTRL_CARD_FAULTY] = "Unhealthy",
        [CTRL_CARD_CORDONED] = "Draining",
    };
    const Gpupool__Ctl__CtlCardStatus *card = server->cards[index];
    struct kube_ask all = {.core = 100, .memory = card->card->memory_bytes >> 20 << 20};
    char uuid[48];

    ctrl_pool_uuid(uuid, &card->card->uuid);
    return json_pack(
        "{s:s, s:o, s:o, s:o}", "state", STATES[ctrl_card_state(server, card)],
        "capacity", kube_ask_write(&all), "allocatable",
        ctrl_card_allocatable(server, card), "allocated", allocated_of(ctrl, uuid));
}

/* ------------------------------------------------------------------ objects -- */

static int
create(struct ctrl *ctrl, const char *name, json_t *spec, json_t **ret,
       struct gp_err *err)
{
    CLEANUP_JSON json_t *object = json_pack(
        "{s:s, s:s, s:{s:s, s:{s:s}}, s:O}", "apiVersion",
        kube_resource_version(&KUBE_LEGACY_GPUS), "kind", KUBE_LEGACY_GPUS.kind,
        "metadata", "name", name, "labels", CTRL_KIND, "card", "spec", spec);

    return kube_api_create(ctrl->http, &KUBE_LEGACY_GPUS, NULL, object, ret, err);
}

/* "allocated" is a map whose entries come and go, so a null for each that went. */
static void
clear_others(json_t *status, const json_t *object)
{
    json_t *allocated = json_object_get(status, "allocated"), *value;
    const char *key;

    json_object_foreach(kube_at(object, "status.allocated"), key, value)
    {
        if (!json_object_get(allocated, key))
            json_object_set_new(allocated, key, json_null());
    }
}

static int
put(struct ctrl *ctrl, const Gpupool__Ctl__CtlServerStatus *server, size_t index,
    json_t *seen, struct gp_err *err)
{
    CLEANUP_JSON json_t *spec = spec_of(server, index), *object = NULL;
    json_t *status = status_of(ctrl, server, index);
    char name[48];
    int r = 0;

    ctrl_pool_uuid(name, &server->cards[index]->card->uuid);
    for (char *c = name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    json_object_set_new(seen, name, json_true());
    object = json_incref(kube_watch_get(&ctrl->legacy, "", name));
    if (!object) {
        r = create(ctrl, name, spec, &object, err);
        if (!r)
            kube_watch_put(&ctrl->legacy, object);
    }
    if (r < 0) {
        json_decref(status);
        return r == -EEXIST ? -ESTALE : r;
    }
    clear_others(status, object);
    return ctrl_status(ctrl, &ctrl->legacy, object, status, err);
}

static int
remove_others(struct ctrl *ctrl, const json_t *seen, struct gp_err *err)
{
    const char *name;
    json_t *object;
    void *next;
    int r = 0;

    json_object_foreach_safe(ctrl->legacy.objects, next, name, object)
    {
        CLEANUP_FREE char *key = strdup(name);

        if (r < 0 || !key || json_object_get(seen, name))
            continue;
        r = kube_api_delete(ctrl->http, &KUBE_LEGACY_GPUS, NULL, name, kube_uid(object),
                            err);
        if (r == -ENOENT)
            r = 0;
        if (!r)
            kube_watch_remove(&ctrl->legacy, key);
    }
    return r;
}

int
ctrl_legacy_publish(struct ctrl *ctrl, const Gpupool__Ctl__CtlStatusReply *status,
                    struct gp_err *err)
{
    CLEANUP_JSON json_t *seen = json_object();
    int r = 0;

    if (!ctrl->config.legacy_gpus)
        return 0;
    for (size_t i = 0; !r && i < status->n_servers; i++)
        for (size_t c = 0; !r && c < status->servers[i]->n_cards; c++) {
            r = put(ctrl, status->servers[i], c, seen, err);
            r = ctrl_cards_published(ctrl, status->servers[i]->server, r, err);
        }
    return r < 0 ? r : remove_others(ctrl, seen, err);
}

static void
changed(struct kube_watch *watch, const char *key, const json_t *object)
{
    struct ctrl *ctrl = watch->owner;

    if (!object) /* somebody deleted it */
        ctrl_queue_name(ctrl, "cards", "");
}

/* Objects of others, such as a gpu-manager's, are left alone: only ours carry the
 * label. */
int
ctrl_legacy_start(struct ctrl *ctrl, struct gp_err *err)
{
    if (!ctrl->config.legacy_gpus)
        return 0;
    ctrl->legacy.res = &KUBE_LEGACY_GPUS;
    ctrl->legacy.query = "labelSelector=elasticgpu.io%2Fkind%3Dcard";
    ctrl->legacy.on_change = changed;
    ctrl->legacy.owner = ctrl;
    return kube_watch_start(&ctrl->legacy, ctrl->http, ctrl->loop, err);
}

bool
ctrl_legacy_synced(const struct ctrl *ctrl)
{
    return !ctrl->config.legacy_gpus || ctrl->legacy.synced;
}
