/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device table and the exported calls on devices.
 */
#include "sg_dev.h"

#include "sg_card.h"
#include "sg_core.h"
#include "sg_handle.h"

#include "gp_err.h"
#include "gp_log.h"
#include "gp_time.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct sg_dev devs[SG_MAX_CARDS];
static unsigned n_devs;

unsigned
sg_dev_count(void)
{
    return n_devs;
}

struct sg_dev *
sg_dev_get(CUdevice ordinal)
{
    return ordinal >= 0 && (unsigned)ordinal < n_devs ? &devs[ordinal] : NULL;
}

struct sg_dev *
sg_dev_by_uuid(const uint8_t uuid[16])
{
    for (unsigned i = 0; i < n_devs; i++)
        if (!memcmp(devs[i].uuid, uuid, sizeof(devs[i].uuid)))
            return &devs[i];
    return NULL;
}

#ifdef __SANITIZE_THREAD__ /* leaves room only here, below where libraries land */
static const struct sg_arenas wide = {UINT64_C(0x7e8000000000), UINT64_C(16) << 30};
#else
static const struct sg_arenas wide = {UINT64_C(0x200000000000), UINT64_C(1) << 40};
#endif
/* For processes with 39 bits of addresses, as on some ARM kernels and User Mode Linux.
 */
static const struct sg_arenas narrow = {UINT64_C(0x2000000000), UINT64_C(8) << 30};

static pthread_once_t arenas_once = PTHREAD_ONCE_INIT;
static const struct sg_arenas *arenas = &wide;

static void
arenas_choose(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t last = wide.base + SG_ARENAS * wide.size - page;
    void *p =
        mmap((void *)(uintptr_t)last, page, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

    /* Kernels before 4.17 and emulators take the address as a hint. */
    if (p == MAP_FAILED ? errno == ENOMEM : p != (void *)(uintptr_t)last)
        arenas = &narrow;
    if (p != MAP_FAILED)
        munmap(p, page);
}

const struct sg_arenas *
sg_dev_arenas(void)
{
    pthread_once(&arenas_once, arenas_choose);
    return arenas;
}

static unsigned address_slot;

void
sg_dev_slot(uint64_t *base, uint64_t *size)
{
    if (!address_slot)
        return;
    *size /= SG_SLOTS;
    *base += (address_slot - 1) * *size;
}

static int
dev_init(struct sg_dev *dev, const struct sg_conf *conf, unsigned ordinal,
         struct gp_err *err)
{
    unsigned card = conf->visible[ordinal];
    uint64_t base = SG_ARENA(card), size = SG_ARENA_SIZE;
    int r;

    *dev = (struct sg_dev){.ordinal = (int)ordinal,
                           .profile = conf->profile,
                           .exact = conf->exact,
                           .time_limit_ns = conf->time_limit * GP_NS_PER_S,
                           .budget = conf->budget};
    r = sg_card_open(conf, card, &dev->card, err);
    if (r < 0)
        return gp_err_wrap(err, r, "card %u", card);
    dev->memory = sg_card_memory(dev->card);
    dev->sms = (sg_card_sms(dev->card) * conf->percentage + 99) / 100;
    memcpy(dev->name, conf->name, sizeof(dev->name));
    sg_conf_uuid(conf, card, dev->uuid);
    sg_conf_pci(conf, card, &dev->pci_domain, &dev->pci_bus, &dev->pci_device);
    /* By card and not by ordinal, so that one card's addresses are the same in
     * processes that see different subsets. */
    sg_dev_slot(&base, &size);
    r = sg_va_init(&dev->va, base, size);
    if (r < 0)
        return r;
    dev->primary_handle = sg_handle_new(SG_KIND_CTX, NULL);
    return dev->primary_handle ? 0 : -ENOMEM;
}

void
sg_dev_fini(void)
{
    for (unsigned i = 0; i < n_devs; i++) {
        sg_card_close(devs[i].card);
        sg_va_fini(&devs[i].va);
        sg_handle_drop(devs[i].primary_handle);
    }
    n_devs = 0;
}

int
sg_dev_init(const struct sg_conf *conf, struct gp_err *err)
{
    int r = 0;

    if (!conf->n_visible)
        return gp_err_set(err, -ENODEV, "no card is configured or visible");
    address_slot = conf->slot;
    if (!getenv("SOFTGPU_CARD_FILES"))
        sg_card_tidy();
    while (n_devs < conf->n_visible && r == 0)
        r = dev_init(&devs[n_devs], conf, n_devs, err), n_devs++;
    if (r < 0)
        sg_dev_fini();
    return r;
}

/* Threads may still run kernels: nothing is taken down, names are removed. */
__attribute__((destructor)) static void
leave_cards(void)
{
    for (unsigned i = 0; i < n_devs; i++)
        sg_card_leave(devs[i].card);
}

CUresult
sg_dev_enter(CUdevice dev, struct sg_dev **ret_dev)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    *ret_dev = sg_dev_get(dev);
    return *ret_dev ? CUDA_SUCCESS : sg_leave(CUDA_ERROR_INVALID_DEVICE);
}

SG_CALL(cuDeviceGetCount, int *count)
{
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!count)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *count = (int)n_devs;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuDeviceGet, CUdevice *device, int ordinal)
{
    struct sg_dev *dev;
    CUresult rc = sg_dev_enter(ordinal, &dev);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!device)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *device = ordinal;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuDeviceGetName, char *name, int len, CUdevice dev)
{
    struct sg_dev *d;
    CUresult rc = sg_dev_enter(dev, &d);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!name || len <= 0)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    snprintf(name, (size_t)len, "%s", d->name);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuDeviceGetUuid, CUuuid *uuid, CUdevice dev)
{
    struct sg_dev *d;
    CUresult rc = sg_dev_enter(dev, &d);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!uuid)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    memcpy(uuid->bytes, d->uuid, sizeof(d->uuid));
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuDeviceGetUuid_v2, CUuuid *uuid, CUdevice dev)
{
    return cuDeviceGetUuid(uuid, dev);
}

SG_CALL(cuDeviceTotalMem_v2, size_t *bytes, CUdevice dev)
{
    struct sg_dev *d;
    CUresult rc = sg_dev_enter(dev, &d);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!bytes)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *bytes = d->memory;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuDeviceGetAttribute, int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    struct sg_dev *d;
    CUresult rc = sg_dev_enter(dev, &d);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pi)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    return sg_leave(sg_dev_attr(d, (int)attrib, pi));
}

SG_CALL(cuDeviceComputeCapability, int *major, int *minor, CUdevice dev)
{
    struct sg_dev *d;
    CUresult rc = sg_dev_enter(dev, &d);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!major || !minor)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *major = d->profile->major;
    *minor = d->profile->minor;
    return sg_leave(CUDA_SUCCESS);
}

static int
attr_value(const struct sg_dev *dev, int attr)
{
    int v = 0;

    sg_dev_attr(dev, attr, &v);
    return v;
}

SG_CALL(cuDeviceGetProperties, CUdevprop *prop, CUdevice dev)
{
    struct sg_dev *d;
    CUresult rc = sg_dev_enter(dev, &d);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!prop)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    prop->maxThreadsPerBlock = attr_value(d, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    for (int i = 0; i < 3; i++) {
        prop->maxThreadsDim[i] = attr_value(d, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i);
        prop->maxGridSize[i] = attr_value(d, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i);
    }
    prop->sharedMemPerBlock =
        attr_value(d, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    prop->totalConstantMemory =
        attr_value(d, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
    prop->SIMDWidth = attr_value(d, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    prop->memPitch = attr_value(d, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
    prop->regsPerBlock = attr_value(d, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    prop->clockRate = attr_value(d, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    prop->textureAlign = attr_value(d, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuDeviceGetPCIBusId, char *pciBusId, int len, CUdevice dev)
{
    struct sg_dev *d;
    char text[32];
    CUresult rc = sg_dev_enter(dev, &d);

    if (rc != CUDA_SUCCESS)
        return rc;
    snprintf(text, sizeof(text), "%04x:%02x:%02x.0", d->pci_domain & 0xffff,
             d->pci_bus & 0xff, d->pci_device & 0xff);
    if (!pciBusId || len <= (int)strlen(text))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    memcpy(pciBusId, text, strlen(text) + 1);
    return sg_leave(CUDA_SUCCESS);
}

/* "[domain:]bus:device[.function]", hexadecimal. */
static bool
parse_pci(const char *s, int out[3])
{
    unsigned domain = 0, bus, device, function;
    int end = 0;

    if (sscanf(s, "%x:%x:%x.%x%n", &domain, &bus, &device, &function, &end) != 4 ||
        s[end]) {
        domain = 0;
        end = 0;
        if (sscanf(s, "%x:%x.%x%n", &bus, &device, &function, &end) != 3 || s[end]) {
            end = 0;
            if (sscanf(s, "%x:%x:%x%n", &domain, &bus, &device, &end) != 3 || s[end])
                return false;
        }
    }
    out[0] = (int)domain;
    out[1] = (int)bus;
    out[2] = (int)device;
    return true;
}

SG_CALL(cuDeviceGetByPCIBusId, CUdevice *dev, const char *pciBusId)
{
    int id[3];
    CUresult rc = sg_enter_init();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!dev || !pciBusId || !parse_pci(pciBusId, id))
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < n_devs; i++) {
        if (devs[i].pci_domain == id[0] && devs[i].pci_bus == id[1] &&
            devs[i].pci_device == id[2]) {
            *dev = (CUdevice)i;
            return sg_leave(CUDA_SUCCESS);
        }
    }
    return sg_leave(CUDA_ERROR_INVALID_DEVICE);
}

SG_CALL(cuDeviceGetExecAffinitySupport, int *pi, CUexecAffinityType type, CUdevice dev)
{
    struct sg_dev *d;
    CUresult rc = sg_dev_enter(dev, &d);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!pi || (unsigned)type >= CU_EXEC_AFFINITY_TYPE_MAX)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *pi = 0;
    return sg_leave(CUDA_SUCCESS);
}

SG_CALL(cuDeviceGetTexture1DLinearMaxWidth, size_t *maxWidthInElements,
        CUarray_format format, unsigned numChannels, CUdevice dev)
{
    struct sg_dev *d;
    CUresult rc = sg_dev_enter(dev, &d);

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!maxWidthInElements || !format || !numChannels || numChannels > 4 ||
        numChannels == 3)
        return sg_leave(CUDA_ERROR_INVALID_VALUE);
    *maxWidthInElements =
        (size_t)attr_value(d, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH);
    return sg_leave(CUDA_SUCCESS);
}

static void
explain_tables(void)
{
    gp_log_init("softgpu", GP_LOG_ERROR); /* it may ask before cuInit() */
    gp_log_error("softgpu",
                 "the program's CUDA runtime asks for private tables of its driver, "
                 "which this library has not: its calls fail as without a driver, and "
                 "its managed variables have no address; run it on a slice, with "
                 "`gpupool run`");
}

/* The private tables of a vendor's own runtime are answered in front of a pool
 * server, never here.  A runtime does not expect that and says nothing: we do. */
SG_CALL(cuGetExportTable, const void **ppExportTable, const CUuuid *pExportTableId)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (!ppExportTable || !pExportTableId)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_once(&once, explain_tables);
    *ppExportTable = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}
