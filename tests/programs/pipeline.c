/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A two-stream pipeline with events through the driver API.
 *
 * Chunks go up and through the first stage on one stream, through the second
 * stage and down on the other; an event hands each chunk over.  Each chunk lives
 * in one of two device buffers that are used again, so a wait that is not
 * honoured, in either direction, spoils the result.
 */
#include "prog.h"
#include "ref_pipeline.h"

#include <string.h>

PROG_EMBED(pipeline_ptx, "pipeline.ptx");

struct pipeline {
    CUfunction scramble, rotate;
    CUstream up, down;
    CUdeviceptr buffer[PIPELINE_BUFFERS];
    CUevent scrambled[PIPELINE_BUFFERS]; /* on up: the second stage may start */
    CUevent drained[PIPELINE_BUFFERS];   /* on down: the buffer may be refilled */
    CUevent begin, end;
    uint32_t *in, *out; /* page-locked */
};

static void
pipeline_open(struct pipeline *pipe, const struct prog *prog)
{
    pipe->scramble = prog_kernel(prog, "stage_scramble");
    pipe->rotate = prog_kernel(prog, "stage_rotate");
    CU(cuStreamCreate(&pipe->up, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&pipe->down, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&pipe->begin, CU_EVENT_DEFAULT));
    CU(cuEventCreate(&pipe->end, CU_EVENT_DEFAULT));
    for (unsigned i = 0; i < PIPELINE_BUFFERS; i++) {
        CU(cuMemAlloc(&pipe->buffer[i], PIPELINE_CHUNK_BYTES));
        CU(cuEventCreate(&pipe->scrambled[i], CU_EVENT_DISABLE_TIMING));
        CU(cuEventCreate(&pipe->drained[i], CU_EVENT_DISABLE_TIMING));
    }
    CU(cuMemHostAlloc((void **)&pipe->in, PIPELINE_BYTES, 0));
    CU(cuMemHostAlloc((void **)&pipe->out, PIPELINE_BYTES, 0));
}

static void
pipeline_close(struct pipeline *pipe)
{
    for (unsigned i = 0; i < PIPELINE_BUFFERS; i++) {
        CU(cuEventDestroy(pipe->scrambled[i]));
        CU(cuEventDestroy(pipe->drained[i]));
        CU(cuMemFree(pipe->buffer[i]));
    }
    CU(cuEventDestroy(pipe->begin));
    CU(cuEventDestroy(pipe->end));
    CU(cuStreamDestroy(pipe->up));
    CU(cuStreamDestroy(pipe->down));
    CU(cuMemFreeHost(pipe->in));
    CU(cuMemFreeHost(pipe->out));
}

static void
pipeline_stage(CUfunction kernel, CUstream stream, CUdeviceptr data, unsigned argument)
{
    unsigned count = PIPELINE_CHUNK;
    void *params[] = {&data, &count, &argument};

    CU(cuLaunchKernel(kernel, PIPELINE_BLOCKS, 1, 1, PIPELINE_BLOCK, 1, 1, 0, stream,
                      params, NULL));
}

static void
pipeline_run(struct pipeline *pipe)
{
    CU(cuEventRecord(pipe->begin, pipe->up));
    for (unsigned chunk = 0; chunk < PIPELINE_CHUNKS; chunk++) {
        unsigned slot = chunk % PIPELINE_BUFFERS;
        CUdeviceptr data = pipe->buffer[slot];

        if (chunk >= PIPELINE_BUFFERS)
            CU(cuStreamWaitEvent(pipe->up, pipe->drained[slot], 0));
        CU(cuMemcpyHtoDAsync(data, pipe->in + chunk * PIPELINE_CHUNK,
                             PIPELINE_CHUNK_BYTES, pipe->up));
        pipeline_stage(pipe->scramble, pipe->up, data, pipeline_key(chunk));
        CU(cuEventRecord(pipe->scrambled[slot], pipe->up));

        CU(cuStreamWaitEvent(pipe->down, pipe->scrambled[slot], 0));
        pipeline_stage(pipe->rotate, pipe->down, data, pipeline_bits(chunk));
        CU(cuMemcpyDtoHAsync(pipe->out + chunk * PIPELINE_CHUNK, data,
                             PIPELINE_CHUNK_BYTES, pipe->down));
        CU(cuEventRecord(pipe->drained[slot], pipe->down));
    }
    CU(cuEventRecord(pipe->end, pipe->down));
    CU(cuEventSynchronize(pipe->end));
}

/* The whole pipeline has run, so both streams are idle and time went on. */
static size_t
pipeline_count_late(const struct pipeline *pipe)
{
    float ms = -1.0f;

    CU(cuStreamSynchronize(pipe->up));
    CU(cuStreamSynchronize(pipe->down));
    CU(cuStreamQuery(pipe->up));
    CU(cuStreamQuery(pipe->down));
    CU(cuEventQuery(pipe->end));
    CU(cuEventElapsedTime(&ms, pipe->begin, pipe->end));
    return !(ms >= 0.0f);
}

int
main(int argc, char **argv)
{
    struct prog prog;
    struct pipeline pipe;
    size_t wrong = 0;
    int status;

    prog_begin(&prog, argc, argv, "pipeline", pipeline_ptx);
    pipeline_open(&pipe, &prog);
    pipeline_fill(pipe.in);

    for (int round = 0; round < prog.rounds; round++) {
        memset(pipe.out, 0, PIPELINE_BYTES);
        pipeline_run(&pipe);
        wrong += pipeline_count_late(&pipe);
        wrong += pipeline_count_wrong(pipe.in, pipe.out);
    }
    status = pipeline_report(wrong, pipe.out);
    pipeline_close(&pipe);
    prog_end(&prog);
    return status;
}
