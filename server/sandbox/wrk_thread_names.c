/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of a driver's threads.
 *
 * NVIDIA's driver writes the name of each thread that it starts into
 * /proc/self/task/N/comm with fopen(path, "w"), and cuInit() fails with
 * CUDA_ERROR_OPERATING_SYSTEM when it cannot (seen with 580.159).  A confined worker
 * cannot: it is not dumpable, so its files in /proc are root's, and Landlock opens
 * /proc/self for reading only.  Granting it would grant /proc/self/mem with it, which
 * writes to memory that is sealed.  So the names go nowhere: the driver finds the
 * fopen() of this program before the C library's, and for such a path it gets
 * /dev/null.
 */
#include "gp_base.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The sanitizers have an fopen() of their own, and nothing is confined there. */
#ifndef GP_SANITIZED

typedef FILE *(*open_function)(const char *path, const char *mode);

/* The C library's header declares them with a default visibility of ours. */
__attribute__((visibility("default"))) FILE *fopen(const char *restrict path,
                                                   const char *restrict mode);
__attribute__((visibility("default"))) FILE *fopen64(const char *restrict path,
                                                     const char *restrict mode);

static bool
names_a_thread(const char *path)
{
    static const char folder[] = "/proc/self/task/", file[] = "/comm";
    size_t len = strlen(path);

    return strncmp(path, folder, sizeof(folder) - 1) == 0 && len >= sizeof(file) &&
           strcmp(path + len - (sizeof(file) - 1), file) == 0;
}

static FILE *
open_with(const char *name, const char *path, const char *mode)
{
    void *at = dlsym(RTLD_NEXT, name);
    open_function real;

    memcpy(&real, &at, sizeof(real));
    if (names_a_thread(path) && mode[0] != 'r')
        return real("/dev/null", "r+"); /* "w" would make a file: not allowed here */
    return real(path, mode);
}

FILE *
fopen(const char *restrict path, const char *restrict mode)
{
    return open_with("fopen", path, mode);
}

FILE *
fopen64(const char *restrict path, const char *restrict mode)
{
    return open_with("fopen64", path, mode);
}

#endif
