/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: count, names, attributes. */
#include "null.h"

#include "gp_hash.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static struct null_card cards[NULL_CARDS_MAX];
static unsigned n_cards;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool ready;

static uint64_t
env_number(const char *name, uint64_t dflt)
{
    const char *s = getenv(name);
    char *end;
    uint64_t v;

    if (!s || !*s)
        return dflt;
    v = strtoull(s, &end, 10);
    switch (*end) {
    case 'T':
        v <<= 10; /* fall through */
    case 'G':
        v <<= 10; /* fall through */
    case 'M':
        v <<= 10; /* fall through */
    case 'K':
        v <<= 10;
        break;
    default:
        break;
    }
    return v;
}

static void
card_init(struct null_card *card, unsigned index)
{
    const char *instance = getenv("SOFTGPU_INSTANCE");
    char text[128];
    uint64_t half[2];

    /* The same after every start, different per card and server. */
    snprintf(text, sizeof(text), "null card %u of %s", index, instance ? instance : "");
    for (uint64_t i = 0; i < 2; i++)
        half[i] =
            gp_hash_bytes(&(struct gp_hash_key){{i, 0x6e756c6c}}, text, strlen(text));
    memcpy(card->uuid, half, sizeof(card->uuid));
    card->index = index;
    card->memory = env_number("SOFTGPU_MEMORY", UINT64_C(4) << 30);
}

static void
init(void)
{
    unsigned all =
        (unsigned)gp_min(env_number("SOFTGPU_CARDS", 2), (uint64_t)NULL_CARDS_MAX);
    const char *visible = getenv("SOFTGPU_VISIBLE");

    if (!visible)
        visible = getenv("CUDA_VISIBLE_DEVICES");
    for (unsigned i = 0; i < all && !visible; i++)
        card_init(&cards[n_cards++], i);
    while (visible && *visible && n_cards < NULL_CARDS_MAX) {
        char *end;
        unsigned long i = strtoul(visible, &end, 10);

        if (end == visible || i >= all)
            break;
        card_init(&cards[n_cards++], (unsigned)i);
        visible = *end == ',' ? end + 1 : end;
    }
}

const struct null_card *
null_cards(unsigned *ret_count)
{
    /* Most calls of a benchmark come here: one look, no call. */
    if (unlikely(!atomic_load_explicit(&ready, memory_order_acquire))) {
        pthread_once(&once, init);
        atomic_store(&ready, true);
    }
    *ret_count = n_cards;
    return cards;
}

static const struct null_card *
card_of(CUdevice dev)
{
    unsigned count;
    const struct null_card *all = null_cards(&count);

    return dev >= 0 && (unsigned)dev < count ? &all[dev] : NULL;
}

CUresult
cuInit(unsigned int Flags)
{
    unsigned count;

    if (Flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (!null_mem_open())
        return CUDA_ERROR_OUT_OF_MEMORY;
    null_cards(&count);
    return count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult
cuDriverGetVersion(int *driverVersion)
{
    *driverVersion = (int)env_number("NULLDRV_CUDA_VERSION", CUDA_VERSION);
    return CUDA_SUCCESS;
}

CUresult
cuDeviceGetCount(int *count)
{
    unsigned n;

    null_cards(&n);
    *count = (int)n;
    return CUDA_SUCCESS;
}

CUresult
cuDeviceGet(CUdevice *device, int ordinal)
{
    if (!card_of(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult
cuDeviceGetName(char *name, int len, CUdevice dev)
{
    if (!card_of(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)len, "gpupool null card");
    return CUDA_SUCCESS;
}

CUresult
cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    const struct null_card *card = card_of(dev);

    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    memcpy(uuid->bytes, card->uuid, sizeof(uuid->bytes));
    return CUDA_SUCCESS;
}

CUresult
cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    const struct null_card *card = card_of(dev);

    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = card->memory;
    return CUDA_SUCCESS;
}

CUresult
cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
    const struct null_card *card = card_of(dev);

    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(pciBusId, (size_t)len, "0000:%02x:00.0", card->index + 1);
    return CUDA_SUCCESS;
}

CUresult
cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
    if (!card_of(dev) || !card_of(peerDev))
        return CUDA_ERROR_INVALID_DEVICE;
    *canAccessPeer = 0;
    return CUDA_SUCCESS;
}

/* What is not zero; shaped like a mid-size card of compute capability 8.6.  Others are
 * put over it with NULLDRV_ATTRIBUTES=NUMBER=VALUE,... */
static const struct {
    CUdevice_attribute attribute;
    int value;
} attributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 101376},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 102400},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0x7fffffff},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1500000},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 7000000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 256},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 4 << 20},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 1536},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 16},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 8},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 6},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
};

static int values[CU_DEVICE_ATTRIBUTE_MAX];
static pthread_once_t values_once = PTHREAD_ONCE_INIT;

static void
values_init(void)
{
    const char *text = getenv("NULLDRV_ATTRIBUTES");

    for (size_t i = 0; i < ARRAY_SIZE(attributes); i++)
        values[attributes[i].attribute] = attributes[i].value;
    while (text && *text) {
        char *end;
        unsigned long number = strtoul(text, &end, 10);
        long value = *end == '=' ? strtol(end + 1, &end, 10) : 0;

        if (number < ARRAY_SIZE(values))
            values[number] = (int)value;
        text = *end == ',' ? end + 1 : NULL;
    }
}

int
null_attribute(CUdevice_attribute attribute)
{
    pthread_once(&values_once, values_init);
    return values[attribute];
}

CUresult
cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    const struct null_card *card = card_of(dev);

    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    if (attrib < 1 || attrib >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *pi = attrib == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID ? (int)card->index + 1
                                                   : null_attribute(attrib);
    return CUDA_SUCCESS;
}
