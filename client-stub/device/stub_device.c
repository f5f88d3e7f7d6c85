/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device table, and every query about devices that the snapshot can answer.
 *
 * Runtimes ask for a hundred attributes per device and copy of themselves, so nothing
 * here goes to the server.
 */
#include "stub_device.h"

#include "attach.pb-c.h"
#include "gp_log.h"
#include "stub_call.h"
#include "stub_link.h"
#include "stub_manual.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct stub_device stub_devices[STUB_DEVICES_MAX];
uint32_t stub_device_count;

/* ---- the table -------------------------------------------------------------- */

bool
stub_device_nth(uint32_t nth, struct stub_device *ret)
{
    for (uint32_t i = 0; i < stub_links_n; i++) {
        struct stub_link *link = &stub_links[i];

        if (nth < link->attach->n_devices) {
            *ret = (struct stub_device){link->attach->devices[nth], link, nth};
            return true;
        }
        nth -= (uint32_t)link->attach->n_devices;
    }
    return false;
}

static void
device_add(const struct stub_device *device)
{
    for (uint32_t i = 0; i < stub_device_count; i++)
        if (stub_devices[i].info == device->info)
            return;
    if (stub_device_count < STUB_DEVICES_MAX)
        stub_devices[stub_device_count++] = *device;
}

/* GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx, as nvidia-smi prints it. */
static void
device_uuid_text(const struct Gpupool__AttachDevice *info, char text[48])
{
    const uint8_t *u = info->uuid.data;

    snprintf(text, 48,
             "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11],
             u[12], u[13], u[14], u[15]);
}

/* The device that one word of CUDA_VISIBLE_DEVICES names: an ordinal, or an unambiguous
 * beginning of a UUID.  NULL when there is none. */
static const struct stub_device *
device_named(const char *word, size_t len, const struct stub_device *all,
             uint32_t count)
{
    const struct stub_device *found = NULL;
    char text[48], *end;
    long n = strtol(word, &end, 10);

    if (len && end == word + len)
        return n >= 0 && n < (long)count ? &all[n] : NULL;
    if (len < 5 || strncasecmp(word, "GPU-", 4) != 0)
        return NULL;
    for (uint32_t i = 0; i < count; i++) {
        device_uuid_text(all[i].info, text);
        if (len <= strlen(text) && strncasecmp(word, text, len) == 0) {
            if (found)
                return NULL;
            found = &all[i];
        }
    }
    return found;
}

/* The number that sorts devices by their place on the bus; those of different servers
 * by their servers' order first, or equal machines would mix. */
static uint64_t
device_bus_place(const struct stub_device *d)
{
    return (uint64_t)d->link->number << 48 |
           (uint64_t)(stub_device_attr(d, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID) & 0xffff)
               << 32 |
           (uint64_t)(stub_device_attr(d, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) & 0xffff)
               << 16 |
           (uint64_t)(stub_device_attr(d, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID) & 0xffff);
}

/* Which device is called 0, 1...: as the session lists its slices, or by their place on
 * the bus.  An insertion sort: there are few. */
static uint32_t
device_order(struct stub_device all[STUB_DEVICES_MAX], bool by_bus)
{
    struct stub_device d;
    uint32_t n;

    for (n = 0; n < STUB_DEVICES_MAX && stub_device_nth(n, &d); n++) {
        uint32_t at = n;

        for (; by_bus && at && device_bus_place(&all[at - 1]) > device_bus_place(&d);
             at--)
            all[at] = all[at - 1];
        all[at] = d;
    }
    return n;
}

/* A part of a card that a driver has cut off is not what sessions have. */
static void
device_missing(const char *word, size_t len)
{
    if (len >= 4 && strncasecmp(word, "MIG-", 4) == 0)
        gp_log_error("stub",
                     "CUDA_VISIBLE_DEVICES ends at %.*s: a session has slices of cards "
                     "and no MIG instances; name cards by number or UUID",
                     (int)gp_min(len, (size_t)96), word);
}

/* As the real driver does: the list ends at the first word that names nothing. */
void
stub_device_init(const char *visible, bool by_bus)
{
    struct stub_device all[STUB_DEVICES_MAX];
    uint32_t n = device_order(all, by_bus);

    stub_device_count = 0;
    if (!visible) {
        for (uint32_t i = 0; i < n; i++)
            device_add(&all[i]);
        return;
    }
    while (*visible) {
        size_t len = strcspn(visible, ",");
        const char *word = visible + strspn(visible, " \t");
        const struct stub_device *named = NULL;

        if (word < visible + len)
            named = device_named(word, len - (size_t)(word - visible), all, n);
        if (!named) {
            device_missing(word, strcspn(word, ","));
            return;
        }
        device_add(named);
        visible += len + (visible[len] == ',');
    }
}

const struct stub_device *
stub_device_get(CUdevice dev)
{
    return dev >= 0 && (uint32_t)dev < stub_device_count ? &stub_devices[dev] : NULL;
}

/* What a device can do with the memory of its own host while both use it: the
 * program's host is another one, whose memory follows at the points that
 * docs/managed.md names. */
static bool
device_attr_is_near(int attribute)
{
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
    case CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS:
    /* No network card of the program's host reaches the card. */
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
    /* Handles of a fabric name memory to machines that are not of the session. */
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
        return true;
    default:
        return false;
    }
}

_Atomic bool stub_device_no_unified;

int
stub_device_attr(const struct stub_device *dev, int attribute)
{
    size_t i = (size_t)attribute - 1;
    int value;

    if (device_attr_is_near(attribute) ||
        (attribute == CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING &&
         atomic_load(&stub_device_no_unified) &&
         stub_link_can(stub_link_here(), "unified")))
        return 0;
    value = attribute > 0 && i < dev->info->n_attributes ? dev->info->attributes[i] : 0;
    if (attribute == CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES)
        value &= CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return value;
}

int
stub_device_wire(CUdevice dev)
{
    const struct stub_device *d = stub_device_get(dev);

    if (d)
        return (int)d->wire;
    return dev < 0 ? dev : INT32_MAX; /* CPU and INVALID are the driver's to judge */
}

CUdevice
stub_device_from_wire(int wire)
{
    for (uint32_t i = 0; i < stub_device_count; i++)
        if (stub_devices[i].link == stub_link_here() &&
            (int)stub_devices[i].wire == wire)
            return (CUdevice)i;
    return wire < 0 ? wire : CU_DEVICE_INVALID;
}

/* Before cuInit there are none, which is an error of its own. */
CUresult
stub_device_refusal(void)
{
    CUresult r = stub_link_enter_any();

    return r == CUDA_SUCCESS ? CUDA_ERROR_INVALID_DEVICE : r;
}

/* ---- queries ---------------------------------------------------------------- */

/* The check at the head of every query: callable, device known, result wanted. */
static CUresult
device_query(CUdevice dev, const void *out, const struct stub_device **ret)
{
    CUresult r = stub_link_enter_any();

    if (r != CUDA_SUCCESS)
        return r;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = stub_device_get(dev);
    return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult
stub_impl_cuDeviceGetCount(int *count)
{
    CUresult r = stub_link_enter_any();

    if (r != CUDA_SUCCESS)
        return r;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = (int)stub_device_count;
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuDeviceGet(CUdevice *device, int ordinal)
{
    const struct stub_device *d;
    CUresult r = device_query(ordinal, device, &d);

    if (r == CUDA_SUCCESS)
        *device = ordinal;
    return r;
}

static CUresult
device_copy_text(char *dst, int len, const char *src)
{
    if (len <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(dst, (size_t)len, "%s", src);
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuDeviceGetName(char *name, int len, CUdevice dev)
{
    const struct stub_device *d;
    CUresult r = device_query(dev, name, &d);

    return r == CUDA_SUCCESS ? device_copy_text(name, len, d->info->name) : r;
}

CUresult
stub_impl_cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
    const struct stub_device *d;
    CUresult r = device_query(dev, pciBusId, &d);

    return r == CUDA_SUCCESS ? device_copy_text(pciBusId, len, d->info->pci_bus_id) : r;
}

/* "domain:bus:device.function", where domain and function may be left out. */
CUresult
stub_impl_cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
    CUresult r = stub_enter();
    unsigned domain = 0, bus, slot;

    if (r != CUDA_SUCCESS)
        return r;
    if (!dev || !pciBusId)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(pciBusId, "%x:%x:%x", &domain, &bus, &slot) != 3) {
        domain = 0;
        if (sscanf(pciBusId, "%x:%x", &bus, &slot) != 2)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (uint32_t i = 0; i < stub_device_count; i++) {
        const struct stub_device *d = &stub_devices[i];

        if ((unsigned)stub_device_attr(d, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID) ==
                domain &&
            (unsigned)stub_device_attr(d, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) == bus &&
            (unsigned)stub_device_attr(d, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID) == slot) {
            *dev = (CUdevice)i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult
stub_impl_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    const struct stub_device *d;
    CUresult r = device_query(dev, uuid, &d);

    if (r == CUDA_SUCCESS)
        memcpy(uuid->bytes, d->info->uuid.data, sizeof(uuid->bytes));
    return r;
}

CUresult
stub_impl_cuDeviceGetLuid(char *luid, unsigned int *deviceNodeMask, CUdevice dev)
{
    const struct stub_device *d;
    CUresult r = device_query(dev, luid, &d);

    if (r != CUDA_SUCCESS)
        return r;
    if (d->info->luid.len < 8 || !deviceNodeMask)
        return d->info->luid.len < 8 ? CUDA_ERROR_NOT_SUPPORTED
                                     : CUDA_ERROR_INVALID_VALUE;
    memcpy(luid, d->info->luid.data, 8);
    *deviceNodeMask = d->info->luid_node_mask;
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    const struct stub_device *d;
    CUresult r = device_query(dev, bytes, &d);

    if (r == CUDA_SUCCESS)
        *bytes = d->info->total_mem;
    return r;
}

/* Attributes that the server does not know are 0, and only numbers beyond the API
 * are refused: a runtime asks for a hundred attributes when it starts, and one error
 * makes it give up. */
CUresult
stub_impl_cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    const struct stub_device *d;
    CUresult r = device_query(dev, pi, &d);

    if (r != CUDA_SUCCESS)
        return r;
    if ((int)attrib <= 0 ||
        ((size_t)attrib > d->info->n_attributes && attrib >= CU_DEVICE_ATTRIBUTE_MAX))
        return CUDA_ERROR_INVALID_VALUE;
    *pi = stub_device_attr(d, (int)attrib);
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    const struct stub_device *d;
    CUresult r = device_query(dev, major, &d);

    if (r != CUDA_SUCCESS)
        return r;
    if (!minor)
        return CUDA_ERROR_INVALID_VALUE;
    *major = stub_device_attr(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    *minor = stub_device_attr(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
    const struct stub_device *d;
    CUresult r = device_query(dev, prop, &d);

    if (r != CUDA_SUCCESS)
        return r;
    *prop = (CUdevprop){
        .maxThreadsPerBlock =
            stub_device_attr(d, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
        .maxThreadsDim = {stub_device_attr(d, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X),
                          stub_device_attr(d, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
                          stub_device_attr(d, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)},
        .maxGridSize = {stub_device_attr(d, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X),
                        stub_device_attr(d, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
                        stub_device_attr(d, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)},
        .sharedMemPerBlock =
            stub_device_attr(d, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
        .totalConstantMemory =
            stub_device_attr(d, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
        .SIMDWidth = stub_device_attr(d, CU_DEVICE_ATTRIBUTE_WARP_SIZE),
        .memPitch = stub_device_attr(d, CU_DEVICE_ATTRIBUTE_MAX_PITCH),
        .regsPerBlock =
            stub_device_attr(d, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
        .clockRate = stub_device_attr(d, CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
        .textureAlign = stub_device_attr(d, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT),
    };
    return CUDA_SUCCESS;
}

CUresult
stub_impl_cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
    const struct stub_device *d, *peer;
    CUresult r = device_query(dev, canAccessPeer, &d);

    if (r == CUDA_SUCCESS)
        r = device_query(peerDev, canAccessPeer, &peer);
    if (r == CUDA_SUCCESS)
        *canAccessPeer = d != peer && d->link == peer->link &&
                         peer->wire < d->info->n_can_access_peer &&
                         d->info->can_access_peer[peer->wire];
    return r;
}
