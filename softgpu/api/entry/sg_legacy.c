/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First versions of calls whose second version takes the same arguments on
 * 64-bit hosts.  Old programs look them up under these names.  First versions
 * with 32-bit addresses or sizes are not carried.
 */
#include "sg_core.h"

/* The name, its parameters, the name behind it, and the arguments. */
#define ALIAS(name, params, target, args)                                              \
    CUresult target params;                                                            \
    CUresult name params;                                                              \
    __attribute__((visibility("default"))) CUresult name params                        \
    {                                                                                  \
        return target args;                                                            \
    }

ALIAS(cuCtxCreate, (CUcontext * ctx, unsigned flags, CUdevice dev), cuCtxCreate_v2,
      (ctx, flags, dev))
ALIAS(cuLinkCreate, (unsigned n, CUjit_option *opts, void **values, CUlinkState *state),
      cuLinkCreate_v2, (n, opts, values, state))
ALIAS(cuLinkAddData,
      (CUlinkState state, CUjitInputType type, void *data, size_t size,
       const char *name, unsigned n, CUjit_option *opts, void **values),
      cuLinkAddData_v2, (state, type, data, size, name, n, opts, values))
ALIAS(cuLinkAddFile,
      (CUlinkState state, CUjitInputType type, const char *path, unsigned n,
       CUjit_option *opts, void **values),
      cuLinkAddFile_v2, (state, type, path, n, opts, values))
ALIAS(cuMemHostRegister, (void *p, size_t size, unsigned flags), cuMemHostRegister_v2,
      (p, size, flags))
ALIAS(cuStreamBatchMemOp,
      (CUstream s, unsigned n, CUstreamBatchMemOpParams *ops, unsigned flags),
      cuStreamBatchMemOp_v2, (s, n, ops, flags))
ALIAS(cuStreamWaitValue32,
      (CUstream s, CUdeviceptr addr, cuuint32_t value, unsigned flags),
      cuStreamWaitValue32_v2, (s, addr, value, flags))
ALIAS(cuStreamWaitValue64,
      (CUstream s, CUdeviceptr addr, cuuint64_t value, unsigned flags),
      cuStreamWaitValue64_v2, (s, addr, value, flags))
ALIAS(cuStreamWriteValue32,
      (CUstream s, CUdeviceptr addr, cuuint32_t value, unsigned flags),
      cuStreamWriteValue32_v2, (s, addr, value, flags))
ALIAS(cuStreamWriteValue64,
      (CUstream s, CUdeviceptr addr, cuuint64_t value, unsigned flags),
      cuStreamWriteValue64_v2, (s, addr, value, flags))
