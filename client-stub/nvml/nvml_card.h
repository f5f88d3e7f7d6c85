/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slices behind NVML's device handles.
 *
 * Filled by the first nvmlInit from libcuda.so.1 of the same build, constant from then
 * on; a device handle is a pointer into the table.  Any thread.
 */
#ifndef NVML_CARD_H
#define NVML_CARD_H

#include "nvml_abi.h"
#include "stub_nvml_table.h"

#include <stdbool.h>

#define NVML_CARDS_MAX 64 /* as the stub's device table */

struct nvml_device {
    uint32_t index;
    struct stub_nvml_card card;
    char uuid[48];
};

/* Count one nvmlInit; the first attaches.  An enum nvml_result. */
int nvml_card_open(void);
void nvml_card_close(void); /* nothing where none is open */

/* NVML_SUCCESS between open and close. */
int nvml_card_ready(void);

uint32_t nvml_card_count(void);
int nvml_card_driver_version(void);
struct nvml_device *nvml_card_at(uint32_t index); /* NULL past the end */

/* Is this one of our handles, and the library initialised?  An enum nvml_result. */
int nvml_card_check(struct nvml_device *device);

/* The same, and is there a place for the result? */
int nvml_card_query(struct nvml_device *device, const void *out);

/* What the whole session uses of the device, and each of its processes; queries the
 * server. */
int nvml_card_use(struct nvml_device *device, struct stub_nvml_use *ret);

/* Whether the two cards' kernels reach each other's memory. */
int nvml_card_peers(struct nvml_device *device, struct nvml_device *other,
                    int *ret_can);

/* How busy the card was when it was last asked; now_ns 0: it never was. */
struct nvml_sample {
    uint64_t now_ns, gpu_ns;
    unsigned int percent;
};
struct nvml_sample nvml_card_sample(struct nvml_device *device);
void nvml_card_set_sample(struct nvml_device *device, const struct nvml_sample *sample);

/* Bytes in use, the whole session's; asks the server. */
int nvml_card_memory(struct nvml_device *device, uint64_t *ret_limit,
                     uint64_t *ret_used);

#endif
