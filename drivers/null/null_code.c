/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules, libraries, kernels, launches.
 *
 * Every kernel name exists.  Its parameters are those in the image, so that launches
 * carry what they would carry to a real GPU.  A kernel that no image describes has no
 * parameters here: a client that assumed one would read it from memory that does not
 * exist.
 */
#include "gp_image.h"
#include "kernel_params.h"
#include "null.h"
#include "null_live.h"

#include <string.h>

/* What the cards say they are: 86 for 8.6. */
static unsigned
card_sm(void)
{
    int major = null_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
        minor = null_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);

    return (unsigned)(10 * major + minor);
}

struct image {
    struct kernel_params_set kernels;
};

struct kernel {
    const struct kernel_params *layout; /* NULL: not told; alive as long as the image */
};

static struct kernel *
kernel_new(struct image *image, const char *name)
{
    struct kernel *k = calloc(1, sizeof(*k));

    if (k)
        k->layout = kernel_params_find(&image->kernels, name);
    return k;
}

static void
read_kernels(struct image *image, const void *data)
{
    struct gp_image found;

    if (gp_image_measure(data, GP_IMAGE_UNBOUNDED, &found, NULL) == 0)
        kernel_params_image(found.data, found.len, card_sm(), &image->kernels, NULL);
}

static struct image *
image_new(const void *data, enum null_live kind)
{
    struct image *image = calloc(1, sizeof(*image));
    struct gp_image_wrapper wrapper = {0};

    if (!image || !null_live_enter(image, kind)) {
        free(image);
        return NULL;
    }
    if (gp_image_unwrap(data, &wrapper, NULL) == 0)
        data = wrapper.image.data;
    read_kernels(image, data);
    for (size_t i = 0; i < wrapper.n_parts; i++)
        read_kernels(image, wrapper.parts[i]);
    return image;
}

CUresult
cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
                   CUjit_option *options, void **optionValues)
{
    (void)numOptions;
    (void)options;
    (void)optionValues;
    *module = (CUmodule)image_new(image, NULL_LIVE_MODULE);
    return *module ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
cuModuleLoadData(CUmodule *module, const void *image)
{
    return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

static CUresult
image_free(void *image, enum null_live kind)
{
    if (!null_live_is(image, kind))
        return CUDA_ERROR_INVALID_VALUE;
    null_live_leave(image);
    kernel_params_fini(&((struct image *)image)->kernels);
    free(image);
    return CUDA_SUCCESS;
}

CUresult
cuModuleUnload(CUmodule hmod)
{
    return image_free(hmod, NULL_LIVE_MODULE);
}

CUresult
cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    if (!name || (!null_live_is(hmod, NULL_LIVE_MODULE) &&
                  !null_live_is(hmod, NULL_LIVE_LIBRARY)))
        return CUDA_ERROR_INVALID_VALUE;
    *hfunc = (CUfunction)kernel_new((struct image *)hmod, name);
    return *hfunc ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
                  void **jitOptionsValues, unsigned int numJitOptions,
                  CUlibraryOption *libraryOptions, void **libraryOptionValues,
                  unsigned int numLibraryOptions)
{
    (void)jitOptions;
    (void)jitOptionsValues;
    (void)numJitOptions;
    (void)libraryOptions;
    (void)libraryOptionValues;
    (void)numLibraryOptions;
    *library = (CUlibrary)image_new(code, NULL_LIVE_LIBRARY);
    return *library ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
cuLibraryUnload(CUlibrary library)
{
    return image_free(library, NULL_LIVE_LIBRARY);
}

CUresult
cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
    *pMod = (CUmodule)library;
    return CUDA_SUCCESS;
}

CUresult
cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
    return cuModuleGetFunction((CUfunction *)pKernel, (CUmodule)library, name);
}

CUresult
cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
    if (null_current_device() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!kernel)
        return CUDA_ERROR_INVALID_HANDLE;
    *pFunc = (CUfunction)kernel;
    return CUDA_SUCCESS;
}

CUresult
cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
                   size_t *paramSize)
{
    const struct kernel_params *l = func ? ((const struct kernel *)func)->layout : NULL;

    if (null_current_device() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!l || paramIndex >= l->n_params)
        return CUDA_ERROR_INVALID_VALUE;
    *paramOffset = l->params[paramIndex].offset;
    if (paramSize)
        *paramSize = l->params[paramIndex].size;
    return CUDA_SUCCESS;
}

CUresult
cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset,
                     size_t *paramSize)
{
    return cuFuncGetParamInfo((CUfunction)kernel, paramIndex, paramOffset, paramSize);
}

static int
attribute_value(CUfunction_attribute attrib)
{
    switch (attrib) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        return 1024;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        return 32;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        return (int)card_sm();
    default:
        return 0;
    }
}

CUresult
cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
    (void)hfunc;
    if (null_current_device() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *pi = attribute_value(attrib);
    return CUDA_SUCCESS;
}

CUresult
cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel,
                     CUdevice dev)
{
    (void)kernel;
    (void)dev;
    *pi = attribute_value(attrib);
    return CUDA_SUCCESS;
}

CUresult
cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
               unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
               unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
               void **kernelParams, void **extra)
{
    (void)f;
    (void)sharedMemBytes;
    (void)hStream;
    (void)kernelParams;
    (void)extra;
    if (!gridDimX || !gridDimY || !gridDimZ || !blockDimX || !blockDimY || !blockDimZ)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult
cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                 void **extra)
{
    return cuLaunchKernel(f, config->gridDimX, config->gridDimY, config->gridDimZ,
                          config->blockDimX, config->blockDimY, config->blockDimZ,
                          config->sharedMemBytes, config->hStream, kernelParams, extra);
}
