/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One training step, as a framework issues it, over and over: what a slow link
 * costs a user.
 *
 * The sequence has the shape of a recorded small-network step: two batches up
 * from page-locked memory, forward and backward as 160 launches on one stream
 * with the queries, events and memsets that an allocator and libraries sprinkle
 * between them, an optimiser, and then the loss is read and the stream is waited for,
 * which makes two synchronisations of its own.
 */
#include "bench.h"

#include <string.h>

#define BATCH_BYTES (48u * 1024u)
#define LAYERS 20
#define LAUNCHES_PER_LAYER 8

extern const char step_ptx[];
__asm__(".pushsection .rodata\n"
        "step_ptx:\n"
        ".incbin \"vecadd.ptx\"\n"
        ".byte 0\n"
        ".popsection\n");

struct step {
    CUcontext context;
    CUmodule module;
    CUfunction kernel;
    CUstream stream;
    CUevent forward_done, step_done;
    CUdeviceptr inputs, labels, weights, loss;
    char *batch; /* page-locked */
};

static void
step_open(struct step *step)
{
    CUdevice device;

    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuCtxCreate(&step->context, 0, device));
    CU(cuModuleLoadData(&step->module, step_ptx));
    CU(cuModuleGetFunction(&step->kernel, step->module, "vecadd"));
    CU(cuStreamCreate(&step->stream, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&step->forward_done, CU_EVENT_DISABLE_TIMING));
    CU(cuEventCreate(&step->step_done, CU_EVENT_DISABLE_TIMING));
    CU(cuMemAlloc(&step->inputs, BATCH_BYTES));
    CU(cuMemAlloc(&step->labels, BATCH_BYTES));
    CU(cuMemAlloc(&step->weights, 1 << 20));
    CU(cuMemAlloc(&step->loss, 256));
    CU(cuMemHostAlloc((void **)&step->batch, BATCH_BYTES, 0));
    memset(step->batch, 1, BATCH_BYTES);
}

static void
step_launch(struct step *step, CUdeviceptr in, CUdeviceptr out)
{
    unsigned count = 1024;
    void *params[] = {&in, &step->weights, &out, &count};

    CU(cuLaunchKernel(step->kernel, 4, 1, 1, 256, 1, 1, 0, step->stream, params, NULL));
}

static void
step_layer(struct step *step)
{
    CUstreamCaptureStatus capturing;
    CUcontext current;
    CUdevice device;

    /* What libraries ask at every turn; all of it is known on the client. */
    CU(cuCtxGetCurrent(&current));
    CU(cuCtxGetDevice(&device));
    CU(cuStreamIsCapturing(step->stream, &capturing));
    for (int i = 0; i < LAUNCHES_PER_LAYER; i++)
        step_launch(step, step->inputs, step->inputs);
}

static float
step_run(struct step *step)
{
    float loss = 0;

    CU(cuMemcpyHtoDAsync(step->inputs, step->batch, BATCH_BYTES, step->stream));
    CU(cuMemcpyHtoDAsync(step->labels, step->batch, BATCH_BYTES, step->stream));
    CU(cuMemsetD8Async(step->loss, 0, 4, step->stream));
    for (int layer = 0; layer < LAYERS / 2; layer++)
        step_layer(step);
    CU(cuEventRecord(step->forward_done, step->stream));
    CU(cuStreamWaitEvent(step->stream, step->forward_done, 0));
    for (int layer = 0; layer < LAYERS / 2; layer++)
        step_layer(step);
    step_launch(step, step->weights, step->weights);
    CU(cuEventRecord(step->step_done, step->stream));
    CU(cuMemcpyDtoHAsync(&loss, step->loss, sizeof(loss), step->stream));
    CU(cuStreamSynchronize(step->stream));
    return loss;
}

int
main(int argc, char **argv)
{
    long steps = bench_option(argc, argv, "--steps", 50);
    struct step step;
    struct bench_times times = {0};

    bench_pin((int)bench_option(argc, argv, "--core", -1));
    step_open(&step);
    for (int i = 0; i < 3; i++)
        step_run(&step);
    for (long i = 0; i < steps; i++) {
        uint64_t start = bench_now_ns();

        step_run(&step);
        bench_times_add(&times, bench_now_ns() - start);
    }
    bench_say("step_ms", bench_times_percentile(&times, 50) / 1e6);
    bench_times_free(&times);
    CU(cuCtxDestroy(step.context));
    return 0;
}
