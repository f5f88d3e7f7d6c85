/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device attributes: one table for what is the same on every software card, one
 * switch for what follows from the card's configuration.
 *
 * An attribute that promises a feature says 1 only when the feature is behind
 * it.  Numbers of the table that are not listed are 0: known to this version of
 * the interface, and absent here.
 */
#include "sg_dev.h"

#include "sg_core.h"
#include "sg_udmabuf.h"

#define ATTR(name) CU_DEVICE_ATTRIBUTE_##name

static const int fixed[CU_DEVICE_ATTRIBUTE_MAX] = {
    [ATTR(MAX_THREADS_PER_BLOCK)] = 1024,
    [ATTR(MAX_BLOCK_DIM_X)] = 1024,
    [ATTR(MAX_BLOCK_DIM_Y)] = 1024,
    [ATTR(MAX_BLOCK_DIM_Z)] = 64,
    [ATTR(MAX_GRID_DIM_X)] = 0x7fffffff,
    [ATTR(MAX_GRID_DIM_Y)] = 65535,
    [ATTR(MAX_GRID_DIM_Z)] = 65535,
    [ATTR(MAX_SHARED_MEMORY_PER_BLOCK)] = 49152,
    [ATTR(TOTAL_CONSTANT_MEMORY)] = 65536,
    [ATTR(WARP_SIZE)] = 32,
    [ATTR(MAX_PITCH)] = 0x7fffffff,
    [ATTR(MAX_REGISTERS_PER_BLOCK)] = 65536,
    [ATTR(CLOCK_RATE)] = 1000000,
    [ATTR(TEXTURE_ALIGNMENT)] = 512,
    [ATTR(GPU_OVERLAP)] = 1,
    [ATTR(CAN_MAP_HOST_MEMORY)] = 1,
    [ATTR(MAXIMUM_TEXTURE1D_WIDTH)] = 131072,
    [ATTR(MAXIMUM_TEXTURE2D_WIDTH)] = 131072,
    [ATTR(MAXIMUM_TEXTURE2D_HEIGHT)] = 65536,
    [ATTR(MAXIMUM_TEXTURE3D_WIDTH)] = 16384,
    [ATTR(MAXIMUM_TEXTURE3D_HEIGHT)] = 16384,
    [ATTR(MAXIMUM_TEXTURE3D_DEPTH)] = 16384,
    [ATTR(MAXIMUM_TEXTURE2D_LAYERED_WIDTH)] = 32768,
    [ATTR(MAXIMUM_TEXTURE2D_LAYERED_HEIGHT)] = 32768,
    [ATTR(MAXIMUM_TEXTURE2D_LAYERED_LAYERS)] = 2048,
    [ATTR(SURFACE_ALIGNMENT)] = 512,
    [ATTR(CONCURRENT_KERNELS)] = 1,
    [ATTR(MEMORY_CLOCK_RATE)] = 1000000,
    [ATTR(GLOBAL_MEMORY_BUS_WIDTH)] = 128,
    [ATTR(ASYNC_ENGINE_COUNT)] = 2,
    [ATTR(UNIFIED_ADDRESSING)] = 1,
    [ATTR(MAXIMUM_TEXTURE1D_LAYERED_WIDTH)] = 32768,
    [ATTR(MAXIMUM_TEXTURE1D_LAYERED_LAYERS)] = 2048,
    [ATTR(CAN_TEX2D_GATHER)] = 1,
    [ATTR(MAXIMUM_TEXTURE2D_GATHER_WIDTH)] = 32768,
    [ATTR(MAXIMUM_TEXTURE2D_GATHER_HEIGHT)] = 32768,
    [ATTR(MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE)] = 8192,
    [ATTR(MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE)] = 8192,
    [ATTR(MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE)] = 32768,
    [ATTR(TEXTURE_PITCH_ALIGNMENT)] = 32,
    [ATTR(MAXIMUM_TEXTURECUBEMAP_WIDTH)] = 32768,
    [ATTR(MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH)] = 32768,
    [ATTR(MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS)] = 2046,
    [ATTR(MAXIMUM_SURFACE1D_WIDTH)] = 32768,
    [ATTR(MAXIMUM_SURFACE2D_WIDTH)] = 131072,
    [ATTR(MAXIMUM_SURFACE2D_HEIGHT)] = 65536,
    [ATTR(MAXIMUM_SURFACE3D_WIDTH)] = 16384,
    [ATTR(MAXIMUM_SURFACE3D_HEIGHT)] = 16384,
    [ATTR(MAXIMUM_SURFACE3D_DEPTH)] = 16384,
    [ATTR(MAXIMUM_SURFACE1D_LAYERED_WIDTH)] = 32768,
    [ATTR(MAXIMUM_SURFACE1D_LAYERED_LAYERS)] = 2048,
    [ATTR(MAXIMUM_SURFACE2D_LAYERED_WIDTH)] = 32768,
    [ATTR(MAXIMUM_SURFACE2D_LAYERED_HEIGHT)] = 32768,
    [ATTR(MAXIMUM_SURFACE2D_LAYERED_LAYERS)] = 2048,
    [ATTR(MAXIMUM_SURFACECUBEMAP_WIDTH)] = 32768,
    [ATTR(MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH)] = 32768,
    [ATTR(MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS)] = 2046,
    [ATTR(MAXIMUM_TEXTURE1D_LINEAR_WIDTH)] = 268435456,
    [ATTR(MAXIMUM_TEXTURE2D_LINEAR_WIDTH)] = 131072,
    [ATTR(MAXIMUM_TEXTURE2D_LINEAR_HEIGHT)] = 65000,
    [ATTR(MAXIMUM_TEXTURE2D_LINEAR_PITCH)] = 2097120,
    [ATTR(MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH)] = 32768,
    [ATTR(MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT)] = 32768,
    [ATTR(MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH)] = 32768,
    [ATTR(STREAM_PRIORITIES_SUPPORTED)] = 1,
    [ATTR(GLOBAL_L1_CACHE_SUPPORTED)] = 1,
    [ATTR(LOCAL_L1_CACHE_SUPPORTED)] = 1,
    [ATTR(MAX_REGISTERS_PER_MULTIPROCESSOR)] = 65536,
    [ATTR(MANAGED_MEMORY)] = 1,
    [ATTR(HOST_NATIVE_ATOMIC_SUPPORTED)] = 1,
    [ATTR(CONCURRENT_MANAGED_ACCESS)] = 1,
    [ATTR(COMPUTE_PREEMPTION_SUPPORTED)] = 1,
    [ATTR(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM)] = 1,
    [ATTR(CAN_USE_STREAM_MEM_OPS_V1)] = 1,
    [ATTR(CAN_USE_64_BIT_STREAM_MEM_OPS_V1)] = 1,
    [ATTR(CAN_USE_STREAM_WAIT_VALUE_NOR_V1)] = 1,
    [ATTR(COOPERATIVE_LAUNCH)] = 1,
    [ATTR(HOST_REGISTER_SUPPORTED)] = 1,
    [ATTR(DIRECT_MANAGED_MEM_ACCESS_FROM_HOST)] = 1,
    [ATTR(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)] = 1,
    [ATTR(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)] = 1,
    [ATTR(MEMPOOL_SUPPORTED_HANDLE_TYPES)] = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    [ATTR(MAX_ACCESS_POLICY_WINDOW_SIZE)] = 128 << 20,
    [ATTR(RESERVED_SHARED_MEMORY_PER_BLOCK)] = 1024,
    /* It is ordinary memory, coherent for whoever writes there. */
    [ATTR(GPU_DIRECT_RDMA_WRITES_ORDERING)] =
        CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES,
    [ATTR(READ_ONLY_HOST_REGISTER_SUPPORTED)] = 1,
    [ATTR(MEMORY_POOLS_SUPPORTED)] = 1,
    [ATTR(CAN_USE_64_BIT_STREAM_MEM_OPS)] = 1,
    [ATTR(CAN_USE_STREAM_WAIT_VALUE_NOR)] = 1,
    [ATTR(IPC_EVENT_SUPPORTED)] = 1,
    [ATTR(NUMA_ID)] = -1,
};

static int
persisting_l2(const struct sg_dev *dev)
{
    return dev->profile->major >= 8 ? dev->profile->l2_bytes / 4 * 3 : 0;
}

unsigned
sg_dev_domains(const struct sg_dev *dev)
{
    return dev->profile->major >= 9 ? 4 : 1;
}

CUlaunchMemSyncDomainMap
sg_dev_domain_map(const struct sg_dev *dev)
{
    return (CUlaunchMemSyncDomainMap){.remote = sg_dev_domains(dev) > 1};
}

CUresult
sg_dev_attr(const struct sg_dev *dev, int attr, int *ret_value)
{
    const struct sg_profile *prof = dev->profile;

    if (attr <= 0 || attr >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attr) {
    case ATTR(MULTIPROCESSOR_COUNT):
        *ret_value = (int)dev->sms;
        break;
    case ATTR(KERNEL_EXEC_TIMEOUT):
        *ret_value = dev->time_limit_ns != 0;
        break;
    case ATTR(PCI_BUS_ID):
        *ret_value = dev->pci_bus;
        break;
    case ATTR(PCI_DEVICE_ID):
        *ret_value = dev->pci_device;
        break;
    case ATTR(PCI_DOMAIN_ID):
        *ret_value = dev->pci_domain;
        break;
    case ATTR(L2_CACHE_SIZE):
        *ret_value = prof->l2_bytes;
        break;
    case ATTR(MAX_PERSISTING_L2_CACHE_SIZE):
        *ret_value = persisting_l2(dev);
        break;
    case ATTR(MAX_THREADS_PER_MULTIPROCESSOR):
        *ret_value = prof->threads_per_sm;
        break;
    case ATTR(MAX_BLOCKS_PER_MULTIPROCESSOR):
        *ret_value = prof->blocks_per_sm;
        break;
    case ATTR(COMPUTE_CAPABILITY_MAJOR):
        *ret_value = prof->major;
        break;
    case ATTR(COMPUTE_CAPABILITY_MINOR):
        *ret_value = prof->minor;
        break;
    case ATTR(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR):
        *ret_value = prof->shared_per_sm;
        break;
    case ATTR(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN):
        *ret_value = prof->shared_optin;
        break;
    case ATTR(CLUSTER_LAUNCH):
        *ret_value = prof->major >= 9;
        break;
    case ATTR(MEM_SYNC_DOMAIN_COUNT):
        *ret_value = (int)sg_dev_domains(dev);
        break;
    case ATTR(SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO):
        *ret_value = prof->fp64_ratio;
        break;
    case ATTR(DMA_BUF_SUPPORTED):
        *ret_value = sg_udmabuf() >= 0;
        break;
    case ATTR(MULTI_GPU_BOARD_GROUP_ID):
        *ret_value = dev->ordinal;
        break;
    default:
        *ret_value = fixed[attr];
        break;
    }
    return CUDA_SUCCESS;
}
