/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices this process sees: one per visible card, with its arena of device
 * addresses and its primary context.
 *
 * Made by cuInit, never freed: the driver lives as long as the process.  Fields
 * above the line are immutable after that; below it the lock guards them.
 */
#ifndef SG_DEV_H
#define SG_DEV_H

#include "sg_conf.h"
#include "sg_va.h"

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdint.h>

struct gp_err;
struct sg_card;
struct sg_ctx;
struct sg_pool;
struct sg_sm;

/* Device addresses are host addresses in this region: far from where the kernel
 * puts anything by itself, the same in every process. */
#ifdef __SANITIZE_THREAD__ /* leaves room only here, below where libraries land */
#define SG_ARENA_BASE UINT64_C(0x7e8000000000)
#define SG_ARENA_SIZE (UINT64_C(16) << 30)
#else
#define SG_ARENA_BASE UINT64_C(0x200000000000)
#define SG_ARENA_SIZE (UINT64_C(1) << 40)
#endif
/* Behind the cards' arenas: reserved addresses (cuMemAddressReserve), then
 * managed memory. */
#define SG_VMM_BASE (SG_ARENA_BASE + SG_MAX_CARDS * SG_ARENA_SIZE)
#define SG_VMM_SIZE (SG_ARENA_SIZE * 2)
#define SG_MANAGED_BASE (SG_VMM_BASE + SG_VMM_SIZE)
#define SG_MANAGED_SIZE SG_ARENA_SIZE

/* Narrow an arena to the part that this process may use (SOFTGPU_ADDRESS_SLOT). */
void sg_dev_slot(uint64_t *base, uint64_t *size);

struct sg_dev {
    int ordinal;
    const struct sg_profile *profile;
    struct sg_card *card;
    uint64_t memory;
    unsigned sms;
    bool exact; /* allocations end at their last byte */
    char name[SG_NAME_MAX];
    uint8_t uuid[16];
    int pci_domain, pci_bus, pci_device;
    uint64_t primary_handle;
    struct sg_sm *sm;
    /* ---- */
    struct sg_va va;
    struct sg_ctx *primary; /* NULL while inactive */
    unsigned primary_refs;
    unsigned primary_flags;
    struct sg_pool *default_pool, *current_pool;
    struct sg_pool *graph_pool;
    uint64_t used_by_us;                  /* bytes this process was charged */
    uint64_t graph_used, graph_used_high; /* of those, by graphs' allocation nodes */
};

/* -ENODEV: the configuration shows no card. */
int sg_dev_init(const struct sg_conf *conf, struct gp_err *err);
unsigned sg_dev_count(void);
struct sg_dev *sg_dev_get(CUdevice ordinal); /* NULL: no such device */
struct sg_dev *sg_dev_by_uuid(const uint8_t uuid[16]);

/* Value of one CUdevice_attribute; CUDA_ERROR_INVALID_VALUE beyond the last. */
CUresult sg_dev_attr(const struct sg_dev *dev, int attr, int *ret_value);

#endif
