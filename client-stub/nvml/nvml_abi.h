/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of NVML's binary interface that is answered: numbers and layouts.  Functions
 * that are refused need none: nvml_refused.c.
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
    NVML_ERROR_ALREADY_INITIALIZED = 5,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_INSUFFICIENT_POWER = 8,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_IRQ_ISSUE = 11,
    NVML_ERROR_LIBRARY_NOT_FOUND = 12,
    NVML_ERROR_FUNCTION_NOT_FOUND = 13,
    NVML_ERROR_CORRUPTED_INFOROM = 14,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_RESET_REQUIRED = 16,
    NVML_ERROR_OPERATING_SYSTEM = 17,
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
    NVML_ERROR_IN_USE = 19,
    NVML_ERROR_MEMORY = 20,
    NVML_ERROR_NO_DATA = 21,
    NVML_ERROR_VGPU_ECC_NOT_SUPPORTED = 22,
    NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
    NVML_ERROR_FREQ_NOT_SUPPORTED = 24,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_DEPRECATED = 26,
    NVML_ERROR_NOT_READY = 27,
    NVML_ERROR_GPU_NOT_FOUND = 28,
    NVML_ERROR_INVALID_STATE = 29,
    NVML_ERROR_UNKNOWN = 999,
};

struct nvml_device; /* what clients hold a pointer to */
struct nvml_event_set;

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

struct nvml_pci_info_ext {
    unsigned int version; /* size | 1 << 24 */
    unsigned int domain, bus, device;
    unsigned int device_id, subsystem_id;
    unsigned int base_class, sub_class;
    char bus_id[32];
};

struct nvml_utilization {
    unsigned int gpu, memory; /* percent */
};

struct nvml_process_v1 {
    unsigned int pid;
    unsigned long long bytes;
};

#define NVML_NO_INSTANCE 0xffffffffu

struct nvml_process {
    unsigned int pid;
    unsigned long long bytes;
    unsigned int gpu_instance, compute_instance;
};

struct nvml_field_value {
    unsigned int field, scope;
    long long timestamp, latency_usec;
    unsigned int value_type;
    int result;
    unsigned long long value;
};

#define NVML_ARCH_UNKNOWN 0xffffffffu

enum nvml_p2p {
    NVML_P2P_READ = 0,
    NVML_P2P_WRITE = 1,
    NVML_P2P_STATUS_OK = 0,
    NVML_P2P_STATUS_NOT_SUPPORTED = 5,
};

enum nvml_topology {
    NVML_TOPOLOGY_INTERNAL = 0,
    NVML_TOPOLOGY_SYSTEM = 50,
};

enum nvml_clock {
    NVML_CLOCK_GRAPHICS,
    NVML_CLOCK_SM,
    NVML_CLOCK_MEM,
    NVML_CLOCK_VIDEO
};

#endif
