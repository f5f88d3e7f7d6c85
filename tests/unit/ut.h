/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmocka with the headers that it wants in front of it, and how a test becomes its own
 * program again; for every unit test.
 */
#ifndef UT_H
#define UT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
/* clang-format off */
#include <cmocka.h>
/* clang-format on */

/* This program again, in a child, with one or two words.  The kernel cannot start a
 * program of another machine: UT_EMULATOR names who does (tests/aarch64/run.sh). */
static inline void
ut_exec_self(const char *first, const char *second)
{
    const char *emulator = getenv("UT_EMULATOR");
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

    if (n > 0) {
        path[n] = '\0';
        if (emulator && *emulator)
            execl(emulator, emulator, path, first, second, (char *)NULL);
        else
            execl(path, path, first, second, (char *)NULL);
    }
    _exit(127);
}

#endif
