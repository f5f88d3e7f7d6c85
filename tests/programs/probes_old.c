/* SPDX-License-Identifier: Apache-2.0 */
/* The first versions of calls, and looking up calls by name. */
#include "probes.h"

/* ---- first versions --------------------------------------------------------------
 *
 * Each in a process of its own, in a context of today (3020) and in one made by the
 * first version of cuCtxCreate. */

static CUdeviceptr_v1 small;
static CUdeviceptr wide;
static CUresult (*asked)(void);

static CUresult
old_alloc(void)
{
    return cuMemAlloc(&small, 4096);
}

static CUresult
old_alloc_host(void)
{
    void *p;

    return cuMemAllocHost(&p, 64);
}

static CUresult
old_free(void)
{
    return cuMemFree((CUdeviceptr_v1)0);
}

static CUresult
old_info(void)
{
    unsigned n = 0, total = 0;

    return cuMemGetInfo(&n, &total);
}

static CUresult
old_pitch(void)
{
    unsigned pitch;

    return cuMemAllocPitch(&small, &pitch, 64, 4, 4);
}

static CUresult
old_range(void)
{
    unsigned size;

    return cuMemGetAddressRange(&small, &size, (CUdeviceptr_v1)wide);
}

static CUresult
old_total(void)
{
    unsigned bytes;

    return cuDeviceTotalMem(&bytes, 0);
}

static CUresult
old_global(void)
{
    unsigned bytes;

    return cuModuleGetGlobal(&small, &bytes, probe_module, "variable");
}

static CUresult
old_global_of_none(void)
{
    unsigned bytes;

    return cuModuleGetGlobal(&small, &bytes, probe_module, "none");
}

static CUresult
old_up(void)
{
    unsigned v = 1;

    return cuMemcpyHtoD((CUdeviceptr_v1)wide, &v, 4);
}

static CUresult
old_down(void)
{
    unsigned v = 1;

    return cuMemcpyDtoH(&v, (CUdeviceptr_v1)wide, 4);
}

static CUresult
old_fill(void)
{
    return cuMemsetD8((CUdeviceptr_v1)wide, 1, 4);
}

static CUresult
old_array(void)
{
    CUDA_ARRAY_DESCRIPTOR_v1 d = {8, 4, CU_AD_FORMAT_FLOAT, 1};
    CUarray array;

    return cuArrayCreate(&array, &d);
}

static CUresult
old_array_says(void)
{
    CUDA_ARRAY_DESCRIPTOR d = {8, 4, CU_AD_FORMAT_FLOAT, 1};
    CUDA_ARRAY_DESCRIPTOR_v1 told = {0};
    CUarray array;
    CUresult r = cuArrayCreate_v2(&array, &d);

    r = r == CUDA_SUCCESS ? cuArrayGetDescriptor(&told, array) : r;
    printf("  width %u\n", told.Width);
    return r;
}

static CUresult
old_array3d(void)
{
    CUDA_ARRAY3D_DESCRIPTOR_v1 d = {
        .Width = 8, .Height = 4, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUarray array;

    return cuArray3DCreate(&array, &d);
}

static CUresult
old_device_pointer(void)
{
    void *p;
    CUresult r = cuMemHostAlloc(&p, 64, CU_MEMHOSTALLOC_DEVICEMAP);

    return r == CUDA_SUCCESS ? cuMemHostGetDevicePointer(&small, p, 0) : r;
}

static CUresult
old_rectangle(void)
{
    CUDA_MEMCPY2D_v1 c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = &(unsigned){1},
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = &(unsigned){2},
                          .WidthInBytes = 4,
                          .Height = 1};

    return cuMemcpy2D(&c);
}

static CUresult
old_texture(void)
{
    unsigned offset;
    CUtexref ref;
    CUresult r = cuModuleGetTexRef(&ref, probe_module, "image");

    return r == CUDA_SUCCESS
               ? cuTexRefSetAddress(&offset, ref, (CUdeviceptr_v1)wide, 64)
               : r;
}

static CUresult
old_stream_end(void)
{
    CUstream s;
    CUresult r = cuStreamCreate(&s, 0);

    return r == CUDA_SUCCESS ? cuStreamDestroy(s) : r;
}

static CUresult
old_event_end(void)
{
    CUevent e;
    CUresult r = cuEventCreate(&e, 0);

    return r == CUDA_SUCCESS ? cuEventDestroy(e) : r;
}

static CUresult
old_register(void)
{
    static char page[8192];

    return cuMemHostRegister(page, sizeof(page), 0);
}

static CUresult
old_link(void)
{
    CUlinkState state;

    return cuLinkCreate(0, NULL, NULL, &state);
}

static CUresult
old_pop(void)
{
    CUcontext ctx;

    return cuCtxPopCurrent(&ctx);
}

static CUresult
old_end(void)
{
    CUcontext ctx;
    CUresult r = cuCtxGetCurrent(&ctx);

    return r == CUDA_SUCCESS ? cuCtxDestroy(ctx) : r;
}

static CUresult
new_alloc(void)
{
    return cuMemAlloc_v2(&wide, 64);
}

static void
ask_old(void)
{
    CUresult (*call)(void) = asked;
    unsigned version = 0;
    CUcontext old;

    probe_begin();
    NEED(cuMemAlloc_v2(&wide, 4096));
    SAY("in a context of today", call());
    NEED(cuCtxCreate(&old, 0, 0));
    SAY("version", cuCtxGetApiVersion(old, &version));
    printf("  %u\n", version);
    NEED(cuMemAlloc_v2(&wide, 4096));
    SAY("in a context of old", call());
}

#define OLD(fn)                                                                        \
    static void ask_##fn(void)                                                         \
    {                                                                                  \
        asked = fn;                                                                    \
        ask_old();                                                                     \
    }
OLD(old_alloc)
OLD(old_alloc_host)
OLD(old_free)
OLD(old_info)
OLD(old_pitch)
OLD(old_range)
OLD(old_total)
OLD(old_global)
OLD(old_global_of_none)
OLD(old_up)
OLD(old_down)
OLD(old_fill)
OLD(old_array)
OLD(old_array_says)
OLD(old_array3d)
OLD(old_device_pointer)
OLD(old_rectangle)
OLD(old_texture)
OLD(old_stream_end)
OLD(old_event_end)
OLD(old_register)
OLD(old_link)
OLD(old_pop)
OLD(old_end)
OLD(new_alloc)

/* ---- names ------------------------------------------------------------------------
 */

static void
look_up(const char *what, const char *name, int version, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult found = (CUdriverProcAddressQueryResult)9;
    void *fn = &found;
    CUresult r = cuGetProcAddress_v2(name, &fn, version, flags, &found);

    printf("  %s: %d, status %d, %s\n", what, (int)r, (int)found,
           fn == &found ? "untouched"
           : fn         ? "found"
                        : "NULL");
    fn = &found;
    r = cuGetProcAddress_v2(name, &fn, version, flags, NULL);
    printf("  %s, no status: %d, %s\n", what, (int)r,
           fn == &found ? "untouched"
           : fn         ? "found"
                        : "NULL");
    fn = &found;
    r = cuGetProcAddress(name, &fn, version, flags);
    printf("  %s, first version: %d, %s\n", what, (int)r,
           fn == &found ? "untouched"
           : fn         ? "found"
                        : "NULL");
}

static void
names(void)
{
    probe_begin();
    look_up("a call", "cuDriverGetVersion", 12000, 0);
    look_up("no call", "cuNoSuchCall", 12000, 0);
    look_up("no name", "", 12000, 0);
    look_up("a later call", "cuGraphCreate", 2000, 0);
    look_up("a version to come", "cuInit", 99000, 0);
    look_up("no version", "cuInit", 0, 0);
    look_up("a negative version", "cuInit", -1, 0);
    look_up("both streams", "cuMemsetD8Async", 12000, 3);
    look_up("unknown flags", "cuInit", 12000, 64);
    look_up("a name with its version", "cuMemAlloc_v2", 12000, 0);
    look_up("a name with its stream", "cuMemsetD8Async_ptsz", 12000, 0);
    look_up("cuGetProcAddress", "cuGetProcAddress", 12000, 0);
}

/* The symbol is NULL: may end the process. */
static void
name_that_is_null(void)
{
    void *fn;

    probe_begin();
    SAY("cuGetProcAddress", cuGetProcAddress_v2(NULL, &fn, 12000, 0, NULL));
}

static void
errors_by_name(void)
{
    const char *words = "untouched";

    SAY("cuGetErrorName of none", cuGetErrorName((CUresult)9999, &words));
    printf("  %s\n", words ? words : "NULL");
    words = "untouched";
    SAY("cuGetErrorString of none", cuGetErrorString((CUresult)9999, &words));
    printf("  %s\n", words ? words : "NULL");
}

#define ASKS(fn, name)                                                                 \
    {                                                                                  \
        "first version of " name, ask_##fn                                             \
    }
const struct probe probes_old[] = {
    ASKS(old_alloc, "cuMemAlloc"),
    ASKS(old_alloc_host, "cuMemAllocHost"),
    ASKS(old_free, "cuMemFree"),
    ASKS(old_info, "cuMemGetInfo"),
    ASKS(old_pitch, "cuMemAllocPitch"),
    ASKS(old_range, "cuMemGetAddressRange"),
    ASKS(old_total, "cuDeviceTotalMem"),
    ASKS(old_global, "cuModuleGetGlobal"),
    ASKS(old_global_of_none, "cuModuleGetGlobal of none"),
    ASKS(old_up, "cuMemcpyHtoD"),
    ASKS(old_down, "cuMemcpyDtoH"),
    ASKS(old_fill, "cuMemsetD8"),
    ASKS(old_array, "cuArrayCreate"),
    ASKS(old_array_says, "cuArrayGetDescriptor"),
    ASKS(old_array3d, "cuArray3DCreate"),
    ASKS(old_device_pointer, "cuMemHostGetDevicePointer"),
    ASKS(old_rectangle, "cuMemcpy2D"),
    ASKS(old_texture, "cuTexRefSetAddress"),
    ASKS(old_stream_end, "cuStreamDestroy"),
    ASKS(old_event_end, "cuEventDestroy"),
    ASKS(old_register, "cuMemHostRegister"),
    ASKS(old_link, "cuLinkCreate"),
    ASKS(old_pop, "cuCtxPopCurrent"),
    ASKS(old_end, "cuCtxDestroy"),
    ASKS(new_alloc, "nothing: cuMemAlloc_v2"),
    {"names of calls", names},
    {"a name that is NULL", name_that_is_null},
    {"names of errors", errors_by_name},
};
const size_t n_probes_old = sizeof(probes_old) / sizeof(probes_old[0]);
