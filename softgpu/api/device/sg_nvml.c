/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of NVML that tells of a card's health and its place in a fabric, for pool
 * servers and their tests.  A software card has neither, unless the environment says
 * so:
 *
 *   SOFTGPU_FABRIC=UUID/CLIQUE   all cards are in that clique of that fabric
 *   SOFTGPU_NVML_EVENTS=FILE     each line that is appended is an event of a card:
 *                                "INDEX xid CODE" or "INDEX ecc"
 *
 * All cards of the host's set are there, whatever CUDA_VISIBLE_DEVICES says, as with
 * NVML.  Independent of cuInit.  One thread at a time, but for nvmlEventSetWait_v2(),
 * which may run beside others.
 */
#include "sg_conf.h"

#include "gp_base.h"
#include "gp_time.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NVML_SUCCESS = 0,
    NVML_UNINITIALIZED = 1,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_TIMEOUT = 10,
    NVML_UNKNOWN = 999,
};

#define EVENT_DOUBLE_BIT_ECC 0x2ull
#define EVENT_XID 0x8ull
#define FABRIC_COMPLETED 3
#define POLL_MS 20
#define UUID_TEXT 41 /* "GPU-" and 36 characters, with the NUL */

struct fabric_info {
    uint8_t cluster[16];
    int status;
    uint32_t clique;
    uint8_t state;
};

struct event_data {
    void *device;
    uint64_t type, data;
    uint32_t gpu_instance, compute_instance;
};

/* A set of registrations: the only one that a watcher needs. */
struct event_set {
    uint64_t types[SG_MAX_CARDS];
};

static struct {
    struct sg_conf conf;
    atomic_bool ready;
    FILE *events; /* NULL: none */
    bool has_fabric;
    uint8_t cluster[16];
    uint32_t clique;
} the_nvml;

/* Handles are the addresses of these. */
static char devices[SG_MAX_CARDS];

static int
card_of(const void *device)
{
    for (unsigned i = 0; i < the_nvml.conf.n_cards; i++)
        if (device == &devices[i])
            return (int)i;
    return -1;
}

/* "3f0a...-.../2" */
static bool
read_fabric(const char *text)
{
    unsigned nibble, at = 0;
    int end = 0;

    memset(the_nvml.cluster, 0, sizeof(the_nvml.cluster));
    for (; at < 32 && *text && *text != '/'; text++) {
        if (*text == '-')
            continue;
        if (sscanf(text, "%1x", &nibble) != 1)
            return false;
        the_nvml.cluster[at / 2] |= (uint8_t)(nibble << (at % 2 ? 0 : 4));
        at++;
    }
    return at == 32 && sscanf(text, "/%u%n", &the_nvml.clique, &end) == 1 && !text[end];
}

static void
uuid_text(unsigned card, char ret[UUID_TEXT])
{
    uint8_t u[16];

    sg_conf_uuid(&the_nvml.conf, card, u);
    snprintf(ret, UUID_TEXT,
             "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11],
             u[12], u[13], u[14], u[15]);
}

#define NVML_CALL(name, ...)                                                           \
    GP_EXPORT int name(__VA_ARGS__);                                                   \
    GP_EXPORT int name(__VA_ARGS__)

/* ------------------------------------------------------------------ library -- */

/* When the library is loaded: later the process may have lost the right to do it, as it
 * may not open the nodes of a real driver by then. */
static __attribute__((constructor)) void
open_events(void)
{
    const char *path = getenv("SOFTGPU_NVML_EVENTS");

    the_nvml.events = path ? fopen(path, "re") : NULL;
}

NVML_CALL(nvmlInit_v2, void)
{
    if (the_nvml.ready)
        return NVML_SUCCESS;
    if (sg_conf_read(&the_nvml.conf, NULL) < 0)
        return NVML_UNKNOWN;
    the_nvml.has_fabric = *the_nvml.conf.fabric && read_fabric(the_nvml.conf.fabric);
    the_nvml.ready = true;
    return NVML_SUCCESS;
}

NVML_CALL(nvmlShutdown, void)
{
    if (!the_nvml.ready)
        return NVML_UNINITIALIZED;
    the_nvml.ready = false;
    return NVML_SUCCESS;
}

/* ------------------------------------------------------------------ devices -- */

NVML_CALL(nvmlDeviceGetCount_v2, uint32_t *count)
{
    if (!the_nvml.ready)
        return NVML_UNINITIALIZED;
    *count = the_nvml.conf.n_cards;
    return NVML_SUCCESS;
}

NVML_CALL(nvmlDeviceGetHandleByIndex_v2, uint32_t index, void **ret)
{
    if (!the_nvml.ready)
        return NVML_UNINITIALIZED;
    if (index >= the_nvml.conf.n_cards)
        return NVML_INVALID_ARGUMENT;
    *ret = &devices[index];
    return NVML_SUCCESS;
}

NVML_CALL(nvmlDeviceGetHandleByUUID, const char *uuid, void **ret)
{
    char text[UUID_TEXT];

    if (!the_nvml.ready)
        return NVML_UNINITIALIZED;
    for (unsigned i = 0; i < the_nvml.conf.n_cards; i++) {
        uuid_text(i, text);
        if (strcmp(text, uuid) != 0)
            continue;
        *ret = &devices[i];
        return NVML_SUCCESS;
    }
    return NVML_NOT_FOUND;
}

NVML_CALL(nvmlDeviceGetUUID, void *device, char *uuid, uint32_t size)
{
    int card = card_of(device);
    char text[UUID_TEXT];

    if (card < 0)
        return NVML_INVALID_ARGUMENT;
    if (size < UUID_TEXT)
        return NVML_INSUFFICIENT_SIZE;
    uuid_text((unsigned)card, text);
    memcpy(uuid, text, UUID_TEXT);
    return NVML_SUCCESS;
}

NVML_CALL(nvmlDeviceGetGpuFabricInfo, void *device, struct fabric_info *info)
{
    if (card_of(device) < 0)
        return NVML_INVALID_ARGUMENT;
    if (!the_nvml.has_fabric)
        return NVML_NOT_SUPPORTED;
    *info = (struct fabric_info){.clique = the_nvml.clique, .state = FABRIC_COMPLETED};
    memcpy(info->cluster, the_nvml.cluster, sizeof(info->cluster));
    return NVML_SUCCESS;
}

/* ------------------------------------------------------------------- events -- */

NVML_CALL(nvmlDeviceGetSupportedEventTypes, void *device, uint64_t *types)
{
    if (card_of(device) < 0)
        return NVML_INVALID_ARGUMENT;
    *types = the_nvml.events ? EVENT_XID | EVENT_DOUBLE_BIT_ECC : 0;
    return NVML_SUCCESS;
}

NVML_CALL(nvmlEventSetCreate, struct event_set **ret)
{
    if (!the_nvml.ready)
        return NVML_UNINITIALIZED;
    *ret = calloc(1, sizeof(**ret));
    return *ret ? NVML_SUCCESS : NVML_UNKNOWN;
}

NVML_CALL(nvmlEventSetFree, struct event_set *set)
{
    free(set);
    return NVML_SUCCESS;
}

NVML_CALL(nvmlDeviceRegisterEvents, void *device, uint64_t types, struct event_set *set)
{
    int card = card_of(device);

    if (card < 0 || !set)
        return NVML_INVALID_ARGUMENT;
    if (!the_nvml.events || (types & ~(EVENT_XID | EVENT_DOUBLE_BIT_ECC)))
        return NVML_NOT_SUPPORTED;
    set->types[card] |= types;
    return NVML_SUCCESS;
}

/* The next line that is whole. */
static bool
next_line(char *line, size_t size)
{
    long at = ftell(the_nvml.events);

    clearerr(the_nvml.events);
    if (fgets(line, (int)size, the_nvml.events) && strchr(line, '\n'))
        return true;
    fseek(the_nvml.events, at, SEEK_SET);
    return false;
}

static bool
read_event(const struct event_set *set, const char *line, struct event_data *data)
{
    unsigned card, code = 0;
    char kind[8];

    if (sscanf(line, "%u %7s %u", &card, kind, &code) < 2 ||
        card >= the_nvml.conf.n_cards)
        return false;
    *data = (struct event_data){.device = &devices[card],
                                .type = !strcmp(kind, "ecc") ? EVENT_DOUBLE_BIT_ECC
                                                             : EVENT_XID,
                                .data = code,
                                .gpu_instance = UINT32_MAX,
                                .compute_instance = UINT32_MAX};
    return set->types[card] & data->type;
}

NVML_CALL(nvmlEventSetWait_v2, struct event_set *set, struct event_data *data,
          uint32_t timeout_ms)
{
    uint64_t end = gp_now_ns() + timeout_ms * GP_NS_PER_MS;
    char line[64];

    if (!the_nvml.events)
        return NVML_NOT_SUPPORTED;
    do {
        while (next_line(line, sizeof(line)))
            if (read_event(set, line, data))
                return NVML_SUCCESS;
        gp_sleep_ns(POLL_MS * GP_NS_PER_MS);
    } while (gp_now_ns() < end);
    return NVML_TIMEOUT;
}
