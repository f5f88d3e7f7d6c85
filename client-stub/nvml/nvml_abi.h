/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As much of NVML's binary interface as we answer: numbers and layouts.
 *
 * A function that is not here is not exported; clients treat that as an older library.
 */
#ifndef NVML_ABI_H
#define NVML_ABI_H

#include <stdint.h>

enum nvml_result {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_MEMORY = 20,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999,
};

struct nvml_device; /* what clients hold a pointer to */

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_memory_v2 {
    unsigned int version; /* size | 2 << 24 */
    unsigned long long total, reserved, free, used;
};

struct nvml_pci_info {
    char bus_id_legacy[16];
    unsigned int domain, bus, device;
    unsigned int device_id, subsystem_id;
    char bus_id[32]; /* the third version only */
};

struct nvml_pci_info_v2 {
    char bus_id[16];
    unsigned int domain, bus, device;
    unsigned int device_id, subsystem_id;
    unsigned int reserved[4];
};

enum nvml_clock {
    NVML_CLOCK_GRAPHICS,
    NVML_CLOCK_SM,
    NVML_CLOCK_MEM,
    NVML_CLOCK_VIDEO
};

#endif
