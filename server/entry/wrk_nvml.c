/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_nvml.h"

#include "ctl_limits.h"
#include "gp_err.h"
#include "wrk_driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Of NVML's interface, as it is documented. */
enum { NVML_SUCCESS = 0, NVML_TIMEOUT = 10 };
#define EVENT_DOUBLE_BIT_ECC 0x2ull
#define EVENT_XID 0x8ull
#define EVENTS (EVENT_XID | EVENT_DOUBLE_BIT_ECC)
#define FABRIC_COMPLETED 3
#define UUID_MAX 96
#define WAIT_MS 1000u

struct fabric_info {
    uint8_t cluster[16];
    int status;
    uint32_t clique;
    uint8_t state;
    uint8_t spare[64]; /* a later library may write more */
};

struct event_data {
    void *device;
    unsigned long long type, data;
    uint32_t gpu_instance, compute_instance;
};

static struct {
    int (*init)(void);
    int (*count)(uint32_t *count);
    int (*by_index)(uint32_t index, void **ret_device);
    int (*by_uuid)(const char *uuid, void **ret_device);
    int (*uuid)(void *device, char *ret_uuid, uint32_t size);
    int (*fabric)(void *device, struct fabric_info *ret_info);
    int (*types)(void *device, unsigned long long *ret_types);
    int (*set_new)(void **ret_set);
    int (*add)(void *device, unsigned long long types, void *set);
    int (*wait)(void *set, struct event_data *ret_data, uint32_t timeout_ms);
} nvml;

static const struct {
    void *at;
    const char *name, *older;
} CALLS[] = {
    {&nvml.init, "nvmlInit_v2", NULL},
    {&nvml.count, "nvmlDeviceGetCount_v2", NULL},
    {&nvml.by_index, "nvmlDeviceGetHandleByIndex_v2", NULL},
    {&nvml.by_uuid, "nvmlDeviceGetHandleByUUID", NULL},
    {&nvml.uuid, "nvmlDeviceGetUUID", NULL},
    {&nvml.fabric, "nvmlDeviceGetGpuFabricInfo", NULL},
    {&nvml.types, "nvmlDeviceGetSupportedEventTypes", NULL},
    {&nvml.set_new, "nvmlEventSetCreate", NULL},
    {&nvml.add, "nvmlDeviceRegisterEvents", NULL},
    {&nvml.wait, "nvmlEventSetWait_v2", "nvmlEventSetWait"},
};

bool
wrk_nvml_open(const char *driver)
{
    void *library = wrk_driver_nvml(driver);

    for (size_t i = 0; library && i < ARRAY_SIZE(CALLS); i++) {
        void *call = dlsym(library, CALLS[i].name);

        if (!call && CALLS[i].older)
            call = dlsym(library, CALLS[i].older);
        memcpy(CALLS[i].at, &call, sizeof(call));
    }
    return nvml.init && nvml.count && nvml.by_index && nvml.by_uuid && nvml.uuid &&
           nvml.init() == NVML_SUCCESS;
}

void
wrk_nvml_fabric(const char *uuid, char ret[WRK_FABRIC_TEXT])
{
    static const uint8_t nothing[16];
    struct fabric_info info = {.state = 0};
    const uint8_t *c = info.cluster;
    void *device;

    ret[0] = 0;
    if (!nvml.fabric || nvml.by_uuid(uuid, &device) != NVML_SUCCESS ||
        nvml.fabric(device, &info) != NVML_SUCCESS || info.status != NVML_SUCCESS ||
        info.state != FABRIC_COMPLETED || !memcmp(c, nothing, sizeof(nothing)))
        return;
    snprintf(ret, WRK_FABRIC_TEXT,
             "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x/"
             "%" PRIu32,
             c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8], c[9], c[10], c[11],
             c[12], c[13], c[14], c[15], info.clique);
}

/* What of our events @device has. */
static unsigned long long
events_of(uint32_t index, void **ret_device)
{
    unsigned long long types = 0;

    if (nvml.by_index(index, ret_device) != NVML_SUCCESS ||
        nvml.types(*ret_device, &types) != NVML_SUCCESS)
        return 0;
    return types & EVENTS;
}

static bool
has_events(void)
{
    return nvml.types && nvml.set_new && nvml.add && nvml.wait;
}

bool
wrk_nvml_reports(void)
{
    uint32_t n = 0;
    void *device;

    if (!has_events() || nvml.count(&n) != NVML_SUCCESS)
        return false;
    for (uint32_t i = 0; i < gp_min(n, (uint32_t)CTL_SERVER_CARDS_MAX); i++)
        if (events_of(i, &device))
            return true;
    return false;
}

static void
print_event(const struct event_data *data)
{
    char uuid[UUID_MAX] = "";

    if (nvml.uuid(data->device, uuid, sizeof(uuid)) != NVML_SUCCESS)
        return;
    if (data->type == EVENT_XID)
        printf("xid %s %llu\n", uuid, data->data);
    else
        printf("ecc %s\n", uuid);
}

/* Does the supervisor still read? */
static bool
is_read(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};

    return fflush(stdout) == 0 && (poll(&out, 1, 0) == 0 || !out.revents);
}

int
wrk_nvml_watch(struct gp_err *err)
{
    struct event_data data;
    unsigned watched = 0;
    void *device, *set;
    uint32_t n = 0;
    int r;

    if (!has_events() || nvml.count(&n) != NVML_SUCCESS ||
        nvml.set_new(&set) != NVML_SUCCESS)
        return gp_err_set(err, -ENOTSUP, "NVML has no events");
    for (uint32_t i = 0; i < n; i++) {
        unsigned long long types = events_of(i, &device);

        watched += types && nvml.add(device, types, set) == NVML_SUCCESS;
    }
    if (!watched)
        return gp_err_set(err, -ENOTSUP, "NVML reports errors of no card");
    do {
        r = nvml.wait(set, &data, WAIT_MS);
        if (r == NVML_SUCCESS)
            print_event(&data);
    } while ((r == NVML_SUCCESS || r == NVML_TIMEOUT) && is_read());
    return r == NVML_SUCCESS || r == NVML_TIMEOUT
               ? 0
               : gp_err_set(err, -EIO, "waiting for errors of the cards: NVML error %d",
                            r);
}
