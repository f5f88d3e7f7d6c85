/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the program behind a kernel that fails: a callback whose
 * cuStreamAddCallback() succeeded is called once, with the error, in the order of its
 * stream; a function of cuLaunchHostFunc() is not called.
 *
 * Each part has its own process, which the failing kernel leaves without a context.
 */
#include "parts.h"

#include <stdatomic.h>
#include <time.h>

#define CALLBACKS 20

static const char ptx[] = ".version 7.0\n"
                          ".target sm_70\n"
                          ".address_size 64\n"
                          ".visible .entry wild(.param .u64 at)\n"
                          "{\n"
                          "    .reg .b64 %rd<2>;\n"
                          "    .reg .b32 %r<2>;\n"
                          "    ld.param.u64 %rd1, [at];\n"
                          "    mov.u32 %r1, 7;\n"
                          "    st.global.u32 [%rd1], %r1;\n"
                          "    ret;\n"
                          "}\n";

struct bench {
    CUcontext ctx;
    CUmodule mod;
    CUfunction wild;
    CUstream stream;
};

/* What the callbacks saw; they run one after the other. */
static struct {
    _Atomic int called, functions;
    int next;    /* number of the callback that has its turn */
    int wrong;   /* calls out of order, or of another stream */
    int unknown; /* calls with a status other than the error */
    CUstream stream;
} seen;

static void
sleep_ms(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

    nanosleep(&t, NULL);
}

static int
begin(struct bench *b)
{
    TRY(cuInit(0));
    TRY(cuCtxCreate_v2(&b->ctx, 0, 0));
    TRY(cuModuleLoadData(&b->mod, ptx));
    TRY(cuModuleGetFunction(&b->wild, b->mod, "wild"));
    TRY(cuStreamCreate(&b->stream, CU_STREAM_NON_BLOCKING));
    TRY(cuCtxSynchronize());
    seen.stream = b->stream;
    return 0;
}

static int
fail(const struct bench *b)
{
    CUdeviceptr at = 16;
    void *params[] = {&at};

    TRY(cuLaunchKernel(b->wild, 1, 1, 1, 1, 1, 1, 0, b->stream, params, NULL));
    return 0;
}

static void
on_end(CUstream stream, CUresult status, void *number)
{
    seen.wrong += stream != seen.stream || *(int *)number != seen.next;
    seen.next++;
    seen.unknown += status != CUDA_ERROR_ILLEGAL_ADDRESS;
    atomic_fetch_add(&seen.called, 1);
}

static void
on_function(void *data)
{
    (void)data;
    atomic_fetch_add(&seen.functions, 1);
}

/* Callbacks from now on, @ms apart: some perhaps before and some after the driver knows
 * of the error.  They must all be called, without any further call of CUDA. */
static int
all_are_called(const struct bench *b, int ms)
{
    static int number[CALLBACKS];
    int accepted = 0;

    for (int i = 0; i < CALLBACKS; i++) {
        CUresult r;

        number[accepted] = accepted;
        r = cuStreamAddCallback(b->stream, on_end, &number[accepted], 0);
        if (r != CUDA_SUCCESS && r != CUDA_ERROR_ILLEGAL_ADDRESS)
            CODE(r, CUDA_SUCCESS);
        accepted += r == CUDA_SUCCESS;
        r = cuLaunchHostFunc(b->stream, on_function, NULL);
        if (r != CUDA_SUCCESS && r != CUDA_ERROR_ILLEGAL_ADDRESS)
            CODE(r, CUDA_SUCCESS);
        sleep_ms(ms);
    }
    for (int i = 0; i < 5000 && atomic_load(&seen.called) < accepted; i++)
        sleep_ms(1);
    sleep_ms(20);
    SAME(atomic_load(&seen.called), accepted);
    SAME(seen.wrong, 0);
    SAME(seen.unknown, 0);
    SAME(atomic_load(&seen.functions), 0);
    CODE(cuStreamSynchronize(b->stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    return 0;
}

static int
at_once(void)
{
    struct bench b;

    return begin(&b) || fail(&b) || all_are_called(&b, 0);
}

static int
one_by_one(void)
{
    struct bench b;

    return begin(&b) || fail(&b) || all_are_called(&b, 2);
}

static int
when_it_has_failed(void)
{
    struct bench b;

    if (begin(&b) || fail(&b))
        return 1;
    sleep_ms(100);
    return all_are_called(&b, 0);
}

/* Whoever was given a stream and had a callback accepted there is called, although the
 * driver made no stream any more. */
static int
on_a_stream_that_was_not_made(void)
{
    CUstream stream;
    int number = 0;
    struct bench b;
    CUresult r;

    if (begin(&b) || fail(&b))
        return 1;
    sleep_ms(100);
    if (cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return 0;
    seen.stream = stream;
    r = cuStreamAddCallback(stream, on_end, &number, 0);
    for (int i = 0; i < 5000 && r == CUDA_SUCCESS && !atomic_load(&seen.called); i++)
        sleep_ms(1);
    sleep_ms(20);
    SAME(atomic_load(&seen.called), r == CUDA_SUCCESS);
    SAME(seen.wrong, 0);
    return 0;
}

/* The error is known: nothing is accepted, and nothing called. */
static int
when_the_error_is_known(void)
{
    int number = 0;
    struct bench b;

    if (begin(&b) || fail(&b))
        return 1;
    CODE(cuStreamSynchronize(b.stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    CODE(cuStreamAddCallback(b.stream, on_end, &number, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
    CODE(cuLaunchHostFunc(b.stream, on_function, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
    sleep_ms(50);
    SAME(atomic_load(&seen.called) + atomic_load(&seen.functions), 0);
    return 0;
}

int
main(void)
{
    static const struct part parts[] = {
        {"callbacks at once", at_once},
        {"callbacks one by one", one_by_one},
        {"callbacks when the kernel has failed", when_it_has_failed},
        {"callbacks on a stream that was not made", on_a_stream_that_was_not_made},
        {"callbacks when the error is known", when_the_error_is_known},
    };

    return parts_run_apart(parts, sizeof(parts) / sizeof(parts[0]));
}
