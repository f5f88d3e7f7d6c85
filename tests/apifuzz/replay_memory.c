/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of all kinds, and copies and fills. */
#include "replay.h"

#include <stdlib.h>
#include <string.h>

bool
replay_host_has(num host, num off, num n)
{
    return rp.hosts[host].at && off >= 0 && n >= 0 &&
           (uint64_t)off + (uint64_t)n <= rp.hosts[host].size;
}

/* Eight bytes at a time: large memory is looked at often. */
uint32_t
replay_hash(const uint8_t *p, size_t n)
{
    uint64_t h = UINT64_C(14695981039346656037), word;

    for (; n >= sizeof(word); n -= sizeof(word), p += sizeof(word)) {
        memcpy(&word, p, sizeof(word));
        h = (h ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        h ^= h >> 29;
    }
    while (n--)
        h = (h ^ *p++) * UINT64_C(1099511628211);
    return (uint32_t)(h ^ h >> 32);
}

static struct given {
    struct given *next;
    void *at;
} * _Atomic all_given; /* threads add to it */

static int
dev_made(num d, CUdeviceptr at, size_t size, CUresult r)
{
    rp.devs[d] = (struct replay_dev){r == CUDA_SUCCESS ? at : 0, size};
    replay_own(REPLAY_DEV, d);
    return (int)r;
}

OP(da)
{
    CUdeviceptr at = 0;
    CUresult r = cuMemAlloc_v2(&at, (size_t)a[1]);

    return dev_made(a[0], at, (size_t)a[1], r);
}

OP(dm)
{
    CUdeviceptr at = 0;
    CUresult r = cuMemAllocManaged(&at, (size_t)a[1], CU_MEM_ATTACH_GLOBAL);

    return dev_made(a[0], at, (size_t)a[1], r);
}

OP(daa)
{
    CUdeviceptr at = 0;
    CUresult r;

    if (!replay_stream_is(a[2]))
        return NO_OBJECT;
    r = cuMemAllocAsync(&at, (size_t)a[1], replay_stream(a[2]));
    return dev_made(a[0], at, (size_t)a[1], r);
}

/* DEV: what is said of its end, and a copy that passes it. */
OP(past)
{
    CUdeviceptr at = rp.devs[a[0]].at, base = 0;
    size_t size = rp.devs[a[0]].size, n = 0, range = 0;
    char word[8];
    CUresult r;

    if (!at)
        return NO_OBJECT;
    r = cuMemGetAddressRange_v2(&base, &n, at + size - 1);
    replay_say(" %d %zu", r, n);
    r = cuPointerGetAttribute(&range, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at);
    replay_say(" %d %zu", r, range);
    return (int)cuMemcpyDtoH_v2(word, at + size - 4, sizeof(word));
}

OP(df)
{
    CUdeviceptr at = rp.devs[a[0]].at;

    rp.devs[a[0]].at = 0;
    return at ? (int)cuMemFree_v2(at) : NO_OBJECT;
}

OP(dfa)
{
    CUdeviceptr at = rp.devs[a[0]].at;

    if (!at || !replay_stream_is(a[1]))
        return NO_OBJECT;
    rp.devs[a[0]].at = 0;
    return (int)cuMemFreeAsync(at, replay_stream(a[1]));
}

OP(dasks)
{
    CUdeviceptr base = 0, at = rp.devs[a[0]].at;
    unsigned type = 0, managed = 0;
    size_t size = 0;
    CUresult r;

    if (!at)
        return NO_OBJECT;
    r = cuMemGetAddressRange_v2(&base, &size, at + (CUdeviceptr)a[1]);
    replay_say(" %d %zu %lld", (int)r, size, (num)(at - base));
    cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at);
    r = cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at);
    replay_say(" %u %u", type, managed);
    return (int)r;
}

OP(ha)
{
    void *at = NULL;
    CUresult r = cuMemHostAlloc(&at, (size_t)a[1], (unsigned)a[2]);

    rp.hosts[a[0]] =
        (struct replay_host){r == CUDA_SUCCESS ? at : NULL, (size_t)a[1], true};
    replay_own(REPLAY_HOST, a[0]);
    if (rp.hosts[a[0]].at)
        memset(at, 0, (size_t)a[1]);
    return (int)r;
}

OP(hf)
{
    void *at = rp.hosts[a[0]].at;

    rp.hosts[a[0]].at = NULL;
    return at ? (int)cuMemFreeHost(at) : NO_OBJECT;
}

/* Memory of the program, given back when it ends: no address comes twice before. */
OP(hm)
{
    struct given *given = malloc(sizeof(*given));
    void *at = aligned_alloc(4096, ((size_t)a[1] + 4095) & ~(size_t)4095);

    memset(at, 0, (size_t)a[1]);
    *given = (struct given){atomic_load(&all_given), at};
    while (!atomic_compare_exchange_weak(&all_given, &given->next, given))
        ;
    rp.hosts[a[0]] = (struct replay_host){at, (size_t)a[1], false};
    return 0;
}

void
replay_give_back(void)
{
    struct given *given;

    while ((given = all_given)) {
        all_given = given->next;
        cuMemHostUnregister(given->at);
        free(given->at);
        free(given);
    }
}

OP(hr)
{
    return rp.hosts[a[0]].at
               ? (int)cuMemHostRegister_v2(rp.hosts[a[0]].at, rp.hosts[a[0]].size,
                                           (unsigned)a[1])
               : NO_OBJECT;
}

OP(hu)
{
    return rp.hosts[a[0]].at ? (int)cuMemHostUnregister(rp.hosts[a[0]].at) : NO_OBJECT;
}

OP(hasks)
{
    unsigned flags = 0, type = 0;
    CUdeviceptr at = 0;
    CUresult r;

    if (!rp.hosts[a[0]].at)
        return NO_OBJECT;
    r = cuMemHostGetFlags(&flags, rp.hosts[a[0]].at);
    replay_say(" %d %u", (int)r, r == CUDA_SUCCESS ? flags : 0);
    r = cuMemHostGetDevicePointer_v2(&at, rp.hosts[a[0]].at, 0);
    replay_say(" %d",
               (int)r); /* which address: CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER... */
    r = cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                              (uintptr_t)rp.hosts[a[0]].at);
    replay_say(" %u", r == CUDA_SUCCESS ? type : 0);
    return (int)r;
}

void
replay_fill(uint8_t *at, size_t size, num seed)
{
    for (size_t i = 0; i < size; i++)
        at[i] = (uint8_t)((uint64_t)seed * 31 + i * 7 + (i >> 8));
}

OP(hfill)
{
    if (!rp.hosts[a[0]].at)
        return NO_OBJECT;
    replay_fill(rp.hosts[a[0]].at, rp.hosts[a[0]].size, a[1]);
    return 0;
}

OP(hhash)
{
    if (!rp.hosts[a[0]].at)
        return NO_OBJECT;
    replay_say(" %08x", replay_hash(rp.hosts[a[0]].at, rp.hosts[a[0]].size));
    return 0;
}

OP(dhash)
{
    uint8_t *bytes;
    CUresult r;

    if (!rp.devs[a[0]].at)
        return NO_OBJECT;
    bytes = malloc(rp.devs[a[0]].size);
    r = cuMemcpyDtoH_v2(bytes, rp.devs[a[0]].at, rp.devs[a[0]].size);
    if (r == CUDA_SUCCESS)
        replay_say(" %08x", replay_hash(bytes, rp.devs[a[0]].size));
    free(bytes);
    return (int)r;
}

OP(set8)
{
    CUdeviceptr at = rp.devs[a[0]].at + (CUdeviceptr)a[1];

    if (!rp.devs[a[0]].at || !replay_stream_is(a[4]))
        return NO_OBJECT;
    return (int)(a[4] < 0 ? cuMemsetD8_v2(at, (unsigned char)a[3], (size_t)a[2])
                          : cuMemsetD8Async(at, (unsigned char)a[3], (size_t)a[2],
                                            replay_stream(a[4])));
}

OP(set32)
{
    CUdeviceptr at = rp.devs[a[0]].at + (CUdeviceptr)a[1];

    if (!rp.devs[a[0]].at || !replay_stream_is(a[4]))
        return NO_OBJECT;
    return (int)(a[4] < 0 ? cuMemsetD32_v2(at, (unsigned)a[3], (size_t)a[2])
                          : cuMemsetD32Async(at, (unsigned)a[3], (size_t)a[2],
                                             replay_stream(a[4])));
}

/* DEVICE OFFSET HOST OFFSET N STREAM */
OP(h2d)
{
    CUdeviceptr at = rp.devs[a[0]].at + (CUdeviceptr)a[1];

    if (!rp.devs[a[0]].at || !replay_host_has(a[2], a[3], a[4]) ||
        !replay_stream_is(a[5]))
        return NO_OBJECT;
    return (int)(a[5] < 0 ? cuMemcpyHtoD_v2(at, rp.hosts[a[2]].at + a[3], (size_t)a[4])
                          : cuMemcpyHtoDAsync_v2(at, rp.hosts[a[2]].at + a[3],
                                                 (size_t)a[4], replay_stream(a[5])));
}

OP(d2h)
{
    CUdeviceptr at = rp.devs[a[0]].at + (CUdeviceptr)a[1];

    if (!rp.devs[a[0]].at || !replay_host_has(a[2], a[3], a[4]) ||
        !replay_stream_is(a[5]))
        return NO_OBJECT;
    return (int)(a[5] < 0 ? cuMemcpyDtoH_v2(rp.hosts[a[2]].at + a[3], at, (size_t)a[4])
                          : cuMemcpyDtoHAsync_v2(rp.hosts[a[2]].at + a[3], at,
                                                 (size_t)a[4], replay_stream(a[5])));
}

/* TO OFFSET FROM OFFSET N STREAM */
OP(d2d)
{
    CUdeviceptr to = rp.devs[a[0]].at + (CUdeviceptr)a[1];
    CUdeviceptr from = rp.devs[a[2]].at + (CUdeviceptr)a[3];

    if (!rp.devs[a[0]].at || !rp.devs[a[2]].at || !replay_stream_is(a[5]))
        return NO_OBJECT;
    return (int)(a[5] < 0 ? cuMemcpyDtoD_v2(to, from, (size_t)a[4])
                          : cuMemcpyDtoDAsync_v2(to, from, (size_t)a[4],
                                                 replay_stream(a[5])));
}

/* From one context's memory to another's: TO OFFSET FROM OFFSET N STREAM */
OP(peer)
{
    CUcontext to_ctx = rp.ctxs[rp.owner[REPLAY_DEV][a[0]]];
    CUcontext from_ctx = rp.ctxs[rp.owner[REPLAY_DEV][a[2]]];
    CUdeviceptr to = rp.devs[a[0]].at + (CUdeviceptr)a[1];
    CUdeviceptr from = rp.devs[a[2]].at + (CUdeviceptr)a[3];

    if (!rp.devs[a[0]].at || !rp.devs[a[2]].at || !replay_stream_is(a[5]))
        return NO_OBJECT;
    return (int)(a[5] < 0 ? cuMemcpyPeer(to, to_ctx, from, from_ctx, (size_t)a[4])
                          : cuMemcpyPeerAsync(to, to_ctx, from, from_ctx, (size_t)a[4],
                                              replay_stream(a[5])));
}

/* Unified: DEVICE OFFSET HOST OFFSET N STREAM */
OP(uni)
{
    CUdeviceptr at = rp.devs[a[0]].at + (CUdeviceptr)a[1];

    if (!rp.devs[a[0]].at || !replay_host_has(a[2], a[3], a[4]) ||
        !replay_stream_is(a[5]))
        return NO_OBJECT;
    return (int)(a[5] < 0
                     ? cuMemcpy(at, (uintptr_t)rp.hosts[a[2]].at + (uintptr_t)a[3],
                                (size_t)a[4])
                     : cuMemcpyAsync(at, (uintptr_t)rp.hosts[a[2]].at + (uintptr_t)a[3],
                                     (size_t)a[4], replay_stream(a[5])));
}

/* DEVICE HOST WIDTH HEIGHT PITCH-ON-DEVICE STREAM, up */
OP(rect)
{
    CUDA_MEMCPY2D p = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcPitch = (size_t)a[2],
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = rp.devs[a[0]].at,
                       .dstPitch = (size_t)a[4],
                       .WidthInBytes = (size_t)a[2],
                       .Height = (size_t)a[3]};

    if (!rp.devs[a[0]].at || !replay_host_has(a[1], 0, a[2] * a[3]) ||
        !replay_stream_is(a[5]))
        return NO_OBJECT;
    p.srcHost = rp.hosts[a[1]].at;
    return (int)(a[5] < 0 ? cuMemcpy2D_v2(&p)
                          : cuMemcpy2DAsync_v2(&p, replay_stream(a[5])));
}

/* The same down. */
OP(tcer)
{
    CUDA_MEMCPY2D p = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = rp.devs[a[0]].at,
                       .srcPitch = (size_t)a[4],
                       .dstMemoryType = CU_MEMORYTYPE_HOST,
                       .dstPitch = (size_t)a[2],
                       .WidthInBytes = (size_t)a[2],
                       .Height = (size_t)a[3]};

    if (!rp.devs[a[0]].at || !replay_host_has(a[1], 0, a[2] * a[3]) ||
        !replay_stream_is(a[5]))
        return NO_OBJECT;
    p.dstHost = rp.hosts[a[1]].at;
    return (int)(a[5] < 0 ? cuMemcpy2D_v2(&p)
                          : cuMemcpy2DAsync_v2(&p, replay_stream(a[5])));
}

const struct replay_op replay_memory_ops[] = {
    NAMED(da),    NAMED(dm),    NAMED(daa),   NAMED(df),    NAMED(dfa),  NAMED(past),
    NAMED(dasks), NAMED(ha),    NAMED(hf),    NAMED(hm),    NAMED(hr),   NAMED(hu),
    NAMED(hasks), NAMED(hfill), NAMED(hhash), NAMED(dhash), NAMED(set8), NAMED(set32),
    NAMED(h2d),   NAMED(d2h),   NAMED(d2d),   NAMED(peer),  NAMED(uni),  NAMED(rect),
    NAMED(tcer),  {NULL, NULL},
};
