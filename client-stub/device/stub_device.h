/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices of the session, from the servers' snapshots, in the order of
 * CUDA_VISIBLE_DEVICES.
 *
 * Filled once at cuInit, constant afterwards; any thread.  `ordinal` is the
 * application's number, `wire` the number that the server of `link` has for the same
 * device.
 */
#ifndef STUB_DEVICE_H
#define STUB_DEVICE_H

#include "cuda_abi.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define STUB_DEVICES_MAX 64 /* the servers cap a session far below */

struct Gpupool__AttachDevice;

struct stub_link;

struct stub_device {
    const struct Gpupool__AttachDevice *info;
    struct stub_link *link;
    uint32_t wire; /* ordinal on the server */
};

extern struct stub_device stub_devices[STUB_DEVICES_MAX];
extern uint32_t stub_device_count;

/* Every device of the session: one server's after the other's.  False: no such one. */
bool stub_device_nth(uint32_t nth, struct stub_device *ret);

/* Fill the table from the snapshots and the value of CUDA_VISIBLE_DEVICES (NULL: all).
 * @by_bus: CUDA_DEVICE_ORDER=PCI_BUS_ID, else the session's own order. */
void stub_device_init(const char *visible, bool by_bus);

/* NULL for an ordinal that does not exist, and before cuInit. */
const struct stub_device *stub_device_get(CUdevice dev);

/* The error for an ordinal of which stub_device_get() knows no device. */
CUresult stub_device_refusal(void);

/* An attribute of a device that exists; 0 when the server does not know it. */
int stub_device_attr(const struct stub_device *dev, int attribute);

/* The server's ordinal of @dev, or a number that no device has. */
int stub_device_wire(CUdevice dev);

/* The application's ordinal of what the server of the current link calls @wire, or
 * CU_DEVICE_INVALID. */
CUdevice stub_device_from_wire(int wire);

/* Page-locked memory could not be given one address at both ends (stub_unified.c):
 * devices of servers that support it report so.  Servers of older versions never
 * offered it. */
extern _Atomic bool stub_device_no_unified;

#endif
