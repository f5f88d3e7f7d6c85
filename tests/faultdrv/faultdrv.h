/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver that fails one call when it is told to, and else is the driver behind
 * it (FAULTDRV_REAL names its library): what a test needs to see where an error ends
 * up.
 *
 * Its cuInit starts a thread that writes its name into /proc, as NVIDIA's does, and
 * fails with CUDA_ERROR_OPERATING_SYSTEM when it cannot.  Its events between processes
 * need memory that both have opened with shm_open(), and fail with
 * CUDA_ERROR_MAP_FAILED without it.
 *
 * The test tells it through a file that both map (FAULTDRV_CONTROL).  x86-64 only.
 */
#ifndef FAULTDRV_H
#define FAULTDRV_H

#include <stdatomic.h>
#include <stdint.h>

#define FAULTDRV_NAME 64
#define FAULTDRV_ALWAYS 2
#define FAULTDRV_DELAY 3
#define FAULTDRV_HOLD 4

struct faultdrv {
    /* Set last by the test, cleared by the driver: the next call of the function
     * fails, whichever of its versions (_v2, Async, _ptsz...) it is.  With
     * FAULTDRV_ALWAYS every call of it does, until the test clears it; with
     * FAULTDRV_DELAY every call of it is made, @result milliseconds late.
     *
     * With FAULTDRV_HOLD no call of it begins while a host function runs that this
     * driver was given meanwhile; an empty @stem stands for cuGraphLaunch,
     * cuEventRecord and cuLaunchKernel.  NVIDIA's driver does so when its queues are
     * full. */
    atomic_uint armed;
    int32_t result;
    char stem[FAULTDRV_NAME]; /* of the name, as faultdrv_stem() makes it */
    atomic_uint skip;         /* armed with 1: calls of it that are made before */
    uint32_t late_ms;         /* armed with 1: until it fails */
};

/* Functions in place of the real ones, for events between processes; or NULL.  @real:
 * the driver's own of that name. */
void *faultdrv_ipc(const char *name, void *real);

/* The part of a call's name that its versions share, in place. */
void faultdrv_stem(char *name);

#endif
