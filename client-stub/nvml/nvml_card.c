/* SPDX-License-Identifier: Apache-2.0 */
/* The table of slices, and the way to it through libcuda.so.1. */
#include "nvml_card.h"

#include "gp_base.h"
#include "gp_lock.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* The oldest versions of the symbols; weak, because older C libraries keep them in a
 * library of their own, which every program that loads us by name has. */
#if !defined(GP_SANITIZED)
#if defined(__x86_64__)
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5");
__asm__(".symver dlsym,dlsym@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver dlopen,dlopen@GLIBC_2.17");
__asm__(".symver dlsym,dlsym@GLIBC_2.17");
#endif
#endif

static struct gp_lock lock;
static const struct stub_nvml_table *pool;
static struct nvml_device devices[NVML_CARDS_MAX];
static uint32_t n_devices;
static int driver_version;
static struct nvml_sample samples[NVML_CARDS_MAX]; /* under the lock */
static _Atomic uint32_t opens; /* how often nvmlInit was called and not undone */

static int
card_result(CUresult r)
{
    switch (r) {
    case CUDA_SUCCESS:
        return NVML_SUCCESS;
    case CUDA_ERROR_NOT_PERMITTED:
        return NVML_ERROR_NO_PERMISSION;
    case CUDA_ERROR_OUT_OF_MEMORY:
        return NVML_ERROR_MEMORY;
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
        return NVML_ERROR_GPU_IS_LOST;
    default:
        return NVML_ERROR_DRIVER_NOT_LOADED;
    }
}

/* A libcuda.so.1 that is not ours has no such table. */
static const struct stub_nvml_table *
card_find_pool(void)
{
    static const unsigned char id[16] = STUB_NVML_TABLE_ID;
    CUresult (*get)(const void **, const CUuuid *);
    const struct stub_nvml_table *found;
    const void *table = NULL;
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    void *symbol = lib ? dlsym(lib, "cuGetExportTable") : NULL;
    CUuuid uuid;

    if (!symbol)
        return NULL;
    memcpy(&get, &symbol, sizeof(get));
    memcpy(&uuid, id, sizeof(uuid));
    if (get(&table, &uuid) != CUDA_SUCCESS || !table)
        return NULL;
    found = table;
    return found->size >= sizeof(*found) ? found : NULL;
}

static void
card_name_uuid(struct nvml_device *d)
{
    const uint8_t *u = d->card.uuid;

    snprintf(d->uuid, sizeof(d->uuid),
             "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11],
             u[12], u[13], u[14], u[15]);
}

/* Under the lock. */
static int
card_fill(void)
{
    uint32_t n = 0;
    CUresult r;

    if (!pool)
        pool = card_find_pool();
    if (!pool)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    r = pool->open(&n, &driver_version);
    n_devices = 0;
    for (uint32_t i = 0; r == CUDA_SUCCESS && i < gp_min(n, (uint32_t)NVML_CARDS_MAX);
         i++) {
        devices[i].index = i;
        r = pool->card(i, &devices[i].card);
        if (r == CUDA_SUCCESS)
            card_name_uuid(&devices[i]);
        n_devices = i + 1;
    }
    return card_result(r);
}

int
nvml_card_open(void)
{
    int r = NVML_SUCCESS;

    gp_lock_take(&lock);
    if (atomic_load(&opens) == 0)
        r = card_fill();
    if (r == NVML_SUCCESS)
        atomic_fetch_add(&opens, 1);
    gp_lock_release(&lock);
    return r;
}

void
nvml_card_close(void)
{
    gp_lock_take(&lock);
    if (atomic_load(&opens))
        atomic_fetch_sub(&opens, 1);
    gp_lock_release(&lock);
}

int
nvml_card_ready(void)
{
    return atomic_load(&opens) ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

uint32_t
nvml_card_count(void)
{
    return n_devices;
}

int
nvml_card_driver_version(void)
{
    return driver_version;
}

struct nvml_device *
nvml_card_at(uint32_t index)
{
    return index < n_devices ? &devices[index] : NULL;
}

int
nvml_card_check(struct nvml_device *device)
{
    uintptr_t first = (uintptr_t)devices, at = (uintptr_t)device;
    int r = nvml_card_ready();

    if (r != NVML_SUCCESS)
        return r;
    if (at < first || (at - first) % sizeof(devices[0]) ||
        (at - first) / sizeof(devices[0]) >= n_devices)
        return NVML_ERROR_INVALID_ARGUMENT;
    return NVML_SUCCESS;
}

int
nvml_card_memory(struct nvml_device *device, uint64_t *ret_limit, uint64_t *ret_used)
{
    int r = nvml_card_check(device);

    if (r != NVML_SUCCESS)
        return r;
    return card_result(pool->memory(device->index, ret_limit, ret_used));
}

int
nvml_card_query(struct nvml_device *device, const void *out)
{
    int r = nvml_card_check(device);

    return r == NVML_SUCCESS && !out ? NVML_ERROR_INVALID_ARGUMENT : r;
}

int
nvml_card_use(struct nvml_device *device, struct stub_nvml_use *ret)
{
    return card_result(pool->use(device->index, ret));
}

int
nvml_card_peers(struct nvml_device *device, struct nvml_device *other, int *ret_can)
{
    return card_result(pool->peers(device->index, other->index, ret_can));
}

struct nvml_sample
nvml_card_sample(struct nvml_device *device)
{
    struct nvml_sample sample;

    gp_lock_take(&lock);
    sample = samples[device->index];
    gp_lock_release(&lock);
    return sample;
}

void
nvml_card_set_sample(struct nvml_device *device, const struct nvml_sample *sample)
{
    gp_lock_take(&lock);
    samples[device->index] = *sample;
    gp_lock_release(&lock);
}
