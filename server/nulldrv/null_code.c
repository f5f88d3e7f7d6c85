/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules, libraries, kernels, launches.
 *
 * A kernel exists under every name.  Its parameters are those that a PTX text
 * declares for it, so that launches carry what they would carry to a real card;
 * of other images nothing is known, and no parameter is assumed: a client that
 * believed in one would read it from memory that is not there.
 */
#include "null.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define PARAMS_MAX 64

struct image {
    char *ptx; /* NULL: not text */
};

struct kernel {
    unsigned n_params;
    size_t offset[PARAMS_MAX];
    size_t size[PARAMS_MAX];
};

/* ".b8", ".u64", ".f32": digits behind the letter, in bits. */
static size_t
type_size(const char *type)
{
    while (*type && (*type < '0' || *type > '9'))
        type++;
    return strtoul(type, NULL, 10) / 8;
}

/* One declaration: ".param .u64 name", ".param .align 8 .b8 name[24]". */
static void
add_param(struct kernel *k, const char *decl, const char *end, size_t *at)
{
    char text[256];
    size_t align = 0;
    size_t size = 0;
    char *word, *rest = text;

    snprintf(text, sizeof(text), "%.*s", (int)(end - decl), decl);
    while ((word = strsep(&rest, " \t\n\r")) && k->n_params < PARAMS_MAX) {
        if (strcmp(word, ".align") == 0)
            align = rest ? strtoul(rest, NULL, 10) : 0;
        else if (word[0] == '.' && strchr("bufs", word[1]) && word[1] &&
                 word[2] >= '0' && word[2] <= '9')
            size = type_size(word);
        else if (strchr(word, '['))
            size *= strtoul(strchr(word, '[') + 1, NULL, 10);
    }
    if (!size)
        return;
    if (!align)
        align = size;
    *at = GP_ALIGN_UP(*at, align);
    k->offset[k->n_params] = *at;
    k->size[k->n_params++] = size;
    *at += size;
}

static const char *
find_entry(const char *ptx, const char *name)
{
    size_t len = strlen(name);

    for (const char *p = ptx; p && (p = strstr(p, ".entry")); p++) {
        const char *n = p + 6;

        while (*n == ' ' || *n == '\t' || *n == '\n')
            n++;
        if (strncmp(n, name, len) == 0 && !strchr("_$", n[len]) &&
            (n[len] == '(' || n[len] == ' ' || n[len] == '\n'))
            return strchr(n, '(');
    }
    return NULL;
}

static struct kernel *
kernel_new(const struct image *image, const char *name)
{
    struct kernel *k = calloc(1, sizeof(*k));
    const char *p = image->ptx ? find_entry(image->ptx, name) : NULL;
    size_t at = 0;

    if (!k)
        return NULL;
    if (!p)
        return k;
    for (p++; *p && *p != ')'; p += *p == ',') {
        const char *end = p + strcspn(p, ",)");

        add_param(k, p, end, &at);
        p = end;
    }
    return k;
}

static struct image *
image_new(const void *data)
{
    struct image *image = calloc(1, sizeof(*image));
    uint32_t magic;

    if (!image)
        return NULL;
    memcpy(&magic, data, sizeof(magic));
    if (magic != 0x464c457fu && magic != 0xba55ed50u && magic != 0x466243b1u)
        image->ptx = strdup(data);
    return image;
}

CUresult
cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
                   CUjit_option *options, void **optionValues)
{
    (void)numOptions;
    (void)options;
    (void)optionValues;
    *module = (CUmodule)image_new(image);
    return *module ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
cuModuleLoadData(CUmodule *module, const void *image)
{
    return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

CUresult
cuModuleUnload(CUmodule hmod)
{
    free(((struct image *)hmod)->ptx);
    free(hmod);
    return CUDA_SUCCESS;
}

CUresult
cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    *hfunc = (CUfunction)kernel_new((const struct image *)hmod, name);
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
    *library = (CUlibrary)image_new(code);
    return *library ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
cuLibraryUnload(CUlibrary library)
{
    return cuModuleUnload((CUmodule)library);
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
    *pKernel = (CUkernel)kernel_new((const struct image *)library, name);
    return *pKernel ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
                   size_t *paramSize)
{
    const struct kernel *k = (const struct kernel *)func;

    if (paramIndex >= k->n_params)
        return CUDA_ERROR_INVALID_VALUE;
    *paramOffset = k->offset[paramIndex];
    if (paramSize)
        *paramSize = k->size[paramIndex];
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
        return 86;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        return 86;
    default:
        return 0;
    }
}

CUresult
cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
    (void)hfunc;
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
