/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk through the driver API beyond launch and copy: one line per feature.
 *
 * Each feature is checked against what CUDA promises.  A failing call fails its own
 * feature and not the program, and the lines hold no addresses, so the output of a
 * remote run can be compared with that of a run on the driver itself.
 *
 *     features [NAME]     all features, or those whose name begins with NAME
 */
#include "prog.h"

#include <pthread.h>
#include <string.h>

#define VALUES 1000u

PROG_EMBED(features_ptx, "features.ptx");

struct feature {
    const char *name;
    size_t (*check)(struct prog *prog);
};

/* In a feature: give up with a line when the call fails. */
#define TRY(call)                                                                      \
    do {                                                                               \
        CUresult try_result = (call);                                                  \
        if (try_result != CUDA_SUCCESS)                                                \
            return failed(#call, try_result);                                          \
    } while (0)

static size_t
failed(const char *call, CUresult result)
{
    printf("features: %s gave %d\n", call, (int)result);
    return 1;
}

static CUresult
scale(CUfunction kernel, CUdeviceptr data, CUstream stream)
{
    unsigned count = VALUES;
    void *params[] = {&data, &count};

    return cuLaunchKernel(kernel, (VALUES + 127) / 128, 1, 1, 128, 1, 1, 0, stream,
                          params, NULL);
}

static void
fill(uint32_t *values)
{
    for (uint32_t i = 0; i < VALUES; i++)
        values[i] = i + 1;
}

static size_t
check_errors(struct prog *prog)
{
    const char *name = NULL, *words = NULL;
    CUdeviceptr data = 0;
    CUfunction kernel;
    CUdevice device;
    size_t wrong = 0;

    TRY(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &name));
    TRY(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &words));
    wrong += strcmp(name, "CUDA_ERROR_OUT_OF_MEMORY") != 0;
    wrong += strlen(words) == 0;
    wrong += cuModuleGetFunction(&kernel, prog->module, "no_such_kernel") !=
             CUDA_ERROR_NOT_FOUND;
    wrong += cuMemAlloc(&data, 0) != CUDA_ERROR_INVALID_VALUE;
    wrong += cuDeviceGet(&device, 99) != CUDA_ERROR_INVALID_DEVICE;
    wrong += cuMemAlloc(NULL, 16) != CUDA_ERROR_INVALID_VALUE;
    return wrong;
}

static size_t
check_attributes(struct prog *prog)
{
    int warp = 0, threads = 0, major = 0;
    char name[128] = "";
    size_t total = 0, free_bytes = 0, total_now = 0;

    TRY(cuDeviceGetAttribute(&warp, CU_DEVICE_ATTRIBUTE_WARP_SIZE, prog->device));
    TRY(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                             prog->device));
    TRY(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                             prog->device));
    TRY(cuDeviceGetName(name, sizeof(name), prog->device));
    TRY(cuDeviceTotalMem(&total, prog->device));
    TRY(cuMemGetInfo(&free_bytes, &total_now));
    return (size_t)(warp != 32) + (threads < 1024) + (major < 7) + (strlen(name) == 0) +
           (total != total_now) + (free_bytes > total_now);
}

static size_t
check_globals(struct prog *prog)
{
    uint32_t values[VALUES], factors[4] = {2, 3, 5, 7};
    uint32_t launches = 0;
    CUdeviceptr data, factor, counter;
    size_t factor_size = 0, wrong = 0;
    CUfunction kernel = prog_kernel(prog, "feature_scale");

    fill(values);
    TRY(cuModuleGetGlobal_v2(&factor, &factor_size, prog->module, "feature_factor"));
    TRY(cuModuleGetGlobal_v2(&counter, NULL, prog->module, "feature_launches"));
    TRY(cuMemcpyHtoD(factor, factors, sizeof(factors)));
    TRY(cuMemAlloc(&data, sizeof(values)));
    TRY(cuMemcpyHtoD(data, values, sizeof(values)));
    TRY(scale(kernel, data, NULL));
    TRY(scale(kernel, data, NULL));
    TRY(cuMemcpyDtoH(values, data, sizeof(values)));
    TRY(cuMemcpyDtoH(&launches, counter, sizeof(launches)));
    TRY(cuMemFree(data));
    for (uint32_t i = 0; i < VALUES; i++)
        wrong += values[i] != (i + 1) * factors[i % 4] * factors[i % 4];
    return wrong + (factor_size != sizeof(factors)) + (launches != 5 + 2);
}

struct mixed {
    char one;
    double real;
    short two[3];
};

static size_t
check_parameters(struct prog *prog)
{
    unsigned char a = 201;
    double b = 1.5;
    unsigned short c = 60001;
    struct mixed d = {7, 2.25, {1, 2, 3}};
    float e = 0.625f;
    unsigned long long got[7] = {0};
    static const unsigned long long expected[7] = {201, 3, 60001, 7, 9, 321, 5};
    CUdeviceptr out;

    TRY(cuMemAlloc(&out, sizeof(got)));
    void *params[] = {&a, &b, &c, &d, &out, &e};
    TRY(cuLaunchKernel(prog_kernel(prog, "feature_params"), 1, 1, 1, 1, 1, 1, 0, NULL,
                       params, NULL));
    TRY(cuMemcpyDtoH(got, out, sizeof(got)));
    TRY(cuMemFree(out));
    return memcmp(got, expected, sizeof(got)) != 0;
}

/* The same kernel with its parameters in one buffer, as the caller laid them out. */
static size_t
check_parameter_buffer(struct prog *prog)
{
    uint32_t values[VALUES], factors[4] = {3, 3, 3, 3};
    struct {
        CUdeviceptr data;
        unsigned count;
    } buffer = {0, VALUES};
    size_t size = 12, wrong = 0;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer,
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    CUdeviceptr factor;

    fill(values);
    TRY(cuModuleGetGlobal_v2(&factor, NULL, prog->module, "feature_factor"));
    TRY(cuMemcpyHtoD(factor, factors, sizeof(factors)));
    TRY(cuMemAlloc(&buffer.data, sizeof(values)));
    TRY(cuMemcpyHtoD(buffer.data, values, sizeof(values)));
    TRY(cuLaunchKernel(prog_kernel(prog, "feature_scale"), 8, 1, 1, 128, 1, 1, 0, NULL,
                       NULL, extra));
    TRY(cuMemcpyDtoH(values, buffer.data, sizeof(values)));
    TRY(cuMemFree(buffer.data));
    for (uint32_t i = 0; i < VALUES; i++)
        wrong += values[i] != (i + 1) * 3;
    return wrong;
}

static size_t
check_dynamic_shared(struct prog *prog)
{
    uint32_t values[512];
    CUdeviceptr data;
    size_t wrong = 0;

    for (uint32_t i = 0; i < 512; i++)
        values[i] = i;
    TRY(cuMemAlloc(&data, sizeof(values)));
    TRY(cuMemcpyHtoD(data, values, sizeof(values)));
    void *params[] = {&data};
    TRY(cuLaunchKernel(prog_kernel(prog, "feature_reverse"), 4, 1, 1, 128, 1, 1,
                       128 * sizeof(uint32_t), NULL, params, NULL));
    TRY(cuMemcpyDtoH(values, data, sizeof(values)));
    TRY(cuMemFree(data));
    for (uint32_t i = 0; i < 512; i++)
        wrong += values[i] != i / 128 * 128 + 127 - i % 128;
    return wrong;
}

/* What the shape alone forbids is refused by the launch itself, and leaves nothing. */
static size_t
check_launch_refused(struct prog *prog)
{
    CUfunction func = prog_kernel(prog, "feature_bounded");
    CUlaunchConfig config = {1, 1, 1, 1, 1, 65, 0, NULL, NULL, 0};
    CUdeviceptr data;
    size_t wrong = 0;
    int most = 0;

    TRY(cuMemAlloc(&data, 4));
    void *params[] = {&data};
    TRY(cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, func));
    wrong += most != 64;
    wrong += cuLaunchKernel(func, 1, 1, 1, 65, 1, 1, 0, NULL, params, NULL) !=
             CUDA_ERROR_INVALID_VALUE;
    wrong += cuLaunchKernel(func, 1, 1, 1, 65536, 65536, 1, 0, NULL, params, NULL) !=
             CUDA_ERROR_INVALID_VALUE;
    wrong += cuLaunchKernel(func, 1, 0, 1, 32, 1, 1, 0, NULL, params, NULL) !=
             CUDA_ERROR_INVALID_VALUE;
    wrong += cuLaunchKernelEx(&config, func, params, NULL) != CUDA_ERROR_INVALID_VALUE;
    TRY(cuCtxSynchronize());
    TRY(cuLaunchKernel(func, 1, 1, 1, 8, 4, 2, 0, NULL, params, NULL));
    TRY(cuCtxSynchronize());
    TRY(cuMemFree(data));
    return wrong;
}

static size_t
check_function_attributes(struct prog *prog)
{
    CUfunction reverse = prog_kernel(prog, "feature_reverse");
    int threads = 0, blocks = 0, registers = -1;

    TRY(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, reverse));
    TRY(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, reverse));
    TRY(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reverse, 128, 512));
    return (size_t)(threads < 128) + (registers < 0) + (blocks < 1);
}

static size_t
check_copies_and_sets(struct prog *prog)
{
    uint32_t values[VALUES];
    unsigned char bytes[64];
    CUdeviceptr one, two;
    size_t wrong = 0;

    fill(values);
    TRY(cuMemAlloc(&one, sizeof(values)));
    TRY(cuMemAlloc(&two, sizeof(values)));
    TRY(cuMemcpyHtoD(one, values, sizeof(values)));
    TRY(cuMemcpyDtoD(two, one, sizeof(values)));
    TRY(cuMemsetD32(two + 8 * sizeof(uint32_t), 77, 4));
    TRY(cuMemsetD8(two, 0xab, 5));
    memset(values, 0, sizeof(values));
    TRY(cuMemcpyDtoH(values, two, sizeof(values)));
    TRY(cuMemcpyDtoH(bytes, two, sizeof(bytes)));
    TRY(cuMemFree(one));
    TRY(cuMemFree(two));
    for (int i = 0; i < 5; i++)
        wrong += bytes[i] != 0xab;
    for (uint32_t i = 2; i < VALUES; i++)
        wrong += values[i] != (i >= 8 && i < 12 ? 77 : i + 1);
    return wrong + (bytes[5] == 0xab);
}

static size_t
check_copy_2d(struct prog *prog)
{
    unsigned char from[16][32], to[16][32];
    CUdeviceptr data;
    size_t pitch = 0, wrong = 0;

    for (int i = 0; i < 16 * 32; i++)
        from[i / 32][i % 32] = (unsigned char)i;
    memset(to, 0, sizeof(to));
    TRY(cuMemAllocPitch_v2(&data, &pitch, 32, 16, 4));
    CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = from,
                        .srcPitch = 32,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = data,
                        .dstPitch = pitch,
                        .WidthInBytes = 32,
                        .Height = 16};
    CUDA_MEMCPY2D down = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = data,
                          .srcPitch = pitch,
                          .srcXInBytes = 4,
                          .srcY = 2,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = to,
                          .dstPitch = 32,
                          .WidthInBytes = 20,
                          .Height = 10};
    TRY(cuMemcpy2D_v2(&up));
    TRY(cuMemcpy2D_v2(&down));
    TRY(cuMemFree(data));
    for (int y = 0; y < 10; y++)
        for (int x = 0; x < 20; x++)
            wrong += to[y][x] != from[y + 2][x + 4];
    return wrong + (pitch < 32) + (to[10][0] != 0);
}

static size_t
check_unified_copy(struct prog *prog)
{
    uint32_t values[VALUES], back[VALUES] = {0};
    CUdeviceptr data;

    fill(values);
    TRY(cuMemAlloc(&data, sizeof(values)));
    TRY(cuMemcpy(data, (CUdeviceptr)(uintptr_t)values, sizeof(values)));
    TRY(cuMemcpy((CUdeviceptr)(uintptr_t)back, data, sizeof(back)));
    TRY(cuMemFree(data));
    return memcmp(values, back, sizeof(values)) != 0;
}

static size_t
check_pointers(struct prog *prog)
{
    CUdeviceptr data, base = 0;
    unsigned type = 0;
    size_t size = 0, wrong = 0;
    int here = 0;

    TRY(cuMemAlloc(&data, 4096));
    TRY(cuMemGetAddressRange_v2(&base, &size, data + 100));
    wrong += base != data || size != 4096;
    TRY(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, data + 8));
    wrong += type != CU_MEMORYTYPE_DEVICE;
    wrong += cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   (CUdeviceptr)(uintptr_t)&here) !=
             CUDA_ERROR_INVALID_VALUE;
    TRY(cuMemFree(data));
    return wrong;
}

static void
count_host_call(void *argument)
{
    ++*(int *)argument;
}

static size_t
check_host_function(struct prog *prog)
{
    CUstream stream;
    int calls = 0;

    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 5; i++)
        TRY(cuLaunchHostFunc(stream, count_host_call, &calls));
    TRY(cuStreamSynchronize(stream));
    TRY(cuStreamDestroy(stream));
    return calls != 5;
}

static size_t
check_priorities(struct prog *prog)
{
    int least = 99, greatest = 99, priority = 99;
    unsigned flags = 0;
    CUstream stream;

    TRY(cuCtxGetStreamPriorityRange(&least, &greatest));
    TRY(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest));
    TRY(cuStreamGetPriority(stream, &priority));
    TRY(cuStreamGetFlags(stream, &flags));
    TRY(cuStreamDestroy(stream));
    return (size_t)(least < greatest) + (priority != greatest) +
           (flags != CU_STREAM_NON_BLOCKING);
}

static size_t
check_contexts(struct prog *prog)
{
    CUcontext second, current = NULL, popped = NULL, primary = NULL;
    CUdevice device = -1;
    unsigned flags = 0;
    int active = 0;
    size_t wrong = 0;

    TRY(cuCtxCreate(&second, 0, prog->device));
    TRY(cuCtxGetCurrent(&current));
    wrong += current != second;
    TRY(cuCtxGetDevice(&device));
    wrong += device != prog->device;
    TRY(cuCtxPopCurrent_v2(&popped));
    wrong += popped != second;
    TRY(cuCtxGetCurrent(&current));
    wrong += current != prog->context;
    TRY(cuCtxDestroy(second));
    TRY(cuDevicePrimaryCtxRetain(&primary, prog->device));
    TRY(cuDevicePrimaryCtxGetState(prog->device, &flags, &active));
    wrong += active != 1;
    TRY(cuDevicePrimaryCtxRelease_v2(prog->device));
    return wrong;
}

static size_t
check_pool_allocation(struct prog *prog)
{
    uint32_t values[VALUES] = {0};
    CUstream stream;
    CUdeviceptr data;
    size_t wrong = 0;

    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cuMemAllocAsync(&data, sizeof(values), stream));
    TRY(cuMemsetD32Async(data, 9, VALUES, stream));
    TRY(cuMemcpyDtoHAsync(values, data, sizeof(values), stream));
    TRY(cuMemFreeAsync(data, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuStreamDestroy(stream));
    for (uint32_t i = 0; i < VALUES; i++)
        wrong += values[i] != 9;
    return wrong;
}

static size_t
check_library(struct prog *prog)
{
    CUlibrary library;
    CUkernel kernel;
    CUdeviceptr data;
    uint32_t value = 0, one = 1;

    TRY(cuLibraryLoadData(&library, features_ptx, NULL, NULL, 0, NULL, NULL, 0));
    TRY(cuLibraryGetKernel(&kernel, library, "feature_scale"));
    TRY(cuMemAlloc(&data, sizeof(value)));
    TRY(cuMemsetD32(data, 6, 1));
    void *params[] = {&data, &one};
    TRY(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    TRY(cuMemcpyDtoH(&value, data, sizeof(value)));
    TRY(cuMemFree(data));
    TRY(cuLibraryUnload(library));
    return value != 6;
}

static size_t
check_proc_address(struct prog *prog)
{
    CUdriverProcAddressQueryResult found = (CUdriverProcAddressQueryResult)9;
    CUresult (*get_version)(int *) = NULL;
    void *nothing = &found, *left = &found;
    int direct = 0, looked_up = 0;
    size_t wrong;

    TRY(cuGetProcAddress_v2("cuDriverGetVersion", (void **)&get_version, 12000, 0,
                            &found));
    TRY(cuDriverGetVersion(&direct));
    TRY(get_version(&looked_up));
    wrong = (size_t)(direct != looked_up) + (found != CU_GET_PROC_ADDRESS_SUCCESS);
    TRY(cuGetProcAddress_v2("cuNoSuchCall", &nothing, 12000, 0, &found));
    return wrong + (nothing != NULL) + (found != CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND) +
           (cuGetProcAddress("cuNoSuchCall", &left, 12000, 0) != CUDA_ERROR_NOT_FOUND) +
           (left != &found);
}

/* Records two launches into a graph, then runs the graph three times. */
static size_t
check_graph(struct prog *prog)
{
    uint32_t factors[4] = {2, 2, 2, 2}, values[VALUES];
    CUfunction kernel = prog_kernel(prog, "feature_scale");
    CUdeviceptr data, factor;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    size_t wrong = 0;

    fill(values);
    TRY(cuModuleGetGlobal_v2(&factor, NULL, prog->module, "feature_factor"));
    TRY(cuMemcpyHtoD(factor, factors, sizeof(factors)));
    TRY(cuMemAlloc(&data, sizeof(values)));
    TRY(cuMemcpyHtoD(data, values, sizeof(values)));
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    TRY(scale(kernel, data, stream));
    TRY(scale(kernel, data, stream));
    TRY(cuStreamEndCapture(stream, &graph));
    TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        TRY(cuGraphLaunch(exec, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(graph));
    TRY(cuStreamDestroy(stream));
    TRY(cuMemcpyDtoH(values, data, sizeof(values)));
    TRY(cuMemFree(data));
    for (uint32_t i = 0; i < VALUES; i++)
        wrong += values[i] != (i + 1) * 64;
    return wrong;
}

static const struct feature features[] = {
    {"errors", check_errors},
    {"attributes", check_attributes},
    {"globals", check_globals},
    {"parameters", check_parameters},
    {"parameter buffer", check_parameter_buffer},
    {"dynamic shared memory", check_dynamic_shared},
    {"launch refused", check_launch_refused},
    {"function attributes", check_function_attributes},
    {"copies and sets", check_copies_and_sets},
    {"2D copy", check_copy_2d},
    {"unified copy", check_unified_copy},
    {"pointers", check_pointers},
    {"host function", check_host_function},
    {"priorities", check_priorities},
    {"contexts", check_contexts},
    {"stream-ordered allocation", check_pool_allocation},
    {"library", check_library},
    {"proc address", check_proc_address},
    {"graph", check_graph},
};

int
main(int argc, char **argv)
{
    struct prog prog;
    size_t wrong = 0;

    prog_begin(&prog, 1, argv, "features", features_ptx);
    for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
        size_t bad;

        if (argc > 1 && strncmp(features[i].name, argv[1], strlen(argv[1])) != 0)
            continue;
        bad = features[i].check(&prog);
        printf("features: %s: %s\n", features[i].name, bad ? "WRONG" : "ok");
        fflush(stdout);
        wrong += bad;
    }
    prog_end(&prog);
    return wrong != 0;
}
