/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices of the attachment, as the snapshot told them and CUDA_VISIBLE_DEVICES
 * orders them.
 *
 * Filled once at cuInit, constant afterwards; any thread.  An ordinal is what the
 * application says, `wire` what the server calls the same device.
 */
#ifndef STUB_DEVICE_H
#define STUB_DEVICE_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

#define STUB_DEVICES_MAX 64 /* the server caps a session far below */

struct Gpupool__AttachDevice;

struct stub_device {
    const struct Gpupool__AttachDevice *info;
    uint32_t wire; /* ordinal on the server */
};

extern struct stub_device stub_devices[STUB_DEVICES_MAX];
extern uint32_t stub_device_count;

/* Fill the table from the snapshot and the value of CUDA_VISIBLE_DEVICES (NULL: all).
 * @by_bus: CUDA_DEVICE_ORDER=PCI_BUS_ID, else the session's own order. */
void stub_device_init(const char *visible, bool by_bus);

/* NULL for an ordinal that does not exist, and before cuInit. */
const struct stub_device *stub_device_get(CUdevice dev);

/* An attribute of a device that exists; 0 when the server does not know it. */
int stub_device_attr(const struct stub_device *dev, int attribute);

/* The server's ordinal of @dev, or a number that no device has. */
int stub_device_wire(CUdevice dev);

/* The application's ordinal of the server's @wire, or CU_DEVICE_INVALID. */
CUdevice stub_device_from_wire(int wire);

#endif
