/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of kernels: they come with the kernel when it is looked up, and are
 * answered from there until something sets one.  Runtimes and libraries ask for several
 * of every kernel that they meet.
 *
 * What an older driver may refuse, or gives no positive number of threads for, is asked
 * for as ever.
 */
#include "cuda_api.h"
#include "stub_accepted.h"
#include "stub_call.h"
#include "stub_ctx.h"
#include "stub_device.h"
#include "stub_func.h"
#include "stub_handle.h"
#include "stub_link.h"
#include "stub_manual.h"
#include "stub_occupancy.h"

/* How often something was set for a kernel of a library, whose functions have it, too.
 */
static _Atomic uint32_t kernel_settings;

/* With several devices, a kernel of a library is one on each. */
static bool
attr_find(CUfunction f, CUfunction_attribute attrib, int *ret)
{
    struct stub_func *func;
    struct stub_ctx *ctx;

    if ((unsigned int)attrib >= STUB_FUNC_ATTRS || stub_device_count != 1 ||
        stub_enter() != CUDA_SUCCESS || stub_ctx_resolve(NULL, &ctx) != CUDA_SUCCESS ||
        stub_link_wants_replies(stub_link_here()) ||
        stub_func_get(f, &func) != CUDA_SUCCESS || !func->max_threads ||
        atomic_load_explicit(&func->set, memory_order_relaxed) ||
        atomic_load_explicit(&kernel_settings, memory_order_relaxed))
        return false;
    *ret = func->attrs[attrib];
    return true;
}

CUresult
stub_impl_cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
    return pi && attr_find(hfunc, attrib, pi)
               ? CUDA_SUCCESS
               : stub_gen_cuFuncGetAttribute(pi, attrib, hfunc);
}

CUresult
stub_impl_cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel,
                               CUdevice dev)
{
    return pi && dev == 0 && attr_find((CUfunction)kernel, attrib, pi)
               ? CUDA_SUCCESS
               : stub_gen_cuKernelGetAttribute(pi, attrib, kernel, dev);
}

/* ---- what sets them --------------------------------------------------------- */

static CUresult
set_of(CUfunction f, CUresult result)
{
    struct stub_func *func;

    if (stub_func_get(f, &func) == CUDA_SUCCESS)
        atomic_store_explicit(&func->set, true, memory_order_relaxed);
    stub_occupancy_forget();
    stub_accepted_forget();
    return result;
}

static CUresult
set_of_kernel(CUresult result)
{
    atomic_fetch_add_explicit(&kernel_settings, 1, memory_order_relaxed);
    stub_occupancy_forget();
    stub_accepted_forget();
    return result;
}

_Atomic uint32_t stub_func_shared_set;

static void
shared_set(CUresult result, CUfunction_attribute attrib, int value)
{
    uint32_t most = atomic_load(&stub_func_shared_set);

    if (result != CUDA_SUCCESS ||
        attrib != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value <= 0)
        return;
    while (most < (uint32_t)value &&
           !atomic_compare_exchange_weak(&stub_func_shared_set, &most, (uint32_t)value))
        ;
}

CUresult
stub_impl_cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    CUresult r = stub_gen_cuFuncSetAttribute(hfunc, attrib, value);

    shared_set(r, attrib, value);
    return set_of(hfunc, r);
}

CUresult
stub_impl_cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
    return set_of(hfunc, stub_gen_cuFuncSetCacheConfig(hfunc, config));
}

CUresult
stub_impl_cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
    /* The call returns before the server makes it. */
    if ((unsigned int)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE &&
        stub_handle_ok(WIRE_KIND_FUNC, (uintptr_t)hfunc))
        return CUDA_ERROR_INVALID_VALUE;
    return set_of(hfunc, stub_gen_cuFuncSetSharedMemConfig(hfunc, config));
}

CUresult
stub_impl_cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
                               CUdevice dev)
{
    CUresult r = stub_gen_cuKernelSetAttribute(attrib, val, kernel, dev);

    shared_set(r, attrib, val);
    return set_of_kernel(r);
}

CUresult
stub_impl_cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
    return set_of_kernel(stub_gen_cuKernelSetCacheConfig(kernel, config, dev));
}

CUresult
stub_impl_cuCtxSetCacheConfig(CUfunc_cache config)
{
    CUresult r = stub_gen_cuCtxSetCacheConfig(config);

    stub_occupancy_forget();
    return r;
}

CUresult
stub_impl_cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    CUresult r = stub_gen_cuCtxSetSharedMemConfig(config);

    stub_occupancy_forget();
    return r;
}
