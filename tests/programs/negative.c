/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every driver call with wrong arguments, one after the other in one process: none may
 * crash, hang, or take the session down, and what is plainly wrong must be refused.
 *
 * Prints a line per call that was taken although it should not have been, then proves
 * that the device still works.  Exit status 0 when nothing was found.
 */
#include "cuda_api.h"
#include "negative_calls.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Longer than any refusal takes, even under a sanitizer; a hang is what it is for. */
#define CALL_SECONDS 30

static const char *volatile now = "start";
static volatile int now_kind;
static sigjmp_buf next_call;
static bool listing; /* every result, to be compared */

/* A crash is reported and the next call tried, a hang ends it: a thread stuck in the
 * library holds its locks. */
static void
died(int sig)
{
    const char *words = sig == SIGALRM ? "hangs: " : "crashes: ";
    char kind[] = " (kind 0)\n";

    kind[7] = (char)('0' + now_kind);
    if (write(STDOUT_FILENO, words, strlen(words)) < 0 ||
        write(STDOUT_FILENO, now, strlen(now)) < 0 ||
        write(STDOUT_FILENO, kind, strlen(kind)) < 0 || sig == SIGALRM)
        _exit(2);
    siglongjmp(next_call, 1);
}

static void
must(CUresult r, const char *what)
{
    if (r == CUDA_SUCCESS)
        return;
    printf("%s: error %d\n", what, (int)r);
    exit(1);
}

/* Calls that rightly change what later ones mean, and are tested elsewhere. */
static bool
left_out(const char *name)
{
    static const char *const names[] = {
        "cuStreamBeginCapture_ptsz",         /* captures the thread's stream */
        "cuStreamBeginCapture_v2_ptsz",      /* likewise */
        "cuStreamBeginCaptureToGraph_ptsz",  /* likewise */
        "cuThreadExchangeStreamCaptureMode", /* changes the thread's mode */
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static bool
should_refuse(const struct negative_call *call, enum negative_kind kind)
{
    switch (kind) {
    case NEGATIVE_ZERO:
        return call->needs_pointer || call->needs_handle;
    case NEGATIVE_NULL:
    case NEGATIVE_STALE:
    case NEGATIVE_FOREIGN:
        return call->needs_handle;
    default:
        return false;
    }
}

/* An asynchronous call may be refused at the next synchronisation instead. */
static bool
refused(const struct negative_call *call, const struct negative *n, CUcontext ctx)
{
    CUresult r, later;

    must(cuCtxSetCurrent(ctx), "cuCtxSetCurrent");
    now = call->name;
    now_kind = (int)n->kind;
    alarm(CALL_SECONDS);
    r = call->call(n);
    cuCtxSetCurrent(ctx);
    later = cuCtxSynchronize();
    alarm(0);
    if (r == CUDA_ERROR_UNKNOWN || later == CUDA_ERROR_UNKNOWN ||
        later == CUDA_ERROR_CONTEXT_IS_DESTROYED) {
        printf("%s (kind %d) leaves the session in error %d, %d\n", call->name,
               (int)n->kind, (int)r, (int)later);
        exit(1);
    }
    if (listing && r != NEGATIVE_ABSENT)
        printf("%s %d: %d %d\n", call->name, (int)n->kind, (int)r, (int)later);
    return r != CUDA_SUCCESS || later != CUDA_SUCCESS;
}

/* 1 when the call did what it must not. */
static unsigned
try_call(const struct negative_call *call, const struct negative *n, CUcontext ctx)
{
    if (sigsetjmp(next_call, 1))
        return 1;
    if (refused(call, n, ctx) || !should_refuse(call, n->kind))
        return 0;
    printf("%s takes wrong arguments of kind %d\n", call->name, (int)n->kind);
    return 1;
}

/* The names that the driver at hand exports; a software card has fewer than a client.
 */
static void *
find(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

static unsigned
run_kind(enum negative_kind kind, CUcontext ctx, CUevent event, CUdeviceptr freed)
{
    /* Kept to the end: a call may rightly have pinned it. */
    static void *kept[NEGATIVE_KINDS];
    void *scratch = kept[kind] = calloc(1, NEGATIVE_SCRATCH);
    unsigned taken = 0;

    if (!kept[kind])
        exit(1);
    for (unsigned i = 0; i < negative_call_count; i++) {
        const struct negative_call *call = &negative_calls[i];
        struct negative n = {.kind = kind,
                             .scratch = scratch,
                             .freed = freed,
                             .foreign = (uintptr_t)event,
                             .foreign_kind = WIRE_KIND_EVENT,
                             .find = find};

        memset(scratch, 0, NEGATIVE_SCRATCH);
        if (left_out(call->name))
            continue;
        taken += try_call(call, &n, ctx);
    }
    return taken;
}

static void
device_still_works(CUcontext ctx)
{
    CUdeviceptr mem = 0;
    uint32_t back[64];

    must(cuCtxSetCurrent(ctx), "cuCtxSetCurrent");
    must(cuMemAlloc_v2(&mem, sizeof(back)), "cuMemAlloc");
    must(cuMemsetD32_v2(mem, 0x5eed, 64), "cuMemsetD32");
    must(cuMemcpyDtoH_v2(back, mem, sizeof(back)), "cuMemcpyDtoH");
    must(cuMemFree_v2(mem), "cuMemFree");
    for (int i = 0; i < 64; i++)
        if (back[i] != 0x5eed) {
            printf("element %d is %#x afterwards\n", i, back[i]);
            exit(1);
        }
}

int
main(int argc, char **argv)
{
    CUevent event = NULL;
    CUcontext ctx = NULL;
    CUdeviceptr freed = 0;
    unsigned taken = 0;

    listing = argc > 1 && strcmp(argv[1], "list") == 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGSEGV, died);
    signal(SIGBUS, died);
    signal(SIGABRT, died);
    signal(SIGALRM, died);
    must(cuInit(0), "cuInit");
    must(cuCtxCreate_v2(&ctx, 0, 0), "cuCtxCreate");
    must(cuEventCreate(&event, 0), "cuEventCreate");
    must(cuMemAlloc_v2(&freed, 1 << 20), "cuMemAlloc");
    must(cuMemFree_v2(freed), "cuMemFree");
    for (int kind = 0; kind < NEGATIVE_KINDS; kind++)
        taken += run_kind((enum negative_kind)kind, ctx, event, freed);
    device_still_works(ctx);
    printf("%u calls, %u took wrong arguments\n", negative_call_count, taken);
    return taken ? 1 : 0;
}
