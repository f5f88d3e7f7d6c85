/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session's cards as the driver shows them: everything that never changes,
 * read once at attach.
 *
 * Filled by wrk_cards_read(); read only afterwards, any thread.
 */
#ifndef WRK_CARDS_H
#define WRK_CARDS_H

#include "cuda_abi.h"
#include "ticket.h"
#include "wrk_conf.h"

#include <stdbool.h>
#include <stdint.h>

struct drv;
struct gp_err;

#define WRK_ATTRIBUTES CU_DEVICE_ATTRIBUTE_MAX

struct wrk_card {
    CUdevice device;
    char name[256];
    char pci[32];
    CUuuid uuid;
    char luid[8];
    unsigned luid_mask;
    bool has_luid;
    size_t memory;                      /* of the whole card */
    int32_t attributes[WRK_ATTRIBUTES]; /* [i]: attribute i + 1 */
    uint8_t attribute_ok[WRK_ATTRIBUTES];
    bool peer[TICKET_SLICES_MAX];
};

struct wrk_cards {
    struct wrk_card card[TICKET_SLICES_MAX];
    uint32_t n;
    int driver_version;
};

/* After cuInit.  -ENODEV: the driver does not show the cards of @conf, in order.
 * -EPERM: kernels on one would reach this process's memory, which @conf does not allow.
 */
int wrk_cards_read(const struct drv *drv, const struct wrk_conf *conf,
                   struct wrk_cards *cards, struct gp_err *err);

/* What a context of device @dev shows, read by making one; for the probe. */
CUresult wrk_cards_facts(const struct drv *drv, CUdevice dev, struct wrk_facts *facts);

/* Read one card (the probe reads them all). */
CUresult wrk_card_read(const struct drv *drv, int ordinal, struct wrk_card *card);

#endif
