/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that libnvidia-ml.so.1 exports, under the names that clients look up.
 */
#ifndef NVML_EXPORTS_H
#define NVML_EXPORTS_H

#include "nvml_abi.h"

#include "gp_base.h"

#define NVML_EXPORT GP_EXPORT int

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
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, struct nvml_device **device);
int nvmlDeviceGetHandleByIndex(unsigned int index, struct nvml_device **device);
int nvmlDeviceGetHandleByUUID(const char *uuid, struct nvml_device **device);
int nvmlDeviceGetHandleByPciBusId_v2(const char *busId, struct nvml_device **device);
int nvmlDeviceGetHandleByPciBusId(const char *busId, struct nvml_device **device);
int nvmlDeviceGetName(struct nvml_device *device, char *name, unsigned int length);
int nvmlDeviceGetUUID(struct nvml_device *device, char *uuid, unsigned int length);
int nvmlDeviceGetIndex(struct nvml_device *device, unsigned int *index);
int nvmlDeviceGetMinorNumber(struct nvml_device *device, unsigned int *minorNumber);
int nvmlDeviceGetCudaComputeCapability(struct nvml_device *device, int *major,
                                       int *minor);
int nvmlDeviceGetMemoryBusWidth(struct nvml_device *device, unsigned int *busWidth);
int nvmlDeviceGetMaxClockInfo(struct nvml_device *device, int type,
                              unsigned int *clock);
int nvmlDeviceGetPciInfo_v3(struct nvml_device *device, struct nvml_pci_info *pci);
int nvmlDeviceGetPciInfo_v2(struct nvml_device *device, struct nvml_pci_info_v2 *pci);
int nvmlDeviceGetMemoryInfo(struct nvml_device *device, struct nvml_memory *memory);
int nvmlDeviceGetMemoryInfo_v2(struct nvml_device *device,
                               struct nvml_memory_v2 *memory);
int nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length);
int nvmlUnitGetCount(unsigned int *count);
int nvmlGetExcludedDeviceCount(unsigned int *count);
int nvmlDeviceGetPciInfo(struct nvml_device *device, struct nvml_pci_info_v2 *pci);
int nvmlDeviceGetPciInfoExt(struct nvml_device *device, struct nvml_pci_info_ext *pci);
int nvmlDeviceGetArchitecture(struct nvml_device *device, unsigned int *arch);
int nvmlDeviceGetBrand(struct nvml_device *device, unsigned int *brand);
int nvmlDeviceGetComputeMode(struct nvml_device *device, unsigned int *mode);
int nvmlDeviceGetDisplayMode(struct nvml_device *device, unsigned int *display);
int nvmlDeviceGetDisplayActive(struct nvml_device *device, unsigned int *active);
int nvmlDeviceGetMultiGpuBoard(struct nvml_device *device, unsigned int *multi);
int nvmlDeviceIsMigDeviceHandle(struct nvml_device *device, unsigned int *is_mig);
int nvmlDeviceGetMaxMigDeviceCount(struct nvml_device *device, unsigned int *count);
int nvmlDeviceGetFieldValues(struct nvml_device *device, int count,
                             struct nvml_field_value *values);
int nvmlDeviceGetP2PStatus(struct nvml_device *device, struct nvml_device *other,
                           int what, int *status);
int nvmlDeviceGetTopologyCommonAncestor(struct nvml_device *device,
                                        struct nvml_device *other, unsigned int *level);
int nvmlEventSetCreate(struct nvml_event_set **set);
int nvmlEventSetFree(struct nvml_event_set *set);
int nvmlEventSetWait(struct nvml_event_set *set, void *data, unsigned int timeoutms);
int nvmlEventSetWait_v2(struct nvml_event_set *set, void *data, unsigned int timeoutms);
int nvmlDeviceGetSupportedEventTypes(struct nvml_device *device,
                                     unsigned long long *types);
int nvmlDeviceRegisterEvents(struct nvml_device *device, unsigned long long types,
                             struct nvml_event_set *set);
int nvmlDeviceGetUtilizationRates(struct nvml_device *device,
                                  struct nvml_utilization *utilization);
int nvmlDeviceGetComputeRunningProcesses(struct nvml_device *device,
                                         unsigned int *count,
                                         struct nvml_process_v1 *infos);
int nvmlDeviceGetComputeRunningProcesses_v2(struct nvml_device *device,
                                            unsigned int *count,
                                            struct nvml_process *infos);
int nvmlDeviceGetComputeRunningProcesses_v3(struct nvml_device *device,
                                            unsigned int *count,
                                            struct nvml_process *infos);
int nvmlDeviceGetGraphicsRunningProcesses(struct nvml_device *device,
                                          unsigned int *count, void *infos);
int nvmlDeviceGetGraphicsRunningProcesses_v2(struct nvml_device *device,
                                             unsigned int *count, void *infos);
int nvmlDeviceGetGraphicsRunningProcesses_v3(struct nvml_device *device,
                                             unsigned int *count, void *infos);
int nvmlDeviceGetMPSComputeRunningProcesses(struct nvml_device *device,
                                            unsigned int *count, void *infos);
int nvmlDeviceGetMPSComputeRunningProcesses_v2(struct nvml_device *device,
                                               unsigned int *count, void *infos);
int nvmlDeviceGetMPSComputeRunningProcesses_v3(struct nvml_device *device,
                                               unsigned int *count, void *infos);
int nvmlDeviceGetAccountingMode(struct nvml_device *device, unsigned int *mode);

#endif
