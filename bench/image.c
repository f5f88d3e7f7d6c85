/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching and loading a large module, as every process of a framework does: the first
 * process of a host and the next one differ in what is sent.
 *
 * --mib=N its size; --seed=N what it holds, so that a round can begin with one that
 * nobody has had.
 */
#include "bench.h"

#include <string.h>

extern const char image_ptx[], image_ptx_end[];
__asm__(".pushsection .rodata\n"
        "image_ptx:\n"
        ".incbin \"vecadd.ptx\"\n"
        "image_ptx_end:\n"
        ".byte 0\n"
        ".popsection\n");

/* PTX, and behind it comments that no compression makes much smaller. */
static char *
image_new(size_t size, uint64_t seed)
{
    static const char digits[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQR"
        "STUVWXYZ+-";
    size_t ptx = (size_t)(image_ptx_end - image_ptx);
    char *image = bench_memory(size + 1);
    uint64_t x = seed * 2654435769u + 88172645463325252u;

    memcpy(image, image_ptx, ptx);
    for (size_t i = ptx; i < size; i++) {
        if (i % 10 == 0) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        image[i] = digits[x >> (6 * (i % 10)) & 63];
    }
    for (size_t i = ptx; i + 4096 < size; i += 4096)
        memcpy(image + i, "\n//", 3);
    image[size] = 0;
    return image;
}

int
main(int argc, char **argv)
{
    size_t size = (size_t)bench_option(argc, argv, "--mib", 200) << 20;
    char *image = image_new(size, (uint64_t)bench_option(argc, argv, "--seed", 1));
    CUcontext context;
    CUmodule module;
    CUdevice device;
    uint64_t start;

    bench_pin((int)bench_option(argc, argv, "--core", -1));
    start = bench_now_ns();
    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuCtxCreate(&context, 0, device));
    CU(cuModuleLoadData(&module, image));
    bench_say("image_ms", (double)(bench_now_ns() - start) / 1e6);
    CU(cuModuleUnload(module));
    CU(cuCtxDestroy(context));
    return 0;
}
