/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills whose device address is that of page-locked memory of the host.
 *
 * With unified addresses a driver accepts the address of page-locked memory as a device
 * address.  That memory is in this process, so the fill is done here, after the earlier
 * work of the stream.  All other fills, and those in captures, are the generated calls,
 * but for those that the server would not find to overrun memory (stub_memory.h).
 */
#include "stub_call.h"
#include "stub_capture.h"
#include "stub_copy_facts.h"
#include "stub_ctx.h"
#include "stub_d2h_async.h"
#include "stub_link.h"
#include "stub_managed.h"
#include "stub_manual.h"
#include "stub_memory.h"

#include <string.h>

struct fill {
    uint64_t dst;
    size_t pitch; /* of more than one row */
    uint32_t value;
    uint32_t size; /* of an element: 1, 2 or 4 bytes */
    size_t width;  /* elements */
    size_t height;
};

/* Bytes from its first to its last one.  False: it is empty, or wrong. */
static bool
fill_span(const struct fill *f, uint64_t *ret)
{
    uint64_t row = 0, span = 0;

    return gp_mul_ok(f->width, f->size, &row) && f->height &&
           gp_mul_ok(f->pitch, f->height - 1, &span) && gp_add_ok(span, row, ret) &&
           f->dst % f->size == 0 &&
           (f->height == 1 || (row <= f->pitch && f->pitch % f->size == 0));
}

/* Is all of it pinned memory? */
static bool
fill_is_here(const struct fill *f)
{
    uint64_t span;

    return !stub_capture_any() && fill_span(f, &span) &&
           stub_copy_is_host(f->dst, span);
}

static bool
fill_overruns(const struct fill *f)
{
    uint64_t span;

    return unlikely(stub_links_n > 1 || stub_memory_any_longer()) &&
           fill_span(f, &span) && f->width && stub_memory_overruns(f->dst, span);
}

static void
fill_row(uint8_t *row, const struct fill *f)
{
    if (f->size == 1)
        memset(row, (int)f->value, f->width);
    else
        for (size_t i = 0; i < f->width; i++)
            memcpy(row + i * f->size, &f->value, f->size);
}

static CUresult
fill_here(const struct fill *f, CUstream stream, bool per_thread)
{
    uint8_t *at = (uint8_t *)(uintptr_t)f->dst;
    CUresult r = stub_impl_cuStreamSynchronize(stream, per_thread);

    if (r != CUDA_SUCCESS)
        return r;
    stub_d2h_async_wait(at, f->pitch * (f->height - 1) + f->width * f->size);
    for (size_t y = 0; y < f->height; y++)
        fill_row(at + y * f->pitch, f);
    return CUDA_SUCCESS;
}

#define FILL_1D(bits, type, bytes)                                                     \
    CUresult stub_impl_cuMemsetD##bits##_v2(CUdeviceptr dstDevice, type value,         \
                                            size_t N)                                  \
    {                                                                                  \
        struct fill f = {dstDevice, 0, value, bytes, N, 1};                            \
                                                                                       \
        if (unlikely(stub_memory_may_be_host(dstDevice)) && fill_is_here(&f))          \
            return fill_here(&f, NULL, false);                                         \
        if (fill_overruns(&f))                                                         \
            return stub_ctx_refuse();                                                  \
        return stub_gen_cuMemsetD##bits##_v2(dstDevice, value, N);                     \
    }                                                                                  \
    CUresult stub_impl_cuMemsetD##bits##Async(CUdeviceptr dstDevice, type value,       \
                                              size_t N, CUstream hStream,              \
                                              bool per_thread)                         \
    {                                                                                  \
        struct fill f = {dstDevice, 0, value, bytes, N, 1};                            \
                                                                                       \
        if (unlikely(stub_memory_may_be_host(dstDevice)) && fill_is_here(&f))          \
            return fill_here(&f, hStream, per_thread);                                 \
        if (fill_overruns(&f))                                                         \
            return stub_ctx_refuse();                                                  \
        return stub_gen_cuMemsetD##bits##Async(dstDevice, value, N, hStream,           \
                                               per_thread);                            \
    }

#define FILL_2D(bits, type, bytes)                                                     \
    CUresult stub_impl_cuMemsetD2D##bits##_v2(CUdeviceptr dstDevice, size_t dstPitch,  \
                                              type value, size_t Width, size_t Height) \
    {                                                                                  \
        struct fill f = {dstDevice, dstPitch, value, bytes, Width, Height};            \
                                                                                       \
        if (unlikely(stub_memory_may_be_host(dstDevice)) && fill_is_here(&f))          \
            return fill_here(&f, NULL, false);                                         \
        if (fill_overruns(&f))                                                         \
            return stub_ctx_refuse();                                                  \
        return stub_gen_cuMemsetD2D##bits##_v2(dstDevice, dstPitch, value, Width,      \
                                               Height);                                \
    }                                                                                  \
    CUresult stub_impl_cuMemsetD2D##bits##Async(                                       \
        CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width,              \
        size_t Height, CUstream hStream, bool per_thread)                              \
    {                                                                                  \
        struct fill f = {dstDevice, dstPitch, value, bytes, Width, Height};            \
                                                                                       \
        if (unlikely(stub_memory_may_be_host(dstDevice)) && fill_is_here(&f))          \
            return fill_here(&f, hStream, per_thread);                                 \
        if (fill_overruns(&f))                                                         \
            return stub_ctx_refuse();                                                  \
        return stub_gen_cuMemsetD2D##bits##Async(dstDevice, dstPitch, value, Width,    \
                                                 Height, hStream, per_thread);         \
    }

FILL_1D(8, unsigned char, 1)
FILL_1D(16, unsigned short, 2)
FILL_1D(32, unsigned int, 4)
FILL_2D(8, unsigned char, 1)
FILL_2D(16, unsigned short, 2)
FILL_2D(32, unsigned int, 4)
