/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A test program once more on the other builds of the executor.
 *
 * The executor chooses its build once in a process, so the program starts itself again
 * for each: with SOFTGPU_ISA for the instruction sets below this processor's, and with
 * SOFTGPU_JIT where the plug-in is built.  What such a child prints is shown when it
 * fails, each line behind the name of its build.
 */
#ifndef UT_BUILDS_H
#define UT_BUILDS_H

#include <stdbool.h>

struct sg_kernel;

/* The build that this process was started for: "v2", "v3" or "jit".  NULL: it is the
 * first one, on the build that the processor gets. */
const char *ut_builds_here(void);

/* Whether kernels are compiled here and this process is not the first one: tests whose
 * kernels take long to compile run fewer of them then.  `make test-jit` runs all. */
bool ut_builds_short(void);

/* Whether @kernel, which has run, was compiled: or a test shows nothing of machine
 * code. */
bool ut_builds_is_compiled(const struct sg_kernel *kernel);

/* The last tests of a program: the whole program passes on every build for a lower
 * instruction set, and with machine code.  In a child that was started for a build: the
 * executor has indeed chosen it. */
void ut_builds_lower_agree(void **state);
void ut_builds_machine_code_agrees(void **state);

#endif
