/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What linked PTX expects of the device runtime library: synchronising a grid, and
 * launching kernels from kernels (sg_launch_device.h).
 *
 * On a card these come with the toolkit's library as machine code; here they are PTX of
 * our own, weak, so that anyone's definition wins.  Constant text; any thread.
 */
#ifndef SG_DEVRT_H
#define SG_DEVRT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* A launch that a kernel makes, on the heap of its context: cudaGetParameterBufferV2()
 * makes it and gives out where the parameters go, SG_DEVRT_HEAD bytes behind.  Written
 * by the kernel, so believed by nobody. */
struct sg_devrt_record {
    uint64_t func; /* as kernels see it */
    uint64_t stream;
    uint32_t grid[3], block[3];
    uint32_t shared; /* bytes */
    uint32_t zero[5];
};
#define SG_DEVRT_HEAD 64
#define SG_DEVRT_RECORD 4160 /* with 4 KiB of parameters, as many as a kernel has */

static_assert(sizeof(struct sg_devrt_record) == SG_DEVRT_HEAD, "as the text has it");

/* PTX to be linked with @inputs; NULL: they name nothing of it. */
const char *sg_devrt_text(char *const *inputs, const size_t *lens, size_t n);

#endif
