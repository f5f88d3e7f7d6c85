/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that can be given back is, by one thread in an idle context, while a
 * kernel in another one spins until a second thread changes its word.  What is given
 * back was made in the one or in the other.  A driver may wait for that kernel before
 * it takes the memory back; a server that waits with it never reads the change.
 *
 * One line per kind and context.
 */
#include "prog.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BYTES (1u << 20)

PROG_EMBED(released_ptx, "spin.ptx");

struct thing {
    CUcontext context;
    CUdeviceptr device;
    void *host;
    CUarray array;
    CUtexObject texture;
    CUmipmappedArray pyramid;
    CUsurfObject surface;
    CUmodule module;
    CUlibrary library;
    CUmemoryPool pool;
    CUmemGenericAllocationHandle handle;
};

struct kind {
    const char *name;
    void (*make)(struct thing *thing);
    void (*give_back)(struct thing *thing);
};

static struct prog prog;

static void
make_host(struct thing *thing)
{
    CU(cuMemAllocHost(&thing->host, BYTES));
}

static void
free_host(struct thing *thing)
{
    CU(cuMemFreeHost(thing->host));
}

static void
make_registered(struct thing *thing)
{
    thing->host = util_alloc(BYTES, 1);
    CU(cuMemHostRegister(thing->host, BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
}

static void
unregister(struct thing *thing)
{
    CU(cuMemHostUnregister(thing->host));
    free(thing->host);
}

static void
make_device(struct thing *thing)
{
    CU(cuMemAlloc(&thing->device, BYTES));
}

static void
make_managed(struct thing *thing)
{
    CU(cuMemAllocManaged(&thing->device, BYTES, CU_MEM_ATTACH_GLOBAL));
    *(volatile char *)(uintptr_t)thing->device = 1;
}

static void
free_device(struct thing *thing)
{
    CU(cuMemFree(thing->device));
}

static void
make_pool(struct thing *thing)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

    CU(cuMemPoolCreate(&thing->pool, &props));
    CU(cuMemAllocFromPoolAsync(&thing->device, BYTES, thing->pool, NULL));
    CU(cuStreamSynchronize(NULL));
}

static void
free_pool(struct thing *thing)
{
    CU(cuMemFree(thing->device));
    CU(cuMemPoolDestroy(thing->pool));
}

static void
make_mapping(struct thing *thing)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    CU(cuMemAddressReserve(&thing->device, 2 * BYTES, 0, 0, 0));
    CU(cuMemCreate(&thing->handle, 2 * BYTES, &prop, 0));
    CU(cuMemMap(thing->device, 2 * BYTES, 0, thing->handle, 0));
    CU(cuMemSetAccess(thing->device, 2 * BYTES, &access, 1));
}

static void
unmap(struct thing *thing)
{
    CU(cuMemUnmap(thing->device, 2 * BYTES));
    CU(cuMemRelease(thing->handle));
    CU(cuMemAddressFree(thing->device, 2 * BYTES));
}

static void
make_pyramid(struct thing *thing)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 64,
                                     .Height = 64,
                                     .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 1,
                                     .Flags = CUDA_ARRAY3D_SURFACE_LDST};
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};

    CU(cuMipmappedArrayCreate(&thing->pyramid, &shape, 3));
    CU(cuMipmappedArrayGetLevel(&resource.res.array.hArray, thing->pyramid, 0));
    CU(cuSurfObjectCreate(&thing->surface, &resource));
}

static void
free_pyramid(struct thing *thing)
{
    CU(cuSurfObjectDestroy(thing->surface));
    CU(cuMipmappedArrayDestroy(thing->pyramid));
}

static void
make_texture(struct thing *thing)
{
    CUDA_ARRAY_DESCRIPTOR shape = {64, 64, CU_AD_FORMAT_FLOAT, 1};
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
    CUDA_TEXTURE_DESC how = {.maxAnisotropy = 0};

    CU(cuArrayCreate_v2(&thing->array, &shape));
    resource.res.array.hArray = thing->array;
    CU(cuTexObjectCreate(&thing->texture, &resource, &how, NULL));
}

static void
free_texture(struct thing *thing)
{
    CU(cuTexObjectDestroy(thing->texture));
    CU(cuArrayDestroy(thing->array));
}

static void
make_module(struct thing *thing)
{
    CU(cuModuleLoadData(&thing->module, released_ptx));
}

static void
unload(struct thing *thing)
{
    CU(cuModuleUnload(thing->module));
}

static void
make_library(struct thing *thing)
{
    CUkernel kernel;
    CUfunction function;

    CU(cuLibraryLoadData(&thing->library, released_ptx, NULL, NULL, 0, NULL, NULL, 0));
    CU(cuLibraryGetKernel(&kernel, thing->library, "bump"));
    CU(cuKernelGetFunction(&function, kernel));
}

static void
unload_library(struct thing *thing)
{
    CU(cuLibraryUnload(thing->library));
}

static void
make_context(struct thing *thing)
{
    CUcontext own;

    CU(cuCtxCreate(&thing->context, 0, prog.device));
    CU(cuCtxPopCurrent(&own));
}

static void
end_context(struct thing *thing)
{
    CU(cuCtxDestroy(thing->context));
}

static const struct kind kinds[] = {
    {"page-locked memory", make_host, free_host},
    {"registered memory", make_registered, unregister},
    {"device memory", make_device, free_device},
    {"managed memory", make_managed, free_device},
    {"a pool", make_pool, free_pool},
    {"a mapping", make_mapping, unmap},
    {"a texture of an array", make_texture, free_texture},
    {"a surface of a mipmapped array", make_pyramid, free_pyramid},
    {"a module", make_module, unload},
    {"a library", make_library, unload_library},
    {"a context", make_context, end_context},
};

struct scene {
    const struct kind *kind;
    struct thing thing;
    CUcontext idle;
};

static void *
give_back_main(void *argument)
{
    struct scene *scene = argument;

    CU(cuCtxSetCurrent(scene->idle));
    scene->kind->give_back(&scene->thing);
    return NULL;
}

/* The word of the kernel that spun, when it has ended. */
static unsigned
play(const struct kind *kind, CUcontext made_in, CUcontext idle, CUdeviceptr word)
{
    struct scene scene = {.kind = kind, .idle = idle};
    unsigned seven = 7, eight = 8, seen = 0;
    void *params[] = {&word, &seven};
    pthread_t thread;

    CU(cuCtxSetCurrent(made_in));
    kind->make(&scene.thing);
    CU(cuCtxSetCurrent(prog.context));
    CU(cuMemcpyHtoD(word, &seven, sizeof(seven)));
    CU(cuLaunchKernel(prog_kernel(&prog, "spin"), 1, 1, 1, 32, 1, 1, 0, NULL, params,
                      NULL));
    if (pthread_create(&thread, NULL, give_back_main, &scene) != 0)
        exit(2);
    usleep(20000);
    CU(cuCtxSetCurrent(idle));
    CU(cuMemcpyHtoDAsync(word, &eight, sizeof(eight), NULL));
    pthread_join(thread, NULL);
    CU(cuCtxSetCurrent(prog.context));
    CU(cuCtxSynchronize());
    CU(cuMemcpyDtoH(&seen, word, sizeof(seen)));
    return seen;
}

int
main(int argc, char **argv)
{
    CUcontext idle;
    CUdeviceptr word;
    size_t wrong = 0;

    prog_begin(&prog, argc, argv, "released", released_ptx);
    CU(cuMemAlloc(&word, sizeof(unsigned)));
    CU(cuCtxCreate(&idle, 0, prog.device));
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        for (int other = 0; other < 2; other++) {
            unsigned seen = play(&kinds[i], other ? prog.context : idle, idle, word);

            printf("%s of %s context: %u\n", kinds[i].name,
                   other ? "the other" : "this", seen);
            fflush(stdout);
            wrong += seen != 8;
        }
    }
    CU(cuCtxDestroy(idle));
    CU(cuCtxSetCurrent(prog.context));
    prog_end(&prog);
    return util_report("released", wrong,
                       "%zu kinds given back behind a kernel that spins",
                       sizeof(kinds) / sizeof(kinds[0]));
}
