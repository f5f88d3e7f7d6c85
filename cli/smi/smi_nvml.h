/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVML library that `gpupool smi` asks: the one that the loader finds as
 * libnvidia-ml.so.1, which in a session is the client library of gpupool.
 *
 * One per process, opened by smi_nvml_open() and never closed; one thread.  A function
 * that the library lacks answers NVML_ERROR_NOT_SUPPORTED.
 */
#ifndef SMI_NVML_H
#define SMI_NVML_H

#include "gp_base.h"
#include "nvml_abi.h"

struct gp_err;

#define SMI_TEXT 128 /* the longest text that NVML gives, with its end */

/* X(name, parameters): what is called, as NVML's documentation declares it. */
#define SMI_NVML_FUNCTIONS(X)                                                          \
    X(nvmlInit_v2, (void))                                                             \
    X(nvmlShutdown, (void))                                                            \
    X(nvmlSystemGetDriverVersion, (char *text, unsigned size))                         \
    X(nvmlSystemGetCudaDriverVersion_v2, (int *version))                               \
    X(nvmlSystemGetProcessName, (unsigned pid, char *text, unsigned size))             \
    X(nvmlDeviceGetCount_v2, (unsigned *count))                                        \
    X(nvmlDeviceGetHandleByIndex_v2, (unsigned index, struct nvml_device **device))    \
    X(nvmlDeviceGetName, (struct nvml_device * device, char *text, unsigned size))     \
    X(nvmlDeviceGetUUID, (struct nvml_device * device, char *text, unsigned size))     \
    X(nvmlDeviceGetSerial, (struct nvml_device * device, char *text, unsigned size))   \
    X(nvmlDeviceGetVbiosVersion,                                                       \
      (struct nvml_device * device, char *text, unsigned size))                        \
    X(nvmlDeviceGetMinorNumber, (struct nvml_device * device, unsigned *minor))        \
    X(nvmlDeviceGetPciInfo_v3,                                                         \
      (struct nvml_device * device, struct nvml_pci_info * pci))                       \
    X(nvmlDeviceGetCudaComputeCapability,                                              \
      (struct nvml_device * device, int *major, int *minor))                           \
    X(nvmlDeviceGetMemoryInfo,                                                         \
      (struct nvml_device * device, struct nvml_memory * memory))                      \
    X(nvmlDeviceGetUtilizationRates,                                                   \
      (struct nvml_device * device, struct nvml_utilization * utilization))            \
    X(nvmlDeviceGetPersistenceMode, (struct nvml_device * device, unsigned *mode))     \
    X(nvmlDeviceGetDisplayMode, (struct nvml_device * device, unsigned *mode))         \
    X(nvmlDeviceGetDisplayActive, (struct nvml_device * device, unsigned *active))     \
    X(nvmlDeviceGetComputeMode, (struct nvml_device * device, unsigned *mode))         \
    X(nvmlDeviceGetMigMode,                                                            \
      (struct nvml_device * device, unsigned *current, unsigned *pending))             \
    X(nvmlDeviceGetEccMode,                                                            \
      (struct nvml_device * device, unsigned *current, unsigned *pending))             \
    X(nvmlDeviceGetTotalEccErrors, (struct nvml_device * device, unsigned type,        \
                                    unsigned counter, unsigned long long *count))      \
    X(nvmlDeviceGetTemperature,                                                        \
      (struct nvml_device * device, unsigned sensor, unsigned *celsius))               \
    X(nvmlDeviceGetFanSpeed, (struct nvml_device * device, unsigned *percent))         \
    X(nvmlDeviceGetPerformanceState, (struct nvml_device * device, unsigned *state))   \
    X(nvmlDeviceGetPowerUsage, (struct nvml_device * device, unsigned *milliwatts))    \
    X(nvmlDeviceGetEnforcedPowerLimit,                                                 \
      (struct nvml_device * device, unsigned *milliwatts))                             \
    X(nvmlDeviceGetPowerManagementDefaultLimit,                                        \
      (struct nvml_device * device, unsigned *milliwatts))                             \
    X(nvmlDeviceGetClockInfo,                                                          \
      (struct nvml_device * device, unsigned type, unsigned *mhz))                     \
    X(nvmlDeviceGetMaxClockInfo,                                                       \
      (struct nvml_device * device, unsigned type, unsigned *mhz))                     \
    X(nvmlDeviceGetCurrPcieLinkGeneration,                                             \
      (struct nvml_device * device, unsigned *generation))                             \
    X(nvmlDeviceGetMaxPcieLinkGeneration,                                              \
      (struct nvml_device * device, unsigned *generation))                             \
    X(nvmlDeviceGetCurrPcieLinkWidth, (struct nvml_device * device, unsigned *width))  \
    X(nvmlDeviceGetMaxPcieLinkWidth, (struct nvml_device * device, unsigned *width))   \
    X(nvmlDeviceGetTopologyCommonAncestor,                                             \
      (struct nvml_device * one, struct nvml_device * other, unsigned *level))         \
    X(nvmlDeviceGetComputeRunningProcesses_v3,                                         \
      (struct nvml_device * device, unsigned *count, struct nvml_process *processes))

struct smi_nvml {
#define X(name, parameters) int(*name) parameters;
    SMI_NVML_FUNCTIONS(X)
#undef X
};

extern struct smi_nvml smi_nvml;

/* NVML_ERROR_NOT_SUPPORTED for what the library has not. */
#define SMI_CALL(name, ...)                                                            \
    (smi_nvml.name ? smi_nvml.name(__VA_ARGS__) : NVML_ERROR_NOT_SUPPORTED)

/* Load the library and initialise it.  -ENOENT: there is none; -ENODEV: it finds no
 * card, with the reason and the remedy in @err. */
int smi_nvml_open(struct gp_err *err);

#endif
