/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic resource allocation (resource.k8s.io/v1): what a ResourceSlice says of a
 * card, and what a ResourceClaim got of it.
 *
 * Pure functions on JSON; no state, any thread.
 *
 *   shared     one device per card that several claims may hold a part of: capacities
 *              "core" (percent), "memory" and "slices" that claims consume.  Needs the
 *              feature gate DRAConsumableCapacity of API server and scheduler.
 *   exclusive  a card as a fixed number of equal devices, each held by one claim, as
 *              every cluster that serves resource.k8s.io/v1 can allocate them.
 */
#ifndef KUBE_DRA_H
#define KUBE_DRA_H

#include "gp_base.h"

#include <jansson.h>

struct gp_err;

#define KUBE_DRA_DRIVER "gpu.elasticgpu.io"
/* A ResourceSlice lists at most 128 devices, and a server has at most 16 cards. */
#define KUBE_DRA_PARTS_MAX 8

/* A card as the scheduler may give it to claims. */
struct kube_dra_card {
    char uuid[48]; /* "GPU-..." */
    const char *model, *server, *transport;
    uint64_t memory;                    /* of the whole card */
    uint32_t free_core, free_slices;    /* not held by other sessions, */
    uint64_t free_memory;               /* what ResourceClaims hold included */
    uint32_t left_core;                 /* not held by anybody */
    bool allocated[KUBE_DRA_PARTS_MAX]; /* exclusive: held by a ResourceClaim */
};

/* Devices of @card appended to @devices: one that is shared (@parts 0), or up to
 * @parts equal ones: those that are allocated and as many others as there is room for.
 */
void kube_dra_devices(json_t *devices, const struct kube_dra_card *card,
                      unsigned parts);
/* The name of a device; @part counts only when @parts is over 1. */
#define KUBE_DRA_NAME 64
void kube_dra_device_name(char name[KUBE_DRA_NAME], const char *uuid, unsigned part,
                          unsigned parts);
/* The card of a device by its name, as "GPU-..."; *ret_part counts from 0.  False: it
 * is not a name of ours. */
bool kube_dra_device_card(const char *device, char ret_uuid[48], unsigned *ret_part);

/* The one result of @claim that our driver gave; NULL when it has none.
 * -EINVAL with words: several, which one session cannot stand for. */
int kube_dra_result(const json_t *claim, const json_t **ret_result, struct gp_err *err);
/* "class" of our driver's parameters in the allocation's configuration, or "". */
const char *kube_dra_class(const json_t *claim);
/* Does this DeviceClass name our driver in its configuration? */
bool kube_dra_is_ours(const json_t *device_class);
/* Core and memory of @result as an elasticgpu.io resource list: what it consumes, or
 * all that @device (of the ResourceSlice) has.  NULL: neither says. */
json_t *kube_dra_resources(const json_t *result, const json_t *device);

#endif
