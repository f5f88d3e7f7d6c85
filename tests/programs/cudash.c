/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA program that does what it is told, one line of standard input at a time.
 *
 * Each line is a word and its arguments; the answer is one line: the CUresult of
 * the driver call, then what the call gave.  The end-to-end tests use it to hold a
 * context open, to fill memory to the last byte, to hang in a kernel, and to be
 * killed while doing so.  It knows CUDA and nothing of gpupool.  One thread.
 *
 * Allocations, modules and streams are named by slots: small numbers, in the
 * order in which they were made.
 */
#include "cuda_names.h"
#include "util.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define SLOTS 4096
#define WORDS 8
#define IMAGE_MAX (64u << 20)

struct cudash {
    CUdevice device;
    CUcontext context;
    CUdeviceptr memory[SLOTS];
    size_t n_memory;
    CUmodule module;
    CUlibrary library;
    CUstream stream[SLOTS];
    size_t n_streams;
};

struct cudash_command {
    const char *name;
    int args;
    void (*act)(struct cudash *sh, char **args);
};

static unsigned long long
number(const char *text)
{
    return strtoull(text, NULL, 0);
}

static CUdeviceptr *
memory_slot(struct cudash *sh, const char *text)
{
    unsigned long long slot = number(text);

    if (slot >= sh->n_memory) {
        fprintf(stderr, "cudash: no allocation %llu\n", slot);
        exit(2);
    }
    return &sh->memory[slot];
}

static void
do_init(struct cudash *sh, char **args)
{
    printf("%d\n", (int)cuInit(0));
}

static void
do_count(struct cudash *sh, char **args)
{
    int count = -1;
    CUresult result = cuDeviceGetCount(&count);

    printf("%d %d\n", (int)result, count);
}

static void
do_device(struct cudash *sh, char **args)
{
    printf("%d\n", (int)cuDeviceGet(&sh->device, (int)number(args[0])));
}

static void
do_name(struct cudash *sh, char **args)
{
    char name[256] = "";
    CUresult result = cuDeviceGetName(name, sizeof(name), sh->device);

    printf("%d %s\n", (int)result, name);
}

static void
do_uuid(struct cudash *sh, char **args)
{
    CUuuid uuid = {{0}};
    CUresult result = cuDeviceGetUuid_v2(&uuid, sh->device);

    printf("%d GPU-", (int)result);
    for (int i = 0; i < 16; i++)
        printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
               (unsigned char)uuid.bytes[i]);
    printf("\n");
}

static void
do_total(struct cudash *sh, char **args)
{
    size_t bytes = 0;
    CUresult result = cuDeviceTotalMem(&bytes, sh->device);

    printf("%d %zu\n", (int)result, bytes);
}

static void
do_attribute(struct cudash *sh, char **args)
{
    int value = 0;
    CUresult result =
        cuDeviceGetAttribute(&value, (CUdevice_attribute)number(args[0]), sh->device);

    printf("%d %d\n", (int)result, value);
}

static void
do_version(struct cudash *sh, char **args)
{
    int version = 0;
    CUresult result = cuDriverGetVersion(&version);

    printf("%d %d\n", (int)result, version);
}

static void
do_context(struct cudash *sh, char **args)
{
    printf("%d\n", (int)cuCtxCreate(&sh->context, 0, sh->device));
}

/* primary N: make the primary context of device N current */
static void
do_primary(struct cudash *sh, char **args)
{
    CUresult result = cuDevicePrimaryCtxRetain(&sh->context, (int)number(args[0]));

    if (result == CUDA_SUCCESS)
        result = cuCtxSetCurrent(sh->context);
    printf("%d\n", (int)result);
}

static void
do_destroy(struct cudash *sh, char **args)
{
    printf("%d\n", (int)cuCtxDestroy(sh->context));
}

static void
do_info(struct cudash *sh, char **args)
{
    size_t free_bytes = 0, total = 0;
    CUresult result = cuMemGetInfo(&free_bytes, &total);

    printf("%d %zu %zu\n", (int)result, free_bytes, total);
}

/* limit WHICH BYTES: of the current context. */
static void
do_limit(struct cudash *sh, char **args)
{
    (void)sh;
    printf("%d\n", (int)cuCtxSetLimit((CUlimit)strtoul(args[0], NULL, 0),
                                      strtoull(args[1], NULL, 0)));
}

static void
allocate(struct cudash *sh, uint64_t size, bool managed)
{
    CUdeviceptr memory = 0;
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    if (sh->n_memory < SLOTS)
        result = managed ? cuMemAllocManaged(&memory, size, CU_MEM_ATTACH_GLOBAL)
                         : cuMemAlloc(&memory, size);
    if (result != CUDA_SUCCESS) {
        printf("%d\n", (int)result);
        return;
    }
    sh->memory[sh->n_memory] = memory;
    printf("%d %zu\n", (int)result, sh->n_memory++);
}

static void
do_alloc(struct cudash *sh, char **args)
{
    allocate(sh, number(args[0]), false);
}

static void
do_managed(struct cudash *sh, char **args)
{
    allocate(sh, number(args[0]), true);
}

static void
do_free(struct cudash *sh, char **args)
{
    printf("%d\n", (int)cuMemFree(*memory_slot(sh, args[0])));
}

/* store SLOT OFFSET VALUE: one 32-bit word */
static void
do_store(struct cudash *sh, char **args)
{
    uint32_t value = (uint32_t)number(args[2]);

    printf("%d\n", (int)cuMemcpyHtoD(*memory_slot(sh, args[0]) + number(args[1]),
                                     &value, sizeof(value)));
}

static void
do_peek(struct cudash *sh, char **args)
{
    uint32_t value = 0;
    CUresult result = cuMemcpyDtoH(&value, *memory_slot(sh, args[0]) + number(args[1]),
                                   sizeof(value));

    printf("%d %u\n", (int)result, value);
}

/* copy SLOT BYTES: up and down again; whether they are the same */
static void
do_copy(struct cudash *sh, char **args)
{
    CUdeviceptr device = *memory_slot(sh, args[0]);
    size_t size = number(args[1]);
    uint8_t *up = util_alloc(size, 1), *down = util_alloc(size, 1);
    CUresult result;

    memset(up, 0x5a, size);
    result = cuMemcpyHtoD(device, up, size);
    if (result == CUDA_SUCCESS)
        result = cuMemcpyDtoH(down, device, size);
    printf("%d %s\n", (int)result, memcmp(up, down, size) ? "other" : "same");
    free(up);
    free(down);
}

/* copies SLOT SIZE COUNT: so often up and down, or until an error */
static void
do_copies(struct cudash *sh, char **args)
{
    CUdeviceptr device = *memory_slot(sh, args[0]);
    size_t size = number(args[1]);
    unsigned long long count = number(args[2]), done = 0;
    uint8_t *bytes = util_alloc(size, 1);
    CUresult result = CUDA_SUCCESS;

    while (result == CUDA_SUCCESS && done < count) {
        result = cuMemcpyHtoD(device, bytes, size);
        if (result == CUDA_SUCCESS)
            result = cuMemcpyDtoH(bytes, device, size);
        done += result == CUDA_SUCCESS;
    }
    printf("%d %llu\n", (int)result, done);
    free(bytes);
}

/* load PATH: an image as it stands in a file, ended by one NUL for text */
static const char *
read_image(const char *name)
{
    static char image[IMAGE_MAX];
    FILE *file = fopen(name, "rb");
    size_t size;

    if (!file) {
        perror(name);
        exit(2);
    }
    size = fread(image, 1, IMAGE_MAX - 1, file);
    fclose(file);
    image[size] = 0;
    return image;
}

static void
do_load(struct cudash *sh, char **args)
{
    printf("%d\n", (int)cuModuleLoadData(&sh->module, read_image(args[0])));
}

static void
do_library(struct cudash *sh, char **args)
{
    printf("%d\n", (int)cuLibraryLoadData(&sh->library, read_image(args[0]), NULL, NULL,
                                          0, NULL, NULL, 0));
}

static void
do_unlibrary(struct cudash *sh, char **args)
{
    printf("%d\n", (int)cuLibraryUnload(sh->library));
}

/* function NAME: of the module */
static void
do_function(struct cudash *sh, char **args)
{
    CUfunction f;

    printf("%d\n", (int)cuModuleGetFunction(&f, sh->module, args[0]));
}

static void
do_unload(struct cudash *sh, char **args)
{
    printf("%d\n", (int)cuModuleUnload(sh->module));
}

/* link FILE: a linker's only input, and what comes out of it as the module; the call
 * that failed first, and its result */
static void
do_link(struct cudash *sh, char **args)
{
    const char *failed = "cuLinkCreate";
    CUlinkState state = NULL;
    void *image = NULL;
    size_t size = 0;
    CUresult result = cuLinkCreate(0, NULL, NULL, &state);

    if (result == CUDA_SUCCESS) {
        failed = "cuLinkAddFile";
        result = cuLinkAddFile(state, CU_JIT_INPUT_PTX, args[0], 0, NULL, NULL);
    }
    if (result == CUDA_SUCCESS) {
        failed = "cuLinkComplete";
        result = cuLinkComplete(state, &image, &size);
    }
    if (result == CUDA_SUCCESS) {
        failed = "cuModuleLoadData";
        result = cuModuleLoadData(&sh->module, image);
    }
    if (state)
        cuLinkDestroy(state);
    printf("%d %s\n", (int)result, result == CUDA_SUCCESS ? "-" : failed);
}

static void
do_stream(struct cudash *sh, char **args)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    if (sh->n_streams < SLOTS)
        result = cuStreamCreate(&sh->stream[sh->n_streams], CU_STREAM_NON_BLOCKING);
    printf("%d %zu\n", (int)result, sh->n_streams);
    sh->n_streams += result == CUDA_SUCCESS;
}

/* launch KERNEL BLOCKS THREADS SLOT N: kernel(memory, n) on the default stream */
static void
do_launch(struct cudash *sh, char **args)
{
    CUfunction kernel = NULL;
    CUresult result = cuModuleGetFunction(&kernel, sh->module, args[0]);
    CUdeviceptr memory = *memory_slot(sh, args[3]);
    unsigned n = (unsigned)number(args[4]);
    void *params[] = {&memory, &n};

    if (result == CUDA_SUCCESS)
        result = cuLaunchKernel(kernel, (unsigned)number(args[1]), 1, 1,
                                (unsigned)number(args[2]), 1, 1, 0, NULL, params, NULL);
    printf("%d\n", (int)result);
}

/* flood SLOT COUNT: that many launches of bump without a wait; how many went out */
static void
do_flood(struct cudash *sh, char **args)
{
    CUdeviceptr memory = *memory_slot(sh, args[0]);
    unsigned long long count = number(args[1]);
    unsigned long long done = 0;
    unsigned one = 1;
    void *params[] = {&memory, &one};
    CUfunction kernel = NULL;
    CUresult result = cuModuleGetFunction(&kernel, sh->module, "bump");

    while (result == CUDA_SUCCESS && done < count) {
        result = cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL);
        done += result == CUDA_SUCCESS;
    }
    printf("%d %llu\n", (int)result, done);
}

static void
print_name(CUresult result, const void *name, size_t size)
{
    printf("%d ", (int)result);
    for (size_t i = 0; result == CUDA_SUCCESS && i < size; i++)
        printf("%s%02x", i ? "" : "h", ((const unsigned char *)name)[i]);
    printf("\n");
}

static void
read_name(const char *text, void *name, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned byte = 0;

        sscanf(text + 1 + 2 * i, "%2x", &byte);
        ((unsigned char *)name)[i] = (unsigned char)byte;
    }
}

/* The imported memory gets a slot, which is printed. */
static void
print_imported(struct cudash *sh, CUresult result, CUdeviceptr memory)
{
    if (result == CUDA_SUCCESS && sh->n_memory < SLOTS)
        sh->memory[sh->n_memory++] = memory;
    printf("%d %zu\n", (int)result, sh->n_memory - 1);
}

/* export SLOT: a name for the allocation that other processes can import */
static void
do_export(struct cudash *sh, char **args)
{
    CUipcMemHandle handle;
    CUresult result = cuIpcGetMemHandle(&handle, *memory_slot(sh, args[0]));

    print_name(result, &handle, sizeof(handle));
}

/* import NAME: a slot */
static void
do_import(struct cudash *sh, char **args)
{
    CUipcMemHandle handle;
    CUdeviceptr memory = 0;
    CUresult result;

    read_name(args[0], &handle, sizeof(handle));
    result = cuIpcOpenMemHandle_v2(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    print_imported(sh, result, memory);
}

static CUresult
pool_new(CUmemoryPool *pool)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .handleTypes =
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

    return cuMemPoolCreate(pool, &props);
}

/* poolexport BYTES: memory of a pool that can be shared, and a name for it */
static void
do_poolexport(struct cudash *sh, char **args)
{
    CUmemPoolPtrExportData name;
    CUmemoryPool pool;
    CUdeviceptr memory;
    CUresult result = pool_new(&pool);

    if (result == CUDA_SUCCESS)
        result = cuMemAllocFromPoolAsync(&memory, number(args[0]), pool, NULL);
    if (result == CUDA_SUCCESS)
        result = cuCtxSynchronize();
    if (result == CUDA_SUCCESS)
        result = cuMemPoolExportPointer(&name, memory);
    print_name(result, &name, sizeof(name));
}

/* poolimport NAME: a slot, through a pool of this process's own that it imports */
static void
do_poolimport(struct cudash *sh, char **args)
{
    CUmemPoolPtrExportData name;
    CUmemoryPool own, pool;
    CUdeviceptr memory = 0;
    int fd = -1;
    CUresult result = pool_new(&own);

    read_name(args[0], &name, sizeof(name));
    if (result == CUDA_SUCCESS)
        result = cuMemPoolExportToShareableHandle(
            &fd, own, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (result == CUDA_SUCCESS)
        result = cuMemPoolImportFromShareableHandle(
            &pool, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (result == CUDA_SUCCESS)
        result = cuMemPoolImportPointer(&memory, pool, &name);
    print_imported(sh, result, memory);
}

static void
count_one(void *count)
{
    ++*(int *)count;
}

/* hostfn: a host function in the default stream; the wait's result, and how often it
 * ran */
static void
do_hostfn(struct cudash *sh, char **args)
{
    static int count;
    CUresult result;

    count = 0;
    result = cuLaunchHostFunc(NULL, count_one, &count);
    if (result == CUDA_SUCCESS)
        result = cuCtxSynchronize();
    printf("%d %d\n", (int)result, count);
}

static void
do_sync(struct cudash *sh, char **args)
{
    printf("%d\n", (int)cuCtxSynchronize());
}

/* wait stream|event: for the default stream, or for an event behind its work */
static void
do_wait(struct cudash *sh, char **args)
{
    CUevent event = NULL;
    CUresult r;

    if (strcmp(args[0], "event") == 0) {
        r = cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
        if (r == CUDA_SUCCESS)
            r = cuEventRecord(event, NULL);
        usleep(100000); /* its work is done when it is waited for */
        if (r == CUDA_SUCCESS)
            r = cuEventSynchronize(event);
        if (event)
            cuEventDestroy(event);
    } else {
        r = cuStreamSynchronize(NULL);
    }
    printf("%d\n", (int)r);
}

/* clang-format off */
static const struct cudash_command commands[] = {
    {"init", 0, do_init},
    {"count", 0, do_count},
    {"device", 1, do_device},
    {"name", 0, do_name},
    {"uuid", 0, do_uuid},
    {"total", 0, do_total},
    {"attribute", 1, do_attribute},
    {"version", 0, do_version},
    {"context", 0, do_context},
    {"primary", 1, do_primary},
    {"destroy", 0, do_destroy},
    {"info", 0, do_info},
    {"limit", 2, do_limit},
    {"alloc", 1, do_alloc},
    {"managed", 1, do_managed},
    {"free", 1, do_free},
    {"store", 3, do_store},
    {"peek", 2, do_peek},
    {"copy", 2, do_copy},
    {"copies", 3, do_copies},
    {"load", 1, do_load},
    {"library", 1, do_library},
    {"unlibrary", 0, do_unlibrary},
    {"link", 1, do_link},
    {"function", 1, do_function},
    {"unload", 0, do_unload},
    {"stream", 0, do_stream},
    {"launch", 5, do_launch},
    {"flood", 2, do_flood},
    {"export", 1, do_export},
    {"import", 1, do_import},
    {"poolexport", 1, do_poolexport},
    {"poolimport", 1, do_poolimport},
    {"sync", 0, do_sync},
    {"wait", 1, do_wait},
    {"hostfn", 0, do_hostfn},
};
/* clang-format on */

static void
obey(struct cudash *sh, char *line)
{
    char *words[WORDS + 1] = {NULL};
    char *rest = NULL;
    int count = 0;

    for (char *word = strtok_r(line, " \n", &rest); word && count < WORDS;
         word = strtok_r(NULL, " \n", &rest))
        words[count++] = word;
    if (count == 0)
        return;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(commands[i].name, words[0]) == 0 && commands[i].args == count - 1) {
            commands[i].act(sh, words + 1);
            fflush(stdout);
            return;
        }
    }
    fprintf(stderr, "cudash: cannot do '%s' with %d arguments\n", words[0], count - 1);
    exit(2);
}

int
main(void)
{
    static struct cudash sh;
    char line[4096];

    while (fgets(line, sizeof(line), stdin))
        obey(&sh, line);
    return 0;
}
