/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libraries on top of CUDA also need: globals and functions of an image,
 * occupancy.  Every global name exists and holds zeros.
 */
#include "null.h"

#include <pthread.h>
#include <string.h>

#define GLOBAL_SIZE 65536

struct global {
    struct global *next;
    const void *image;
    char *name;
    CUdeviceptr at;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct global *globals;

static struct global *
global_new(const void *image, const char *name)
{
    struct global *g = calloc(1, sizeof(*g));

    if (!g || cuMemAlloc_v2(&g->at, GLOBAL_SIZE) != CUDA_SUCCESS) {
        free(g);
        return NULL;
    }
    memset((void *)(uintptr_t)g->at, 0, GLOBAL_SIZE);
    g->image = image;
    g->name = strdup(name);
    g->next = globals;
    globals = g;
    return g;
}

/* Lives as long as the process: images are unloaded while nobody looks. */
static struct global *
global_of(const void *image, const char *name)
{
    struct global *g;

    pthread_mutex_lock(&lock);
    for (g = globals; g && (g->image != image || strcmp(g->name, name) != 0);
         g = g->next)
        ;
    if (!g) {
        g = global_new(image, name);
    }
    pthread_mutex_unlock(&lock);
    return g;
}

CUresult
cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
    struct global *g;

    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    g = global_of(hmod, name);
    if (!g)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (dptr)
        *dptr = g->at;
    if (bytes)
        *bytes = GLOBAL_SIZE;
    return CUDA_SUCCESS;
}

CUresult
cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
                   const char *name)
{
    return cuModuleGetGlobal_v2(dptr, bytes, (CUmodule)library, name);
}

CUresult
cuModuleGetFunctionCount(unsigned int *count, CUmodule mod)
{
    (void)mod;
    *count = 1;
    return CUDA_SUCCESS;
}

CUresult
cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions,
                           CUmodule mod)
{
    return numFunctions ? cuModuleGetFunction(functions, mod, "kernel") : CUDA_SUCCESS;
}

/* ---- kernels: as many blocks as threads allow ---- */

#define SM_THREADS 2048

CUresult
cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func,
                                                     int blockSize,
                                                     size_t dynamicSMemSize,
                                                     unsigned int flags)
{
    (void)func;
    (void)dynamicSMemSize;
    (void)flags;
    if (blockSize <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    *numBlocks = SM_THREADS / blockSize;
    return CUDA_SUCCESS;
}

CUresult
cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func,
                                            int blockSize, size_t dynamicSMemSize)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        numBlocks, func, blockSize, dynamicSMemSize, 0);
}

CUresult
cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func,
                                        int numBlocks, int blockSize)
{
    (void)func;
    if (numBlocks <= 0 || blockSize <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    *dynamicSmemSize = (size_t)gp_min(
        null_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        null_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) /
            numBlocks);
    return CUDA_SUCCESS;
}

CUresult
cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func,
                             const CUlaunchConfig *config)
{
    int blocks = 1;

    (void)func;
    for (unsigned int i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttributeValue *v = &config->attrs[i].value;

        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            blocks = (int)(v->clusterDim.x * v->clusterDim.y * v->clusterDim.z);
    }
    *numClusters =
        null_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) / gp_max(blocks, 1);
    return CUDA_SUCCESS;
}

CUresult
cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    (void)hfunc;
    (void)attrib;
    (void)value;
    return CUDA_SUCCESS;
}

CUresult
cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
                     CUdevice dev)
{
    (void)attrib;
    (void)val;
    (void)kernel;
    (void)dev;
    return CUDA_SUCCESS;
}

CUresult
cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
    (void)hfunc;
    (void)config;
    return CUDA_SUCCESS;
}
