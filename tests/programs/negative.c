/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every driver call with wrong arguments, one after the other in one process: none may
 * crash, hang, or take the session down, and what is plainly wrong must be refused.
 *
 * Prints a line per call that was taken although it should not have been, then proves
 * that the device still works.  Exit status 0 when nothing was found.  A call that
 * crashes or hangs gets a line as well, and another process goes on with the next one.
 *
 *     negative [list] [known]
 *
 * list: every result as a line, to be compared.  known: only NULL pointers and handles
 * that are 0, which a real driver survives but for a few; it believes what it is told
 * of handles, addresses and counts.
 */
#include "cuda_api.h"
#include "negative_calls.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Longer than any refusal takes, even under a sanitizer; a hang is what it is for. */
#define CALL_SECONDS 30

/* Where the process that makes the calls is; its parent reads it when that ends. */
struct progress {
    int kind;
    unsigned call; /* of negative_calls: the one that is being made */
    unsigned taken;
    bool over; /* nothing is left to do, or the session is lost */
};

static struct progress *progress;
static bool listing; /* every result, to be compared */
static bool known;   /* nothing that no driver can check */

static void
give_up(void)
{
    progress->over = true;
    exit(1);
}

static void
must(CUresult r, const char *what)
{
    if (r == CUDA_SUCCESS)
        return;
    printf("%s: error %d\n", what, (int)r);
    give_up();
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
    alarm(CALL_SECONDS);
    r = call->call(n);
    cuCtxSetCurrent(ctx);
    later = cuCtxSynchronize();
    alarm(0);
    if (r == CUDA_ERROR_UNKNOWN || later == CUDA_ERROR_UNKNOWN ||
        later == CUDA_ERROR_CONTEXT_IS_DESTROYED) {
        printf("%s (kind %d) leaves the session in error %d, %d\n", call->name,
               (int)n->kind, (int)r, (int)later);
        give_up();
    }
    if (listing && r != NEGATIVE_ABSENT)
        printf("%s %d: %d %d\n", call->name, (int)n->kind, (int)r, (int)later);
    return r != CUDA_SUCCESS || later != CUDA_SUCCESS;
}

/* 1 when the call did what it must not. */
static unsigned
try_call(const struct negative_call *call, const struct negative *n, CUcontext ctx)
{
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

/* From the call on that progress names. */
static void
run_kind(enum negative_kind kind, CUcontext ctx, CUevent event, CUdeviceptr freed)
{
    /* Kept to the end: a call may rightly have pinned it. */
    static void *kept[NEGATIVE_KINDS];
    void *scratch = kept[kind] = calloc(1, NEGATIVE_SCRATCH);

    if (!kept[kind])
        give_up();
    for (; progress->call < negative_call_count; progress->call++) {
        const struct negative_call *call = &negative_calls[progress->call];
        struct negative n = {.kind = kind,
                             .scratch = scratch,
                             .freed = freed,
                             .foreign = (uintptr_t)event,
                             .foreign_kind = WIRE_KIND_EVENT,
                             .find = find};

        memset(scratch, 0, NEGATIVE_SCRATCH);
        if (left_out(call->name))
            continue;
        progress->taken += try_call(call, &n, ctx);
    }
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
            give_up();
        }
}

static void
run_rest(void)
{
    CUevent event = NULL;
    CUcontext ctx = NULL;
    CUdeviceptr freed = 0;

    must(cuInit(0), "cuInit");
    must(cuCtxCreate_v2(&ctx, 0, 0), "cuCtxCreate");
    must(cuEventCreate(&event, 0), "cuEventCreate");
    must(cuMemAlloc_v2(&freed, 1 << 20), "cuMemAlloc");
    must(cuMemFree_v2(freed), "cuMemFree");
    for (; progress->kind < (known ? NEGATIVE_STALE : NEGATIVE_KINDS);
         progress->kind++) {
        run_kind((enum negative_kind)progress->kind, ctx, event, freed);
        progress->call = 0;
    }
    device_still_works(ctx);
    progress->over = true;
}

/* Make the calls that are left, in a process of their own. */
static void
run_apart(void)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        run_rest();
        exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        exit(2);
    if (progress->over) {
        if (status)
            exit(1);
        return;
    }
    if (progress->kind >= NEGATIVE_KINDS || progress->call >= negative_call_count)
        exit(2);
    printf("%s: %s (kind %d)\n",
           WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "hangs" : "crashes",
           negative_calls[progress->call].name, progress->kind);
    progress->call++;
    progress->taken++;
}

int
main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        listing |= strcmp(argv[i], "list") == 0;
        known |= strcmp(argv[i], "known") == 0;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (progress == MAP_FAILED)
        return 2;
    while (!progress->over)
        run_apart();
    printf("%u calls, %u took wrong arguments\n", negative_call_count, progress->taken);
    return progress->taken ? 1 : 0;
}
