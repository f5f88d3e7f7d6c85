/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The linker, one line per promise: results, error codes, logs and lifetimes, of
 * cuLinkCreate to cuLinkDestroy and of options of the compiler.
 *
 * Prints the same on a driver and on a remote slice of it.  One thread.
 */
#include "prog.h"
#include "strict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

/* The kernel needs a function and a variable of other inputs. */
static const char kernel_ptx[] =
    HEAD ".extern .func (.param .b32 r) twice(.param .b32 a);\n"
         ".extern .global .align 4 .u32 offset;\n"
         ".visible .entry work(.param .u64 p)\n{\n"
         " .reg .b32 %r<6>; .reg .b64 %d<4>;\n"
         " ld.param.u64 %d1, [p]; ld.global.u32 %r1, [%d1];\n"
         " { .param .b32 a; .param .b32 r; st.param.b32 [a], %r1;\n"
         "   call (r), twice, (a); ld.param.b32 %r2, [r]; }\n"
         " mov.u64 %d2, offset; ld.global.u32 %r3, [%d2]; add.u32 %r4, %r2, %r3;\n"
         " st.global.u32 [%d1], %r4; ret;\n}\n";
static const char twice_ptx[] =
    HEAD ".visible .func (.param .b32 r) twice(.param .b32 a)\n{\n"
         " .reg .b32 %r<3>; ld.param.b32 %r1, [a]; shl.b32 %r2, %r1, 1;\n"
         " st.param.b32 [r], %r2; ret;\n}\n";
static const char offset_ptx[] = HEAD ".visible .global .align 4 .u32 offset = 100;\n";
static const char broken_ptx[] = HEAD ".visible .entry work(\n{ no such thing; }\n";

static bool strict;

static void
line(const char *what, CUresult r)
{
    printf("%s: %d\n", what, (int)r);
}

static CUresult
add(CUlinkState link, const char *text, const char *name)
{
    return cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)text,
                            strlen(text) + 1, name, 0, NULL, NULL);
}

static void
run_image(const char *what, const void *image)
{
    uint32_t value = 21, got = 0;
    CUdeviceptr p;
    CUmodule module;
    CUfunction work;
    void *params[] = {&p};
    CUresult r = cuModuleLoadData(&module, image);

    if (r == CUDA_SUCCESS)
        r = cuModuleGetFunction(&work, module, "work");
    if (r != CUDA_SUCCESS) {
        line(what, r);
        return;
    }
    CU(cuMemAlloc(&p, 4));
    CU(cuMemcpyHtoD(p, &value, 4));
    CU(cuLaunchKernel(work, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    CU(cuMemcpyDtoH(&got, p, 4));
    printf("%s: computed %u\n", what, got);
    CU(cuMemFree(p));
    CU(cuModuleUnload(module));
}

static void
several_inputs(void)
{
    CUlinkState link;
    size_t size = 0;
    void *image = NULL;

    CU(cuLinkCreate_v2(0, NULL, NULL, &link));
    line("kernel", add(link, kernel_ptx, "kernel"));
    line("function", add(link, twice_ptx, "function"));
    line("variable", add(link, offset_ptx, NULL));
    line("complete", cuLinkComplete(link, &image, &size));
    printf("image: %s\n", image && size ? "there" : "missing");
    run_image("linked", image);
    line("input behind the end", add(link, offset_ptx, "late"));
    line("destroy", cuLinkDestroy(link));
    if (!strict)
        return;
    line("destroy twice", cuLinkDestroy(link));
    line("complete a destroyed one", cuLinkComplete(link, &image, &size));
    line("input for a destroyed one", add(link, offset_ptx, "late"));
}

struct options {
    CUjit_option kind[8];
    void *value[8];
    char info[512], error[512];
    unsigned n;
};

static void
option(struct options *o, CUjit_option kind, void *value)
{
    o->kind[o->n] = kind;
    o->value[o->n++] = value;
}

/* Logs of @room bytes, and the time. */
static void
options_for(struct options *o, size_t room)
{
    memset(o, 0, sizeof(*o));
    memset(o->info, 'i', sizeof(o->info));
    memset(o->error, 'e', sizeof(o->error));
    option(o, CU_JIT_INFO_LOG_BUFFER, o->info);
    option(o, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, (void *)room);
    option(o, CU_JIT_ERROR_LOG_BUFFER, o->error);
    option(o, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, (void *)room);
    option(o, CU_JIT_WALL_TIME, NULL);
    option(o, CU_JIT_OPTIMIZATION_LEVEL, (void *)2);
    option(o, CU_JIT_MAX_REGISTERS, (void *)32);
}

/* What is in a log, how long it is said to be, and that nothing behind it was written.
 */
static void
tell_log(const char *what, const char *log, size_t room, char untouched, void *size)
{
    size_t said = (size_t)(unsigned)(uintptr_t)size, behind = 0;

    for (size_t i = room; i < 512; i++)
        behind += log[i] != untouched;
    if (room && log[0] != untouched)
        printf("%s: said %zu, \"%s\", %zu bytes behind it\n", what, said, log, behind);
    else
        printf("%s: said %zu, untouched, %zu bytes behind it\n", what, said, behind);
}

static void
tell_logs(const struct options *o, size_t room)
{
    float ms;

    tell_log("info log", o->info, room, 'i', o->value[1]);
    tell_log("error log", o->error, room, 'e', o->value[3]);
    memcpy(&ms, &o->value[4], sizeof(ms));
    printf("time: %s\n", ms > 0 && ms < 60000 ? "some" : "none");
}

static void
logs_of_success(void)
{
    struct options o;
    CUlinkState link;
    size_t size;
    void *image;

    options_for(&o, 512);
    CU(cuLinkCreate_v2(o.n, o.kind, o.value, &link));
    line("kernel", add(link, kernel_ptx, "kernel"));
    line("function", add(link, twice_ptx, "function"));
    line("variable", add(link, offset_ptx, "variable"));
    line("complete", cuLinkComplete(link, &image, &size));
    tell_logs(&o, 512);
    run_image("with options", image);
    CU(cuLinkDestroy(link));
}

static void
missing_symbol(size_t room)
{
    struct options o;
    CUlinkState link;
    size_t size = 7;
    void *image = NULL;

    options_for(&o, room);
    CU(cuLinkCreate_v2(o.n, o.kind, o.value, &link));
    line("kernel alone", add(link, kernel_ptx, "kernel"));
    line("complete", cuLinkComplete(link, &image, &size));
    tell_logs(&o, room);
    printf("image: %s\n", image ? "there" : "none");
    CU(cuLinkDestroy(link));
}

static void
broken_input(size_t room)
{
    struct options o;
    CUlinkState link;

    options_for(&o, room);
    CU(cuLinkCreate_v2(o.n, o.kind, o.value, &link));
    line("broken", add(link, broken_ptx, "broken.ptx"));
    tell_logs(&o, room);
    line("a good one behind it", add(link, offset_ptx, "good"));
    CU(cuLinkDestroy(link));
}

/* What is no PTX at all, with what the linker says of it. */
static void
garbage(const char *what, CUjitInputType type, const char *bytes, size_t n)
{
    struct options o;
    CUlinkState link;

    options_for(&o, 512);
    CU(cuLinkCreate_v2(o.n, o.kind, o.value, &link));
    line(what, cuLinkAddData_v2(link, type, (void *)(uintptr_t)bytes, n, "garbage", 0,
                                NULL, NULL));
    tell_logs(&o, 512);
    CU(cuLinkDestroy(link));
}

static void
twice_defined(void)
{
    struct options o;
    CUlinkState link;
    size_t size;
    void *image;

    options_for(&o, 512);
    CU(cuLinkCreate_v2(o.n, o.kind, o.value, &link));
    line("variable", add(link, offset_ptx, "a"));
    line("variable again", add(link, offset_ptx, "b"));
    line("complete", cuLinkComplete(link, &image, &size));
    tell_logs(&o, 512);
    CU(cuLinkDestroy(link));
}

static void
from_files(void)
{
    const char *const texts[] = {kernel_ptx, twice_ptx, offset_ptx};
    char path[] = "/tmp/linking-XXXXXX";
    CUlinkState link;
    size_t size;
    void *image;

    CU(cuLinkCreate_v2(0, NULL, NULL, &link));
    for (int i = 0; i < 3; i++) {
        int fd;
        FILE *f;

        memcpy(path, "/tmp/linking-XXXXXX", sizeof(path));
        fd = mkstemp(path);
        f = fd < 0 ? NULL : fdopen(fd, "w");
        if (!f || fputs(texts[i], f) < 0 || fclose(f)) {
            perror(path);
            exit(2);
        }
        line("file", cuLinkAddFile_v2(link, CU_JIT_INPUT_PTX, path, 0, NULL, NULL));
        unlink(path);
    }
    line("no such file",
         cuLinkAddFile_v2(link, CU_JIT_INPUT_PTX, "/nonexistent/x.ptx", 0, NULL, NULL));
    line("no name", cuLinkAddFile_v2(link, CU_JIT_INPUT_PTX, NULL, 0, NULL, NULL));
    line("complete", cuLinkComplete(link, &image, &size));
    run_image("from files", image);
    CU(cuLinkDestroy(link));
}

static void
wrong_arguments(void)
{
    CUjit_option bad[] = {(CUjit_option)9999};
    char elf[16] = {0x7f, 'E', 'L', 'F'};
    void *value[] = {NULL};
    CUlinkState link, other;
    size_t size;
    void *image;

    line("no place for the state", cuLinkCreate_v2(0, NULL, NULL, NULL));
    line("options without values", cuLinkCreate_v2(1, bad, NULL, &link));
    line("an unknown option", cuLinkCreate_v2(1, bad, value, &link));
    CU(cuLinkCreate_v2(0, NULL, NULL, &link));
    line("no data",
         cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, NULL, 10, "x", 0, NULL, NULL));
    line("no bytes",
         cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, bad, 0, "x", 0, NULL, NULL));
    line("an unknown kind",
         cuLinkAddData_v2(link, (CUjitInputType)77, bad, 4, "x", 0, NULL, NULL));
    line("garbage as a cubin",
         cuLinkAddData_v2(link, CU_JIT_INPUT_CUBIN, bad, 4, "x", 0, NULL, NULL));
    line("machine code as PTX", cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, elf,
                                                 sizeof(elf), "x", 0, NULL, NULL));
    line("no place for the image", cuLinkComplete(link, NULL, &size));
    CU(cuLinkDestroy(link));
    line("no state",
         cuLinkAddData_v2(NULL, CU_JIT_INPUT_PTX, bad, 4, "x", 0, NULL, NULL));
    line("complete none", cuLinkComplete(NULL, &image, &size));
    line("destroy none", cuLinkDestroy(NULL));
    CU(cuLinkCreate_v2(0, NULL, NULL, &link));
    CU(cuLinkCreate_v2(0, NULL, NULL, &other));
    line("two states", add(other, offset_ptx, "x"));
    line("complete without input", cuLinkComplete(link, &image, &size));
    CU(cuLinkDestroy(link));
    line("complete the other", cuLinkComplete(other, &image, &size));
    CU(cuLinkDestroy(other));
}

/* The same options where a module is loaded. */
static void
load_with_options(void)
{
    struct options o;
    CUmodule module;

    options_for(&o, 512);
    line("module", cuModuleLoadDataEx(&module, offset_ptx, o.n, o.kind, o.value));
    tell_logs(&o, 512);
    CU(cuModuleUnload(module));
    options_for(&o, 512);
    line("broken module",
         cuModuleLoadDataEx(&module, broken_ptx, o.n, o.kind, o.value));
    tell_logs(&o, 512);
    options_for(&o, 512);
    line("unlinked module",
         cuModuleLoadDataEx(&module, kernel_ptx, o.n, o.kind, o.value));
}

int
main(int argc, char **argv)
{
    CUdevice dev;
    CUcontext ctx;

    strict = strict_asked(argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    CU(cuInit(0));
    CU(cuDeviceGet(&dev, 0));
    CU(cuDevicePrimaryCtxRetain(&ctx, dev));
    CU(cuCtxSetCurrent(ctx));
    several_inputs();
    logs_of_success();
    missing_symbol(512);
    missing_symbol(20);
    missing_symbol(1);
    missing_symbol(0);
    broken_input(512);
    broken_input(20);
    garbage("words as PTX", CU_JIT_INPUT_PTX, "no PTX at all", 14);
    garbage("words without an end", CU_JIT_INPUT_PTX, "no PTX at all", 13);
    garbage("nothing as PTX", CU_JIT_INPUT_PTX, "", 1);
    twice_defined();
    from_files();
    wrong_arguments();
    load_with_options();
    CU(cuCtxSetCurrent(NULL));
    CU(cuDevicePrimaryCtxRelease(dev));
    puts("linking: ok");
    return 0;
}
