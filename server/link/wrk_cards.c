/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_cards.h"

#include "drv.h"
#include "gp_err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void
read_attributes(const struct drv *drv, struct wrk_card *card)
{
    for (int i = 0; i < WRK_ATTRIBUTES; i++) {
        int value = 0;

        if (drv->cuDeviceGetAttribute(&value, (CUdevice_attribute)(i + 1),
                                      card->device) != CUDA_SUCCESS)
            continue;
        card->attributes[i] = value;
        card->attribute_ok[i] = 1;
    }
}

CUresult
wrk_card_read(const struct drv *drv, int ordinal, struct wrk_card *card)
{
    CUresult r;

    *card = (struct wrk_card){0};
    if (!drv->cuDeviceGet || !drv->cuDeviceGetName || !drv->cuDeviceTotalMem_v2 ||
        !drv->cuDeviceGetAttribute)
        return CUDA_ERROR_NOT_SUPPORTED;
    r = drv->cuDeviceGet(&card->device, ordinal);
    if (r == CUDA_SUCCESS)
        r = drv->cuDeviceGetName(card->name, sizeof(card->name) - 1, card->device);
    if (r == CUDA_SUCCESS)
        r = drv->cuDeviceTotalMem_v2(&card->memory, card->device);
    if (r != CUDA_SUCCESS)
        return r;
    if (drv->cuDeviceGetUuid_v2)
        r = drv->cuDeviceGetUuid_v2(&card->uuid, card->device);
    else if (drv->cuDeviceGetUuid)
        r = drv->cuDeviceGetUuid(&card->uuid, card->device);
    if (drv->cuDeviceGetPCIBusId)
        drv->cuDeviceGetPCIBusId(card->pci, sizeof(card->pci), card->device);
    if (drv->cuDeviceGetLuid)
        card->has_luid = drv->cuDeviceGetLuid(card->luid, &card->luid_mask,
                                              card->device) == CUDA_SUCCESS;
    read_attributes(drv, card);
    return r;
}

CUresult
wrk_cards_facts(const struct drv *drv, CUdevice dev, struct wrk_facts *facts)
{
    CUcontext ctx = NULL;
    CUresult r;

    *facts = (struct wrk_facts){0};
    if (!drv->cuDevicePrimaryCtxRetain || !drv->cuCtxSetCurrent)
        return CUDA_ERROR_NOT_SUPPORTED;
    r = drv->cuDevicePrimaryCtxRetain(&ctx, dev);
    if (r == CUDA_SUCCESS)
        r = drv->cuCtxSetCurrent(ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (drv->cuCtxGetStreamPriorityRange)
        drv->cuCtxGetStreamPriorityRange(&facts->priority_least,
                                         &facts->priority_greatest);
    if (drv->cuCtxGetApiVersion)
        drv->cuCtxGetApiVersion(ctx, &facts->api_version);
    for (unsigned i = 0; i < WRK_LIMITS && drv->cuCtxGetLimit; i++) {
        size_t value = 0;

        if (drv->cuCtxGetLimit(&value, (CUlimit)i) == CUDA_SUCCESS)
            facts->limits[i] = value;
    }
    drv->cuCtxSetCurrent(NULL);
    if (drv->cuDevicePrimaryCtxRelease_v2)
        drv->cuDevicePrimaryCtxRelease_v2(dev);
    return CUDA_SUCCESS;
}

static void
read_peers(const struct drv *drv, struct wrk_cards *cards)
{
    if (!drv->cuDeviceCanAccessPeer)
        return;
    for (uint32_t i = 0; i < cards->n; i++) {
        for (uint32_t j = 0; j < cards->n; j++) {
            int can = 0;

            if (i != j &&
                drv->cuDeviceCanAccessPeer(&can, cards->card[i].device,
                                           cards->card[j].device) == CUDA_SUCCESS)
                cards->card[i].peer[j] = can != 0;
        }
    }
}

/* With HMM or ATS a kernel's address may be any of this process (docs/security.md). */
static bool
reaches_us(const struct wrk_card *card)
{
    return card->attributes[CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS - 1] != 0;
}

int
wrk_cards_read(const struct drv *drv, const struct wrk_conf *conf,
               struct wrk_cards *cards, struct gp_err *err)
{
    int count = 0;
    CUresult r = drv->cuDeviceGetCount(&count);

    if (r != CUDA_SUCCESS)
        return gp_err_set(err, -ENODEV, "cuDeviceGetCount failed with %d", (int)r);
    if ((uint32_t)count != conf->n_slices)
        return gp_err_set(err, -ENODEV, "the driver shows %d cards of the session's %u",
                          count, conf->n_slices);
    if (drv->cuDriverGetVersion)
        drv->cuDriverGetVersion(&cards->driver_version);
    cards->n = conf->n_slices;
    for (uint32_t i = 0; i < cards->n; i++) {
        r = wrk_card_read(drv, (int)i, &cards->card[i]);
        if (r != CUDA_SUCCESS)
            return gp_err_set(err, -ENODEV, "card %u cannot be read (%d)", i, (int)r);
        if (memcmp(cards->card[i].uuid.bytes, conf->slices[i].card_uuid,
                   TICKET_UUID_SIZE) != 0)
            return gp_err_set(err, -ENODEV, "card %u is not the session's", i);
        if (cards->card[i].device != (CUdevice)i)
            return gp_err_set(err, -ENODEV, "card %u has another ordinal", i);
        if (reaches_us(&cards->card[i]) && !conf->pageable)
            return gp_err_set(err, -EPERM,
                              "card %u reaches all memory of the worker's process (HMM "
                              "or ATS), which a kernel could read and write: refused "
                              "without --pageable-access allow",
                              i);
    }
    read_peers(drv, cards);
    return 0;
}
