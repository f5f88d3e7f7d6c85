/* SPDX-License-Identifier: Apache-2.0 */
/* How many cards there are, and which is meant. */
#include "nvml_card.h"
#include "nvml_exports.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

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

/* With or without the prefix: cuda.core asks with what CUDA calls the UUID. */
static bool
is_named(const struct nvml_device *device, const char *uuid)
{
    return strcasecmp(device->uuid, uuid) == 0 ||
           strcasecmp(device->uuid + strlen("GPU-"), uuid) == 0;
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
        if (is_named(*device, uuid))
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
        const struct stub_nvml_card *c = &nvml_card_at(i)->card;

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
