/* SPDX-License-Identifier: Apache-2.0 */
/* Many live blocks of other sizes, and pools in the order of a stream; see real.h. */
#include "real.h"

/* From 512 bytes to 4 MiB, small ones more often, as tensors come. */
static size_t
random_size(struct real *real)
{
    uint64_t r = real_random(real);

    return (512u + r % 512u * 16u) << (r >> 32) % 10;
}

void
real_blocks_open(struct real *real)
{
    for (int i = 0; i < REAL_BLOCKS; i++)
        CU(cuMemAlloc(&real->blocks[i], random_size(real)));
    for (int i = 0; i < REAL_SIZES; i++)
        real->sizes[i] = random_size(real);
}

void
real_blocks_close(struct real *real)
{
    for (int i = 0; i < REAL_BLOCKS; i++)
        CU(cuMemFree(real->blocks[i]));
}

/* One of the live blocks goes, another one of another size comes. */
void
real_act_alloc_free(void *data)
{
    struct real *real = data;
    CUdeviceptr *block = &real->blocks[real_random(real) % REAL_BLOCKS];

    CU(cuMemFree(*block));
    CU(cuMemAlloc(block, random_size(real)));
}

static void
pool_block(struct real *real, size_t size)
{
    CUdeviceptr block;

    CU(cuMemAllocAsync(&block, size, real->streams[0]));
    real_launch(real, real->streams[0]);
    CU(cuMemFreeAsync(block, real->streams[0]));
}

void
real_act_pool(void *data)
{
    struct real *real = data;

    pool_block(real, random_size(real));
    CU(cuStreamSynchronize(real->streams[0]));
}

void
real_act_pool10(void *data)
{
    struct real *real = data;

    for (int i = 0; i < 10; i++)
        pool_block(real, random_size(real));
    CU(cuStreamSynchronize(real->streams[0]));
}

/* The steps of a program allocate the same sizes again and again. */
static size_t
next_size(struct real *real)
{
    return real->sizes[real->size_at++ % REAL_SIZES];
}

void
real_act_pool_step(void *data)
{
    struct real *real = data;

    pool_block(real, next_size(real));
    CU(cuStreamSynchronize(real->streams[0]));
}

void
real_act_pool10_step(void *data)
{
    struct real *real = data;

    for (int i = 0; i < 10; i++)
        pool_block(real, next_size(real));
    CU(cuStreamSynchronize(real->streams[0]));
}
