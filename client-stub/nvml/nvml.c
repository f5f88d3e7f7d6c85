/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libnvidia-ml.so.1: what frameworks and tools ask about cards, answered for the slice.
 *
 * Totals are the session's limits, use is the session's own.  What nobody here can know
 * (temperatures, power, other tenants) is NOT_SUPPORTED where clients expect the
 * function to exist, and not exported otherwise.
 */
#include "nvml_abi.h"
#include "nvml_card.h"

#include "gp_base.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NVML_EXPORT GP_EXPORT int
#define NVML_MEMORY_V2 (sizeof(struct nvml_memory_v2) | 2u << 24)

/* Every export, for -Wmissing-prototypes; the real header is not ours to copy. */
#include "nvml_exports.h"

static int
nvml_text(char *to, unsigned int length, const char *text)
{
    if (!to)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(to, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

/* ---- the library --------------------------------------------------------------------
 */

NVML_EXPORT
nvmlInitWithFlags(unsigned int flags)
{
    return nvml_card_open();
}

NVML_EXPORT
nvmlInit_v2(void)
{
    return nvml_card_open();
}

NVML_EXPORT
nvmlInit(void)
{
    return nvml_card_open();
}

NVML_EXPORT
nvmlShutdown(void)
{
    return nvml_card_close();
}

GP_EXPORT const char *
nvmlErrorString(int result)
{
    switch (result) {
    case NVML_SUCCESS:
        return "Success";
    case NVML_ERROR_UNINITIALIZED:
        return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_ERROR_NO_PERMISSION:
        return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND:
        return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
        return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    case NVML_ERROR_GPU_IS_LOST:
        return "GPU is lost";
    case NVML_ERROR_MEMORY:
        return "Insufficient Memory";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
        return "Argument version mismatch";
    default:
        return "Unknown Error";
    }
}

NVML_EXPORT
nvmlSystemGetCudaDriverVersion(int *version)
{
    int r = nvml_card_ready();

    if (r == NVML_SUCCESS && !version)
        r = NVML_ERROR_INVALID_ARGUMENT;
    if (r == NVML_SUCCESS)
        *version = nvml_card_driver_version();
    return r;
}

NVML_EXPORT
nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    return nvmlSystemGetCudaDriverVersion(version);
}

NVML_EXPORT
nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    int v = nvml_card_driver_version(), r = nvml_card_ready();
    char text[64];

    if (r != NVML_SUCCESS)
        return r;
    snprintf(text, sizeof(text), "%d.%d.gpupool-%s", v / 1000, v % 1000 / 10,
             GPUPOOL_VERSION);
    return nvml_text(version, length, text);
}

NVML_EXPORT
nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    int v = nvml_card_driver_version(), r = nvml_card_ready();
    char text[64];

    if (r != NVML_SUCCESS)
        return r;
    snprintf(text, sizeof(text), "%d.gpupool-%s", v / 1000, GPUPOOL_VERSION);
    return nvml_text(version, length, text);
}

/* ---- handles
 * -------------------------------------------------------------------------- */

NVML_EXPORT
nvmlDeviceGetCount_v2(unsigned int *count)
{
    int r = nvml_card_ready();

    if (r == NVML_SUCCESS && !count)
        r = NVML_ERROR_INVALID_ARGUMENT;
    if (r == NVML_SUCCESS)
        *count = nvml_card_count();
    return r;
}

NVML_EXPORT
nvmlDeviceGetCount(unsigned int *count)
{
    return nvmlDeviceGetCount_v2(count);
}

NVML_EXPORT
nvmlDeviceGetHandleByIndex_v2(unsigned int index, struct nvml_device **device)
{
    int r = nvml_card_ready();

    if (r != NVML_SUCCESS)
        return r;
    if (!device || !nvml_card_at(index))
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = nvml_card_at(index);
    return NVML_SUCCESS;
}

NVML_EXPORT
nvmlDeviceGetHandleByIndex(unsigned int index, struct nvml_device **device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

NVML_EXPORT
nvmlDeviceGetHandleByUUID(const char *uuid, struct nvml_device **device)
{
    int r = nvml_card_ready();

    if (r != NVML_SUCCESS)
        return r;
    if (!uuid || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < nvml_card_count(); i++) {
        *device = nvml_card_at(i);
        if (strcasecmp((*device)->uuid, uuid) == 0)
            return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}

NVML_EXPORT
nvmlDeviceGetHandleByPciBusId_v2(const char *busId, struct nvml_device **device)
{
    int domain, bus, dev, r = nvml_card_ready();

    if (r != NVML_SUCCESS)
        return r;
    if (!busId || !device ||
        sscanf(busId, "%x:%x:%x", (unsigned *)&domain, (unsigned *)&bus,
               (unsigned *)&dev) != 3)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < nvml_card_count(); i++) {
        const struct stub_pool_card *c = &nvml_card_at(i)->card;

        *device = nvml_card_at(i);
        if (c->pci_domain == domain && c->pci_bus == bus && c->pci_device == dev)
            return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}

NVML_EXPORT
nvmlDeviceGetHandleByPciBusId(const char *busId, struct nvml_device **device)
{
    return nvmlDeviceGetHandleByPciBusId_v2(busId, device);
}

/* ---- what a card is
 * --------------------------------------------------------------------- */

/* The head of every query with one result. */
static int
nvml_query(struct nvml_device *device, const void *out)
{
    int r = nvml_card_check(device);

    return r == NVML_SUCCESS && !out ? NVML_ERROR_INVALID_ARGUMENT : r;
}

NVML_EXPORT
nvmlDeviceGetName(struct nvml_device *device, char *name, unsigned int length)
{
    int r = nvml_query(device, name);

    return r == NVML_SUCCESS ? nvml_text(name, length, device->card.name) : r;
}

NVML_EXPORT
nvmlDeviceGetUUID(struct nvml_device *device, char *uuid, unsigned int length)
{
    int r = nvml_query(device, uuid);

    return r == NVML_SUCCESS ? nvml_text(uuid, length, device->uuid) : r;
}

NVML_EXPORT
nvmlDeviceGetIndex(struct nvml_device *device, unsigned int *index)
{
    int r = nvml_query(device, index);

    if (r == NVML_SUCCESS)
        *index = device->index;
    return r;
}

NVML_EXPORT
nvmlDeviceGetMinorNumber(struct nvml_device *device, unsigned int *minorNumber)
{
    return nvmlDeviceGetIndex(device, minorNumber);
}

NVML_EXPORT
nvmlDeviceGetCudaComputeCapability(struct nvml_device *device, int *major, int *minor)
{
    int r = nvml_query(device, major);

    if (r == NVML_SUCCESS && !minor)
        r = NVML_ERROR_INVALID_ARGUMENT;
    if (r == NVML_SUCCESS) {
        *major = device->card.cc_major;
        *minor = device->card.cc_minor;
    }
    return r;
}

NVML_EXPORT
nvmlDeviceGetMemoryBusWidth(struct nvml_device *device, unsigned int *busWidth)
{
    int r = nvml_query(device, busWidth);

    if (r == NVML_SUCCESS)
        *busWidth = (unsigned)device->card.memory_bus_bits;
    return r;
}

NVML_EXPORT
nvmlDeviceGetMaxClockInfo(struct nvml_device *device, int type, unsigned int *clock)
{
    int r = nvml_query(device, clock);

    if (r == NVML_SUCCESS)
        *clock = (unsigned)(type == NVML_CLOCK_MEM ? device->card.memory_clock_khz
                                                   : device->card.clock_khz) /
                 1000;
    return r;
}

NVML_EXPORT
nvmlDeviceGetPciInfo_v3(struct nvml_device *device, struct nvml_pci_info *pci)
{
    const struct stub_pool_card *c;
    int r = nvml_query(device, pci);

    if (r != NVML_SUCCESS)
        return r;
    c = &device->card;
    memset(pci, 0, sizeof(*pci));
    pci->domain = (unsigned)c->pci_domain;
    pci->bus = (unsigned)c->pci_bus;
    pci->device = (unsigned)c->pci_device;
    snprintf(pci->bus_id_legacy, sizeof(pci->bus_id_legacy), "%04X:%02X:%02X.0",
             pci->domain & 0xffff, pci->bus & 0xff, pci->device & 0xff);
    snprintf(pci->bus_id, sizeof(pci->bus_id), "%08X:%02X:%02X.0", pci->domain,
             pci->bus & 0xff, pci->device & 0xff);
    return NVML_SUCCESS;
}

NVML_EXPORT
nvmlDeviceGetPciInfo_v2(struct nvml_device *device, struct nvml_pci_info_v2 *pci)
{
    struct nvml_pci_info full;
    int r = nvml_query(device, pci);

    if (r == NVML_SUCCESS)
        r = nvmlDeviceGetPciInfo_v3(device, &full);
    if (r != NVML_SUCCESS)
        return r;
    memset(pci, 0, sizeof(*pci));
    memcpy(pci->bus_id, full.bus_id_legacy, sizeof(pci->bus_id));
    pci->domain = full.domain;
    pci->bus = full.bus;
    pci->device = full.device;
    return NVML_SUCCESS;
}

/* ---- what is used of it
 * ------------------------------------------------------------------- */

NVML_EXPORT
nvmlDeviceGetMemoryInfo(struct nvml_device *device, struct nvml_memory *memory)
{
    uint64_t limit = 0, used = 0;
    int r = nvml_query(device, memory);

    if (r == NVML_SUCCESS)
        r = nvml_card_memory(device, &limit, &used);
    if (r == NVML_SUCCESS) {
        memory->total = limit;
        memory->used = used;
        memory->free = used < limit ? limit - used : 0;
    }
    return r;
}

NVML_EXPORT
nvmlDeviceGetMemoryInfo_v2(struct nvml_device *device, struct nvml_memory_v2 *memory)
{
    struct nvml_memory plain;
    int r = nvml_query(device, memory);

    if (r == NVML_SUCCESS && memory->version != NVML_MEMORY_V2)
        r = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (r == NVML_SUCCESS)
        r = nvmlDeviceGetMemoryInfo(device, &plain);
    if (r == NVML_SUCCESS) {
        memory->total = plain.total;
        memory->used = plain.used;
        memory->free = plain.free;
        memory->reserved = 0;
    }
    return r;
}

/* ---- what a slice does not have
 * -------------------------------------------------------------- */

#define NVML_UNSUPPORTED(name)                                                         \
    NVML_EXPORT                                                                        \
    name(struct nvml_device *device, void *a, void *b, void *c)                        \
    {                                                                                  \
        int r = nvml_card_check(device);                                               \
                                                                                       \
        return r == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : r;                       \
    }

NVML_UNSUPPORTED(nvmlDeviceGetUtilizationRates)
NVML_UNSUPPORTED(nvmlDeviceGetTemperature)
NVML_UNSUPPORTED(nvmlDeviceGetPowerUsage)
NVML_UNSUPPORTED(nvmlDeviceGetFanSpeed)
NVML_UNSUPPORTED(nvmlDeviceGetMigMode)
NVML_UNSUPPORTED(nvmlDeviceGetNvLinkState)
NVML_UNSUPPORTED(nvmlDeviceGetComputeRunningProcesses)
NVML_UNSUPPORTED(nvmlDeviceGetComputeRunningProcesses_v2)
NVML_UNSUPPORTED(nvmlDeviceGetComputeRunningProcesses_v3)
