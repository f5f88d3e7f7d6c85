/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few CUDA words that the test kernels use, for clang without a toolkit.
 *
 * nvcc brings all of this itself, so there the file only passes through; with
 * clang (-x cuda -nocudainc -nocudalib) the names map to compiler builtins.
 * Device code only.  It is no replacement for the CUDA headers: what a test
 * kernel does not need is not here.
 */
#ifndef PROGRAMS_DEVICE_H
#define PROGRAMS_DEVICE_H

#if defined(__clang__)

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))

/* clang's own header for threadIdx, blockIdx, blockDim, gridDim, warpSize; it
 * comes with the compiler and needs nothing of a toolkit.  It names two CUDA
 * types in conversions that nobody here uses. */
struct uint3;
struct dim3;
#include <__clang_cuda_builtin_vars.h>

static inline __device__ unsigned
__shfl_down_sync(unsigned mask, unsigned value, unsigned delta)
{
    return (unsigned)__nvvm_shfl_sync_down_i32(mask, (int)value, (int)delta, 0x1f);
}

static inline __device__ unsigned
__shfl_xor_sync(unsigned mask, unsigned value, int lanes)
{
    return (unsigned)__nvvm_shfl_sync_bfly_i32(mask, (int)value, lanes, 0x1f);
}

static inline __device__ unsigned
atomicAdd(unsigned *where, unsigned value)
{
    return __atomic_fetch_add(where, value, __ATOMIC_RELAXED);
}

static inline __device__ unsigned
atomicMax(unsigned *where, unsigned value)
{
    return (unsigned)__nvvm_atom_max_gen_ui(where, value);
}

#endif

/* Kernels are found by name through the driver API, so no C++ mangling. */
#define KERNEL extern "C" __global__ void

#endif
