/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_dra.h"

#include "gp_err.h"
#include "kube_object.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define UUID_TEXT 40 /* "GPU-" and 36 characters */

/* ------------------------------------------------------------------ devices -- */

void
kube_dra_device_name(char name[KUBE_DRA_NAME], const char *uuid, unsigned part,
                     unsigned parts)
{
    if (parts > 1)
        snprintf(name, KUBE_DRA_NAME, "%.40s-%u", uuid, part);
    else
        snprintf(name, KUBE_DRA_NAME, "%.40s", uuid);
    for (char *c = name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
}

bool
kube_dra_device_card(const char *device, char ret_uuid[48], unsigned *ret_part)
{
    size_t n = strlen(device);
    bool whole = n == UUID_TEXT;

    if (strncmp(device, "gpu-", 4) != 0 || n < UUID_TEXT ||
        (!whole && (n != UUID_TEXT + 2 || device[UUID_TEXT] != '-' ||
                    device[UUID_TEXT + 1] < '0' ||
                    device[UUID_TEXT + 1] >= '0' + KUBE_DRA_PARTS_MAX)))
        return false;
    snprintf(ret_uuid, 48, "GPU-%.36s", device + 4);
    *ret_part = whole ? 0 : (unsigned)(device[UUID_TEXT + 1] - '0');
    return true;
}

static json_t *
text_attribute(const char *text)
{
    char cut[65]; /* the longest that the API takes */

    snprintf(cut, sizeof(cut), "%.64s", text);
    return json_pack("{s:s}", "string", cut);
}

/* As the API server writes it back, so that what was published compares equal. */
static json_t *
memory_quantity(uint64_t bytes)
{
    static const char *const SUFFIXES[] = {"Mi", "Gi", "Ti"};
    uint64_t n = bytes >> 20;
    size_t i = 0;

    while (n && !(n & 1023) && i + 1 < ARRAY_SIZE(SUFFIXES)) {
        n >>= 10;
        i++;
    }
    return n ? json_sprintf("%" PRIu64 "%s", n, SUFFIXES[i]) : json_string("0");
}

static json_t *
base_device(const struct kube_dra_card *card, const char *name)
{
    return json_pack("{s:s, s:{s:o, s:o, s:o, s:o}, s:{}}", "name", name, "attributes",
                     "uuid", text_attribute(card->uuid), "model",
                     text_attribute(card->model), "server",
                     text_attribute(card->server), "transport",
                     text_attribute(card->transport), "capacity");
}

/* A claim that does not say how much gets all that there is. */
static json_t *
shared_capacity(json_t *value, const char *min)
{
    return json_pack("{s:o, s:{s:O, s:{s:s, s:s}}}", "value", value, "requestPolicy",
                     "default", value, "validRange", "min", min, "step", min);
}

static void
shared_device(json_t *devices, const struct kube_dra_card *card)
{
    char name[KUBE_DRA_NAME];
    json_t *device, *capacity;

    /* The API server wants room for the least amount and one step more. */
    if (card->free_core < 2 || card->free_memory >> 20 < 2 || !card->free_slices)
        return;
    kube_dra_device_name(name, card->uuid, 0, 1);
    device = base_device(card, name);
    capacity = json_object_get(device, "capacity");
    json_object_set_new(device, "allowMultipleAllocations", json_true());
    json_object_set_new(capacity, "core",
                        shared_capacity(json_sprintf("%u", card->free_core), "1"));
    json_object_set_new(capacity, "memory",
                        shared_capacity(memory_quantity(card->free_memory), "1Mi"));
    json_object_set_new(capacity, "slices",
                        json_pack("{s:o, s:{s:s, s:[s]}}", "value",
                                  json_sprintf("%u", card->free_slices),
                                  "requestPolicy", "default", "1", "validValues", "1"));
    json_array_append_new(devices, device);
}

static void
part_device(json_t *devices, const struct kube_dra_card *card, unsigned part,
            unsigned parts)
{
    char name[KUBE_DRA_NAME];
    json_t *device, *capacity;

    kube_dra_device_name(name, card->uuid, part, parts);
    device = base_device(card, name);
    capacity = json_object_get(device, "capacity");
    json_object_set_new(capacity, "core",
                        json_pack("{s:o}", "value", json_sprintf("%u", 100 / parts)));
    json_object_set_new(
        capacity, "memory",
        json_pack("{s:o}", "value", memory_quantity(card->memory / parts)));
    json_array_append_new(devices, device);
}

/* How many parts more than those that are allocated have room. */
static unsigned
room_for(const struct kube_dra_card *card, unsigned parts)
{
    uint64_t memory = (card->memory / parts) & ~((1ull << 20) - 1);
    unsigned fit = gp_min(card->free_core / (100 / parts), card->free_slices);
    unsigned taken = 0;

    if (memory)
        fit = (unsigned)gp_min((uint64_t)fit, card->free_memory / memory);
    for (unsigned i = 0; i < parts; i++)
        taken += card->allocated[i];
    return fit > taken ? fit - taken : 0;
}

void
kube_dra_devices(json_t *devices, const struct kube_dra_card *card, unsigned parts)
{
    unsigned room;

    if (!parts) {
        shared_device(devices, card);
        return;
    }
    parts = gp_min(parts, (unsigned)KUBE_DRA_PARTS_MAX);
    room = room_for(card, parts);
    for (unsigned i = 0; i < parts; i++)
        if (card->allocated[i] || (room && room--))
            part_device(devices, card, i, parts);
}

/* ------------------------------------------------------------------- claims -- */

int
kube_dra_result(const json_t *claim, const json_t **ret_result, struct gp_err *err)
{
    const json_t *found = NULL;
    json_t *result;
    size_t i;

    json_array_foreach(kube_at(claim, "status.allocation.devices.results"), i, result)
    {
        if (strcmp(kube_str(result, "driver"), KUBE_DRA_DRIVER) != 0)
            continue;
        if (found)
            return gp_err_set(err, -EINVAL,
                              "the ResourceClaim has several devices of %s; one claim "
                              "stands for one session on one device",
                              KUBE_DRA_DRIVER);
        found = result;
    }
    *ret_result = found;
    return 0;
}

static const json_t *
our_config(const json_t *list)
{
    json_t *config;
    size_t i;

    json_array_foreach((json_t *)list, i,
                       config) if (strcmp(kube_str(config, "opaque.driver"),
                                          KUBE_DRA_DRIVER) == 0) return config;
    return NULL;
}

const char *
kube_dra_class(const json_t *claim)
{
    return kube_str(our_config(kube_at(claim, "status.allocation.devices.config")),
                    "opaque.parameters.class");
}

bool
kube_dra_is_ours(const json_t *device_class)
{
    return our_config(kube_at(device_class, "spec.config"));
}

static const char *
amount(const json_t *result, const json_t *device, const char *what)
{
    const json_t *consumed = kube_at(result, "consumedCapacity");
    const json_t *value = json_object_get(consumed, what);

    if (!value && !consumed)
        value = json_object_get(
            json_object_get(json_object_get(device, "capacity"), what), "value");
    return json_string_value(value);
}

json_t *
kube_dra_resources(const json_t *result, const json_t *device)
{
    const char *core = amount(result, device, "core");
    const char *memory = amount(result, device, "memory");

    if (!core || !memory)
        return NULL;
    return json_pack("{s:s, s:s}", "elasticgpu.io/gpu-core", core,
                     "elasticgpu.io/gpu-memory", memory);
}
