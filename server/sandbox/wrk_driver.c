/* SPDX-License-Identifier: Apache-2.0 */
#include "wrk_driver.h"

#include "drv.h"
#include "gp_err.h"
#include "gp_str.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#define OLDEST_VERSION 12000

static int
own_library(const char *file, char *path, size_t size, struct gp_err *err)
{
    static const char *const places[] = {"../lib", "../lib/gpupool"};
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash;

    if (n <= 0)
        return gp_err_set(err, -errno, "cannot find my own program file");
    self[n] = 0;
    slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    /* The build tree, then an installation. */
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        if ((size_t)snprintf(path, size, "%s/%s/%s", self, places[i], file) >= size)
            return gp_err_set(err, -ENAMETOOLONG, "%s: path too long", file);
        if (access(path, R_OK) == 0)
            return 0;
    }
    return gp_err_set(err, -ENOENT, "%s is not beside the program, in ../lib", file);
}

static void *
find_symbol(void *lib, const char *name)
{
    return dlsym(lib, name);
}

/* Our own client library is a libcuda.so.1 too, and LD_LIBRARY_PATH may lead there:
 * then every worker would be a client of the pool. */
static bool
is_own_stub(void *lib, const char *file)
{
    char own[PATH_MAX];
    char own_real[PATH_MAX], lib_real[PATH_MAX];
    struct link_map *map = NULL;

    if (dlinfo(lib, RTLD_DI_LINKMAP, &map) != 0 || !map ||
        own_library(file, own, sizeof(own), NULL) < 0)
        return false;
    return realpath(own, own_real) && realpath(map->l_name, lib_real) &&
           strcmp(own_real, lib_real) == 0;
}

static void *the_library;

int
wrk_driver_open(const char *name, struct drv *drv, struct gp_err *err)
{
    char path[PATH_MAX];
    void *lib;
    int r = 0, version = 0;

    if (strcmp(name, "softgpu") == 0)
        r = own_library("libsoftgpu.so", path, sizeof(path), err);
    else if (strcmp(name, "null") == 0)
        r = own_library("libnulldrv.so", path, sizeof(path), err);
    else
        gp_str_copy(path, sizeof(path),
                    strcmp(name, "cuda") == 0 ? "libcuda.so.1" : name);
    if (r < 0)
        return r;
    lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return gp_err_set(err, -ENOENT, "driver %s: %s%s", name, dlerror(),
                          strcmp(name, "cuda") == 0
                              ? "; is NVIDIA's driver installed on this host?"
                              : " (--driver softgpu, null, cuda, or a library's path)");
    if (is_own_stub(lib, "libcuda.so.1"))
        return gp_err_set(
            err, -ELOOP, "driver %s is gpupool's own client library (LD_LIBRARY_PATH?)",
            path);
    drv_load(drv, find_symbol, lib);
    if (!drv->cuInit || !drv->cuDeviceGetCount)
        return gp_err_set(err, -ELIBBAD, "%s is no CUDA driver: it lacks cuInit", path);
    if (drv->cuDriverGetVersion && drv->cuDriverGetVersion(&version) == CUDA_SUCCESS)
        drv_limit(drv, version);
    /* Libraries and their kernels, without which no runtime of 12.x starts. */
    if (version < OLDEST_VERSION)
        return gp_err_set(err, -ELIBBAD, "%s speaks CUDA %d.%d: %d.%d is the oldest",
                          path, version / 1000, version % 1000 / 10,
                          OLDEST_VERSION / 1000, OLDEST_VERSION % 1000 / 10);
    the_library = lib;
    return 0;
}

void *
wrk_driver_symbol(const char *name)
{
    return the_library ? dlsym(the_library, name) : NULL;
}

/* The library @file in the folder of the one at @path. */
static int
replace_name(char *path, size_t size, const char *file)
{
    char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash + 1 - path) : 0;

    return (size_t)snprintf(path + folder, size - folder, "%s", file) < size - folder
               ? 0
               : -ENAMETOOLONG;
}

void *
wrk_driver_nvml(const char *name)
{
    static const char file[] = "libnvidia-ml.so.1";
    char path[PATH_MAX];
    void *lib;

    if (wrk_driver_symbol("nvmlInit_v2"))
        return the_library;
    if (strcmp(name, "cuda") == 0)
        gp_str_copy(path, sizeof(path), file);
    else if (!wrk_driver_file(path) || replace_name(path, sizeof(path), file) < 0)
        return NULL;
    lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return lib && !is_own_stub(lib, file) ? lib : NULL;
}

bool
wrk_driver_file(char *path)
{
    struct link_map *map = NULL;

    return the_library && dlinfo(the_library, RTLD_DI_LINKMAP, &map) == 0 && map &&
           realpath(map->l_name, path);
}

void
wrk_driver_place(uint32_t links, uint32_t link)
{
    char slot[16];

    if (links < 2)
        return;
    snprintf(slot, sizeof(slot), "%u", link + 1);
    setenv("SOFTGPU_ADDRESS_SLOT", slot, 1);
}
