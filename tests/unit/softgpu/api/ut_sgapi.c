/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See ut_sgapi.h.
 */
#include "ut_sgapi.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALONE "UT_SG_ALONE" /* the one test case that a process runs */

static char folder[64];

static const char ptx[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .global .align 4 .u32 counter = 7;\n"
    ".visible .const .align 4 .u32 table[4] = {1, 2, 3, 4};\n"
    ".visible .entry add_one(.param .u64 p, .param .u32 n)\n"
    "{\n"
    "  .reg .pred %q; .reg .u32 %r<6>; .reg .u64 %d<4>;\n"
    "  ld.param.u64 %d0, [p]; ld.param.u32 %r0, [n];\n"
    "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
    "  mad.lo.u32 %r4, %r1, %r2, %r3;\n"
    "  setp.ge.u32 %q, %r4, %r0;\n"
    "  @%q bra END;\n"
    "  cvta.to.global.u64 %d0, %d0;\n"
    "  mul.wide.u32 %d1, %r4, 4; add.u64 %d2, %d0, %d1;\n"
    "  ld.global.u32 %r5, [%d2]; add.u32 %r5, %r5, 1; st.global.u32 [%d2], %r5;\n"
    "END:\n"
    "  ret;\n"
    "}\n"
    ".visible .entry store(.param .u64 p, .param .u32 v)\n"
    "{\n"
    "  .reg .u32 %r0; .reg .u64 %d0;\n"
    "  ld.param.u64 %d0, [p]; ld.param.u32 %r0, [v];\n"
    "  st.global.u32 [%d0], %r0;\n"
    "  ret;\n"
    "}\n"
    ".visible .entry spin(.param .u64 p, .param .u32 v)\n"
    "{\n"
    "  .reg .pred %q; .reg .u32 %r0; .reg .u64 %d0;\n"
    "  ld.param.u64 %d0, [p];\n"
    "AGAIN:\n"
    "  ld.volatile.global.u32 %r0, [%d0];\n"
    "  setp.eq.u32 %q, %r0, 0;\n"
    "  @%q bra AGAIN;\n"
    "  mov.u32 %r0, 1;\n"
    "  st.global.u32 [%d0+4], %r0;\n"
    "  ret;\n"
    "}\n"
    ".visible .entry wild(.param .u64 p, .param .u32 v)\n"
    "{\n"
    "  .reg .u32 %r0; .reg .u64 %d0;\n"
    "  ld.param.u64 %d0, [p]; ld.param.u32 %r0, [v];\n"
    "  st.global.u32 [%d0], %r0;\n"
    "  ret;\n"
    "}\n"
    ".visible .entry trapper(.param .u64 p, .param .u32 v)\n"
    "{\n"
    "  trap;\n"
    "  ret;\n"
    "}\n"
    ".visible .entry busy(.param .u64 p, .param .u32 n)\n"
    "{\n"
    "  .reg .pred %q; .reg .u32 %r<4>; .reg .u64 %d0;\n"
    "  ld.param.u64 %d0, [p]; ld.param.u32 %r0, [n];\n"
    "  mov.u32 %r1, 0; mov.u32 %r2, 1;\n"
    "AGAIN:\n"
    "  mad.lo.u32 %r2, %r2, 1664525, 1013904223;\n"
    "  add.u32 %r1, %r1, 1;\n"
    "  setp.lt.u32 %q, %r1, %r0;\n"
    "  @%q bra AGAIN;\n"
    "  or.b32 %r2, %r2, 1;\n"
    "  st.global.u32 [%d0], %r2;\n"
    "  ret;\n"
    "}\n"
    ".visible .entry grid_sum(.param .u64 p, .param .u32 n)\n"
    "{\n"
    "  .reg .pred %q; .reg .u32 %r<4>; .reg .u64 %d0;\n"
    "  ld.param.u64 %d0, [p];\n"
    "  mov.u32 %r0, %nctaid.x;\n"
    "  atom.global.add.u32 %r1, [%d0], 1;\n"
    "AGAIN:\n"
    "  ld.volatile.global.u32 %r1, [%d0];\n"
    "  setp.lt.u32 %q, %r1, %r0;\n"
    "  @%q bra AGAIN;\n"
    "  atom.global.add.u32 %r2, [%d0+4], 1;\n"
    "  ret;\n"
    "}\n";

bool
ut_sg_apart(const char *name)
{
    const char *alone = getenv(ALONE);
    int status = -1;
    pid_t pid;

    if (alone && strcmp(alone, name) == 0)
        return false;
    pid = fork();
    if (pid == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO); /* only its status counts */
        setenv(ALONE, name, 1);
        ut_exec_self(NULL, NULL);
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    assert_int_equal(status, 0);
    return true;
}

void
ut_sg_cards(const char *cards, const char *memory, const char *sms)
{
    if (getenv(ALONE))
        cmocka_set_test_filter(getenv(ALONE));
    snprintf(folder, sizeof(folder), "/tmp/ut-softgpu-XXXXXX");
    assert_non_null(mkdtemp(folder));
    setenv("SOFTGPU_DIR", folder, 1);
    setenv("SOFTGPU_CARDS", cards, 1);
    setenv("SOFTGPU_MEMORY", memory, 1);
    setenv("SOFTGPU_SMS", sms, 1);
    unsetenv("SOFTGPU_INSTANCE");
    unsetenv("SOFTGPU_VISIBLE");
    unsetenv("CUDA_VISIBLE_DEVICES");
}

void
ut_sg_cards_remove(void)
{
    struct dirent *e;
    char path[400];
    DIR *d = opendir(folder);

    while (d && (e = readdir(d))) {
        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(folder);
}

void
ut_sg_open(struct ut_sg *sg, int dev)
{
    ok(cuInit(0));
    ok(cuCtxCreate_v2(&sg->ctx, 0, dev));
    ok(cuModuleLoadData(&sg->mod, ptx));
    ok(cuModuleGetFunction(&sg->add_one, sg->mod, "add_one"));
    ok(cuModuleGetFunction(&sg->store, sg->mod, "store"));
    ok(cuModuleGetFunction(&sg->spin, sg->mod, "spin"));
    ok(cuModuleGetFunction(&sg->wild, sg->mod, "wild"));
    ok(cuModuleGetFunction(&sg->trap, sg->mod, "trapper"));
    ok(cuModuleGetFunction(&sg->busy, sg->mod, "busy"));
    ok(cuModuleGetFunction(&sg->grid_sum, sg->mod, "grid_sum"));
}

void
ut_sg_close(struct ut_sg *sg)
{
    ok(cuCtxDestroy_v2(sg->ctx));
    memset(sg, 0, sizeof(*sg));
}

CUresult
ut_sg_run(CUfunction fn, unsigned grid, unsigned block, CUstream stream, CUdeviceptr p,
          unsigned value)
{
    void *args[] = {&p, &value};

    return cuLaunchKernel(fn, grid, 1, 1, block, 1, 1, 0, stream, args, NULL);
}
