/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between cards of two servers of which one half fails: whatever the copy itself
 * answers, later ones find the way between the servers as it was.
 *
 *     halves CONTROL-FILE
 *
 * The drivers of both servers fail calls when they are told to (tests/faultdrv).
 */
#include "faultdrv.h"
#include "parts.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>

#define SIZE ((size_t)4096)

/* Calls in the course of one copy, at both ends. */
#define CALLS 8u

static struct faultdrv *control;
static CUcontext ctx[2];
static CUdevice dev[2];
static CUdeviceptr mem[2];

static int
begin(void)
{
    TRY(cuInit(0));
    for (int i = 0; i < 2; i++) {
        TRY(cuDeviceGet(&dev[i], i));
        TRY(cuDevicePrimaryCtxRetain(&ctx[i], dev[i]));
        TRY(cuCtxSetCurrent(ctx[i]));
        TRY(cuMemAlloc_v2(&mem[i], SIZE));
    }
    return 0;
}

/* In both directions; errors of earlier calls have been told. */
static int
copies_are_right(unsigned char value)
{
    unsigned char got[SIZE];

    for (int from = 0; from < 2; from++) {
        int to = !from;

        TRY(cuCtxSetCurrent(ctx[from]));
        TRY(cuMemsetD8_v2(mem[from], (unsigned char)(value + from), SIZE));
        TRY(cuMemcpyPeer(mem[to], ctx[to], mem[from], ctx[from], SIZE));
        TRY(cuCtxSetCurrent(ctx[to]));
        TRY(cuMemcpyDtoH_v2(got, mem[to], SIZE));
        SAME(got[0], (unsigned char)(value + from));
        SAME(memcmp(got, got + 1, SIZE - 1), 0);
    }
    return 0;
}

static void
tell_errors(void)
{
    for (int i = 0; i < 2; i++) {
        cuCtxSetCurrent(ctx[i]);
        while (cuCtxSynchronize() != CUDA_SUCCESS)
            continue;
    }
}

static void
fail(const char *stem, unsigned skip)
{
    snprintf(control->stem, sizeof(control->stem), "%s", stem);
    control->result = CUDA_ERROR_NOT_PERMITTED;
    control->skip = skip;
    atomic_store(&control->armed, 1);
}

/* A call before the copy has failed, and nobody knows yet. */
static int
behind_a_call_that_failed(void)
{
    for (int i = 0; i < 8; i++) {
        int to = i % 2;

        TRY(cuCtxSetCurrent(ctx[to]));
        fail("cuMemsetD8", 0);
        cuMemsetD8Async(mem[to], 1, 64, NULL);
        if (i < 4)
            cuMemcpyPeer(mem[to], ctx[to], mem[!to], ctx[!to], SIZE);
        else
            cuMemcpyPeerAsync(mem[to], ctx[to], mem[!to], ctx[!to], SIZE, NULL);
        tell_errors();
        SAME(atomic_exchange(&control->armed, 0), 0);
        if (copies_are_right((unsigned char)(10 + i)))
            return 1;
    }
    return 0;
}

/* One of the copy's own calls fails, in turn; some do. */
static int
each_call_fails(const char *stem)
{
    bool failed = false;

    for (unsigned i = 0; i < 2 * CALLS; i++) {
        int to = i % 2;

        TRY(cuCtxSetCurrent(ctx[0]));
        fail(stem, i / 2);
        cuMemcpyPeer(mem[to], ctx[to], mem[!to], ctx[!to], SIZE);
        failed = atomic_exchange(&control->armed, 0) == 0 || failed;
        tell_errors();
        if (copies_are_right((unsigned char)(20 + i)))
            return 1;
    }
    SAME(failed, true);
    return 0;
}

static int
where_a_wait_fails(void)
{
    return each_call_fails("cuStreamSynchronize");
}

static int
where_a_stream_is_not_made(void)
{
    return each_call_fails("cuStreamCreate");
}

static int
where_bytes_do_not_come(void)
{
    return each_call_fails("cuMemcpyDtoH");
}

static int
where_bytes_do_not_go(void)
{
    return each_call_fails("cuMemcpyHtoD");
}

/* Who waits for the stream of a copy learns that it failed, once, whichever context is
 * current: with a part of the card from the copy itself. */
static int
the_error_comes_to_who_waits(void)
{
    for (int i = 0; i < 4; i++) {
        int at = i % 2;
        CUresult posted, waited;
        CUstream stream;

        TRY(cuCtxSetCurrent(ctx[at]));
        TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        TRY(cuStreamSynchronize(stream));
        fail("cuMemcpyDtoH", 0);
        if (i < 2)
            posted =
                cuMemcpyPeerAsync(mem[at], ctx[at], mem[!at], ctx[!at], SIZE, stream);
        else
            posted =
                cuMemcpyPeerAsync(mem[!at], ctx[!at], mem[at], ctx[at], SIZE, stream);
        TRY(cuCtxSetCurrent(ctx[!at]));
        waited = cuStreamSynchronize(stream);
        SAME(atomic_exchange(&control->armed, 0), 0);
        SAME((posted == CUDA_SUCCESS) != (waited == CUDA_SUCCESS), true);
        TRY(cuStreamSynchronize(stream));
        TRY(cuStreamDestroy_v2(stream));
        if (copies_are_right((unsigned char)(50 + 2 * i)))
            return 1;
    }
    return 0;
}

/* A context at either end is gone before a copy that names it is made: on whole cards
 * that is behind the call. */
static int
contexts_that_end(void)
{
    for (int i = 0; i < 40; i++) {
        int at = i % 2;
        CUcontext own;

        TRY(cuCtxCreate_v2(&own, 0, dev[at]));
        TRY(cuCtxSetCurrent(ctx[!at]));
        if (i % 4 < 2)
            cuMemcpyPeerAsync(mem[at], own, mem[!at], ctx[!at], SIZE, NULL);
        else
            cuMemcpyPeerAsync(mem[!at], ctx[!at], mem[at], own, SIZE, NULL);
        TRY(cuCtxDestroy_v2(own));
        tell_errors();
        if (copies_are_right((unsigned char)(60 + i)))
            return 1;
    }
    return 0;
}

int
main(int argc, char **argv)
{
    static const struct part parts[] = {
        {"begin", begin},
        {"behind a call that failed", behind_a_call_that_failed},
        {"where a wait fails", where_a_wait_fails},
        {"where a stream is not made", where_a_stream_is_not_made},
        {"where bytes do not come", where_bytes_do_not_come},
        {"where bytes do not go", where_bytes_do_not_go},
        {"the error comes to who waits", the_error_comes_to_who_waits},
        {"contexts that end", contexts_that_end},
    };
    int fd = argc > 1 ? open(argv[1], O_RDWR) : -1;

    control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || control == MAP_FAILED)
        return 2;
    return parts_run(parts, sizeof(parts) / sizeof(*parts));
}
