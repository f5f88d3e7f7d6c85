/* SPDX-License-Identifier: Apache-2.0 */
/* Our own table: slices for the management library; see stub_nvml_table.h. */
#include "attach.pb-c.h"
#include "gp_base.h"
#include "stub_call.h"
#include "stub_device.h"
#include "stub_link.h"
#include "stub_nvml_table.h"
#include "stub_open.h"
#include "stub_table.h"
#include "wire_api.h"

#include <string.h>

static CUresult
nvml_open(uint32_t *ret_cards, int *ret_driver_version)
{
    CUresult r = stub_open();

    if (r != CUDA_SUCCESS)
        return r;
    *ret_cards = 0;
    for (uint32_t i = 0; i < stub_links_n; i++)
        *ret_cards += (uint32_t)stub_links[i].attach->n_devices;
    *ret_driver_version = stub_link_driver_version();
    return CUDA_SUCCESS;
}

static CUresult
nvml_card(uint32_t index, struct stub_nvml_card *ret)
{
    struct stub_device dev;
    CUresult r = stub_open();

    if (r != CUDA_SUCCESS)
        return r;
    if (!stub_device_nth(index, &dev))
        return CUDA_ERROR_INVALID_DEVICE;
    *ret = (struct stub_nvml_card){
        .name = dev.info->name,
        .pci_bus_id = dev.info->pci_bus_id,
        .uuid = dev.info->uuid.data,
        .memory = dev.info->total_mem,
        .core_percent = dev.info->core_percent,
        .cc_major =
            stub_device_attr(&dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
        .cc_minor =
            stub_device_attr(&dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        .multiprocessors =
            stub_device_attr(&dev, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        .pci_domain = stub_device_attr(&dev, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
        .pci_bus = stub_device_attr(&dev, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
        .pci_device = stub_device_attr(&dev, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID),
        .clock_khz = stub_device_attr(&dev, CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
        .memory_clock_khz =
            stub_device_attr(&dev, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
        .memory_bus_bits =
            stub_device_attr(&dev, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH),
    };
    return CUDA_SUCCESS;
}

/* Begin a question about slice @index to its server; *ret_wire is its number there. */
static CUresult
nvml_query(struct stub_call *c, uint32_t index, uint16_t call, uint32_t size,
           uint32_t *ret_wire)
{
    struct stub_device dev;
    CUresult r = stub_open();

    if (r != CUDA_SUCCESS)
        return r;
    if (!stub_device_nth(index, &dev))
        return CUDA_ERROR_INVALID_DEVICE;
    *ret_wire = dev.wire;
    return stub_call_begin_on(c, dev.link, call, size);
}

static CUresult
nvml_memory(uint32_t index, uint64_t *ret_limit, uint64_t *ret_used)
{
    struct wire_gp_card_info_rep_view rep = {0};
    struct wire_gp_card_info_req req = {0};
    struct stub_call c;
    CUresult r = nvml_query(&c, index, WIRE_CALL_gp_card_info, sizeof(req), &req.slice);

    if (r != CUDA_SUCCESS)
        return r;
    memcpy(c.body, &req, sizeof(req));
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS &&
        !wire_gp_card_info_rep_open(&rep, c.reply, c.reply_size, 0))
        r = stub_call_bad(WIRE_CALL_gp_card_info);
    if (r == CUDA_SUCCESS) {
        *ret_limit = rep.f->limit;
        *ret_used = rep.f->used;
    }
    stub_call_end(&c);
    return r;
}

static void
nvml_take_use(struct stub_nvml_use *ret, const struct wire_gp_card_use_rep_view *rep)
{
    *ret = (struct stub_nvml_use){.gpu_ns = rep->f->gpu_ns, .now_ns = rep->f->now_ns};
    ret->n = gp_min(gp_min(rep->f->n_pids, rep->f->n_bytes),
                    (uint32_t)ARRAY_SIZE(ret->pids));
    if (ret->n) { /* else there are no arrays either */
        memcpy(ret->pids, rep->pids, ret->n * sizeof(ret->pids[0]));
        memcpy(ret->bytes, rep->bytes, ret->n * sizeof(ret->bytes[0]));
    }
}

static CUresult
nvml_use(uint32_t index, struct stub_nvml_use *ret)
{
    struct wire_gp_card_use_rep_view rep = {0};
    struct wire_gp_card_use_req req = {0};
    struct stub_call c;
    CUresult r = nvml_query(&c, index, WIRE_CALL_gp_card_use, sizeof(req), &req.slice);

    if (r != CUDA_SUCCESS)
        return r;
    memcpy(c.body, &req, sizeof(req));
    r = stub_call_wait(&c);
    if (r == CUDA_SUCCESS &&
        !wire_gp_card_use_rep_open(&rep, c.reply, c.reply_size, c.reply_flags))
        r = stub_call_bad(WIRE_CALL_gp_card_use);
    if (r == CUDA_SUCCESS)
        nvml_take_use(ret, &rep);
    stub_call_end(&c);
    return r;
}

/* Cards of different servers never reach each other's memory. */
static CUresult
nvml_peers(uint32_t index, uint32_t other, int *ret_can)
{
    struct stub_device a, b;
    CUresult r = stub_open();

    if (r != CUDA_SUCCESS)
        return r;
    if (!stub_device_nth(index, &a) || !stub_device_nth(other, &b))
        return CUDA_ERROR_INVALID_DEVICE;
    *ret_can = a.link == b.link && index != other &&
               b.wire < a.info->n_can_access_peer && a.info->can_access_peer[b.wire];
    return CUDA_SUCCESS;
}

static const struct stub_nvml_table words = {
    .size = sizeof(words),
    .open = nvml_open,
    .card = nvml_card,
    .memory = nvml_memory,
    .use = nvml_use,
    .peers = nvml_peers,
};

const struct stub_table stub_table_nvml = {
    .name = "gpupool cards",
    .id = STUB_NVML_TABLE_ID,
    .words = &words,
};
