/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, what belongs to them, and the end of a program. */
#include "replay.h"
#include "replay_kernels.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct replay rp;
_Thread_local char replay_out[256];

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

void
replay_say(const char *format, ...)
{
    size_t at = strlen(replay_out);
    va_list list;

    va_start(list, format);
    vsnprintf(replay_out + at, sizeof(replay_out) - at, format, list);
    va_end(list);
}

/* ---- what belongs to a context ---- */

static int
number_of(CUcontext ctx)
{
    for (int i = 0; ctx && i < REPLAY_SLOTS; i++)
        if (rp.ctxs[i] == ctx)
            return i;
    return NO_OBJECT;
}

int
replay_ctx(void)
{
    CUcontext ctx = NULL;

    cuCtxGetCurrent(&ctx);
    return number_of(ctx);
}

void
replay_own(enum replay_kind kind, num number)
{
    rp.owner[kind][number] = replay_ctx();
}

CUfunction
replay_kernel(enum replay_kernel kernel)
{
    static const char *const names[] = {"step", "mix", "idle"};
    int i = replay_ctx();

    if (i == NO_OBJECT)
        return NULL;
    pthread_mutex_lock(&loading);
    if (!rp.modules[i] &&
        cuModuleLoadData(&rp.modules[i], REPLAY_PTX) == CUDA_SUCCESS) {
        for (unsigned k = 0; k < REPLAY_KERNELS; k++)
            cuModuleGetFunction(&rp.kernels[i][k], rp.modules[i], names[k]);
    }
    pthread_mutex_unlock(&loading);
    return rp.kernels[i][kernel];
}

/* Context: its kernel's attribute, and another kernel of its module. */
OP(fasks)
{
    CUfunction mix = NULL;
    int threads = 0;
    CUresult r;

    if (!rp.modules[a[0]])
        return NO_OBJECT;
    r = cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                           rp.kernels[a[0]][REPLAY_STEP]);
    replay_say(" %d %d", (int)r, r == CUDA_SUCCESS ? threads : 0);
    return (int)cuModuleGetFunction(&mix, rp.modules[a[0]], "mix");
}

/* Context: its module is loaded anew when it is needed next. */
OP(fnew)
{
    rp.modules[a[0]] = NULL;
    return 0;
}

/* What a context took with it. */
static void
forget(num ctx)
{
    if (rp.keeping)
        return;
    rp.modules[ctx] = NULL;
    memset(rp.kernels[ctx], 0, sizeof(rp.kernels[ctx]));
    for (unsigned i = 0; i < REPLAY_SLOTS; i++) {
        if (rp.owner[REPLAY_STREAM][i] == ctx)
            rp.streams[i] = NULL;
        if (rp.owner[REPLAY_EVENT][i] == ctx)
            rp.events[i] = NULL;
        if (rp.owner[REPLAY_DEV][i] == ctx)
            rp.devs[i].at = 0;
        if (rp.owner[REPLAY_HOST][i] == ctx && rp.hosts[i].locked)
            rp.hosts[i].at = NULL;
        if (rp.owner[REPLAY_ARRAY][i] == ctx)
            rp.arrays[i] = NULL;
        if (rp.owner[REPLAY_GRAPH][i] == ctx)
            rp.graphs[i] = NULL;
        if (rp.owner[REPLAY_EXEC][i] == ctx)
            rp.execs[i] = NULL;
        if (rp.owner[REPLAY_NODE][i] == ctx)
            rp.nodes[i] = NULL;
    }
}

/* ---- the calls ---- */

/* REPLAY_CARDS="0,2" calls the driver's cards 0 and 2 so. */
CUdevice
replay_card(num number)
{
    const char *list = getenv("REPLAY_CARDS");

    for (; list && number > 0; number--) {
        list = strchr(list, ',');
        list = list ? list + 1 : NULL;
    }
    return list ? (CUdevice)strtol(list, NULL, 10) : (CUdevice)number;
}

/* NUMBER FLAGS CARD */
OP(ctx)
{
    return (int)cuCtxCreate_v2(&rp.ctxs[a[0]], (unsigned)a[1], replay_card(a[2]));
}

OP(ctxd)
{
    CUcontext ctx = rp.ctxs[a[0]];
    CUresult r;

    if (!ctx)
        return NO_OBJECT;
    r = cuCtxDestroy_v2(ctx);
    if (r == CUDA_SUCCESS) {
        rp.ctxs[a[0]] = NULL;
        forget(a[0]);
    }
    return (int)r;
}

OP(cur)
{
    return a[0] >= 0 && !rp.ctxs[a[0]]
               ? NO_OBJECT
               : (int)cuCtxSetCurrent(a[0] < 0 ? NULL : rp.ctxs[a[0]]);
}

OP(push)
{
    return rp.ctxs[a[0]] ? (int)cuCtxPushCurrent_v2(rp.ctxs[a[0]]) : NO_OBJECT;
}

OP(pop)
{
    CUcontext ctx = NULL;
    CUresult r = cuCtxPopCurrent_v2(&ctx);

    (void)a;
    replay_say(" was %d", number_of(ctx));
    return (int)r;
}

/* Which context, card and flags the thread has. */
OP(cask)
{
    CUdevice dev = -1;
    unsigned flags = 0;
    CUresult r;

    (void)a;
    r = cuCtxGetFlags(&flags);
    replay_say(" %d %u", (int)r, r == CUDA_SUCCESS ? flags : 0);
    r = cuCtxGetDevice(&dev);
    replay_say(" %d ctx %d", r == CUDA_SUCCESS && dev == replay_card(1), replay_ctx());
    return (int)r;
}

OP(csync)
{
    (void)a;
    return (int)cuCtxSynchronize();
}

/* NUMBER CARD: the card's primary context gets the number. */
OP(pret)
{
    CUresult r = cuDevicePrimaryCtxRetain(&rp.ctxs[a[0]], replay_card(a[1]));

    if (r == CUDA_SUCCESS)
        rp.retained[a[1]]++;
    return (int)r;
}

static void
say_state(num which)
{
    unsigned flags = 0;
    int active = 0;

    cuDevicePrimaryCtxGetState(replay_card(which), &flags, &active);
    replay_say(" %u %d", flags, active);
}

OP(prel)
{
    CUresult r;

    if (!rp.ctxs[a[0]] || !rp.retained[a[1]])
        return NO_OBJECT;
    r = cuDevicePrimaryCtxRelease_v2(replay_card(a[1]));
    if (r == CUDA_SUCCESS && --rp.retained[a[1]] == 0) {
        rp.ctxs[a[0]] = NULL;
        forget(a[0]);
    }
    say_state(a[1]);
    return (int)r;
}

/* What the context has is gone; it stays retained. */
OP(prst)
{
    CUresult r;

    if (!rp.ctxs[a[0]] || !rp.retained[a[1]])
        return NO_OBJECT;
    r = cuDevicePrimaryCtxReset_v2(replay_card(a[1]));
    if (r == CUDA_SUCCESS)
        forget(a[0]);
    say_state(a[1]);
    return (int)r;
}

OP(pask)
{
    say_state(a[0]);
    return 0;
}

OP(settle)
{
    rp.settling = a[0] != 0;
    return 0;
}

OP(keep)
{
    rp.keeping = a[0] != 0;
    return 0;
}

/* ---- the end of a program ---- */

void
replay_leave_contexts(void)
{
    CUcontext ctx = NULL;

    for (int i = 0; i < 64 && cuCtxPopCurrent_v2(&ctx) == CUDA_SUCCESS && ctx; i++)
        ;
}

static void
drop_graphs(void)
{
    for (int i = 0; i < REPLAY_SLOTS; i++) {
        if (rp.execs[i])
            cuGraphExecDestroy(rp.execs[i]);
        if (rp.graphs[i])
            cuGraphDestroy(rp.graphs[i]);
    }
}

static void
drop_hosts(void)
{
    for (int i = 0; i < REPLAY_SLOTS; i++)
        if (rp.hosts[i].at && rp.hosts[i].locked)
            cuMemFreeHost(rp.hosts[i].at);
    replay_give_back();
}

/* An error that a driver reports later comes instead of what an answered call does, so
 * the next program could get one of this program's: it is fetched here. */
static void
fetch_errors(void)
{
    cuuint64_t used;

    for (int i = 0; i < 2; i++)
        cuDeviceGetGraphMemAttribute(replay_card(i), CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT,
                                     &used);
}

/* Streams that capture go first: while they do, other calls are forbidden. */
static void
drop_streams(void)
{
    for (int i = 0; i < REPLAY_SLOTS; i++)
        if (rp.streams[i])
            cuStreamDestroy_v2(rp.streams[i]);
    fetch_errors();
    for (int i = 0; i < REPLAY_SLOTS; i++) {
        if (!rp.ctxs[i] || cuCtxPushCurrent_v2(rp.ctxs[i]) != CUDA_SUCCESS)
            continue;
        cuCtxSynchronize();
        cuCtxPopCurrent_v2(&(CUcontext){NULL});
    }
}

void
replay_reset(void)
{
    CUcontext any = NULL;

    drop_streams();
    drop_graphs();
    for (int i = 0; i < REPLAY_SLOTS && !any; i++)
        any = rp.ctxs[i];
    if (any)
        cuCtxPushCurrent_v2(any);
    drop_hosts();
    replay_drop_mapped();
    replay_leave_contexts();
    for (int i = 0; i < REPLAY_SLOTS; i++) {
        if (rp.ctxs[i])
            cuCtxDestroy_v2(rp.ctxs[i]); /* a primary context refuses it */
        for (; rp.retained[i]; rp.retained[i]--)
            cuDevicePrimaryCtxRelease_v2(replay_card(i));
    }
    replay_leave_contexts();
    fetch_errors();
    memset(&rp, 0, sizeof(rp));
}

const struct replay_op replay_context_ops[] = {
    NAMED(ctx),   NAMED(ctxd),   NAMED(cur),  NAMED(push),  NAMED(pop),  NAMED(cask),
    NAMED(csync), NAMED(pret),   NAMED(prel), NAMED(prst),  NAMED(pask), NAMED(fasks),
    NAMED(fnew),  NAMED(settle), NAMED(keep), {NULL, NULL},
};
