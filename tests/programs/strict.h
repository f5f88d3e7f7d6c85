/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What test programs ask of a software card alone.
 *
 * With the argument "strict" a program also does what CUDA leaves undefined and softgpu
 * defines: it uses handles and memory that are gone, which crashes a real driver, and
 * expects memory to count to the byte, at once.  Without it the program runs on any
 * card, beside other programs.
 */
#ifndef PROGRAMS_STRICT_H
#define PROGRAMS_STRICT_H

#include <stdbool.h>
#include <string.h>

static inline bool
strict_asked(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "strict") == 0)
            return true;
    return false;
}

#endif
