# SPDX-License-Identifier: Apache-2.0
"""The calls of NVML that monitors make, each made once; a line for each answer.

Run in a session.  nvtop looks up its list when it starts and leaves without NVIDIA cards
when one name of it is missing; DCGM's list is what stands behind the exporter's default
counters; Ray's is its vendored binding's, as its resource detection and its reporter use it.
"""

import ctypes

# A name and its arguments: d the card, p room for a result, v the same with the version
# of struct nvmlMemory_v2, c room with a count of 0 in front, other words as they are.
NVTOP = """
nvmlDeviceGetName d p 96; nvmlDeviceGetArchitecture d p; nvmlDeviceGetPciInfo_v3 d p;
nvmlDeviceGetPciInfo_v2 d p; nvmlDeviceGetPciInfo d p; nvmlDeviceGetMaxPcieLinkGeneration d p;
nvmlDeviceGetMaxPcieLinkWidth d p; nvmlDeviceGetTemperatureThreshold d 0 p;
nvmlDeviceGetClockInfo d 0 p; nvmlDeviceGetMaxClockInfo d 0 p; nvmlDeviceGetUtilizationRates d p;
nvmlDeviceGetMemoryInfo_v2 d v; nvmlDeviceGetMemoryInfo d p;
nvmlDeviceGetCurrPcieLinkGeneration d p; nvmlDeviceGetCurrPcieLinkWidth d p;
nvmlDeviceGetBusType d p; nvmlDeviceGetPcieThroughput d 0 p; nvmlDeviceGetFanSpeed d p;
nvmlDeviceGetTemperature d 0 p; nvmlDeviceGetPowerUsage d p; nvmlDeviceGetEnforcedPowerLimit d p;
nvmlDeviceGetEncoderUtilization d p p; nvmlDeviceGetDecoderUtilization d p p;
nvmlDeviceGetGraphicsRunningProcesses_v3 d c p; nvmlDeviceGetGraphicsRunningProcesses_v2 d c p;
nvmlDeviceGetGraphicsRunningProcesses d c p; nvmlDeviceGetComputeRunningProcesses_v3 d c p;
nvmlDeviceGetComputeRunningProcesses_v2 d c p; nvmlDeviceGetComputeRunningProcesses d c p;
nvmlDeviceGetMPSComputeRunningProcesses_v3 d c p;
nvmlDeviceGetMPSComputeRunningProcesses_v2 d c p; nvmlDeviceGetMPSComputeRunningProcesses d c p;
nvmlDeviceGetTotalEccErrors d 0 0 p; nvmlDeviceGetProcessUtilization d p c 0;
nvmlDeviceGetMigMode d p p; nvmlDeviceGetNvLinkState d 0 p; nvmlDeviceGetNvLinkVersion d 0 p;
nvmlDeviceGetFieldValues d 1 p
"""
DCGM = """
nvmlDeviceGetUUID d p 96; nvmlDeviceGetSerial d p 96; nvmlDeviceGetMinorNumber d p;
nvmlDeviceGetBrand d p; nvmlDeviceGetVbiosVersion d p 96; nvmlDeviceGetPersistenceMode d p;
nvmlDeviceGetComputeMode d p; nvmlDeviceGetClockInfo d 1 p; nvmlDeviceGetClockInfo d 2 p;
nvmlDeviceGetApplicationsClock d 0 p; nvmlDeviceGetMaxClockInfo d 1 p;
nvmlDeviceGetTemperature d 0 p; nvmlDeviceGetPowerUsage d p;
nvmlDeviceGetTotalEnergyConsumption d p; nvmlDeviceGetPowerManagementLimit d p;
nvmlDeviceGetPcieReplayCounter d p; nvmlDeviceGetPcieThroughput d 1 p;
nvmlDeviceGetUtilizationRates d p; nvmlDeviceGetEncoderUtilization d p p;
nvmlDeviceGetDecoderUtilization d p p; nvmlDeviceGetMemoryInfo_v2 d v;
nvmlDeviceGetBAR1MemoryInfo d p; nvmlDeviceGetEccMode d p p;
nvmlDeviceGetMemoryErrorCounter d 0 0 2 p; nvmlDeviceGetTotalEccErrors d 1 1 p;
nvmlDeviceGetRetiredPages d 0 c p; nvmlDeviceGetRetiredPagesPendingStatus d p;
nvmlDeviceGetRemappedRows d p p p p; nvmlDeviceGetCurrentClocksThrottleReasons d p;
nvmlDeviceGetCurrentClocksEventReasons d p; nvmlDeviceGetViolationStatus d 0 p;
nvmlDeviceGetAccountingMode d p; nvmlDeviceGetVirtualizationMode d p;
nvmlDeviceGetMigMode d p p; nvmlDeviceGetMaxMigDeviceCount d p; nvmlDeviceIsMigDeviceHandle d p;
nvmlDeviceGetGpuInstanceId d p; nvmlDeviceGetComputeInstanceId d p;
nvmlDeviceGetNvLinkState d 0 p; nvmlDeviceGetNvLinkErrorCounter d 0 0 p;
nvmlDeviceGetFieldValues d 1 p; nvmlDeviceGetCpuAffinity d 1 p;
nvmlDeviceGetSupportedEventTypes d p; nvmlDeviceGetComputeRunningProcesses_v3 d c p
"""
RAY = """
nvmlDeviceGetName d p 96; nvmlDeviceGetUUID d p 96; nvmlDeviceGetMigMode d p p;
nvmlDeviceGetMaxMigDeviceCount d p; nvmlDeviceGetMemoryInfo d p;
nvmlDeviceGetUtilizationRates d p; nvmlDeviceGetComputeRunningProcesses_v3 d c p;
nvmlDeviceGetGraphicsRunningProcesses_v3 d c p; nvmlDeviceGetProcessesUtilizationInfo d p;
nvmlDeviceGetPowerUsage d p; nvmlDeviceGetTemperature d 0 p
"""
ROOM = 4096
MEMORY_V2 = (2 << 24) | 40

nvml = ctypes.CDLL("libnvidia-ml.so.1")
card = ctypes.c_void_p()
assert nvml.nvmlInit_v2() == 0
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(card)) == 0


def argument(word):
    if word == "d":
        return card
    if word in "pvc":
        first = MEMORY_V2 if word == "v" else 0
        return ctypes.create_string_buffer(first.to_bytes(4, "little"), ROOM)
    return ctypes.c_ulonglong(int(word))


for monitor, calls in (("nvtop", NVTOP), ("DCGM", DCGM), ("Ray", RAY)):
    for call in calls.split(";"):
        name, *words = call.split()
        known = hasattr(nvml, name)
        answer = getattr(nvml, name)(*map(argument, words)) if known else "missing"
        print(monitor, name, answer)
