/* SPDX-License-Identifier: Apache-2.0 */
#include "smi_property.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB (1ull << 20)

enum {
    SENSOR_GPU = 0, /* NVML_TEMPERATURE_GPU */
    ECC_UNCORRECTED = 1,
    ECC_VOLATILE = 0,
};

static bool
put_u64(char *text, int r, unsigned long long value)
{
    if (r == NVML_SUCCESS)
        snprintf(text, SMI_TEXT, "%llu", value);
    return r == NVML_SUCCESS;
}

static bool
put_choice(char *text, int r, unsigned value, const char *no, const char *yes)
{
    if (r == NVML_SUCCESS)
        snprintf(text, SMI_TEXT, "%s", value ? yes : no);
    return r == NVML_SUCCESS;
}

/* --- the machine --- */

static bool
get_timestamp(const struct smi_card *card, char *text)
{
    struct timespec now;
    struct tm parts;
    size_t n;

    (void)card;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &parts);
    n = strftime(text, SMI_TEXT, "%Y/%m/%d %H:%M:%S", &parts);
    snprintf(text + n, SMI_TEXT - n, ".%03ld", now.tv_nsec / 1000000);
    return true;
}

static bool
get_driver_version(const struct smi_card *card, char *text)
{
    (void)card;
    return SMI_CALL(nvmlSystemGetDriverVersion, text, SMI_TEXT) == NVML_SUCCESS;
}

static bool
get_cuda_version(const struct smi_card *card, char *text)
{
    int version = 0;

    (void)card;
    if (SMI_CALL(nvmlSystemGetCudaDriverVersion_v2, &version) != NVML_SUCCESS)
        return false;
    snprintf(text, SMI_TEXT, "%d.%d", version / 1000, version % 1000 / 10);
    return true;
}

static bool
get_count(const struct smi_card *card, char *text)
{
    return put_u64(text, NVML_SUCCESS, card->count);
}

/* --- what the card is --- */

static bool
get_index(const struct smi_card *card, char *text)
{
    return put_u64(text, NVML_SUCCESS, card->index);
}

static bool
get_name(const struct smi_card *card, char *text)
{
    return SMI_CALL(nvmlDeviceGetName, card->device, text, SMI_TEXT) == NVML_SUCCESS;
}

static bool
get_uuid(const struct smi_card *card, char *text)
{
    return SMI_CALL(nvmlDeviceGetUUID, card->device, text, SMI_TEXT) == NVML_SUCCESS;
}

static bool
get_serial(const struct smi_card *card, char *text)
{
    return SMI_CALL(nvmlDeviceGetSerial, card->device, text, SMI_TEXT) == NVML_SUCCESS;
}

static bool
get_vbios(const struct smi_card *card, char *text)
{
    return SMI_CALL(nvmlDeviceGetVbiosVersion, card->device, text, SMI_TEXT) ==
           NVML_SUCCESS;
}

static bool
get_minor(const struct smi_card *card, char *text)
{
    unsigned minor = 0;
    int r = SMI_CALL(nvmlDeviceGetMinorNumber, card->device, &minor);

    return put_u64(text, r, minor);
}

static bool
get_capability(const struct smi_card *card, char *text)
{
    int major = 0, minor = 0;

    if (SMI_CALL(nvmlDeviceGetCudaComputeCapability, card->device, &major, &minor) !=
        NVML_SUCCESS)
        return false;
    snprintf(text, SMI_TEXT, "%d.%d", major, minor);
    return true;
}

static bool
pci_of(const struct smi_card *card, struct nvml_pci_info *pci)
{
    memset(pci, 0, sizeof(*pci));
    return SMI_CALL(nvmlDeviceGetPciInfo_v3, card->device, pci) == NVML_SUCCESS;
}

static bool
get_bus_id(const struct smi_card *card, char *text)
{
    struct nvml_pci_info pci;

    if (!pci_of(card, &pci))
        return false;
    snprintf(text, SMI_TEXT, "%.*s", (int)sizeof(pci.bus_id) - 1, pci.bus_id);
    return true;
}

/* One number of the PCI description, in hexadecimal as nvidia-smi prints them. */
#define PCI_NUMBER(name, digits, value)                                                \
    static bool get_##name(const struct smi_card *card, char *text)                    \
    {                                                                                  \
        struct nvml_pci_info pci;                                                      \
                                                                                       \
        if (!pci_of(card, &pci))                                                       \
            return false;                                                              \
        snprintf(text, SMI_TEXT, "0x%0" #digits "X", value);                           \
        return true;                                                                   \
    }
PCI_NUMBER(pci_domain, 4, pci.domain)
PCI_NUMBER(pci_bus, 2, pci.bus)
PCI_NUMBER(pci_device, 2, pci.device)

static bool
get_pci_device_id(const struct smi_card *card, char *text)
{
    struct nvml_pci_info pci;

    if (!pci_of(card, &pci) || !pci.device_id)
        return false;
    snprintf(text, SMI_TEXT, "0x%08X", pci.device_id);
    return true;
}

/* --- one number from one function --- */

#define NUMBER(name, function, ...)                                                    \
    static bool get_##name(const struct smi_card *card, char *text)                    \
    {                                                                                  \
        unsigned value = 0;                                                            \
        int r = SMI_CALL(function, card->device, ##__VA_ARGS__, &value);               \
                                                                                       \
        return put_u64(text, r, value);                                                \
    }
NUMBER(pcie_gen, nvmlDeviceGetCurrPcieLinkGeneration)
NUMBER(pcie_gen_max, nvmlDeviceGetMaxPcieLinkGeneration)
NUMBER(pcie_width, nvmlDeviceGetCurrPcieLinkWidth)
NUMBER(pcie_width_max, nvmlDeviceGetMaxPcieLinkWidth)
NUMBER(fan, nvmlDeviceGetFanSpeed)
NUMBER(temperature, nvmlDeviceGetTemperature, SENSOR_GPU)
NUMBER(clock_gr, nvmlDeviceGetClockInfo, NVML_CLOCK_GRAPHICS)
NUMBER(clock_sm, nvmlDeviceGetClockInfo, NVML_CLOCK_SM)
NUMBER(clock_mem, nvmlDeviceGetClockInfo, NVML_CLOCK_MEM)
NUMBER(clock_video, nvmlDeviceGetClockInfo, NVML_CLOCK_VIDEO)
NUMBER(clock_max_gr, nvmlDeviceGetMaxClockInfo, NVML_CLOCK_GRAPHICS)
NUMBER(clock_max_sm, nvmlDeviceGetMaxClockInfo, NVML_CLOCK_SM)
NUMBER(clock_max_mem, nvmlDeviceGetMaxClockInfo, NVML_CLOCK_MEM)

#define CHOICE(name, function, no, yes)                                                \
    static bool get_##name(const struct smi_card *card, char *text)                    \
    {                                                                                  \
        unsigned value = 0;                                                            \
        int r = SMI_CALL(function, card->device, &value);                              \
                                                                                       \
        return put_choice(text, r, value, no, yes);                                    \
    }
CHOICE(persistence, nvmlDeviceGetPersistenceMode, "Disabled", "Enabled")
CHOICE(display_mode, nvmlDeviceGetDisplayMode, "Disabled", "Enabled")
CHOICE(display_active, nvmlDeviceGetDisplayActive, "Disabled", "Enabled")

#define MODES(name, function, which)                                                   \
    static bool get_##name(const struct smi_card *card, char *text)                    \
    {                                                                                  \
        unsigned current = 0, pending = 0;                                             \
        int r = SMI_CALL(function, card->device, &current, &pending);                  \
                                                                                       \
        (void)current;                                                                 \
        (void)pending;                                                                 \
        return put_choice(text, r, which, "Disabled", "Enabled");                      \
    }
MODES(ecc_current, nvmlDeviceGetEccMode, current)
MODES(ecc_pending, nvmlDeviceGetEccMode, pending)
MODES(mig_current, nvmlDeviceGetMigMode, current)
MODES(mig_pending, nvmlDeviceGetMigMode, pending)

#define WATTS(name, function)                                                          \
    static bool get_##name(const struct smi_card *card, char *text)                    \
    {                                                                                  \
        unsigned value = 0;                                                            \
                                                                                       \
        if (SMI_CALL(function, card->device, &value) != NVML_SUCCESS)                  \
            return false;                                                              \
        snprintf(text, SMI_TEXT, "%u.%02u", value / 1000, value % 1000 / 10);          \
        return true;                                                                   \
    }
WATTS(power_draw, nvmlDeviceGetPowerUsage)
WATTS(power_limit, nvmlDeviceGetEnforcedPowerLimit)
WATTS(power_default, nvmlDeviceGetPowerManagementDefaultLimit)

static bool
get_ecc_uncorrected(const struct smi_card *card, char *text)
{
    unsigned long long count = 0;
    int r = SMI_CALL(nvmlDeviceGetTotalEccErrors, card->device, ECC_UNCORRECTED,
                     ECC_VOLATILE, &count);

    return put_u64(text, r, count);
}

static bool
get_pstate(const struct smi_card *card, char *text)
{
    unsigned state = 0;

    if (SMI_CALL(nvmlDeviceGetPerformanceState, card->device, &state) != NVML_SUCCESS)
        return false;
    snprintf(text, SMI_TEXT, "P%u", state);
    return true;
}

static bool
get_compute_mode(const struct smi_card *card, char *text)
{
    static const char *const names[] = {"Default", "Exclusive_Thread", "Prohibited",
                                        "Exclusive_Process"};
    unsigned mode = 0;
    int r = SMI_CALL(nvmlDeviceGetComputeMode, card->device, &mode);

    if (r != NVML_SUCCESS || mode >= ARRAY_SIZE(names))
        return false;
    snprintf(text, SMI_TEXT, "%s", names[mode]);
    return true;
}

/* --- what is used --- */

#define MEMORY(name, which)                                                            \
    static bool get_##name(const struct smi_card *card, char *text)                    \
    {                                                                                  \
        struct nvml_memory memory = {0};                                               \
        int r = SMI_CALL(nvmlDeviceGetMemoryInfo, card->device, &memory);              \
                                                                                       \
        return put_u64(text, r, which / MIB);                                          \
    }
MEMORY(memory_total, memory.total)
MEMORY(memory_used, memory.used)
MEMORY(memory_free, memory.free)
MEMORY(memory_reserved, (memory.total - memory.used - memory.free))

#define UTILIZATION(name, which)                                                       \
    static bool get_##name(const struct smi_card *card, char *text)                    \
    {                                                                                  \
        struct nvml_utilization use = {0};                                             \
        int r = SMI_CALL(nvmlDeviceGetUtilizationRates, card->device, &use);           \
                                                                                       \
        return put_u64(text, r, which);                                                \
    }
UTILIZATION(utilization_gpu, use.gpu)
UTILIZATION(utilization_memory, use.memory)

/* What scripts ask for and a slice never has. */
static bool
get_nothing(const struct smi_card *card, char *text)
{
    (void)card;
    (void)text;
    return false;
}

static const struct smi_property PROPERTIES[] = {
    {"timestamp", NULL, "", get_timestamp, "when the line was made"},
    {"driver_version", NULL, "", get_driver_version, "of the card's driver"},
    {"cuda_version", NULL, "", get_cuda_version, "newest CUDA that the driver knows"},
    {"count", NULL, "", get_count, "cards of the session"},
    {"name", "gpu_name", "", get_name, "model of the card"},
    {"serial", "gpu_serial", "", get_serial, "serial number"},
    {"uuid", "gpu_uuid", "", get_uuid, "identity of the slice"},
    {"index", NULL, "", get_index, "number of the card, from 0"},
    {"minor_number", NULL, "", get_minor, "number of its device file"},
    {"pci.bus_id", "gpu_bus_id", "", get_bus_id, "domain:bus:device.function"},
    {"pci.domain", NULL, "", get_pci_domain, "PCI domain"},
    {"pci.bus", NULL, "", get_pci_bus, "PCI bus"},
    {"pci.device", NULL, "", get_pci_device, "PCI device"},
    {"pci.device_id", NULL, "", get_pci_device_id, "PCI vendor and device"},
    {"pci.sub_device_id", NULL, "", get_nothing, "PCI subsystem"},
    {"pcie.link.gen.current", "pcie.link.gen.gpucurrent", "", get_pcie_gen, "PCIe now"},
    {"pcie.link.gen.max", "pcie.link.gen.gpumax", "", get_pcie_gen_max, "PCIe at most"},
    {"pcie.link.width.current", NULL, "", get_pcie_width, "PCIe width now"},
    {"pcie.link.width.max", NULL, "", get_pcie_width_max, "PCIe width at most"},
    {"vbios_version", NULL, "", get_vbios, "firmware"},
    {"display_mode", NULL, "", get_display_mode, "whether a display is attached"},
    {"display_active", NULL, "", get_display_active, "whether a display is used"},
    {"persistence_mode", NULL, "", get_persistence, "whether the driver stays loaded"},
    {"accounting.mode", NULL, "", get_nothing, "whether processes are accounted"},
    {"compute_mode", NULL, "", get_compute_mode, "who may make contexts"},
    {"compute_cap", NULL, "", get_capability, "compute capability"},
    {"mig.mode.current", NULL, "", get_mig_current, "multi-instance mode now"},
    {"mig.mode.pending", NULL, "", get_mig_pending, "multi-instance mode to come"},
    {"pstate", NULL, "", get_pstate, "performance state"},
    {"fan.speed", NULL, "%", get_fan, "fan"},
    {"memory.total", NULL, "MiB", get_memory_total, "memory of the slice"},
    {"memory.reserved", NULL, "MiB", get_memory_reserved, "not for programs"},
    {"memory.used", NULL, "MiB", get_memory_used, "used by the session"},
    {"memory.free", NULL, "MiB", get_memory_free, "still to be had"},
    {"utilization.gpu", NULL, "%", get_utilization_gpu, "use of the slice's share"},
    {"utilization.memory", NULL, "%", get_utilization_memory, "use of its bandwidth"},
    {"utilization.encoder", NULL, "%", get_nothing, "encoder"},
    {"utilization.decoder", NULL, "%", get_nothing, "decoder"},
    {"ecc.mode.current", NULL, "", get_ecc_current, "error correction now"},
    {"ecc.mode.pending", NULL, "", get_ecc_pending, "error correction to come"},
    {"ecc.errors.uncorrected.volatile.total", NULL, "", get_ecc_uncorrected,
     "uncorrected errors since the driver started"},
    {"temperature.gpu", NULL, "", get_temperature, "degrees Celsius"},
    {"temperature.memory", NULL, "", get_nothing, "degrees Celsius"},
    {"power.management", NULL, "", get_nothing, "whether power can be limited"},
    {"power.draw", "power.draw.instant", "W", get_power_draw, "power"},
    {"power.draw.average", NULL, "W", get_power_draw, "power"},
    {"power.limit", "enforced.power.limit", "W", get_power_limit, "limit of power"},
    {"power.default_limit", NULL, "W", get_power_default,
     "limit of power as delivered"},
    {"power.min_limit", NULL, "W", get_nothing, "lowest limit of power"},
    {"power.max_limit", NULL, "W", get_nothing, "highest limit of power"},
    {"clocks.current.graphics", "clocks.gr", "MHz", get_clock_gr, "clock now"},
    {"clocks.current.sm", "clocks.sm", "MHz", get_clock_sm, "clock now"},
    {"clocks.current.memory", "clocks.mem", "MHz", get_clock_mem, "clock now"},
    {"clocks.current.video", "clocks.video", "MHz", get_clock_video, "clock now"},
    {"clocks.max.graphics", "clocks.max.gr", "MHz", get_clock_max_gr, "highest clock"},
    {"clocks.max.sm", NULL, "MHz", get_clock_max_sm, "highest clock"},
    {"clocks.max.memory", "clocks.max.mem", "MHz", get_clock_max_mem, "highest clock"},
};

static bool
same(const char *name, const char *text, size_t length)
{
    return name && strlen(name) == length && !memcmp(name, text, length);
}

const struct smi_property *
smi_property_find(const char *name, size_t length)
{
    for (size_t i = 0; i < ARRAY_SIZE(PROPERTIES); i++)
        if (same(PROPERTIES[i].name, name, length) ||
            same(PROPERTIES[i].alias, name, length))
            return &PROPERTIES[i];
    return NULL;
}

const char *
smi_property_text(const struct smi_card *card, const char *name, const char *absent,
                  char *text)
{
    const struct smi_property *property = smi_property_find(name, strlen(name));

    if (!property || !property->get(card, text)) {
        snprintf(text, SMI_TEXT, "%s", absent);
    } else if (*property->unit) {
        size_t n = strlen(text);

        snprintf(text + n, SMI_TEXT - n, " %s", property->unit);
    }
    return text;
}

void
smi_property_help(FILE *f)
{
    for (size_t i = 0; i < ARRAY_SIZE(PROPERTIES); i++) {
        const struct smi_property *p = &PROPERTIES[i];

        fprintf(f, "  %-40s%s%s%s%s\n", p->name, p->help, *p->unit ? ", in " : "",
                p->unit, p->get == get_nothing ? "; a slice does not say" : "");
        if (p->alias)
            fprintf(f, "  %-40sthe same\n", p->alias);
    }
}

/* --- processes --- */

int
smi_processes(const struct smi_card *card, struct nvml_process **ret_list,
              unsigned *ret_n)
{
    unsigned room = 64;

    *ret_list = NULL;
    *ret_n = 0;
    for (int tries = 0; tries < 4; tries++) {
        struct nvml_process *list = calloc(room, sizeof(*list));
        unsigned n = room;
        int r;

        if (!list)
            return -ENOMEM;
        r = SMI_CALL(nvmlDeviceGetComputeRunningProcesses_v3, card->device, &n, list);
        if (r == NVML_SUCCESS) {
            *ret_list = list;
            *ret_n = n;
            return 0;
        }
        free(list);
        if (r != NVML_ERROR_INSUFFICIENT_SIZE)
            return -ENOTSUP;
        room = n + 16; /* some may start meanwhile */
    }
    return -EAGAIN;
}

void
smi_process_name(unsigned pid, char *text)
{
    if (SMI_CALL(nvmlSystemGetProcessName, pid, text, SMI_TEXT) != NVML_SUCCESS)
        snprintf(text, SMI_TEXT, "[Not Found]");
}
