/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies up and down of data that compresses well and of data that does not: what a
 * link that is not loopback makes of them.  bench/run.py runs it behind delay_proxy,
 * once with and once without what is to be measured.
 *
 * --mib=N the size of a copy, --repeats=N; text and noise in turn.
 */
#include "bench.h"

#include <string.h>

struct transfer {
    CUdeviceptr device;
    size_t size;
    long repeats;
};

/* Rows that repeat but for some words, as tables and padded batches do. */
static void
fill_text(char *data, size_t size)
{
    uint32_t x = 1;

    for (size_t i = 0; i + 4 <= size; i += 4) {
        uint32_t word = (uint32_t)(i % 512);

        x = x * 1664525u + 1013904223u;
        if (x >> 28 == 0)
            word = x;
        memcpy(data + i, &word, sizeof(word));
    }
}

static void
fill_noise(char *data, size_t size)
{
    uint64_t x = 88172645463325252u;

    for (size_t i = 0; i + 8 <= size; i += 8) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(data + i, &x, sizeof(x));
    }
}

static void
measure(const struct transfer *t, const char *name, char *data, char *back)
{
    struct bench_times up = {0}, down = {0};
    char key[64];

    for (long i = 0; i <= t->repeats; i++) {
        uint64_t start = bench_now_ns(), turn;

        CU(cuMemcpyHtoD(t->device, data, t->size));
        CU(cuCtxSynchronize());
        turn = bench_now_ns();
        CU(cuMemcpyDtoH(back, t->device, t->size));
        if (i) {
            bench_times_add(&up, turn - start);
            bench_times_add(&down, bench_now_ns() - turn);
        }
        if (memcmp(data, back, t->size) != 0)
            bench_die("transfer: other bytes came back");
    }
    snprintf(key, sizeof(key), "%s_up_mbps", name);
    bench_say(key, (double)t->size * 1e3 / bench_times_percentile(&up, 50));
    snprintf(key, sizeof(key), "%s_down_mbps", name);
    bench_say(key, (double)t->size * 1e3 / bench_times_percentile(&down, 50));
    bench_times_free(&up);
    bench_times_free(&down);
}

int
main(int argc, char **argv)
{
    struct transfer t = {.size = (size_t)bench_option(argc, argv, "--mib", 16) << 20,
                         .repeats = bench_option(argc, argv, "--repeats", 4)};
    char *data = bench_memory(t.size), *back = bench_memory(t.size);
    CUcontext context;
    CUdevice device;

    bench_pin((int)bench_option(argc, argv, "--core", -1));
    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuCtxCreate(&context, 0, device));
    CU(cuMemAlloc(&t.device, t.size));
    fill_noise(data, t.size);
    if (bench_wants(argc, argv, "noise"))
        measure(&t, "noise", data, back);
    fill_text(data, t.size);
    if (bench_wants(argc, argv, "text"))
        measure(&t, "text", data, back);
    CU(cuMemFree(t.device));
    CU(cuCtxDestroy(context));
    return 0;
}
