/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is mapped by hand, pools of the program's own, hints about managed
 * memory, and what the host and kernels do with each other's memory. */
#include "replay.h"

#include <string.h>

/* ---- mapped ---- */

static CUmemLocation
place(num number)
{
    return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE,
                           .id = replay_card(number)};
}

static void
vm_drop(struct replay_vm *vm)
{
    if (vm->mapped)
        cuMemUnmap(vm->at, vm->size);
    if (vm->handle)
        cuMemRelease(vm->handle);
    if (vm->at)
        cuMemAddressFree(vm->at, vm->size);
    *vm = (struct replay_vm){0};
}

static CUresult
vm_make(struct replay_vm *vm, num bytes, num number)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = place(number)};
    CUmemAccessDesc access = {.location = prop.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    size_t grain = 0;
    CUresult r =
        cuMemGetAllocationGranularity(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);

    if (r != CUDA_SUCCESS || !grain)
        return r;
    vm->size = ((size_t)bytes + grain - 1) / grain * grain;
    r = cuMemAddressReserve(&vm->at, vm->size, 0, 0, 0);
    if (r == CUDA_SUCCESS)
        r = cuMemCreate(&vm->handle, vm->size, &prop, 0);
    if (r == CUDA_SUCCESS)
        r = cuMemMap(vm->at, vm->size, 0, vm->handle, 0);
    vm->mapped = r == CUDA_SUCCESS;
    return r == CUDA_SUCCESS ? cuMemSetAccess(vm->at, vm->size, &access, 1) : r;
}

/* DEVICE SIZE CARD */
OP(vm)
{
    struct replay_vm *vm = &rp.vms[a[0]];
    CUresult r;

    vm_drop(vm);
    r = vm_make(vm, a[1], a[2]);
    if (r != CUDA_SUCCESS)
        vm_drop(vm);
    rp.devs[a[0]] = (struct replay_dev){vm->at, (size_t)a[1]};
    replay_own(REPLAY_DEV, a[0]);
    return (int)r;
}

OP(vmd)
{
    struct replay_vm *vm = &rp.vms[a[0]];
    CUresult r;

    if (!vm->at || rp.devs[a[0]].at != vm->at)
        return NO_OBJECT;
    rp.devs[a[0]].at = 0;
    r = cuMemUnmap(vm->at, vm->size);
    vm->mapped = r != CUDA_SUCCESS;
    replay_say(" %d", (int)r);
    r = cuMemRelease(vm->handle);
    vm->handle = 0;
    replay_say(" %d", (int)r);
    r = cuMemAddressFree(vm->at, vm->size);
    *vm = (struct replay_vm){0};
    return (int)r;
}

void
replay_drop_mapped(void)
{
    for (int i = 0; i < REPLAY_SLOTS; i++) {
        vm_drop(&rp.vms[i]);
        if (rp.pools[i])
            cuMemPoolDestroy(rp.pools[i]);
        rp.pools[i] = NULL;
    }
}

/* ---- pools ---- */

/* POOL CARD */
OP(pl)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = place(a[1])};

    return (int)cuMemPoolCreate(&rp.pools[a[0]], &props);
}

OP(pld)
{
    CUmemoryPool pool = rp.pools[a[0]];

    rp.pools[a[0]] = NULL;
    return pool ? (int)cuMemPoolDestroy(pool) : NO_OBJECT;
}

/* DEVICE SIZE POOL STREAM */
OP(pla)
{
    CUdeviceptr at = 0;
    CUresult r;

    if (!rp.pools[a[2]] || !replay_stream_is(a[3]))
        return NO_OBJECT;
    r = cuMemAllocFromPoolAsync(&at, (size_t)a[1], rp.pools[a[2]], replay_stream(a[3]));
    rp.devs[a[0]] = (struct replay_dev){r == CUDA_SUCCESS ? at : 0, (size_t)a[1]};
    replay_own(REPLAY_DEV, a[0]);
    return (int)r;
}

/* POOL BYTES */
OP(pltrim)
{
    return rp.pools[a[0]] ? (int)cuMemPoolTrimTo(rp.pools[a[0]], (size_t)a[1])
                          : NO_OBJECT;
}

/* POOL HIGH: what is in use, and if HIGH the most that was. */
OP(pluse)
{
    cuuint64_t used = 0, high = 0;
    CUresult r;

    if (!rp.pools[a[0]])
        return NO_OBJECT;
    r = cuMemPoolGetAttribute(rp.pools[a[0]], CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
    if (r == CUDA_SUCCESS && a[1])
        r = cuMemPoolGetAttribute(rp.pools[a[0]], CU_MEMPOOL_ATTR_USED_MEM_HIGH, &high);
    replay_say(" %llu %llu", (unsigned long long)used, (unsigned long long)high);
    return (int)r;
}

/* POOL */
OP(plhigh)
{
    cuuint64_t none = 0;

    return rp.pools[a[0]] ? (int)cuMemPoolSetAttribute(
                                rp.pools[a[0]], CU_MEMPOOL_ATTR_USED_MEM_HIGH, &none)
                          : NO_OBJECT;
}

/* POOL, which is the current one of CARD from now on; -1: the default one. */
OP(plset)
{
    CUdevice dev = replay_card(a[1]);
    CUmemoryPool pool = a[0] < 0 ? NULL : rp.pools[a[0]];

    if (a[0] < 0)
        cuDeviceGetDefaultMemPool(&pool, dev);
    return pool ? (int)cuDeviceSetMemPool(dev, pool) : NO_OBJECT;
}

/* ---- managed memory ---- */

static CUdevice
card_or_host(num number)
{
    return number < 0 ? CU_DEVICE_CPU : replay_card(number);
}

/* DEVICE OFFSET N ADVICE CARD */
OP(adv)
{
    CUdeviceptr at = rp.devs[a[0]].at + (CUdeviceptr)a[1];

    return rp.devs[a[0]].at ? (int)cuMemAdvise(at, (size_t)a[2], (CUmem_advise)a[3],
                                               card_or_host(a[4]))
                            : NO_OBJECT;
}

/* DEVICE OFFSET N CARD STREAM */
OP(pre)
{
    CUdeviceptr at = rp.devs[a[0]].at + (CUdeviceptr)a[1];

    return rp.devs[a[0]].at && replay_stream_is(a[4])
               ? (int)cuMemPrefetchAsync(at, (size_t)a[2], card_or_host(a[3]),
                                         replay_stream(a[4]))
               : NO_OBJECT;
}

/* DEVICE VALUE: the host writes it. */
OP(mfill)
{
    uint8_t *at = (uint8_t *)(uintptr_t)rp.devs[a[0]].at;

    if (!at)
        return NO_OBJECT;
    for (size_t i = 0; i < rp.devs[a[0]].size; i++)
        at[i] = (uint8_t)((uint64_t)a[1] * 13 + i * 11 + (i >> 9));
    return 0;
}

OP(mhash)
{
    const uint8_t *at = (const uint8_t *)(uintptr_t)rp.devs[a[0]].at;

    if (!at)
        return NO_OBJECT;
    replay_say(" %08x", replay_hash(at, rp.devs[a[0]].size));
    return 0;
}

/* ---- kernels on host memory, copies of boxes ---- */

/* HOST N K STREAM */
OP(hstep)
{
    CUfunction f = replay_kernel(REPLAY_STEP);
    unsigned n = (unsigned)a[1], k = (unsigned)a[2];
    CUdeviceptr at = 0;
    void *args[] = {&at, &n, &k};
    CUresult r;

    if (!rp.hosts[a[0]].at || !f || !replay_stream_is(a[3]) ||
        (size_t)n * 4 > rp.hosts[a[0]].size)
        return NO_OBJECT;
    r = cuMemHostGetDevicePointer_v2(&at, rp.hosts[a[0]].at, 0);
    return r == CUDA_SUCCESS ? (int)cuLaunchKernel(f, (n + 63) / 64, 1, 1, 64, 1, 1, 0,
                                                   replay_stream(a[3]), args, NULL)
                             : (int)r;
}

/* DEVICE HOST WIDTH HEIGHT DEPTH UP STREAM: packed in the host's memory, a byte between
 * rows and a row between layers on the device */
OP(box)
{
    CUDA_MEMCPY3D p = {
        .WidthInBytes = (size_t)a[2], .Height = (size_t)a[3], .Depth = (size_t)a[4]};
    size_t pitch = p.WidthInBytes + 1, height = p.Height + 1;

    if (!rp.devs[a[0]].at || !replay_host_has(a[1], 0, a[2] * a[3] * a[4]) ||
        pitch * height * p.Depth > rp.devs[a[0]].size || !replay_stream_is(a[6]))
        return NO_OBJECT;
    p.srcMemoryType = a[5] ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    p.dstMemoryType = a[5] ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    p.srcHost = p.dstHost = rp.hosts[a[1]].at;
    p.srcDevice = p.dstDevice = rp.devs[a[0]].at;
    p.srcPitch = a[5] ? p.WidthInBytes : pitch;
    p.dstPitch = a[5] ? pitch : p.WidthInBytes;
    p.srcHeight = a[5] ? p.Height : height;
    p.dstHeight = a[5] ? height : p.Height;
    return (int)(a[6] < 0 ? cuMemcpy3D_v2(&p)
                          : cuMemcpy3DAsync_v2(&p, replay_stream(a[6])));
}

/* TO FROM WIDTH HEIGHT DEPTH STREAM: between contexts; packed in the memory it comes
 * from, a byte between rows and a row between layers where it goes */
OP(pbox)
{
    CUDA_MEMCPY3D_PEER p = {
        .WidthInBytes = (size_t)a[2], .Height = (size_t)a[3], .Depth = (size_t)a[4]};
    size_t pitch = p.WidthInBytes + 1, height = p.Height + 1;

    if (!rp.devs[a[0]].at || !rp.devs[a[1]].at || !replay_stream_is(a[5]) ||
        pitch * height * p.Depth > rp.devs[a[0]].size ||
        p.WidthInBytes * p.Height * p.Depth > rp.devs[a[1]].size)
        return NO_OBJECT;
    p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    p.srcDevice = rp.devs[a[1]].at;
    p.dstDevice = rp.devs[a[0]].at;
    p.srcContext = rp.ctxs[rp.owner[REPLAY_DEV][a[1]]];
    p.dstContext = rp.ctxs[rp.owner[REPLAY_DEV][a[0]]];
    p.srcPitch = p.WidthInBytes;
    p.dstPitch = pitch;
    p.srcHeight = p.Height;
    p.dstHeight = height;
    return (int)(a[5] < 0 ? cuMemcpy3DPeer(&p)
                          : cuMemcpy3DPeerAsync(&p, replay_stream(a[5])));
}

/* ---- nodes of graphs ---- */

static bool
node_place(num graph, num after)
{
    return rp.graphs[graph] && (after < 0 || rp.nodes[after]);
}

struct step_args {
    CUdeviceptr at;
    unsigned n, k;
    void *list[3];
};

static bool
step_params(CUDA_KERNEL_NODE_PARAMS *p, struct step_args *args, num dev, num n, num k)
{
    *args =
        (struct step_args){.at = rp.devs[dev].at, .n = (unsigned)n, .k = (unsigned)k};
    args->list[0] = &args->at;
    args->list[1] = &args->n;
    args->list[2] = &args->k;
    *p = (CUDA_KERNEL_NODE_PARAMS){.func = replay_kernel(REPLAY_STEP),
                                   .gridDimX = (args->n + 63) / 64,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = 64,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .kernelParams = args->list};
    return args->at && p->func && (size_t)n * 4 <= rp.devs[dev].size;
}

/* NODE GRAPH AFTER DEVICE N K */
OP(gkern)
{
    CUDA_KERNEL_NODE_PARAMS p;
    struct step_args args;

    if (!node_place(a[1], a[2]) || !step_params(&p, &args, a[3], a[4], a[5]))
        return NO_OBJECT;
    replay_own(REPLAY_NODE, a[0]);
    return (int)cuGraphAddKernelNode_v2(&rp.nodes[a[0]], rp.graphs[a[1]],
                                        a[2] < 0 ? NULL : &rp.nodes[a[2]], a[2] >= 0,
                                        &p);
}

/* EXEC (-1: the node itself) NODE DEVICE N K */
OP(nkern)
{
    CUDA_KERNEL_NODE_PARAMS p;
    struct step_args args;

    if ((a[0] >= 0 && !rp.execs[a[0]]) || !rp.nodes[a[1]] ||
        !step_params(&p, &args, a[2], a[3], a[4]))
        return NO_OBJECT;
    return (int)(a[0] < 0 ? cuGraphKernelNodeSetParams_v2(rp.nodes[a[1]], &p)
                          : cuGraphExecKernelNodeSetParams_v2(rp.execs[a[0]],
                                                              rp.nodes[a[1]], &p));
}

/* DEVICE HOST N UP CONTEXT */
static bool
copy_params(CUDA_MEMCPY3D *p, const num *a)
{
    if (!rp.devs[a[0]].at || !rp.ctxs[a[4]] || !replay_host_has(a[1], 0, a[2]) ||
        (size_t)a[2] > rp.devs[a[0]].size)
        return false;
    *p = (CUDA_MEMCPY3D){.WidthInBytes = (size_t)a[2], .Height = 1, .Depth = 1};
    p->srcMemoryType = a[3] ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    p->dstMemoryType = a[3] ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    p->srcHost = p->dstHost = rp.hosts[a[1]].at;
    p->srcDevice = p->dstDevice = rp.devs[a[0]].at;
    return true;
}

/* NODE GRAPH AFTER DEVICE HOST N UP CONTEXT */
OP(gcopy)
{
    CUDA_MEMCPY3D p;

    if (!node_place(a[1], a[2]) || !copy_params(&p, a + 3))
        return NO_OBJECT;
    replay_own(REPLAY_NODE, a[0]);
    return (int)cuGraphAddMemcpyNode(&rp.nodes[a[0]], rp.graphs[a[1]],
                                     a[2] < 0 ? NULL : &rp.nodes[a[2]], a[2] >= 0, &p,
                                     rp.ctxs[a[7]]);
}

/* NODE GRAPH AFTER CHILD */
OP(gchild)
{
    if (!node_place(a[1], a[2]) || !rp.graphs[a[3]] || a[1] == a[3])
        return NO_OBJECT;
    replay_own(REPLAY_NODE, a[0]);
    return (int)cuGraphAddChildGraphNode(&rp.nodes[a[0]], rp.graphs[a[1]],
                                         a[2] < 0 ? NULL : &rp.nodes[a[2]], a[2] >= 0,
                                         rp.graphs[a[3]]);
}

/* NODE GRAPH AFTER EVENT RECORDS; or else it waits */
OP(gev)
{
    const CUgraphNode *after = a[2] < 0 ? NULL : &rp.nodes[a[2]];

    if (!node_place(a[1], a[2]) || !rp.events[a[3]])
        return NO_OBJECT;
    replay_own(REPLAY_NODE, a[0]);
    return (int)(a[4] ? cuGraphAddEventRecordNode(&rp.nodes[a[0]], rp.graphs[a[1]],
                                                  after, a[2] >= 0, rp.events[a[3]])
                      : cuGraphAddEventWaitNode(&rp.nodes[a[0]], rp.graphs[a[1]], after,
                                                a[2] >= 0, rp.events[a[3]]));
}

/* What a node is changed to, and where: EXEC is -1 for the node itself. */
static bool
node_is_there(num exec, num node)
{
    return (exec < 0 || rp.execs[exec]) && rp.nodes[node];
}

/* EXEC NODE EVENT RECORDS */
OP(nev)
{
    CUgraphNode node = rp.nodes[a[1]];
    CUevent event = rp.events[a[2]];

    if (!node_is_there(a[0], a[1]) || !event)
        return NO_OBJECT;
    if (a[3])
        return (int)(a[0] < 0 ? cuGraphEventRecordNodeSetEvent(node, event)
                              : cuGraphExecEventRecordNodeSetEvent(rp.execs[a[0]], node,
                                                                   event));
    return (int)(a[0] < 0
                     ? cuGraphEventWaitNodeSetEvent(node, event)
                     : cuGraphExecEventWaitNodeSetEvent(rp.execs[a[0]], node, event));
}

/* EXEC NODE DEVICE HOST N UP CONTEXT */
OP(ncopy)
{
    CUDA_MEMCPY3D p;

    if (!node_is_there(a[0], a[1]) || !copy_params(&p, a + 2))
        return NO_OBJECT;
    return (int)(a[0] < 0 ? cuGraphMemcpyNodeSetParams(rp.nodes[a[1]], &p)
                          : cuGraphExecMemcpyNodeSetParams(
                                rp.execs[a[0]], rp.nodes[a[1]], &p, rp.ctxs[a[6]]));
}

/* EXEC NODE GRAPH */
OP(nchild)
{
    if (!node_is_there(a[0], a[1]) || !rp.graphs[a[2]])
        return NO_OBJECT;
    return (int)cuGraphExecChildGraphNodeSetParams(rp.execs[a[0]], rp.nodes[a[1]],
                                                   rp.graphs[a[2]]);
}

const struct replay_op replay_mapped_ops[] = {
    NAMED(vm),     NAMED(vmd),   NAMED(pl),     NAMED(pld),   NAMED(pla),
    NAMED(pltrim), NAMED(adv),   NAMED(pre),    NAMED(mfill), NAMED(mhash),
    NAMED(hstep),  NAMED(box),   NAMED(gkern),  NAMED(nkern), NAMED(gcopy),
    NAMED(gchild), NAMED(pbox),  NAMED(gev),    NAMED(nev),   NAMED(ncopy),
    NAMED(nchild), NAMED(pluse), NAMED(plhigh), NAMED(plset), {NULL, NULL},
};
