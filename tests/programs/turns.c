/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies have their turn in a stream: what they read and write of the program's memory,
 * when.  One line per promise:
 *
 * "function": the source is written by a function of the program that comes before.
 * "gate": by the program itself, which then ends the stream's wait for a value.
 * "blocking": a blocking copy up comes behind the default stream's work.
 * "queued": no asynchronous copy of page-locked memory waits for the gate that this
 * thread opens behind it; one that did would never return.
 */
#include "prog.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BIG (80u << 20)
#define MANY 300u
#define OLD 1
#define NEW 7

PROG_EMBED(turns_ptx, "spin.ptx");

static struct prog prog;
static CUstream stream, other;
static CUdeviceptr device, gate;
static CUarray array;
static unsigned char *locked, *registered, *back, *pageable;
static volatile int ran;

struct span {
    unsigned char *at;
    size_t n;
};

static void
write_span(void *arg)
{
    const struct span *span = arg;

    usleep(10000);
    memset(span->at, NEW, span->n);
    ran = 1;
}

static void
gate_close(CUstream in)
{
    CU(cuMemsetD32(gate, 0, 1));
    CU(cuStreamWaitValue32(in, gate, 1, CU_STREAM_WAIT_VALUE_EQ));
}

static void
gate_open(void)
{
    CU(cuStreamWriteValue32(other, gate, 1, 0));
}

/* What came to the card: its first and last byte. */
static void
show(const char *name, size_t n)
{
    unsigned char first = 0, last = 0;

    CU(cuMemcpyDtoH(&first, device, 1));
    CU(cuMemcpyDtoH(&last, device + n - 1, 1));
    printf("%s: %d %d\n", name, first, last);
}

static void
show_array(const char *name)
{
    unsigned char got[64];

    CU(cuMemcpyAtoH(got, array, 0, sizeof(got)));
    printf("%s: %d %d\n", name, got[0], got[63]);
}

static CUDA_MEMCPY2D
box_of(unsigned char *host, bool up)
{
    CUDA_MEMCPY2D box = {.WidthInBytes = 32, .Height = 8};

    if (up) {
        box.srcMemoryType = CU_MEMORYTYPE_HOST;
        box.srcHost = host;
        box.srcPitch = 64;
        box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        box.dstDevice = device;
        box.dstPitch = 32;
    } else {
        box.srcMemoryType = CU_MEMORYTYPE_ARRAY;
        box.srcArray = array;
        box.dstMemoryType = CU_MEMORYTYPE_HOST;
        box.dstHost = host;
        box.dstPitch = 64;
        box.Height = 1;
    }
    return box;
}

/* ---- asynchronous copies up ------------------------------------------------- */

static void
up_linear(unsigned char *from, size_t n, bool by_function, const char *name)
{
    struct span span = {from, n};

    memset(from, OLD, n);
    if (by_function)
        CU(cuLaunchHostFunc(stream, write_span, &span));
    else
        gate_close(stream);
    CU(cuMemcpyHtoDAsync(device, from, n, stream));
    if (!by_function) {
        memset(from, NEW, n);
        gate_open();
    }
    CU(cuStreamSynchronize(stream));
    show(name, n);
}

static void
up_other_shapes(unsigned char *from)
{
    CUDA_MEMCPY2D box = box_of(from, true);
    struct span span = {from, 512};

    memset(from, OLD, 512);
    CU(cuLaunchHostFunc(stream, write_span, &span));
    CU(cuMemcpy2DAsync(&box, stream));
    CU(cuStreamSynchronize(stream));
    show("function, box", 256);
    memset(from, OLD, 512);
    CU(cuLaunchHostFunc(stream, write_span, &span));
    CU(cuMemcpyHtoAAsync(array, 0, from, 64, stream));
    CU(cuStreamSynchronize(stream));
    show_array("function, array");
}

/* The function is in another stream, and an event leads here. */
static void
up_behind_event(unsigned char *from)
{
    struct span span = {from, 4096};
    CUevent event;

    memset(from, OLD, 4096);
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CU(cuLaunchHostFunc(other, write_span, &span));
    CU(cuEventRecord(event, other));
    CU(cuStreamWaitEvent(stream, event, 0));
    CU(cuMemcpyHtoDAsync(device, from, 4096, stream));
    CU(cuStreamSynchronize(stream));
    CU(cuEventDestroy(event));
    show("function of another stream", 4096);
}

/* ---- blocking copies up ----------------------------------------------------- */

static void
blocking(unsigned char *from, size_t n, const char *name)
{
    struct span span = {from, n};

    memset(from, OLD, n);
    memset(back, 0, 64);
    CU(cuMemsetD8(device, NEW, 64));
    CU(cuCtxSynchronize());
    ran = 0;
    CU(cuMemcpyDtoHAsync(back, device, 64, NULL));
    CU(cuLaunchHostFunc(NULL, write_span, &span));
    CU(cuMemcpyHtoD(device, from, n));
    printf("blocking, %s: function %d, copy down %d\n", name, ran, back[0]);
    show(name, n);
}

/* A stream that does not wait for the default one sees what the copy has brought. */
static void
blocking_seen_elsewhere(void)
{
    struct span nothing = {pageable, 0};

    memset(pageable, OLD, 64);
    CU(cuMemcpyHtoD(device, pageable, 64));
    memset(pageable, NEW, 64);
    CU(cuLaunchHostFunc(NULL, write_span, &nothing));
    CU(cuMemcpyHtoD(device, pageable, 64));
    CU(cuMemcpyDtoHAsync(back, device, 64, other));
    CU(cuStreamSynchronize(other));
    printf("blocking, seen by another stream: %d\n", back[0]);
}

/* ---- nothing waits ---------------------------------------------------------- */

static void
queued(void)
{
    CUDA_MEMCPY2D box = box_of(back, false);
    CUstream captured;
    CUgraph graph;

    CU(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    CU(cuMemsetD8(device, NEW, BIG));
    CU(cuMemcpyHtoA(array, 0, pageable, 64));
    CU(cuCtxSynchronize());
    gate_close(stream);
    for (unsigned i = 0; i < MANY; i++)
        CU(cuMemcpyDtoHAsync(back + (size_t)i * 64, device, 64, stream));
    printf("queued, many down\n");
    CU(cuMemcpyDtoHAsync(back, device, BIG, stream));
    CU(cuMemcpyHtoDAsync(device, locked, BIG, stream));
    printf("queued, large ones\n");
    CU(cuMemcpyAtoHAsync(back, array, 0, 64, stream));
    CU(cuMemcpy2DAsync(&box, stream));
    printf("queued, from an array\n");
    CU(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU(cuMemcpyDtoHAsync(back + BIG - 64, device + BIG - 64, 64, stream));
    CU(cuStreamEndCapture(captured, &graph));
    printf("queued, while a stream is captured\n");
    fflush(stdout);
    gate_open();
    CU(cuStreamSynchronize(stream));
    printf("queued: %d %d %d\n", back[0], back[64], back[BIG - 1]);
    CU(cuGraphDestroy(graph));
    CU(cuStreamDestroy(captured));
}

int
main(int argc, char **argv)
{
    CUDA_ARRAY_DESCRIPTOR shape = {64, 1, CU_AD_FORMAT_UNSIGNED_INT8, 1};

    prog_begin(&prog, argc, argv, "turns", turns_ptx);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc(&device, BIG));
    CU(cuMemAlloc(&gate, sizeof(unsigned)));
    CU(cuArrayCreate_v2(&array, &shape));
    CU(cuMemAllocHost((void **)&locked, BIG));
    CU(cuMemAllocHost((void **)&back, BIG));
    pageable = util_alloc(BIG, 1);
    registered = util_alloc(BIG, 1);
    CU(cuMemHostRegister(registered, BIG, 0));
    memset(pageable, NEW, 64);
    memset(locked, NEW, BIG);

    up_linear(locked, 64, true, "function, small");
    up_linear(locked, 64u << 10, true, "function");
    up_linear(locked, 1u << 20, true, "function, large");
    up_linear(registered, 64u << 10, true, "function, registered");
    up_other_shapes(locked);
    up_behind_event(locked);
    blocking(locked, 64, "page-locked");
    blocking(pageable, 64, "pageable");
    blocking(pageable, 1u << 20, "pageable, large");
    blocking_seen_elsewhere();
    up_linear(locked, 64, false, "gate, small");
    up_linear(locked, 1u << 20, false, "gate, large");
    up_linear(registered, 64u << 10, false, "gate, registered");
    queued();

    CU(cuMemHostUnregister(registered));
    CU(cuMemFreeHost(locked));
    CU(cuMemFreeHost(back));
    CU(cuArrayDestroy(array));
    CU(cuMemFree(device));
    free(registered);
    free(pageable);
    prog_end(&prog);
    return util_report("turns", 0, "%u kinds of copies", 4u);
}
