/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the session uses of a slice: memory, the device's time, and which of its
 * processes hold memory.  Nothing about other sessions is reported.
 */
#include "nvml_card.h"
#include "nvml_exports.h"

#include "gp_base.h"

#include <time.h>

#define NVML_MEMORY_V2 (sizeof(struct nvml_memory_v2) | 2u << 24)
/* As long as a real card's own sampling period can be. */
#define PERIOD_NS 100000000u

NVML_EXPORT
nvmlDeviceGetMemoryInfo(struct nvml_device *device, struct nvml_memory *memory)
{
    uint64_t limit = 0, used = 0;
    int r = nvml_card_query(device, memory);

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
    int r = nvml_card_query(device, memory);

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

/* ---- the card's time -------------------------------------------------------- */

static unsigned int
use_percent(const struct nvml_sample *from, const struct stub_nvml_use *to,
            uint32_t core_percent)
{
    uint64_t spent = to->gpu_ns - from->gpu_ns, took = to->now_ns - from->now_ns;
    uint64_t share = gp_max(core_percent, 1u);

    /* Cards of several units of 100 % are counted one by one. */
    share = took / 100 * gp_min(share, (uint64_t)100);
    return share ? (unsigned int)gp_min(spent * 100 / share, (uint64_t)100) : 0;
}

/* Percent of its share that the session has used since the last query, at least a
 * tenth of a second ago; the first query waits that long.  Traffic on the device's
 * memory is not measured and reported as 0. */
NVML_EXPORT
nvmlDeviceGetUtilizationRates(struct nvml_device *device,
                              struct nvml_utilization *utilization)
{
    struct timespec period = {.tv_nsec = PERIOD_NS};
    struct nvml_sample last;
    struct stub_nvml_use use;
    int r = nvml_card_query(device, utilization);

    if (r == NVML_SUCCESS)
        r = nvml_card_use(device, &use);
    if (r != NVML_SUCCESS)
        return r;
    last = nvml_card_sample(device);
    if (!last.now_ns) {
        last = (struct nvml_sample){.now_ns = use.now_ns, .gpu_ns = use.gpu_ns};
        nanosleep(&period, NULL);
        r = nvml_card_use(device, &use);
    }
    if (r != NVML_SUCCESS)
        return r;
    if (use.now_ns - last.now_ns >= PERIOD_NS) {
        last.percent = use_percent(&last, &use, device->card.core_percent);
        last.now_ns = use.now_ns;
        last.gpu_ns = use.gpu_ns;
        nvml_card_set_sample(device, &last);
    }
    *utilization = (struct nvml_utilization){.gpu = last.percent};
    return NVML_SUCCESS;
}

/* ---- processes -------------------------------------------------------------- */

/* Room for *count; *count becomes how many there are. */
static int
use_processes(struct nvml_device *device, unsigned int *count, const void *infos,
              struct stub_nvml_use *use)
{
    unsigned int room;
    int r = nvml_card_query(device, count);

    if (r == NVML_SUCCESS)
        r = nvml_card_use(device, use);
    if (r != NVML_SUCCESS)
        return r;
    room = *count;
    *count = use->n;
    if (room < use->n)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    return use->n && !infos ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

NVML_EXPORT
nvmlDeviceGetComputeRunningProcesses(struct nvml_device *device, unsigned int *count,
                                     struct nvml_process_v1 *infos)
{
    struct stub_nvml_use use;
    int r = use_processes(device, count, infos, &use);

    for (uint32_t i = 0; r == NVML_SUCCESS && i < use.n; i++)
        infos[i] = (struct nvml_process_v1){use.pids[i], use.bytes[i]};
    return r;
}

NVML_EXPORT
nvmlDeviceGetComputeRunningProcesses_v3(struct nvml_device *device, unsigned int *count,
                                        struct nvml_process *infos)
{
    struct stub_nvml_use use;
    int r = use_processes(device, count, infos, &use);

    for (uint32_t i = 0; r == NVML_SUCCESS && i < use.n; i++)
        infos[i] = (struct nvml_process){use.pids[i], use.bytes[i], NVML_NO_INSTANCE,
                                         NVML_NO_INSTANCE};
    return r;
}

NVML_EXPORT
nvmlDeviceGetComputeRunningProcesses_v2(struct nvml_device *device, unsigned int *count,
                                        struct nvml_process *infos)
{
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, infos);
}

/* None draws pictures, none is behind a multi-process service that could be seen. */
static int
use_no_processes(struct nvml_device *device, unsigned int *count)
{
    int r = nvml_card_query(device, count);

    if (r == NVML_SUCCESS)
        *count = 0;
    return r;
}

#define NVML_NO_PROCESSES(name)                                                        \
    NVML_EXPORT                                                                        \
    name(struct nvml_device *device, unsigned int *count, void *infos)                 \
    {                                                                                  \
        return use_no_processes(device, count);                                        \
    }

NVML_NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses)
NVML_NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2)
NVML_NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
NVML_NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses)
NVML_NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2)
NVML_NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3)

NVML_EXPORT
nvmlDeviceGetAccountingMode(struct nvml_device *device, unsigned int *mode)
{
    return use_no_processes(device, mode); /* off */
}
