/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that libnvidia-ml.so.1 exports, under the names that clients look up.
 */
#ifndef NVML_EXPORTS_H
#define NVML_EXPORTS_H

#include "nvml_abi.h"

int nvmlInitWithFlags(unsigned int flags);
int nvmlInit_v2(void);
int nvmlInit(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int result);
int nvmlSystemGetCudaDriverVersion(int *version);
int nvmlSystemGetCudaDriverVersion_v2(int *version);
int nvmlSystemGetDriverVersion(char *version, unsigned int length);
int nvmlSystemGetNVMLVersion(char *version, unsigned int length);
int nvmlDeviceGetCount_v2(unsigned int *count);
int nvmlDeviceGetCount(unsigned int *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device);
int nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device);
int nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device);
int nvmlDeviceGetHandleByPciBusId_v2(const char *busId, nvmlDevice_t *device);
int nvmlDeviceGetHandleByPciBusId(const char *busId, nvmlDevice_t *device);
int nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length);
int nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length);
int nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index);
int nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minorNumber);
int nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor);
int nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned int *busWidth);
int nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int type, unsigned int *clock);
int nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, struct nvml_pci_info *pci);
int nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, struct nvml_pci_info_v2 *pci);
int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct nvml_memory *memory);
int nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, struct nvml_memory_v2 *memory);
int nvmlDeviceGetUtilizationRates(nvmlDevice_t device, void *a, void *b, void *c);
int nvmlDeviceGetTemperature(nvmlDevice_t device, void *a, void *b, void *c);
int nvmlDeviceGetPowerUsage(nvmlDevice_t device, void *a, void *b, void *c);
int nvmlDeviceGetFanSpeed(nvmlDevice_t device, void *a, void *b, void *c);
int nvmlDeviceGetMigMode(nvmlDevice_t device, void *a, void *b, void *c);
int nvmlDeviceGetNvLinkState(nvmlDevice_t device, void *a, void *b, void *c);
int nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, void *a, void *b,
                                         void *c);
int nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, void *a, void *b,
                                            void *c);
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, void *a, void *b,
                                            void *c);

#endif
