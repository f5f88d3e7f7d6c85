/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk through the CUDA runtime, one line per feature; see features.c.
 *
 * What a runtime program does without knowing: images registered before main(),
 * symbols, properties, callbacks, capture, threads with default streams of their
 * own, and an exit that frees nothing.
 */
#include "features.cu"
#include "rt.h"

#include <string.h>
#include <thread>

#define VALUES 1000u

struct feature {
    const char *name;
    size_t (*check)(void);
};

#define TRY(call)                                                                      \
    do {                                                                               \
        cudaError_t try_result = (call);                                               \
        if (try_result != cudaSuccess)                                                 \
            return failed(#call, try_result);                                          \
    } while (0)

static size_t
failed(const char *call, cudaError_t result)
{
    printf("features: %s gave %d\n", call, (int)result);
    return 1;
}

static size_t
check_properties(void)
{
    cudaDeviceProp properties;
    size_t free_bytes = 0, total = 0;
    int count = 0;

    TRY(cudaGetDeviceCount(&count));
    TRY(cudaGetDeviceProperties(&properties, 0));
    TRY(cudaMemGetInfo(&free_bytes, &total));
    return (size_t)(count < 1) + (properties.warpSize != 32) +
           (properties.totalGlobalMem != total) + (strlen(properties.name) == 0);
}

static size_t
check_symbols(void)
{
    unsigned factors[4] = {2, 3, 5, 7}, values[VALUES], launches = 0, *data;
    size_t wrong = 0;

    for (unsigned i = 0; i < VALUES; i++)
        values[i] = i + 1;
    TRY(cudaMemcpyToSymbol(feature_factor, factors, sizeof(factors)));
    TRY(cudaMalloc(&data, sizeof(values)));
    TRY(cudaMemcpy(data, values, sizeof(values), cudaMemcpyDefault));
    feature_scale<<<8, 128>>>(data, VALUES);
    TRY(cudaGetLastError());
    TRY(cudaMemcpy(values, data, sizeof(values), cudaMemcpyDefault));
    TRY(cudaMemcpyFromSymbol(&launches, feature_launches, sizeof(launches)));
    TRY(cudaFree(data));
    for (unsigned i = 0; i < VALUES; i++)
        wrong += values[i] != (i + 1) * factors[i % 4];
    return wrong + (launches != 6);
}

static size_t
check_parameters(void)
{
    struct feature_mixed mixed = {7, 2.25, {1, 2, 3}};
    static const unsigned long long expected[7] = {201, 3, 60001, 7, 9, 321, 5};
    unsigned long long got[7], *out;

    TRY(cudaMalloc(&out, sizeof(got)));
    feature_params<<<1, 1>>>(201, 1.5, 60001, mixed, out, 0.625f);
    TRY(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
    TRY(cudaFree(out));
    return memcmp(got, expected, sizeof(got)) != 0;
}

static size_t
check_dynamic_shared(void)
{
    unsigned values[512], *data;
    size_t wrong = 0;

    for (unsigned i = 0; i < 512; i++)
        values[i] = i;
    TRY(cudaMalloc(&data, sizeof(values)));
    TRY(cudaMemcpy(data, values, sizeof(values), cudaMemcpyHostToDevice));
    feature_reverse<<<4, 128, 128 * sizeof(unsigned)>>>(data);
    TRY(cudaMemcpy(values, data, sizeof(values), cudaMemcpyDeviceToHost));
    TRY(cudaFree(data));
    for (unsigned i = 0; i < 512; i++)
        wrong += values[i] != i / 128 * 128 + 127 - i % 128;
    return wrong;
}

static size_t
check_occupancy(void)
{
    cudaFuncAttributes attributes;
    int blocks = 0;

    TRY(cudaFuncGetAttributes(&attributes, feature_reverse));
    TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, feature_reverse, 128,
                                                      512));
    return (size_t)(attributes.maxThreadsPerBlock < 128) + (blocks < 1);
}

static size_t
check_errors(void)
{
    void *data = NULL;
    size_t wrong = 0;

    wrong += cudaMalloc(&data, (size_t)1 << 50) != cudaErrorMemoryAllocation;
    wrong += cudaGetLastError() != cudaErrorMemoryAllocation;
    wrong += cudaGetLastError() != cudaSuccess;
    feature_scale<<<1, 5000>>>(NULL, 0);
    cudaError_t launched = cudaGetLastError();
    cudaError_t waited = cudaDeviceSynchronize();
    wrong += launched == cudaSuccess && waited == cudaSuccess;
    (void)cudaGetLastError();
    wrong += cudaDeviceSynchronize() != cudaSuccess;
    return wrong;
}

static void
count_host_call(void *argument)
{
    ++*static_cast<int *>(argument);
}

static size_t
check_streams_and_callbacks(void)
{
    cudaStream_t stream;
    int calls = 0;
    void *data;

    TRY(cudaStreamCreate(&stream));
    TRY(cudaMallocAsync(&data, 4096, stream));
    TRY(cudaMemsetAsync(data, 1, 4096, stream));
    TRY(cudaLaunchHostFunc(stream, count_host_call, &calls));
    TRY(cudaFreeAsync(data, stream));
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaStreamDestroy(stream));
    return calls != 1;
}

static size_t
check_copy_2d(void)
{
    unsigned char from[16][32], to[16][32];
    size_t pitch = 0, wrong = 0;
    void *data;

    for (int i = 0; i < 16 * 32; i++)
        from[i / 32][i % 32] = (unsigned char)i;
    TRY(cudaMallocPitch(&data, &pitch, 32, 16));
    TRY(cudaMemcpy2D(data, pitch, from, 32, 32, 16, cudaMemcpyHostToDevice));
    TRY(cudaMemcpy2D(to, 32, data, pitch, 32, 16, cudaMemcpyDeviceToHost));
    TRY(cudaFree(data));
    wrong += memcmp(from, to, sizeof(from)) != 0;
    return wrong;
}

static size_t
check_graph(void)
{
    unsigned values[VALUES], factors[4] = {2, 2, 2, 2}, *data;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    size_t wrong = 0;

    for (unsigned i = 0; i < VALUES; i++)
        values[i] = i + 1;
    TRY(cudaMemcpyToSymbol(feature_factor, factors, sizeof(factors)));
    TRY(cudaMalloc(&data, sizeof(values)));
    TRY(cudaMemcpy(data, values, sizeof(values), cudaMemcpyHostToDevice));
    TRY(cudaStreamCreate(&stream));
    TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    feature_scale<<<8, 128, 0, stream>>>(data, VALUES);
    TRY(cudaStreamEndCapture(stream, &graph));
    TRY(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 4; i++)
        TRY(cudaGraphLaunch(exec, stream));
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaGraphExecDestroy(exec));
    TRY(cudaGraphDestroy(graph));
    TRY(cudaStreamDestroy(stream));
    TRY(cudaMemcpy(values, data, sizeof(values), cudaMemcpyDeviceToHost));
    TRY(cudaFree(data));
    for (unsigned i = 0; i < VALUES; i++)
        wrong += values[i] != (i + 1) * 16;
    return wrong;
}

static void
reverse_twice(size_t *wrong)
{
    unsigned values[128], *data = NULL;

    *wrong = 0;
    for (unsigned i = 0; i < 128; i++)
        values[i] = i * 3;
    RT(cudaMalloc(&data, sizeof(values)));
    RT(cudaMemcpyAsync(data, values, sizeof(values), cudaMemcpyHostToDevice,
                       cudaStreamPerThread));
    for (int i = 0; i < 21; i++)
        feature_reverse<<<1, 128, sizeof(values), cudaStreamPerThread>>>(data);
    RT(cudaMemcpyAsync(values, data, sizeof(values), cudaMemcpyDeviceToHost,
                       cudaStreamPerThread));
    RT(cudaStreamSynchronize(cudaStreamPerThread));
    RT(cudaFree(data));
    for (unsigned i = 0; i < 128; i++)
        *wrong += values[i] != (127 - i) * 3;
}

static size_t
check_threads(void)
{
    size_t wrong[4];
    std::thread threads[4];

    for (int i = 0; i < 4; i++)
        threads[i] = std::thread(reverse_twice, &wrong[i]);
    for (int i = 0; i < 4; i++)
        threads[i].join();
    return wrong[0] + wrong[1] + wrong[2] + wrong[3];
}

static const struct feature features[] = {
    {"properties", check_properties},
    {"symbols", check_symbols},
    {"parameters", check_parameters},
    {"dynamic shared memory", check_dynamic_shared},
    {"occupancy", check_occupancy},
    {"errors", check_errors},
    {"streams and callbacks", check_streams_and_callbacks},
    {"2D copy", check_copy_2d},
    {"graph", check_graph},
    {"threads", check_threads},
};

int
main(int argc, char **argv)
{
    size_t wrong = 0;
    void *never_freed;

    RT(cudaMalloc(&never_freed, 1 << 16));
    for (const struct feature &feature : features) {
        if (argc > 1 && strncmp(feature.name, argv[1], strlen(argv[1])) != 0)
            continue;
        size_t bad = feature.check();

        printf("features: %s: %s\n", feature.name, bad ? "WRONG" : "ok");
        fflush(stdout);
        wrong += bad;
    }
    return wrong != 0;
}
