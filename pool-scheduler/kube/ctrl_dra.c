/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic resource allocation: ResourceSlices and ResourceClaims (ctrl_dra_state.h). */
#include "ctrl.h"
#include "gp_err.h"
#include "gp_log.h"
#include "gp_str.h"
#include "kube_dra.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define POD_CLAIM_NAME "resource.kubernetes.io/pod-claim-name"

/* ------------------------------------------------------------ who is who -- */

/* Does @claim stand for a ResourceClaim? */
static bool
is_stand_in(const json_t *claim)
{
    return *kube_str_key(claim, "metadata.labels", CTRL_DRA_LABEL);
}

/* A template's claim is known to its pod by the name that the webhook chose, any other
 * by its own.  malloc'ed; NULL: none is known. */
static char *
name_of(const struct ctrl *ctrl, const json_t *resource_claim)
{
    const char *entry =
        kube_str_key(resource_claim, "metadata.annotations", POD_CLAIM_NAME);
    CLEANUP_FREE char *key = gp_str_printf(CTRL_DRA_POD "%s", entry);
    const json_t *pod,
        *owner = json_array_get(kube_at(resource_claim, "metadata.ownerReferences"), 0);
    const char *chosen;

    if (!*entry || !key)
        return gp_str_printf("dra-%s", kube_name(resource_claim));
    pod = kube_watch_get(&ctrl->pods, kube_ns(resource_claim), kube_str(owner, "name"));
    if (strcmp(kube_uid(pod), kube_str(owner, "uid")) != 0)
        return NULL;
    chosen = kube_str_key(pod, "metadata.annotations", key);
    return *chosen ? strdup(chosen) : NULL;
}

/* What tells one allocation of a ResourceClaim from the next.  malloc'ed. */
static char *
allocation_of(const json_t *resource_claim, const json_t *result)
{
    return gp_str_printf("%s/%s %s %s", kube_str(result, "pool"),
                         kube_str(result, "device"), kube_str(result, "shareID"),
                         kube_str(resource_claim, "status.allocation."
                                                  "allocationTimestamp"));
}

/* Was @claim made for this allocation? */
static bool
is_of_allocation(const json_t *claim, const json_t *resource_claim,
                 const json_t *result)
{
    const char *made_for = kube_str_key(claim, "metadata.annotations", CTRL_DRA_DEVICE);
    const char *card = kube_str_key(claim, "metadata.annotations", CTRL_CARD);
    CLEANUP_FREE char *now = allocation_of(resource_claim, result);
    char uuid[48];
    unsigned part;

    if (*made_for)
        return now && strcmp(made_for, now) == 0;
    /* By a controller that noted only the card. */
    return kube_dra_device_card(kube_str(result, "device"), uuid, &part) &&
           strcasecmp(card, uuid) == 0;
}

/* The ResourceClaim that @claim stands for, while it is allocated as it was when that
 * was made; NULL: none.  Its label is only a way to find that: of all claims that carry
 * it, the one stands for the ResourceClaim that has the name which was chosen for that.
 */
static const json_t *
stands_for(const struct ctrl *ctrl, const json_t *claim, const json_t **ret_result)
{
    const char *uid = kube_str_key(claim, "metadata.labels", CTRL_DRA_LABEL);
    const char *name = kube_str_key(claim, "metadata.annotations", CTRL_DRA_NAME);
    const json_t *found = ctrl->dra.on && *uid
                              ? kube_watch_get(&ctrl->dra.claims, kube_ns(claim), name)
                              : NULL;
    CLEANUP_FREE char *chosen = found ? name_of(ctrl, found) : NULL;

    if (!chosen || strcmp(chosen, kube_name(claim)) != 0 ||
        strcmp(kube_uid(found), uid) != 0 ||
        kube_dra_result(found, ret_result, NULL) < 0 || !*ret_result ||
        !is_of_allocation(claim, found, *ret_result))
        return NULL;
    return found;
}

bool
ctrl_dra_gone(const struct ctrl *ctrl, const json_t *claim)
{
    const json_t *result = NULL;

    return ctrl->dra.on && is_stand_in(claim) && !stands_for(ctrl, claim, &result);
}

/* What the ResourceSlice says of the device that @result names. */
static const json_t *
device_of(const struct ctrl *ctrl, const json_t *result)
{
    const char *key, *name = kube_str(result, "device");
    json_t *slice, *device;
    size_t i;

    json_object_foreach(ctrl->dra.slices.objects, key, slice)
    {
        if (strcmp(kube_str(slice, "spec.pool.name"), kube_str(result, "pool")) != 0)
            continue;
        json_array_foreach(kube_at(slice, "spec.devices"), i, device)
        {
            if (strcmp(kube_str(device, "name"), name) == 0)
                return device;
        }
    }
    return NULL;
}

/* ------------------------------------------------------- what is published -- */

/* What sessions of ResourceClaims hold of a card; it is not taken off what the
 * ResourceSlice says, since kube-scheduler counts it itself. */
struct held {
    char uuid[48];
    uint32_t core, slices;
    uint64_t memory;
    bool parts[KUBE_DRA_PARTS_MAX];
};

struct publish {
    struct ctrl *ctrl;
    struct held *held;
    size_t n;
};

static struct held *
find_held(const struct publish *p, const char *uuid)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcasecmp(p->held[i].uuid, uuid) == 0)
            return &p->held[i];
    return NULL;
}

static struct held *
add_held(struct publish *p, const char *uuid)
{
    struct held *held = find_held(p, uuid), *more;

    if (held)
        return held;
    more = realloc(p->held, (p->n + 1) * sizeof(*more));
    if (!more)
        return NULL;
    p->held = more;
    held = &more[p->n++];
    memset(held, 0, sizeof(*held));
    gp_str_copy(held->uuid, sizeof(held->uuid), uuid);
    return held;
}

/* What the session of @claim holds of what was allocated to @result; 0: nothing. */
static int
held_amounts(const struct ctrl *ctrl, const json_t *gpu, const json_t *result,
             struct kube_ask *ret)
{
    CLEANUP_JSON json_t *capacity =
        json_pack("{s:O*}", "requests", kube_at(gpu, "spec.capacity"));
    json_t *resources = kube_dra_resources(result, device_of(ctrl, result));
    CLEANUP_JSON json_t *allocated = json_pack("{s:o*}", "requests", resources);
    struct kube_ask most;
    int r = kube_ask_read(capacity, NULL, ret, NULL);

    if (r < 0 || !resources)
        return r;
    r = kube_ask_read(allocated, NULL, &most, NULL);
    if (r < 0)
        return r;
    ret->core = gp_min(ret->core, most.core);
    ret->memory = gp_min(ret->memory, most.memory);
    return 0;
}

/* Counted is what kube-scheduler counts as well: on the card that it allocated, and no
 * more than that. */
static void
count_session(struct publish *p, const json_t *claim)
{
    const char *name = kube_str(claim, "spec.elasticGPUName");
    const json_t *gpu = kube_watch_get(&p->ctrl->gpus, "", name), *result = NULL;
    const char *uuid =
        json_string_value(json_array_get(kube_at(gpu, "spec.remoteGPU.gpuUUIDs"), 0));
    char allocated[48];
    struct held *held;
    struct kube_ask ask;
    unsigned part;

    if (!uuid || !ctrl_session_known(p->ctrl, name) ||
        strcmp(kube_str(gpu, "spec.claimRef.uid"), kube_uid(claim)) != 0 ||
        !stands_for(p->ctrl, claim, &result) ||
        !kube_dra_device_card(kube_str(result, "device"), allocated, &part) ||
        strcasecmp(allocated, uuid) != 0 ||
        held_amounts(p->ctrl, gpu, result, &ask) < 0)
        return;
    held = add_held(p, uuid);
    if (!held)
        return;
    held->core += ask.core;
    held->memory += ask.memory;
    held->slices++;
}

static void
count_held(struct publish *p)
{
    const char *key;
    json_t *object;

    json_object_foreach(p->ctrl->claims.objects, key, object)
    {
        if (is_stand_in(object))
            count_session(p, object);
    }
    json_object_foreach(p->ctrl->dra.claims.objects, key, object)
    {
        const json_t *result = NULL;
        char uuid[48];
        unsigned part = 0;
        struct held *held;

        if (kube_dra_result(object, &result, NULL) == 0 && result &&
            kube_dra_device_card(kube_str(result, "device"), uuid, &part) &&
            (held = add_held(p, uuid)))
            held->parts[part] = true;
    }
}

static const struct held NONE;

/* Of a card that takes no new sessions only what ResourceClaims hold is left to say. */
static void
read_card(struct kube_dra_card *out, const struct held *held,
          const Gpupool__Ctl__CtlServerStatus *server,
          const Gpupool__Ctl__CtlCardStatus *card)
{
    uint64_t others = card->core_given - gp_min(card->core_given, held->core);
    bool open = ctrl_card_state(server, card) == CTRL_CARD_OPEN;

    *out = (struct kube_dra_card){.model = card->card->name,
                                  .server = server->server,
                                  .transport = *server->rdma ? "rdma" : "tcp",
                                  .memory = card->card->memory_bytes};
    ctrl_pool_uuid(out->uuid, &card->card->uuid);
    out->free_core = (uint32_t)(100 - gp_min(others, 100ull));
    out->left_core = out->free_core - gp_min(out->free_core, held->core);
    others = card->memory_given - gp_min(card->memory_given, held->memory);
    out->free_memory = out->memory - gp_min(others, out->memory);
    others = card->slices - gp_min(card->slices, held->slices);
    out->free_slices =
        (uint32_t)(card->slices_max - gp_min(others, (uint64_t)card->slices_max));
    memcpy(out->allocated, held->parts, sizeof(out->allocated));
    if (open)
        return;
    out->free_core = gp_min(out->free_core, held->core);
    out->free_memory = gp_min(out->free_memory, held->memory);
    out->free_slices = gp_min(out->free_slices, held->slices);
    out->left_core = 0;
}

/* Cards with the most room first.  kube-scheduler 1.34 gives up when the first device
 * of a ResourceSlice has no room for a request (kubernetes issue 133705). */
static int
by_room(const void *a, const void *b)
{
    const struct kube_dra_card *x = a, *y = b;

    if (x->left_core != y->left_core)
        return x->left_core < y->left_core ? 1 : -1;
    return strcmp(x->uuid, y->uuid);
}

static json_t *
devices_of(const struct publish *p, const Gpupool__Ctl__CtlServerStatus *server,
           unsigned parts)
{
    bool dead = server->state == GPUPOOL__CTL__CTL_SERVER_STATE__CTL_DEAD;
    CLEANUP_FREE struct kube_dra_card *cards =
        calloc(server->n_cards + 1, sizeof(*cards));
    json_t *devices = json_array();

    if (dead || !cards)
        return devices;
    for (size_t i = 0; i < server->n_cards; i++) {
        const Gpupool__Ctl__CtlCardStatus *card = server->cards[i];
        const struct held *held;
        char uuid[48];

        ctrl_pool_uuid(uuid, &card->card->uuid);
        held = find_held(p, uuid);
        read_card(&cards[i], held ? held : &NONE, server, card);
    }
    if (!parts)
        qsort(cards, server->n_cards, sizeof(*cards), by_room);
    for (size_t i = 0; i < server->n_cards; i++)
        kube_dra_devices(devices, &cards[i], parts);
    return devices;
}

static json_t *
slice_of(const char *name, const char *server, int64_t generation, json_t *devices)
{
    return json_pack("{s:s, s:s, s:{s:s, s:{s:s}}, s:{s:s, s:{s:s, s:I, s:i}, s:b, "
                     "s:o}}",
                     "apiVersion", kube_resource_version(&KUBE_SLICES), "kind",
                     KUBE_SLICES.kind, "metadata", "name", name, "labels",
                     "elasticgpu.io/dra", "true", "spec", "driver", KUBE_DRA_DRIVER,
                     "pool", "name", server, "generation", (json_int_t)generation,
                     "resourceSliceCount", 1, "allNodes", 1, "devices", devices);
}

/* Is @want said by @have?  The API server adds nothing to a device but may drop fields
 * whose feature gate is off. */
static bool
same_devices(const json_t *have, const json_t *want)
{
    return json_equal(kube_at(have, "spec.devices"), kube_at(want, "spec.devices"));
}

static int
put_slice(struct ctrl *ctrl, const char *name, const char *server, json_t *devices,
          struct gp_err *err)
{
    CLEANUP_JSON json_t *old = json_incref(kube_watch_get(&ctrl->dra.slices, "", name));
    int64_t generation = json_integer_value(kube_at(old, "spec.pool.generation")) + 1;
    CLEANUP_JSON json_t *slice = slice_of(name, server, generation, devices);
    CLEANUP_JSON json_t *answer = NULL;
    int r;

    if (!slice)
        return -ENOMEM;
    if (old && same_devices(old, slice))
        return 0;
    if (old) {
        json_object_set_new(json_object_get(slice, "metadata"), "resourceVersion",
                            json_string(kube_str(old, "metadata.resourceVersion")));
        r = kube_api_update(ctrl->http, &KUBE_SLICES, NULL, name, NULL, slice, &answer,
                            err);
    } else {
        r = kube_api_create(ctrl->http, &KUBE_SLICES, NULL, slice, &answer, err);
        if (r == -EEXIST) /* not seen yet */
            r = -ESTALE;
    }
    if (r < 0)
        return r;
    kube_watch_put(&ctrl->dra.slices, answer);
    return 0;
}

/* Does the API server keep allowMultipleAllocations?  Asked once per start of work,
 * with a request that changes nothing. */
static int
probe(struct ctrl *ctrl, struct gp_err *err)
{
    struct kube_dra_card card = {.uuid = "GPU-00000000-0000-0000-0000-000000000000",
                                 .model = "probe",
                                 .server = "probe",
                                 .transport = "tcp",
                                 .memory = 16 << 20,
                                 .free_core = 100,
                                 .free_slices = 16,
                                 .free_memory = 16 << 20};
    CLEANUP_JSON json_t *slice = NULL, *answer = NULL;
    json_t *devices;
    int r;

    if (ctrl->dra.probed)
        return 0;
    devices = json_array();
    kube_dra_devices(devices, &card, 0);
    slice = slice_of("gpupool-probe", "gpupool-probe", 1, devices);
    r = kube_api_try_create(ctrl->http, &KUBE_SLICES, slice, &answer, err);
    if (r < 0)
        return r;
    ctrl->dra.probed = true;
    ctrl->dra.shared =
        json_is_true(json_object_get(json_array_get(kube_at(answer, "spec.devices"), 0),
                                     "allowMultipleAllocations"));
    gp_log_info("dra",
                ctrl->dra.shared
                    ? "devices are shared among ResourceClaims"
                    : "DRAConsumableCapacity is off: %u exclusive devices a card",
                ctrl->dra.parts);
    return 0;
}

static int
remove_others(struct ctrl *ctrl, const json_t *seen, struct gp_err *err)
{
    const char *name;
    json_t *object;
    void *next;
    int r = 0;

    json_object_foreach_safe(ctrl->dra.slices.objects, next, name, object)
    {
        CLEANUP_FREE char *key = strdup(name);

        if (r < 0 || !key || json_object_get(seen, name))
            continue;
        r = kube_api_delete(ctrl->http, &KUBE_SLICES, NULL, name, kube_uid(object),
                            err);
        if (r == -ENOENT)
            r = 0;
        if (!r)
            kube_watch_remove(&ctrl->dra.slices, key);
    }
    return r;
}

int
ctrl_dra_publish(struct ctrl *ctrl, const Gpupool__Ctl__CtlStatusReply *status,
                 struct gp_err *err)
{
    CLEANUP_JSON json_t *seen = json_object();
    struct publish p = {.ctrl = ctrl};
    int r;

    if (!ctrl->dra.on)
        return 0;
    r = probe(ctrl, err);
    count_held(&p);
    for (size_t i = 0; !r && i < status->n_servers; i++) {
        const Gpupool__Ctl__CtlServerStatus *server = status->servers[i];
        CLEANUP_FREE char *name = gp_str_printf(KUBE_DRA_DRIVER "-%s", server->server);

        if (!name) {
            r = -ENOMEM;
            break;
        }
        json_object_set_new(seen, name, json_true());
        r = put_slice(ctrl, name, server->server,
                      devices_of(&p, server, ctrl->dra.shared ? 0 : ctrl->dra.parts),
                      err);
        r = ctrl_cards_published(ctrl, server->server, r, err);
    }
    free(p.held);
    return r < 0 ? r : remove_others(ctrl, seen, err);
}

/* ------------------------------------------------------------------ claims -- */

static json_t *
stand_in(const json_t *resource_claim, const json_t *result, const char *name,
         const char *uuid, json_t *resources)
{
    CLEANUP_FREE char *allocation = allocation_of(resource_claim, result);
    const char *class = kube_dra_class(resource_claim);
    json_t *claim = json_pack(
        "{s:s, s:s, s:{s:s, s:s, s:{s:s}, s:{s:s, s:s, s:s, s:s}, s:[s], s:[{s:s, s:s, "
        "s:s, s:s}]}, s:{s:{s:o}}}",
        "apiVersion", kube_resource_version(&KUBE_CLAIMS), "kind", KUBE_CLAIMS.kind,
        "metadata", "name", name, "namespace", kube_ns(resource_claim), "labels",
        CTRL_DRA_LABEL, kube_uid(resource_claim), "annotations", CTRL_DRA_NAME,
        kube_name(resource_claim), CTRL_DRA_DEVICE, allocation ? allocation : "",
        CTRL_CARD, uuid, "elasticgpu.io/shared", "true", "finalizers", CTRL_FINALIZER,
        "ownerReferences", "apiVersion", kube_resource_version(&KUBE_DEVICE_CLAIMS),
        "kind", KUBE_DEVICE_CLAIMS.kind, "name", kube_name(resource_claim), "uid",
        kube_uid(resource_claim), "spec", "resources", "requests", resources);

    if (claim && *class)
        json_object_set_new(json_object_get(claim, "spec"), "elasticGPUClassName",
                            json_string(class));
    return claim;
}

/* One that stands for another ResourceClaim of that name, or was made for an earlier
 * allocation, or is deleted, is on its way out; when it is gone, the ResourceClaim is
 * looked at again. */
static int
already_there(struct ctrl *ctrl, const json_t *claim, const json_t *resource_claim,
              const json_t *result, struct gp_err *err)
{
    CLEANUP_FREE char *key = NULL;

    if (!is_stand_in(claim))
        return gp_err_set(
            err, -EINVAL,
            "ElasticGPUClaim %s, which would stand for it, is somebody's own",
            kube_name(claim));
    if (!kube_deleted(claim) && stands_for(ctrl, claim, &result) == resource_claim)
        return 0;
    key = kube_key(claim);
    if (key)
        ctrl_queue_name(ctrl, "c:", key);
    return -ESTALE;
}

static int
make_stand_in(struct ctrl *ctrl, const json_t *resource_claim, const json_t *result,
              struct gp_err *err)
{
    CLEANUP_FREE char *name = name_of(ctrl, resource_claim);
    CLEANUP_JSON json_t *claim = NULL, *answer = NULL;
    const json_t *there;
    json_t *resources;
    char uuid[48];
    unsigned part;
    int r;

    if (!name) /* a pod that the webhook did not see; nobody could use the session */
        return 0;
    there = kube_watch_get(&ctrl->claims, kube_ns(resource_claim), name);
    if (there)
        return already_there(ctrl, there, resource_claim, result, err);
    resources = kube_dra_resources(result, device_of(ctrl, result));
    if (!resources || !kube_dra_device_card(kube_str(result, "device"), uuid, &part)) {
        json_decref(resources);
        return gp_err_set(err, -EAGAIN, "device %s/%s is not published",
                          kube_str(result, "pool"), kube_str(result, "device"));
    }
    claim = stand_in(resource_claim, result, name, uuid, resources);
    r = claim ? kube_api_create(ctrl->http, &KUBE_CLAIMS, kube_ns(resource_claim),
                                claim, &answer, err)
              : -ENOMEM;
    if (r < 0)
        return r == -EEXIST ? -ESTALE : r;
    gp_log_info("dra", "ResourceClaim %s/%s: %s stands for it", kube_ns(resource_claim),
                kube_name(resource_claim), name);
    kube_watch_put(&ctrl->claims, answer);
    return 0;
}

void
ctrl_dra_removed(struct ctrl *ctrl, const json_t *claim)
{
    CLEANUP_FREE char *key = kube_key_of(
        kube_ns(claim), kube_str_key(claim, "metadata.annotations", CTRL_DRA_NAME));

    if (ctrl->dra.on && is_stand_in(claim) && key)
        ctrl_queue_name(ctrl, "r:", key);
}

/* Those that stand for a ResourceClaim of this name look for it again. */
static void
queue_stand_ins(struct ctrl *ctrl, const char *key)
{
    const char *slash = strchr(key, '/'), *claim_key;
    json_t *claim;

    json_object_foreach(ctrl->claims.objects, claim_key, claim)
    {
        if (slash && is_stand_in(claim) &&
            strncmp(claim_key, key, (size_t)(slash - key) + 1) == 0 &&
            strcmp(kube_str_key(claim, "metadata.annotations", CTRL_DRA_NAME),
                   slash + 1) == 0)
            ctrl_queue_name(ctrl, "c:", claim_key);
    }
}

int
ctrl_dra_claim(struct ctrl *ctrl, const char *key, struct gp_err *err)
{
    CLEANUP_JSON json_t *claim =
        json_incref(json_object_get(ctrl->dra.claims.objects, key));
    const json_t *result = NULL;
    int r = claim ? kube_dra_result(claim, &result, err) : 0;

    if (!r && result)
        r = make_stand_in(ctrl, claim, result, err);
    if (r == -EINVAL) {
        ctrl_event(ctrl, &KUBE_DEVICE_CLAIMS, claim, true, "NotHonoured", err->msg);
        return 0;
    }
    if (!result)
        queue_stand_ins(ctrl, key);
    return r;
}

/* ------------------------------------------------------------------ report -- */

void
ctrl_dra_report(struct ctrl *ctrl, const json_t *claim, bool ready, const char *reason,
                const char *message)
{
    CLEANUP_JSON json_t *conditions = NULL, *status = NULL;
    const json_t *result = NULL, *target = stands_for(ctrl, claim, &result);
    struct gp_err err = {0};
    int r;

    /* With devices of other drivers beside ours, a merge patch would hide theirs. */
    if (!target ||
        json_array_size(kube_at(target, "status.allocation.devices.results")) != 1)
        return;
    conditions = json_deep_copy(
        kube_at(json_array_get(kube_at(target, "status.devices"), 0), "conditions"));
    if (!conditions)
        conditions = json_array();
    kube_condition_set(conditions, "Ready", ready, reason, message);
    status = json_pack("{s:[{s:s, s:s, s:s, s:O}]}", "devices", "driver",
                       KUBE_DRA_DRIVER, "pool", kube_str(result, "pool"), "device",
                       kube_str(result, "device"), "conditions", conditions);
    if (status && *kube_str(result, "shareID"))
        json_object_set_new(json_array_get(json_object_get(status, "devices"), 0),
                            "shareID", json_string(kube_str(result, "shareID")));
    r = status ? ctrl_status(ctrl, &ctrl->dra.claims, target, json_incref(status), &err)
               : -ENOMEM;
    if (r < 0)
        gp_log_debug("dra", "status of ResourceClaim %s/%s: %s", kube_ns(target),
                     kube_name(target), gp_err_msg(&err, r));
}

/* ------------------------------------------------------------- start, watch -- */

static void
claim_changed(struct kube_watch *watch, const char *key, const json_t *claim)
{
    ctrl_queue_name(watch->owner, "r:", key);
}

static void
slice_changed(struct kube_watch *watch, const char *key, const json_t *slice)
{
    /* Somebody else's hand, or our own write that came back: compared then. */
    if (!slice)
        ctrl_queue_name(watch->owner, "cards", "");
}

/* Requests are kube-scheduler's affair. */
static void
trim_claim(json_t *claim)
{
    json_object_del(claim, "spec");
    kube_trim_annotations(claim, POD_CLAIM_NAME);
}

int
ctrl_dra_start(struct ctrl *ctrl, struct gp_err *err)
{
    struct ctrl_dra *dra = &ctrl->dra;
    int r;

    if (!dra->on)
        return 0;
    dra->claims.res = &KUBE_DEVICE_CLAIMS;
    dra->claims.trim = trim_claim;
    dra->claims.on_change = claim_changed;
    dra->claims.owner = ctrl;
    dra->slices.res = &KUBE_SLICES;
    dra->slices.query = "labelSelector=elasticgpu.io%2Fdra%3Dtrue";
    dra->slices.on_change = slice_changed;
    dra->slices.owner = ctrl;
    r = kube_watch_start(&dra->slices, ctrl->http, ctrl->loop, err);
    return r < 0 ? r : kube_watch_start(&dra->claims, ctrl->http, ctrl->loop, err);
}

bool
ctrl_dra_synced(const struct ctrl *ctrl)
{
    return !ctrl->dra.on || (ctrl->dra.claims.synced && ctrl->dra.slices.synced);
}

void
ctrl_dra_queue_all(struct ctrl *ctrl)
{
    const char *key;
    json_t *object;

    if (!ctrl->dra.on)
        return;
    ctrl->dra.probed = false; /* the API server may be another by now */
    json_object_foreach(ctrl->dra.claims.objects, key, object)
    {
        ctrl_queue_name(ctrl, "r:", key);
    }
}
