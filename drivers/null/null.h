/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The null driver: a CUDA driver in which every call succeeds at once.
 *
 * For measuring what gpupool itself costs: with it behind the server, all time is
 * gpupool's.  Memory is real (host) memory and copies are real copies, so bulk figures
 * are honest; kernels do not run.  It is not a software GPU, checks no handles but
 * those that it follows (null_live.h), and has only what the measurements and tests
 * need: it refuses other calls (CUDA_ERROR_NOT_SUPPORTED) and lacks some
 * (drivers/null/build.mk).
 */
#ifndef NULL_H
#define NULL_H

#include "cuda_api.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

#define NULL_CARDS_MAX 16

struct null_card {
    unsigned index; /* among all cards */
    uint64_t memory;
    uint8_t uuid[16];
};

/* The cards that this process sees; *ret_count of them. */
const struct null_card *null_cards(unsigned *ret_count);

/* What a card says of itself; NULLDRV_ATTRIBUTES may change it. */
int null_attribute(CUdevice_attribute attribute);

/* Ordinal of the context that is current on this thread, or -1. */
int null_current_device(void);

/* Reserve the addresses of the cards' memory; at the driver's start, because a process
 * may limit its memory once the driver is ready. */
bool null_mem_open(void);

/* Does all of [ptr, ptr + size) belong to one allocation, is it mapped, or is it
 * page-locked memory of the host's, which has one address everywhere? */
bool null_mem_holds(CUdeviceptr ptr, uint64_t size);

/* Is all of it in one piece of registered memory (null_host.c)? */
bool null_host_holds(uint64_t ptr, uint64_t size);
/* The context ends, and what was registered in it is so no more. */
void null_host_end(CUcontext ctx);

/* Is all of it mapped (null_vmm.c)? */
bool null_vmm_holds(uint64_t ptr, uint64_t size);

/* Has a host function not been called to its end, or wait until all that were launched
 * so far have (null_hostfn.c).  Any thread but the one that calls them. */
bool null_hostfn_pending(void);
void null_hostfn_wait(void);

/* A handle nobody has had before; never followed, never freed. */
void *null_handle(void);

#endif
