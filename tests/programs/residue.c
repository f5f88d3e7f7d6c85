/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session leaves in memory, and what it finds there.
 *
 *   residue fill    write a pattern into memory of every kind, say "filled", wait for
 * the end of standard input, and end without freeing anything residue free    the same,
 * but everything is freed before "filled" residue look    read all of new memory of
 * every kind: one line per kind that holds anything but zeros, then "looked at N kinds"
 *
 * Pinned and managed memory are the client's own here; they are looked at as well.
 */
#include "cuda_names.h"
#include "prog.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE ((size_t)24 << 20)
#define WIDTH ((size_t)4096)
#define PATTERN 0x5a
#define KINDS 6

struct kind {
    const char *name;
    CUdeviceptr at;
    CUarray array;
    CUmemGenericAllocationHandle handle;
    void *host;
};

static struct kind kinds[KINDS] = {
    {.name = "linear"}, {.name = "pool"},    {.name = "mapped"},
    {.name = "array"},  {.name = "managed"}, {.name = "pinned"},
};

static void
map(struct kind *k)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {.location = prop.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    CU(cuMemCreate(&k->handle, SIZE, &prop, 0));
    CU(cuMemAddressReserve(&k->at, SIZE, 0, 0, 0));
    CU(cuMemMap(k->at, SIZE, 0, k->handle, 0));
    CU(cuMemSetAccess(k->at, SIZE, &access, 1));
}

static void
get(struct kind *k, int i)
{
    CUDA_ARRAY_DESCRIPTOR_v2 flat = {WIDTH, SIZE / WIDTH, CU_AD_FORMAT_UNSIGNED_INT8,
                                     1};

    switch (i) {
    case 0:
        CU(cuMemAlloc(&k->at, SIZE));
        return;
    case 1:
        CU(cuMemAllocAsync(&k->at, SIZE, NULL));
        CU(cuStreamSynchronize(NULL));
        return;
    case 2:
        map(k);
        return;
    case 3:
        CU(cuArrayCreate_v2(&k->array, &flat));
        return;
    case 4:
        CU(cuMemAllocManaged(&k->at, SIZE, CU_MEM_ATTACH_GLOBAL));
        return;
    default:
        CU(cuMemAllocHost(&k->host, SIZE));
    }
}

static void
put_away(struct kind *k, int i)
{
    switch (i) {
    case 1:
        CU(cuMemFreeAsync(k->at, NULL));
        CU(cuStreamSynchronize(NULL));
        return;
    case 2:
        CU(cuMemUnmap(k->at, SIZE));
        CU(cuMemAddressFree(k->at, SIZE));
        CU(cuMemRelease(k->handle));
        return;
    case 3:
        CU(cuArrayDestroy(k->array));
        return;
    case 5:
        CU(cuMemFreeHost(k->host));
        return;
    default:
        CU(cuMemFree(k->at));
    }
}

static void
copy_array(CUarray array, void *bytes, bool up)
{
    CUDA_MEMCPY2D_v2 copy = {.srcPitch = WIDTH,
                             .dstPitch = WIDTH,
                             .WidthInBytes = WIDTH,
                             .Height = SIZE / WIDTH};

    copy.srcMemoryType = up ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY;
    copy.dstMemoryType = up ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST;
    copy.srcHost = up ? bytes : NULL;
    copy.srcArray = up ? NULL : array;
    copy.dstHost = up ? NULL : bytes;
    copy.dstArray = up ? array : NULL;
    CU(cuMemcpy2D_v2(&copy));
}

static void
fill(struct kind *k, void *bytes)
{
    memset(bytes, PATTERN, SIZE);
    if (k->array)
        copy_array(k->array, bytes, true);
    else if (k->host)
        memset(k->host, PATTERN, SIZE);
    else
        CU(cuMemcpyHtoD(k->at, bytes, SIZE));
    CU(cuCtxSynchronize());
}

static void
look(struct kind *k, unsigned char *bytes)
{
    size_t other = 0;

    memset(bytes, 0xff, SIZE);
    if (k->array)
        copy_array(k->array, bytes, false);
    else if (k->host)
        memcpy(bytes, k->host, SIZE);
    else
        CU(cuMemcpyDtoH(bytes, k->at, SIZE));
    for (size_t i = 0; i < SIZE; i++)
        other += bytes[i] != 0;
    if (other)
        printf("%s: %zu bytes of %zu are not zero\n", k->name, other, SIZE);
}

int
main(int argc, char **argv)
{
    bool looks = argc > 1 && !strcmp(argv[1], "look");
    bool frees = argc > 1 && !strcmp(argv[1], "free");
    unsigned char *bytes = malloc(SIZE);
    CUdevice device;
    CUcontext ctx;

    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuDevicePrimaryCtxRetain(&ctx, device));
    CU(cuCtxSetCurrent(ctx));
    for (int i = 0; i < KINDS; i++)
        get(&kinds[i], i);
    for (int i = 0; i < KINDS; i++)
        if (looks)
            look(&kinds[i], bytes);
        else
            fill(&kinds[i], bytes);
    for (int i = 0; frees && i < KINDS; i++)
        put_away(&kinds[i], i);
    if (looks)
        printf("looked at %d kinds\n", KINDS);
    else
        puts("filled");
    fflush(stdout);
    while (!looks && getchar() != EOF)
        ;
    _exit(0);
}
