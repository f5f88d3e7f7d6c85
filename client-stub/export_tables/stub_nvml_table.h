/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVML table: what libnvidia-ml.so.1 gets from libcuda.so.1 of the same build,
 * through a table of our own that cuGetExportTable serves.
 *
 * Attaches if no call has done so, but initialises nothing: a program that only counts
 * devices may still fork and use them in its children.  Any thread.
 */
#ifndef STUB_NVML_TABLE_H
#define STUB_NVML_TABLE_H

#include "cuda_abi.h"

#include <stdint.h>

#define STUB_NVML_TABLE_ID                                                             \
    {                                                                                  \
        0x67, 0x70, 0x75, 0x70, 0x6f, 0x6f, 0x6c, 0x2d, 0x63, 0x61, 0x72, 0x64, 0x73,  \
            0x2d, 0x30, 0x31                                                           \
    }

/* A slice, as the server reported it; strings live as long as the attachment. */
struct stub_nvml_card {
    const char *name;
    const char *pci_bus_id;
    const uint8_t *uuid; /* 16 bytes */
    uint64_t memory;     /* the limit */
    uint32_t core_percent;
    int32_t cc_major, cc_minor;
    int32_t multiprocessors;
    int32_t pci_domain, pci_bus, pci_device;
    int32_t clock_khz, memory_clock_khz;
    int32_t memory_bus_bits;
};

/* Of the whole session on a slice. */
struct stub_nvml_use {
    uint64_t gpu_ns; /* card time charged since the session began there */
    uint64_t now_ns; /* the server's clock, whose zero means nothing */
    uint32_t n;      /* processes that hold memory */
    uint32_t pids[256];
    uint64_t bytes[256];
};

struct stub_nvml_table {
    uint64_t size; /* in bytes */
    /* Attach; the number of slices and the driver's version. */
    CUresult (*open)(uint32_t *ret_cards, int *ret_driver_version);
    CUresult (*card)(uint32_t index, struct stub_nvml_card *ret);
    /* Bytes in use on a slice by the whole session. */
    CUresult (*memory)(uint32_t index, uint64_t *ret_limit, uint64_t *ret_used);
    CUresult (*use)(uint32_t index, struct stub_nvml_use *ret);
    /* Can one slice's kernels reach the other's memory? */
    CUresult (*peers)(uint32_t index, uint32_t other, int *ret_can);
};

#endif
