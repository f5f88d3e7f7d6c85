/* SPDX-License-Identifier: Apache-2.0 */
/* See ut_builds.h. */
#include "ut_builds.h"

#include "ut_jit.h"

#include "gp_base.h"
#include "sg_native.h"
#include "sg_prog.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define HERE "UT_BUILDS_HERE"

const char *
ut_builds_here(void)
{
    return getenv(HERE);
}

static bool
compiling(void)
{
    const char *jit = getenv("SOFTGPU_JIT");

    return jit && strcmp(jit, "0") != 0;
}

bool
ut_builds_short(void)
{
    return ut_builds_here() && compiling() && strcmp(sg_exec_isa(), "v3") >= 0;
}

bool
ut_builds_is_compiled(const struct sg_kernel *kernel)
{
    const struct sg_native *native = sg_kernel_unit(kernel)->native;

    return native && native->n_entries > 0;
}

/* What a child prints, behind the name of its build: the lines are no results of this
 * program's own. */
static void
show(const char *build, FILE *from)
{
    char line[512];

    rewind(from);
    while (fgets(line, sizeof(line), from))
        print_message("%s: %s%s", build, line, strchr(line, '\n') ? "" : "\n");
}

static void
passes_on(const char *build)
{
    FILE *said = tmpfile();
    int status = -1;
    pid_t pid;

    assert_non_null(said);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(fileno(said), 1);
        dup2(fileno(said), 2);
        if (strcmp(build, "jit") == 0)
            setenv("SOFTGPU_JIT", "wait", 1);
        else
            setenv("SOFTGPU_ISA", build, 1);
        setenv(HERE, build, 1);
        ut_exec_self(NULL, NULL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0)
        show(build, said);
    fclose(said);
    assert_int_equal(status, 0);
}

void
ut_builds_lower_agree(void **state)
{
    static const char *const levels[] = {"v2", "v3"};
    const char *here = ut_builds_here();

    (void)state;
#ifndef __x86_64__
    skip(); /* there is one build */
#endif
    if (here) {
        if (strcmp(here, "jit") != 0)
            assert_string_equal(sg_exec_isa(), here);
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
        if (strcmp(levels[i], sg_exec_isa()) < 0)
            passes_on(levels[i]);
}

void
ut_builds_machine_code_agrees(void **state)
{
    (void)state;
    if (ut_builds_here())
        return;
    if (!ut_jit_found() || strcmp(sg_exec_isa(), "v3") < 0)
        skip();
    passes_on("jit");
}
