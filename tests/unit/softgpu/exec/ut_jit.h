/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the compiler of the software GPU is for tests: in the folder lib of the build
 * that the test program belongs to.
 */
#ifndef UT_JIT_H
#define UT_JIT_H

#include "ut.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Whether it was built; the executor of this process will find it. */
static inline bool
ut_jit_found(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);

    if (n <= 0)
        return false;
    path[n] = '\0';
    for (int up = 0; up < 3; up++) /* build/tests/unit/test_x */
        if (strrchr(path, '/'))
            *strrchr(path, '/') = '\0';
    snprintf(path + strlen(path), 64, "/lib/libsoftgpu-jit.so");
    setenv("SOFTGPU_JIT_LIB", path, 1);
    if (access(path, R_OK) == 0)
        return true;
    printf("skip: libsoftgpu-jit.so is not built; install llvm-14-dev and run make\n");
    return false;
}

#endif
