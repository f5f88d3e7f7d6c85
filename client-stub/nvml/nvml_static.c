/* SPDX-License-Identifier: Apache-2.0 */
/* What a card is: things that do not change while the session lasts. */
#include "nvml_card.h"
#include "nvml_exports.h"
#include "nvml_text.h"

#include <stdio.h>

#define NVML_PCI_EXT_V1 (sizeof(struct nvml_pci_info_ext) | 1u << 24)

NVML_EXPORT
nvmlDeviceGetName(struct nvml_device *device, char *name, unsigned int length)
{
    int r = nvml_card_query(device, name);

    return r == NVML_SUCCESS ? nvml_text(name, length, device->card.name) : r;
}

NVML_EXPORT
nvmlDeviceGetUUID(struct nvml_device *device, char *uuid, unsigned int length)
{
    int r = nvml_card_query(device, uuid);

    return r == NVML_SUCCESS ? nvml_text(uuid, length, device->uuid) : r;
}

NVML_EXPORT
nvmlDeviceGetIndex(struct nvml_device *device, unsigned int *index)
{
    int r = nvml_card_query(device, index);

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
    int r = nvml_card_query(device, major);

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
    int r = nvml_card_query(device, busWidth);

    if (r == NVML_SUCCESS)
        *busWidth = (unsigned)device->card.memory_bus_bits;
    return r;
}

NVML_EXPORT
nvmlDeviceGetMaxClockInfo(struct nvml_device *device, int type, unsigned int *clock)
{
    int r = nvml_card_query(device, clock);

    if (r == NVML_SUCCESS)
        *clock = (unsigned)(type == NVML_CLOCK_MEM ? device->card.memory_clock_khz
                                                   : device->card.clock_khz) /
                 1000;
    return r;
}

NVML_EXPORT
nvmlDeviceGetPciInfo_v3(struct nvml_device *device, struct nvml_pci_info *pci)
{
    const struct stub_nvml_card *c;
    int r = nvml_card_query(device, pci);

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
    int r = nvml_card_query(device, pci);

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

NVML_EXPORT
nvmlDeviceGetPciInfo(struct nvml_device *device, struct nvml_pci_info_v2 *pci)
{
    return nvmlDeviceGetPciInfo_v2(device, pci);
}

NVML_EXPORT
nvmlDeviceGetPciInfoExt(struct nvml_device *device, struct nvml_pci_info_ext *pci)
{
    struct nvml_pci_info full;
    int r = nvml_card_query(device, pci);

    if (r == NVML_SUCCESS && pci->version != NVML_PCI_EXT_V1)
        r = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (r == NVML_SUCCESS)
        r = nvmlDeviceGetPciInfo_v3(device, &full);
    if (r != NVML_SUCCESS)
        return r;
    *pci = (struct nvml_pci_info_ext){
        .version = pci->version,
        .domain = full.domain,
        .bus = full.bus,
        .device = full.device,
        .base_class = 3, /* display */
        .sub_class = 2,  /* 3D controller */
    };
    memcpy(pci->bus_id, full.bus_id, sizeof(pci->bus_id));
    return NVML_SUCCESS;
}

NVML_EXPORT
nvmlDeviceGetArchitecture(struct nvml_device *device, unsigned int *arch)
{
    static const struct {
        int capability;
        unsigned int arch;
    } known[] = {{120, 10}, {100, 10}, {90, 9}, {89, 8}, {80, 7},
                 {75, 6},   {70, 5},   {60, 4}, {50, 3}, {30, 2}};
    int have, r = nvml_card_query(device, arch);

    if (r != NVML_SUCCESS)
        return r;
    have = device->card.cc_major * 10 + device->card.cc_minor;
    *arch = NVML_ARCH_UNKNOWN;
    for (size_t i = 0; i < ARRAY_SIZE(known) && *arch == NVML_ARCH_UNKNOWN; i++)
        if (have >= known[i].capability)
            *arch = known[i].arch;
    return NVML_SUCCESS;
}

/* One number that is the same for every slice. */
static int
what_constant(struct nvml_device *device, unsigned int *out, unsigned int value)
{
    int r = nvml_card_query(device, out);

    if (r == NVML_SUCCESS)
        *out = value;
    return r;
}

NVML_EXPORT
nvmlDeviceGetBrand(struct nvml_device *device, unsigned int *brand)
{
    return what_constant(device, brand, 0); /* unknown */
}

NVML_EXPORT
nvmlDeviceGetComputeMode(struct nvml_device *device, unsigned int *mode)
{
    return what_constant(device, mode, 0); /* any number of contexts */
}

NVML_EXPORT
nvmlDeviceGetDisplayMode(struct nvml_device *device, unsigned int *display)
{
    return what_constant(device, display, 0);
}

NVML_EXPORT
nvmlDeviceGetDisplayActive(struct nvml_device *device, unsigned int *active)
{
    return what_constant(device, active, 0);
}

NVML_EXPORT
nvmlDeviceGetMultiGpuBoard(struct nvml_device *device, unsigned int *multi)
{
    return what_constant(device, multi, 0);
}

/* A slice is ours, not one of the card's own. */
NVML_EXPORT
nvmlDeviceIsMigDeviceHandle(struct nvml_device *device, unsigned int *is_mig)
{
    return what_constant(device, is_mig, 0);
}

NVML_EXPORT
nvmlDeviceGetMaxMigDeviceCount(struct nvml_device *device, unsigned int *count)
{
    return what_constant(device, count, 0);
}

/* No field is known, which each answers for itself. */
NVML_EXPORT
nvmlDeviceGetFieldValues(struct nvml_device *device, int count,
                         struct nvml_field_value *values)
{
    int r = nvml_card_query(device, values);

    if (r == NVML_SUCCESS && count < 0)
        r = NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; r == NVML_SUCCESS && i < count; i++)
        values[i].result = NVML_ERROR_NOT_SUPPORTED;
    return r;
}

/* ---- pairs of cards --------------------------------------------------------- */

NVML_EXPORT
nvmlDeviceGetP2PStatus(struct nvml_device *device, struct nvml_device *other, int what,
                       int *status)
{
    int can = 0, r = nvml_card_query(device, status);

    if (r == NVML_SUCCESS)
        r = nvml_card_check(other);
    if (r == NVML_SUCCESS)
        r = nvml_card_peers(device, other, &can);
    if (r != NVML_SUCCESS)
        return r;
    /* Whether through the bus or not is not known. */
    *status = can && (what == NVML_P2P_READ || what == NVML_P2P_WRITE)
                  ? NVML_P2P_STATUS_OK
                  : NVML_P2P_STATUS_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

NVML_EXPORT
nvmlDeviceGetTopologyCommonAncestor(struct nvml_device *device,
                                    struct nvml_device *other, unsigned int *level)
{
    int r = nvml_card_query(device, level);

    if (r == NVML_SUCCESS)
        r = nvml_card_check(other);
    if (r == NVML_SUCCESS)
        *level = device == other ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_SYSTEM;
    return r;
}
