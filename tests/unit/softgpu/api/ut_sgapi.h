/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the software GPU's driver API share: a private set of cards
 * per test program, a context, a few hand-written kernels.
 *
 * Cards live in a fresh folder, so tests see no other process's memory.
 */
#ifndef UT_SGAPI_H
#define UT_SGAPI_H

#include "ut.h"

#include "cuda_abi.h"
#include "cuda_api.h"

#include <stdbool.h>

#define ok(call) assert_int_equal((call), CUDA_SUCCESS)
#define fails(call, code) assert_int_equal((call), (code))

/* Before cuInit: one folder for this program and the children it starts. */
void ut_sg_cards(const char *cards, const char *memory, const char *sms);
void ut_sg_cards_remove(void);

/* Run the test case @name, which calls this first, in a process of its own, because a
 * kernel of it fails and leaves its process without a context.  False in that process.
 */
bool ut_sg_apart(const char *name);

/* cuInit, context on device @dev, module. */
struct ut_sg {
    CUcontext ctx;
    CUmodule mod;
    CUfunction add_one; /* (ptr u32[], n): each element plus one */
    CUfunction store;   /* (ptr u32, value) by one thread */
    CUfunction spin;    /* (ptr u32): until *ptr is not zero; then *(ptr+4) = 1 */
    CUfunction wild;    /* (address): stores a word there */
    CUfunction trap;
    CUfunction busy;     /* (ptr u32, n): n rounds of work per thread, then store */
    CUfunction grid_sum; /* (ptr u32[2]): every block adds 1, waits for all others */
};

void ut_sg_open(struct ut_sg *sg, int dev);
void ut_sg_close(struct ut_sg *sg);

/* One launch with a pointer and a number. */
CUresult ut_sg_run(CUfunction fn, unsigned grid, unsigned block, CUstream stream,
                   CUdeviceptr p, unsigned value);

#endif
