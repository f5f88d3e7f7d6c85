/* SPDX-License-Identifier: Apache-2.0 */
/* The groups of questions, each in a process of its own; see probes.h. */
#include "probes.h"

#include <sys/wait.h>

/* A question that is not answered by then never is. */
#define GROUP_SECONDS 60

/* store: *at = value.  load: *out = *at.  beyond: a store into shared memory that the
 * block does not have. */
static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l,\n"
    "                           .param .b64 n, .param .b64 s);\n"
    ".visible .global .align 4 .u32 variable = 5;\n"
    ".global .align 1 .b8 words[4] = {119, 111, 114, 0};\n"
    ".visible .global .texref image;\n"
    ".visible .entry store(.param .u64 at, .param .u32 value)\n{\n"
    " .reg .b64 %d<2>; .reg .b32 %r<2>;\n"
    " ld.param.u64 %d1, [at]; ld.param.u32 %r1, [value];\n"
    " st.global.u32 [%d1], %r1; ret;\n}\n"
    ".visible .entry load(.param .u64 out, .param .u64 at)\n{\n"
    " .reg .b64 %d<3>; .reg .b32 %r<2>;\n"
    " ld.param.u64 %d1, [out]; ld.param.u64 %d2, [at];\n"
    " ld.global.u32 %r1, [%d2]; st.global.u32 [%d1], %r1; ret;\n}\n"
    ".visible .entry stop()\n{\n trap;\n ret;\n}\n"
    ".visible .entry beyond()\n{\n"
    " .reg .b32 %r<3>;\n mov.u32 %r1, 0x3fff0; mov.u32 %r2, 1;\n"
    " st.volatile.shared.u32 [%r1], %r2; ret;\n}\n"
    ".visible .entry asserts()\n{\n"
    " .reg .b64 %d<3>; .reg .b32 %r<2>;\n"
    " mov.u64 %d1, words; cvta.global.u64 %d2, %d1; mov.u32 %r1, 7;\n"
    " { .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 s;\n"
    "   st.param.b64 [m], %d2; st.param.b64 [f], %d2; st.param.b32 [l], %r1;\n"
    "   st.param.b64 [n], %d2; mov.u64 %d1, 1; st.param.b64 [s], %d1;\n"
    "   call.uni __assertfail, (m, f, l, n, s); }\n"
    " ret;\n}\n"
    ".visible .entry read1d(.param .u64 t, .param .u64 out, .param .u32 at)\n{\n"
    " .reg .b64 %d<3>; .reg .b32 %r<6>;\n"
    " ld.param.u64 %d1, [t]; ld.param.u64 %d2, [out]; ld.param.u32 %r1, [at];\n"
    " tex.1d.v4.u32.s32 {%r2, %r3, %r4, %r5}, [%d1, {%r1}];\n"
    " st.global.u32 [%d2], %r2; ret;\n}\n"
    ".visible .entry much(.param .u64 out)\n{\n"
    " .shared .align 8 .b8 room[30000];\n ret;\n}\n";

CUcontext probe_ctx;
CUmodule probe_module;

void
probe_begin(void)
{
    CUresult r = cuInit(0);

    if (r == CUDA_SUCCESS)
        r = cuCtxCreate_v2(&probe_ctx, 0, 0);
    if (r == CUDA_SUCCESS)
        r = cuModuleLoadData(&probe_module, ptx);
    if (r == CUDA_SUCCESS)
        return;
    printf("  no context: %d\n", (int)r);
    exit(1);
}

CUfunction
probe_kernel(const char *name)
{
    CUfunction f = NULL;

    if (cuModuleGetFunction(&f, probe_module, name) != CUDA_SUCCESS)
        printf("  no kernel %s\n", name);
    return f;
}

CUresult
probe_launch(CUfunction f, void **params, CUstream stream)
{
    return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

/* Does not run what the driver does at a process's end: the answers are out. */
static void
ask_apart(const struct probe *p)
{
    int status = 0;
    pid_t pid;

    printf("%s\n", p->name);
    pid = fork();
    if (pid == 0) {
        alarm(GROUP_SECONDS);
        p->ask();
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        exit(2);
    if (WIFSIGNALED(status))
        printf("  %s: ended by signal %d\n", p->name, WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
        printf("  %s: ended with %d\n", p->name, WEXITSTATUS(status));
}

static void
ask_all(const struct probe *list, size_t n, const char *part)
{
    for (size_t i = 0; i < n; i++)
        if (!part || strstr(list[i].name, part))
            ask_apart(&list[i]);
}

int
main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : NULL;

    setvbuf(stdout, NULL, _IOLBF, 0);
    ask_all(probes_faults, n_probes_faults, part);
    ask_all(probes_old, n_probes_old, part);
    ask_all(probes_graphs, n_probes_graphs, part);
    ask_all(probes_memory, n_probes_memory, part);
    ask_all(probes_objects, n_probes_objects, part);
    return 0;
}
