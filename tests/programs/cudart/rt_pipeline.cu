/* SPDX-License-Identifier: Apache-2.0 */
/* A two-stream pipeline with events through the CUDA runtime; see pipeline.c. */
#include "pipeline.cu"
#include "ref_pipeline.h"
#include "rt.h"

#include <string.h>

struct pipeline {
    cudaStream_t up, down;
    uint32_t *buffer[PIPELINE_BUFFERS];
    cudaEvent_t scrambled[PIPELINE_BUFFERS];
    cudaEvent_t drained[PIPELINE_BUFFERS];
    cudaEvent_t begin, end;
    uint32_t *in, *out;
};

static void
pipeline_open(struct pipeline *pipe)
{
    RT(cudaStreamCreateWithFlags(&pipe->up, cudaStreamNonBlocking));
    RT(cudaStreamCreateWithFlags(&pipe->down, cudaStreamNonBlocking));
    RT(cudaEventCreate(&pipe->begin));
    RT(cudaEventCreate(&pipe->end));
    for (unsigned i = 0; i < PIPELINE_BUFFERS; i++) {
        pipe->buffer[i] = rt_device<uint32_t>(PIPELINE_CHUNK_BYTES);
        RT(cudaEventCreateWithFlags(&pipe->scrambled[i], cudaEventDisableTiming));
        RT(cudaEventCreateWithFlags(&pipe->drained[i], cudaEventDisableTiming));
    }
    RT(cudaMallocHost((void **)&pipe->in, PIPELINE_BYTES));
    RT(cudaMallocHost((void **)&pipe->out, PIPELINE_BYTES));
}

static void
pipeline_close(struct pipeline *pipe)
{
    for (unsigned i = 0; i < PIPELINE_BUFFERS; i++) {
        RT(cudaEventDestroy(pipe->scrambled[i]));
        RT(cudaEventDestroy(pipe->drained[i]));
        RT(cudaFree(pipe->buffer[i]));
    }
    RT(cudaEventDestroy(pipe->begin));
    RT(cudaEventDestroy(pipe->end));
    RT(cudaStreamDestroy(pipe->up));
    RT(cudaStreamDestroy(pipe->down));
    RT(cudaFreeHost(pipe->in));
    RT(cudaFreeHost(pipe->out));
}

static void
pipeline_run(struct pipeline *pipe)
{
    RT(cudaEventRecord(pipe->begin, pipe->up));
    for (unsigned chunk = 0; chunk < PIPELINE_CHUNKS; chunk++) {
        unsigned slot = chunk % PIPELINE_BUFFERS;
        uint32_t *data = pipe->buffer[slot];
        size_t at = (size_t)chunk * PIPELINE_CHUNK;

        if (chunk >= PIPELINE_BUFFERS)
            RT(cudaStreamWaitEvent(pipe->up, pipe->drained[slot], 0));
        RT(cudaMemcpyAsync(data, pipe->in + at, PIPELINE_CHUNK_BYTES,
                           cudaMemcpyHostToDevice, pipe->up));
        stage_scramble<<<PIPELINE_BLOCKS, PIPELINE_BLOCK, 0, pipe->up>>>(
            data, PIPELINE_CHUNK, pipeline_key(chunk));
        RT(cudaEventRecord(pipe->scrambled[slot], pipe->up));

        RT(cudaStreamWaitEvent(pipe->down, pipe->scrambled[slot], 0));
        stage_rotate<<<PIPELINE_BLOCKS, PIPELINE_BLOCK, 0, pipe->down>>>(
            data, PIPELINE_CHUNK, pipeline_bits(chunk));
        RT(cudaMemcpyAsync(pipe->out + at, data, PIPELINE_CHUNK_BYTES,
                           cudaMemcpyDeviceToHost, pipe->down));
        RT(cudaEventRecord(pipe->drained[slot], pipe->down));
    }
    RT(cudaGetLastError());
    RT(cudaEventRecord(pipe->end, pipe->down));
    RT(cudaEventSynchronize(pipe->end));
}

static size_t
pipeline_count_late(const struct pipeline *pipe)
{
    float ms = -1.0f;

    RT(cudaStreamSynchronize(pipe->up));
    RT(cudaStreamSynchronize(pipe->down));
    RT(cudaStreamQuery(pipe->up));
    RT(cudaEventQuery(pipe->end));
    RT(cudaEventElapsedTime(&ms, pipe->begin, pipe->end));
    return !(ms >= 0.0f);
}

int
main(int argc, char **argv)
{
    int rounds = util_rounds(argc, argv);
    struct pipeline pipe;
    size_t wrong = 0;

    pipeline_open(&pipe);
    pipeline_fill(pipe.in);
    for (int round = 0; round < rounds; round++) {
        memset(pipe.out, 0, PIPELINE_BYTES);
        pipeline_run(&pipe);
        wrong += pipeline_count_late(&pipe);
        wrong += pipeline_count_wrong(pipe.in, pipe.out);
    }
    int status = pipeline_report(wrong, pipe.out);
    pipeline_close(&pipe);
    return status;
}
