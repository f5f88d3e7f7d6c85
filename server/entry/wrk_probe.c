/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_probe.h"

#include "ctl_limits.h"
#include "drv.h"
#include "gp_err.h"
#include "wrk_cards.h"
#include "wrk_check.h"
#include "wrk_driver.h"
#include "wrk_nvml.h"
#include "wrk_sandbox.h"
#include "xport.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int32_t
attribute(const struct wrk_card *card, CUdevice_attribute a)
{
    return card->attributes[a - 1];
}

static int
probe_card(const struct drv *drv, int index, bool has_nvml, struct gp_err *err)
{
    struct wrk_card card;
    struct wrk_facts facts;
    char uuid[TICKET_UUID_TEXT], fabric[WRK_FABRIC_TEXT] = "";
    CUresult r = wrk_card_read(drv, index, &card);

    if (r == CUDA_SUCCESS)
        r = wrk_cards_facts(drv, card.device, &facts);
    if (r != CUDA_SUCCESS)
        return gp_err_set(err, -ENODEV, "card %d cannot be used (error %d)", index,
                          (int)r);
    ticket_uuid_format((const uint8_t *)card.uuid.bytes, uuid);
    printf("card %d %s %zu %d %d %d %s\n", index, uuid, card.memory,
           attribute(&card, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
           attribute(&card, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
           attribute(&card, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR), card.name);
    printf("facts %" PRId32 " %" PRId32 " %" PRIu32, facts.priority_least,
           facts.priority_greatest, facts.api_version);
    for (unsigned i = 0; i < WRK_LIMITS; i++)
        printf(" %" PRIu64, facts.limits[i]);
    putchar('\n');
    if (has_nvml)
        wrk_nvml_fabric(uuid, fabric);
    if (*fabric)
        printf("fabric %s\n", fabric);
    return 0;
}

/* Native atomics in both directions: NVLink, or what is as good; PCIe has none. */
static bool
linked(const struct drv *drv, CUdevice a, CUdevice b)
{
    const CUdevice_P2PAttribute atomics =
        CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
    int there = 0, back = 0;

    return drv->cuDeviceGetP2PAttribute &&
           drv->cuDeviceGetP2PAttribute(&there, atomics, a, b) == CUDA_SUCCESS &&
           drv->cuDeviceGetP2PAttribute(&back, atomics, b, a) == CUDA_SUCCESS &&
           there && back;
}

/* An island is cards each of which is linked to all the others: the first one found
 * that has a place for @card. */
static uint32_t
island_of(const struct drv *drv, CUdevice card, uint32_t *islands)
{
    uint32_t number = 1;

    for (CUdevice other = 0; other < card; other++)
        if (islands[other] == number && !linked(drv, card, other)) {
            number++;
            other = -1;
        }
    return number;
}

static void
probe_islands(const struct drv *drv, int count, uint32_t *islands)
{
    for (int i = 0; i < count; i++)
        islands[i] = island_of(drv, i, islands);
    for (int i = 0; i < count; i++) {
        int n = 0;

        for (int k = 0; k < count; k++)
            n += islands[k] == islands[i];
        if (n < 2)
            islands[i] = 0;
    }
}

static void
probe_rdma(void)
{
    struct xport_rdma_port ports[XPORT_RDMA_PORTS_MAX];
    size_t n = xport_rdma_ports(ports, NULL);

    for (size_t i = 0; i < n; i++)
        printf("rdma %s\n", ports[i].host);
}

static int
print_cards(const struct drv *drv, int count, const char *driver, struct gp_err *err)
{
    uint32_t islands[CTL_SERVER_CARDS_MAX] = {0};
    bool has_nvml = wrk_nvml_open(driver);
    int r = 0;

    if (has_nvml && wrk_nvml_reports())
        puts("events");
    probe_islands(drv, count, islands);
    for (int i = 0; i < count && r == 0; i++) {
        r = probe_card(drv, i, has_nvml, err);
        if (r == 0 && islands[i])
            printf("island %" PRIu32 "\n", islands[i]);
    }
    return r;
}

/* Without cuInit, which takes memory of every card. */
static int
watch(const struct wrk_probe *what, struct gp_err *err)
{
    if (!wrk_nvml_open(what->driver))
        return gp_err_set(err, -ENOTSUP, "driver %s has no NVML", what->driver);
    return wrk_nvml_watch(err);
}

int
wrk_probe(const struct wrk_probe *what, struct gp_err *err)
{
    static struct drv drv;
    const struct wrk_sandbox box = {
        .user = what->user, .exports = "", .readable = what->readable};
    int version = 0;
    int count = 0;
    CUresult result;
    int r = wrk_driver_open(what->driver, &drv, err);

    if (r == 0)
        r = wrk_sandbox_enter(&box, err);
    if (r < 0)
        return r;
    if (what->events)
        return watch(what, err);
    result = drv.cuInit(0);
    if (result == CUDA_SUCCESS && drv.cuDriverGetVersion)
        result = drv.cuDriverGetVersion(&version);
    if (result == CUDA_SUCCESS)
        result = drv.cuDeviceGetCount(&count);
    if (result != CUDA_SUCCESS)
        return wrk_driver_refused(what->driver, &drv, (int)result, err);
    if (what->check >= 0) {
        r = wrk_check(&drv, what->check);
        return fflush(stdout) == 0 ? r : -errno;
    }
    printf("driver %d\n", version);
    probe_rdma();
    r = print_cards(&drv, gp_min(count, CTL_SERVER_CARDS_MAX), what->driver, err);
    return fflush(stdout) == 0 ? r : -errno;
}
