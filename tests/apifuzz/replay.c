/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a program of driver calls, one per line, and prints what each of them answered.
 *
 *     THREAD NAME NUMBER...       "1 h2d 3 0 2 64 4096 0": thread 1, and see
 * replay_ops[]
 *
 * Objects are named by small numbers; a call on an object that was never made is left
 * out and says so, so that any subset of the lines is a program (fuzz.py shrinks).
 * Threads take turns in the order of the lines.  Bytes and callbacks are looked at by
 * lines of their own.  Nothing printed differs from machine to machine: no addresses,
 * no handles, no times.
 *
 * Knows CUDA and nothing of gpupool.
 */
#include "replay.h"
#include "replay_kernels.h"

#include "cuda_api.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 16
#define LOG_MAX 4096u

struct device_memory {
    CUdeviceptr at;
    size_t size;
};

struct host_memory {
    uint8_t *at;
    size_t size;
};

/* What the functions of one log were given, in the order in which they ran. */
struct log {
    _Atomic uint32_t n;
    uint32_t value[LOG_MAX];
};

/* A function's value and its log; never freed: a graph may run it any time. */
struct said {
    struct log *log;
    uint32_t value;
};

static CUcontext ctxs[SLOTS];
static CUstream streams[SLOTS];
static CUevent events[SLOTS];
static struct device_memory devs[SLOTS];
static struct host_memory hosts[SLOTS];
static CUarray arrays[SLOTS];
static size_t array_width[SLOTS];
static CUgraph graphs[SLOTS];
static CUgraphExec execs[SLOTS];
static CUgraphNode nodes[SLOTS];
static CUmodule modules[SLOTS]; /* by context */
static CUfunction steps[SLOTS], mixes[SLOTS];
static struct log logs[SLOTS];

char replay_out[256];

/* After each call, one that is always answered and changes nothing: the error of a call
 * that a driver reports later comes with the call that it is of. */
bool replay_settling;

static void
say(const char *format, ...)
{
    size_t at = strlen(replay_out);
    va_list list;

    va_start(list, format);
    vsnprintf(replay_out + at, sizeof(replay_out) - at, format, list);
    va_end(list);
}

/* ---- helpers of the calls ----------------------------------------------------------
 */

/* The stream of a number: -1 the default one, and the caller's call without a stream.
 */
static CUstream
stream_of(num s)
{
    return s < 0 ? NULL : streams[s];
}

static bool
stream_is(num s)
{
    return s < 0 || streams[s];
}

static bool
range_of_host(num h, num off, num n)
{
    return hosts[h].at && off >= 0 && n >= 0 &&
           (uint64_t)off + (uint64_t)n <= hosts[h].size;
}

static uint32_t
hash(const uint8_t *p, size_t n)
{
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 16777619u;
    return h;
}

static void
host_function(void *arg)
{
    const struct said *said = arg;
    uint32_t n = atomic_fetch_add(&said->log->n, 1);

    said->log->value[n % LOG_MAX] = said->value;
}

static void
stream_callback(CUstream stream, CUresult status, void *arg)
{
    (void)stream;
    (void)status;
    host_function(arg);
}

static struct said *
said_new(num log, num value)
{
    struct said *said = malloc(sizeof(*said));

    *said = (struct said){&logs[log], (uint32_t)value};
    return said;
}

/* The slot of the current context, for its module. */
static int
current_slot(void)
{
    CUcontext ctx = NULL;

    cuCtxGetCurrent(&ctx);
    for (int i = 0; ctx && i < SLOTS; i++)
        if (ctxs[i] == ctx)
            return i;
    return NO_OBJECT;
}

static CUfunction
kernel(bool mix)
{
    int i = current_slot();

    if (i == NO_OBJECT)
        return NULL;
    if (!modules[i] && cuModuleLoadData(&modules[i], REPLAY_PTX) == CUDA_SUCCESS) {
        cuModuleGetFunction(&steps[i], modules[i], "step");
        cuModuleGetFunction(&mixes[i], modules[i], "mix");
    }
    return mix ? mixes[i] : steps[i];
}

/* ---- the calls: a result, or NO_OBJECT ---------------------------------------------
 */

#define OP(name) static int op_##name(const num *a)

OP(ctx)
{
    return (int)cuCtxCreate_v2(&ctxs[a[0]], (unsigned)a[1], (CUdevice)a[2]);
}

OP(ctxd)
{
    CUcontext ctx = ctxs[a[0]];

    ctxs[a[0]] = NULL;
    modules[a[0]] = NULL;
    return ctx ? (int)cuCtxDestroy_v2(ctx) : NO_OBJECT;
}

OP(cur)
{
    return a[0] >= 0 && !ctxs[a[0]]
               ? NO_OBJECT
               : (int)cuCtxSetCurrent(a[0] < 0 ? NULL : ctxs[a[0]]);
}

OP(push)
{
    return ctxs[a[0]] ? (int)cuCtxPushCurrent_v2(ctxs[a[0]]) : NO_OBJECT;
}

OP(pop)
{
    CUcontext ctx = NULL;
    CUresult r = cuCtxPopCurrent_v2(&ctx);

    (void)a;
    for (int i = 0; i < SLOTS; i++)
        if (ctx && ctxs[i] == ctx)
            say(" was %d", i);
    return (int)r;
}

OP(csync)
{
    (void)a;
    return (int)cuCtxSynchronize();
}

OP(st)
{
    return (int)cuStreamCreate(&streams[a[0]], (unsigned)a[1]);
}

OP(std)
{
    CUstream stream = streams[a[0]];

    streams[a[0]] = NULL;
    return stream ? (int)cuStreamDestroy_v2(stream) : NO_OBJECT;
}

OP(sts)
{
    return stream_is(a[0]) ? (int)cuStreamSynchronize(stream_of(a[0])) : NO_OBJECT;
}

/* Whether it is ready is a matter of time. */
static int
untimed(CUresult r)
{
    return r == CUDA_ERROR_NOT_READY ? 0 : (int)r;
}

OP(stq)
{
    return stream_is(a[0]) ? untimed(cuStreamQuery(stream_of(a[0]))) : NO_OBJECT;
}

OP(sti)
{
    CUstreamCaptureStatus status = 0;
    unsigned flags = 0;
    int priority = 0;
    CUresult r;

    if (!stream_is(a[0]))
        return NO_OBJECT;
    r = cuStreamIsCapturing(stream_of(a[0]), &status);
    say(" %d", (int)status);
    r = cuStreamGetFlags(stream_of(a[0]), &flags);
    say(" %u %d", flags, (int)r);
    r = cuStreamGetPriority(stream_of(a[0]), &priority);
    say(" %d", priority);
    return (int)r;
}

OP(ev)
{
    return (int)cuEventCreate(&events[a[0]], (unsigned)a[1]);
}

OP(evd)
{
    CUevent event = events[a[0]];

    events[a[0]] = NULL;
    return event ? (int)cuEventDestroy_v2(event) : NO_OBJECT;
}

OP(evr)
{
    return events[a[0]] && stream_is(a[1])
               ? (int)cuEventRecord(events[a[0]], stream_of(a[1]))
               : NO_OBJECT;
}

OP(evs)
{
    return events[a[0]] ? (int)cuEventSynchronize(events[a[0]]) : NO_OBJECT;
}

OP(evq)
{
    return events[a[0]] ? untimed(cuEventQuery(events[a[0]])) : NO_OBJECT;
}

OP(evw)
{
    return events[a[1]] && stream_is(a[0])
               ? (int)cuStreamWaitEvent(stream_of(a[0]), events[a[1]], 0)
               : NO_OBJECT;
}

static int
dev_made(num d, CUdeviceptr at, size_t size, CUresult r)
{
    devs[d] = (struct device_memory){r == CUDA_SUCCESS ? at : 0, size};
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

    if (!stream_is(a[2]))
        return NO_OBJECT;
    r = cuMemAllocAsync(&at, (size_t)a[1], stream_of(a[2]));
    return dev_made(a[0], at, (size_t)a[1], r);
}

OP(df)
{
    CUdeviceptr at = devs[a[0]].at;

    devs[a[0]].at = 0;
    return at ? (int)cuMemFree_v2(at) : NO_OBJECT;
}

OP(dfa)
{
    CUdeviceptr at = devs[a[0]].at;

    if (!at || !stream_is(a[1]))
        return NO_OBJECT;
    devs[a[0]].at = 0;
    return (int)cuMemFreeAsync(at, stream_of(a[1]));
}

OP(dasks)
{
    CUdeviceptr base = 0, at = devs[a[0]].at;
    unsigned type = 0, managed = 0;
    size_t size = 0;
    CUresult r;

    if (!at)
        return NO_OBJECT;
    r = cuMemGetAddressRange_v2(&base, &size, at + (CUdeviceptr)a[1]);
    say(" %d %zu %lld", (int)r, size, (num)(at - base));
    cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at);
    r = cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at);
    say(" %u %u", type, managed);
    return (int)r;
}

OP(ha)
{
    void *at = NULL;
    CUresult r = cuMemHostAlloc(&at, (size_t)a[1], (unsigned)a[2]);

    hosts[a[0]] = (struct host_memory){r == CUDA_SUCCESS ? at : NULL, (size_t)a[1]};
    if (hosts[a[0]].at)
        memset(at, 0, (size_t)a[1]);
    return (int)r;
}

OP(hf)
{
    void *at = hosts[a[0]].at;

    hosts[a[0]].at = NULL;
    return at ? (int)cuMemFreeHost(at) : NO_OBJECT;
}

/* Memory of the program; never given back, so that no address comes twice. */
OP(hm)
{
    void *at = aligned_alloc(4096, ((size_t)a[1] + 4095) & ~(size_t)4095);

    memset(at, 0, (size_t)a[1]);
    hosts[a[0]] = (struct host_memory){at, (size_t)a[1]};
    return 0;
}

OP(hr)
{
    return hosts[a[0]].at ? (int)cuMemHostRegister_v2(hosts[a[0]].at, hosts[a[0]].size,
                                                      (unsigned)a[1])
                          : NO_OBJECT;
}

OP(hu)
{
    return hosts[a[0]].at ? (int)cuMemHostUnregister(hosts[a[0]].at) : NO_OBJECT;
}

OP(hasks)
{
    unsigned flags = 0, type = 0;
    CUdeviceptr at = 0;
    CUresult r;

    if (!hosts[a[0]].at)
        return NO_OBJECT;
    r = cuMemHostGetFlags(&flags, hosts[a[0]].at);
    say(" %d %u", (int)r, r == CUDA_SUCCESS ? flags : 0);
    r = cuMemHostGetDevicePointer_v2(&at, hosts[a[0]].at, 0);
    say(" %d", (int)r); /* which address: CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER... */
    r = cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                              (uintptr_t)hosts[a[0]].at);
    say(" %u", r == CUDA_SUCCESS ? type : 0);
    return (int)r;
}

OP(hfill)
{
    if (!hosts[a[0]].at)
        return NO_OBJECT;
    for (size_t i = 0; i < hosts[a[0]].size; i++)
        hosts[a[0]].at[i] = (uint8_t)((uint64_t)a[1] * 31 + i * 7 + (i >> 8));
    return 0;
}

OP(hhash)
{
    if (!hosts[a[0]].at)
        return NO_OBJECT;
    say(" %08x", hash(hosts[a[0]].at, hosts[a[0]].size));
    return 0;
}

OP(dhash)
{
    uint8_t *bytes;
    CUresult r;

    if (!devs[a[0]].at)
        return NO_OBJECT;
    bytes = malloc(devs[a[0]].size);
    r = cuMemcpyDtoH_v2(bytes, devs[a[0]].at, devs[a[0]].size);
    if (r == CUDA_SUCCESS)
        say(" %08x", hash(bytes, devs[a[0]].size));
    free(bytes);
    return (int)r;
}

OP(set8)
{
    CUdeviceptr at = devs[a[0]].at + (CUdeviceptr)a[1];

    if (!devs[a[0]].at || !stream_is(a[4]))
        return NO_OBJECT;
    return (int)(a[4] < 0 ? cuMemsetD8_v2(at, (unsigned char)a[3], (size_t)a[2])
                          : cuMemsetD8Async(at, (unsigned char)a[3], (size_t)a[2],
                                            stream_of(a[4])));
}

OP(set32)
{
    CUdeviceptr at = devs[a[0]].at + (CUdeviceptr)a[1];

    if (!devs[a[0]].at || !stream_is(a[4]))
        return NO_OBJECT;
    return (int)(a[4] < 0 ? cuMemsetD32_v2(at, (unsigned)a[3], (size_t)a[2])
                          : cuMemsetD32Async(at, (unsigned)a[3], (size_t)a[2],
                                             stream_of(a[4])));
}

/* DEVICE OFFSET HOST OFFSET N STREAM */
OP(h2d)
{
    CUdeviceptr at = devs[a[0]].at + (CUdeviceptr)a[1];

    if (!devs[a[0]].at || !range_of_host(a[2], a[3], a[4]) || !stream_is(a[5]))
        return NO_OBJECT;
    return (int)(a[5] < 0 ? cuMemcpyHtoD_v2(at, hosts[a[2]].at + a[3], (size_t)a[4])
                          : cuMemcpyHtoDAsync_v2(at, hosts[a[2]].at + a[3],
                                                 (size_t)a[4], stream_of(a[5])));
}

OP(d2h)
{
    CUdeviceptr at = devs[a[0]].at + (CUdeviceptr)a[1];

    if (!devs[a[0]].at || !range_of_host(a[2], a[3], a[4]) || !stream_is(a[5]))
        return NO_OBJECT;
    return (int)(a[5] < 0 ? cuMemcpyDtoH_v2(hosts[a[2]].at + a[3], at, (size_t)a[4])
                          : cuMemcpyDtoHAsync_v2(hosts[a[2]].at + a[3], at,
                                                 (size_t)a[4], stream_of(a[5])));
}

/* TO OFFSET FROM OFFSET N STREAM */
OP(d2d)
{
    CUdeviceptr to = devs[a[0]].at + (CUdeviceptr)a[1];
    CUdeviceptr from = devs[a[2]].at + (CUdeviceptr)a[3];

    if (!devs[a[0]].at || !devs[a[2]].at || !stream_is(a[5]))
        return NO_OBJECT;
    return (int)(a[5] < 0
                     ? cuMemcpyDtoD_v2(to, from, (size_t)a[4])
                     : cuMemcpyDtoDAsync_v2(to, from, (size_t)a[4], stream_of(a[5])));
}

/* Unified: DEVICE OFFSET HOST OFFSET N STREAM */
OP(uni)
{
    CUdeviceptr at = devs[a[0]].at + (CUdeviceptr)a[1];

    if (!devs[a[0]].at || !range_of_host(a[2], a[3], a[4]) || !stream_is(a[5]))
        return NO_OBJECT;
    return (int)(a[5] < 0
                     ? cuMemcpy(at, (uintptr_t)hosts[a[2]].at + (uintptr_t)a[3],
                                (size_t)a[4])
                     : cuMemcpyAsync(at, (uintptr_t)hosts[a[2]].at + (uintptr_t)a[3],
                                     (size_t)a[4], stream_of(a[5])));
}

/* DEVICE HOST WIDTH HEIGHT PITCH-ON-DEVICE STREAM, up */
OP(rect)
{
    CUDA_MEMCPY2D p = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcPitch = (size_t)a[2],
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = devs[a[0]].at,
                       .dstPitch = (size_t)a[4],
                       .WidthInBytes = (size_t)a[2],
                       .Height = (size_t)a[3]};

    if (!devs[a[0]].at || !range_of_host(a[1], 0, a[2] * a[3]) || !stream_is(a[5]))
        return NO_OBJECT;
    p.srcHost = hosts[a[1]].at;
    return (int)(a[5] < 0 ? cuMemcpy2D_v2(&p)
                          : cuMemcpy2DAsync_v2(&p, stream_of(a[5])));
}

/* The same down. */
OP(tcer)
{
    CUDA_MEMCPY2D p = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = devs[a[0]].at,
                       .srcPitch = (size_t)a[4],
                       .dstMemoryType = CU_MEMORYTYPE_HOST,
                       .dstPitch = (size_t)a[2],
                       .WidthInBytes = (size_t)a[2],
                       .Height = (size_t)a[3]};

    if (!devs[a[0]].at || !range_of_host(a[1], 0, a[2] * a[3]) || !stream_is(a[5]))
        return NO_OBJECT;
    p.dstHost = hosts[a[1]].at;
    return (int)(a[5] < 0 ? cuMemcpy2D_v2(&p)
                          : cuMemcpy2DAsync_v2(&p, stream_of(a[5])));
}

OP(ar)
{
    CUDA_ARRAY_DESCRIPTOR d = {
        .Width = (size_t)a[1], .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};

    array_width[a[0]] = (size_t)a[1];
    return (int)cuArrayCreate_v2(&arrays[a[0]], &d);
}

OP(ard)
{
    CUarray array = arrays[a[0]];

    arrays[a[0]] = NULL;
    return array ? (int)cuArrayDestroy(array) : NO_OBJECT;
}

/* ARRAY OFFSET HOST OFFSET N */
OP(h2a)
{
    if (!arrays[a[0]] || !range_of_host(a[2], a[3], a[4]))
        return NO_OBJECT;
    return (int)cuMemcpyHtoA_v2(arrays[a[0]], (size_t)a[1], hosts[a[2]].at + a[3],
                                (size_t)a[4]);
}

OP(a2h)
{
    if (!arrays[a[0]] || !range_of_host(a[2], a[3], a[4]))
        return NO_OBJECT;
    return (int)cuMemcpyAtoH_v2(hosts[a[2]].at + a[3], arrays[a[0]], (size_t)a[1],
                                (size_t)a[4]);
}

/* DEVICE N K STREAM BLOCK */
OP(step)
{
    CUfunction f = kernel(false);
    CUdeviceptr at = devs[a[0]].at;
    unsigned n = (unsigned)a[1], k = (unsigned)a[2], block = (unsigned)a[4];
    void *args[] = {&at, &n, &k};

    if (!at || !f || !stream_is(a[3]) || (size_t)n * 4 > devs[a[0]].size)
        return NO_OBJECT;
    return (int)cuLaunchKernel(f, block ? (n + block - 1) / block : 1, 1, 1, block, 1,
                               1, 0, stream_of(a[3]), args, NULL);
}

/* TO FROM N STREAM */
OP(mix)
{
    CUfunction f = kernel(true);
    CUdeviceptr to = devs[a[0]].at, from = devs[a[1]].at;
    unsigned n = (unsigned)a[2];
    void *args[] = {&to, &from, &n};

    if (!to || !from || !f || !stream_is(a[3]) || (size_t)n * 4 > devs[a[0]].size ||
        (size_t)n * 4 > devs[a[1]].size)
        return NO_OBJECT;
    return (int)cuLaunchKernel(f, (n + 127) / 128, 1, 1, 128, 1, 1, 0, stream_of(a[3]),
                               args, NULL);
}

OP(hfn)
{
    return stream_is(a[0]) ? (int)cuLaunchHostFunc(stream_of(a[0]), host_function,
                                                   said_new(a[1], a[2]))
                           : NO_OBJECT;
}

OP(cb)
{
    return stream_is(a[0]) ? (int)cuStreamAddCallback(stream_of(a[0]), stream_callback,
                                                      said_new(a[1], a[2]), 0)
                           : NO_OBJECT;
}

OP(log)
{
    struct log *log = &logs[a[0]];
    uint32_t n = atomic_exchange(&log->n, 0);

    say(" %u %08x", n,
        hash((const uint8_t *)log->value,
             sizeof(*log->value) * (n < LOG_MAX ? n : LOG_MAX)));
    return 0;
}

OP(cap)
{
    return stream_is(a[0]) ? (int)cuStreamBeginCapture_v2(stream_of(a[0]),
                                                          (CUstreamCaptureMode)a[1])
                           : NO_OBJECT;
}

OP(cape)
{
    CUgraph graph = NULL;
    CUresult r;

    if (!stream_is(a[0]))
        return NO_OBJECT;
    r = cuStreamEndCapture(stream_of(a[0]), &graph);
    say(" %d", graph != NULL);
    if (graph)
        graphs[a[1]] = graph;
    return (int)r;
}

OP(gnew)
{
    return (int)cuGraphCreate(&graphs[a[0]], (unsigned)a[1]);
}

OP(gd)
{
    CUgraph graph = graphs[a[0]];

    graphs[a[0]] = NULL;
    return graph ? (int)cuGraphDestroy(graph) : NO_OBJECT;
}

OP(gcl)
{
    return graphs[a[1]] ? (int)cuGraphClone(&graphs[a[0]], graphs[a[1]]) : NO_OBJECT;
}

OP(gasks)
{
    size_t n = 0, roots = 0, edges = 0;
    CUresult r;

    if (!graphs[a[0]])
        return NO_OBJECT;
    r = cuGraphGetNodes(graphs[a[0]], NULL, &n);
    cuGraphGetRootNodes(graphs[a[0]], NULL, &roots);
    cuGraphGetEdges(graphs[a[0]], NULL, NULL, &edges);
    say(" %zu %zu %zu", n, roots, edges);
    return (int)r;
}

/* NODE GRAPH AFTER LOG VALUE; AFTER: a node, or -1 */
OP(ghost)
{
    CUDA_HOST_NODE_PARAMS p = {host_function, NULL};

    if (!graphs[a[1]] || (a[2] >= 0 && !nodes[a[2]]))
        return NO_OBJECT;
    p.userData = said_new(a[3], a[4]);
    return (int)cuGraphAddHostNode(&nodes[a[0]], graphs[a[1]],
                                   a[2] < 0 ? NULL : &nodes[a[2]], a[2] >= 0, &p);
}

/* NODE GRAPH AFTER DEVICE N VALUE CONTEXT */
OP(gset)
{
    CUDA_MEMSET_NODE_PARAMS p = {.elementSize = 1,
                                 .width = (size_t)a[4],
                                 .height = 1,
                                 .value = (unsigned)a[5] & 255};

    if (!graphs[a[1]] || (a[2] >= 0 && !nodes[a[2]]) || !devs[a[3]].at || !ctxs[a[6]])
        return NO_OBJECT;
    p.dst = devs[a[3]].at;
    return (int)cuGraphAddMemsetNode(&nodes[a[0]], graphs[a[1]],
                                     a[2] < 0 ? NULL : &nodes[a[2]], a[2] >= 0, &p,
                                     ctxs[a[6]]);
}

OP(gnd)
{
    CUgraphNode node = nodes[a[0]];

    nodes[a[0]] = NULL;
    return node ? (int)cuGraphDestroyNode(node) : NO_OBJECT;
}

OP(nset)
{
    CUDA_HOST_NODE_PARAMS p = {host_function, NULL};

    if (!nodes[a[0]])
        return NO_OBJECT;
    p.userData = said_new(a[1], a[2]);
    return (int)cuGraphHostNodeSetParams(nodes[a[0]], &p);
}

OP(xset)
{
    CUDA_HOST_NODE_PARAMS p = {host_function, NULL};

    if (!execs[a[0]] || !nodes[a[1]])
        return NO_OBJECT;
    p.userData = said_new(a[2], a[3]);
    return (int)cuGraphExecHostNodeSetParams(execs[a[0]], nodes[a[1]], &p);
}

OP(inst)
{
    return graphs[a[1]]
               ? (int)cuGraphInstantiateWithFlags(&execs[a[0]], graphs[a[1]], 0)
               : NO_OBJECT;
}

OP(upd)
{
    CUgraphExecUpdateResultInfo info = {0};
    CUresult r;

    if (!execs[a[0]] || !graphs[a[1]])
        return NO_OBJECT;
    r = cuGraphExecUpdate_v2(execs[a[0]], graphs[a[1]], &info);
    say(" %d", (int)info.result);
    return (int)r;
}

OP(gl)
{
    return execs[a[0]] && stream_is(a[1])
               ? (int)cuGraphLaunch(execs[a[0]], stream_of(a[1]))
               : NO_OBJECT;
}

OP(xd)
{
    CUgraphExec exec = execs[a[0]];

    execs[a[0]] = NULL;
    return exec ? (int)cuGraphExecDestroy(exec) : NO_OBJECT;
}

/* Calls that no program should make; which one, and an object. */
OP(bad)
{
    CUdeviceptr at = 0;
    CUgraph graph = NULL;
    size_t n = 0;

    switch (a[0]) {
    case 0:
        return (int)cuMemAlloc_v2(&at, 0);
    case 1:
        return (int)cuMemFree_v2(0x1234);
    case 2:
        return (int)cuStreamCreate(NULL, 0);
    case 3:
        return (int)cuEventRecord(NULL, NULL);
    case 4:
        return (int)cuGraphInstantiateWithFlags(NULL, NULL, 0);
    case 5:
        return (int)cuStreamEndCapture(NULL, &graph);
    case 6:
        return (int)cuMemcpyDtoH_v2(NULL, 0, 16);
    case 7:
        return (int)cuMemHostRegister_v2(NULL, 4096, 0);
    case 8:
        return (int)cuEventCreate(&events[a[1]], 0xff00);
    case 9:
        return (int)cuGraphLaunch(NULL, NULL);
    case 10:
        return (int)cuMemHostAlloc((void **)&at, 0, 0);
    case 11:
        return (int)cuGraphGetNodes(NULL, NULL, &n);
    case 12:
        return (int)cuMemsetD32_v2(1, 0, 4);
    case 13:
        return (int)cuLaunchHostFunc(NULL, NULL, NULL);
    case 14:
        return (int)cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    default:
        return (int)cuMemHostUnregister(&at);
    }
}

OP(settle)
{
    replay_settling = a[0] != 0;
    return 0;
}

#define NAMED(name)                                                                    \
    {                                                                                  \
#name, op_##name                                                               \
    }

const struct replay_op replay_ops[] = {
    NAMED(ctx),   NAMED(ctxd),  NAMED(cur),  NAMED(push),  NAMED(pop),   NAMED(csync),
    NAMED(st),    NAMED(std),   NAMED(sts),  NAMED(stq),   NAMED(sti),   NAMED(ev),
    NAMED(evd),   NAMED(evr),   NAMED(evs),  NAMED(evq),   NAMED(evw),   NAMED(da),
    NAMED(dm),    NAMED(daa),   NAMED(df),   NAMED(dfa),   NAMED(dasks), NAMED(ha),
    NAMED(hf),    NAMED(hm),    NAMED(hr),   NAMED(hu),    NAMED(hasks), NAMED(hfill),
    NAMED(hhash), NAMED(dhash), NAMED(set8), NAMED(set32), NAMED(h2d),   NAMED(d2h),
    NAMED(d2d),   NAMED(uni),   NAMED(rect), NAMED(tcer),  NAMED(ar),    NAMED(ard),
    NAMED(h2a),   NAMED(a2h),   NAMED(step), NAMED(mix),   NAMED(hfn),   NAMED(cb),
    NAMED(log),   NAMED(cap),   NAMED(cape), NAMED(gnew),  NAMED(gd),    NAMED(gcl),
    NAMED(gasks), NAMED(ghost), NAMED(gset), NAMED(gnd),   NAMED(nset),  NAMED(xset),
    NAMED(inst),  NAMED(upd),   NAMED(gl),   NAMED(xd),    NAMED(bad),   NAMED(settle),
    {NULL, NULL},
};
