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

/* Device addresses are host addresses in arenas far from where the kernel puts
 * anything by itself, the same in every process: one for each card, two for reserved
 * addresses (cuMemAddressReserve), one for managed memory. */
struct sg_arenas {
    uint64_t base, size; /* of the first; of each */
};
#define SG_ARENAS (SG_MAX_CARDS + 3)

/* Those of this machine.  Any thread. */
const struct sg_arenas *sg_dev_arenas(void);

#define SG_ARENA_SIZE (sg_dev_arenas()->size)
#define SG_ARENA(i) (sg_dev_arenas()->base + (i)*SG_ARENA_SIZE)
#define SG_VMM_BASE SG_ARENA(SG_MAX_CARDS)
#define SG_VMM_SIZE (SG_ARENA_SIZE * 2)
#define SG_MANAGED_BASE SG_ARENA(SG_MAX_CARDS + 2)
#define SG_MANAGED_SIZE SG_ARENA_SIZE

/* Narrow an arena to the part that this process may use (SOFTGPU_ADDRESS_SLOT). */
void sg_dev_slot(uint64_t *base, uint64_t *size);

struct sg_dev {
    int ordinal;
    const struct sg_profile *profile;
    struct sg_card *card;
    uint64_t memory;
    unsigned sms;
    bool exact;             /* allocations end at their last byte */
    uint64_t time_limit_ns; /* of a launch; 0: none */
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
    uint64_t used_by_us; /* bytes this process was charged (sg_notice.h) */
    uint64_t budget;     /* of those; 0: none */
    bool over_budget;
    uint64_t graph_used, graph_used_high; /* of those, by graphs' allocation nodes */
};

/* -ENODEV: the configuration shows no card. */
int sg_dev_init(const struct sg_conf *conf, struct gp_err *err);
/* Leaves no card half open: cuInit may be tried again. */
void sg_dev_fini(void);
unsigned sg_dev_count(void);
struct sg_dev *sg_dev_get(CUdevice ordinal); /* NULL: no such device */
/* sg_enter_init() for a call about @ordinal; CUDA_ERROR_INVALID_DEVICE, and the lock is
 * not held, when there is none. */
CUresult sg_dev_enter(CUdevice ordinal, struct sg_dev **ret_dev);
struct sg_dev *sg_dev_by_uuid(const uint8_t uuid[16]);

/* Value of one CUdevice_attribute; CUDA_ERROR_INVALID_VALUE beyond the last. */
CUresult sg_dev_attr(const struct sg_dev *dev, int attr, int *ret_value);

/* How many memory synchronization domains a device has, and which of them kernels are
 * in unless somebody says otherwise. */
unsigned sg_dev_domains(const struct sg_dev *dev);
CUlaunchMemSyncDomainMap sg_dev_domain_map(const struct sg_dev *dev);

#endif
