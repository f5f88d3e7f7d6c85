/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streams in which shared memory is moved, one in each context (internal to
 * stub_managed.c).  Locked by stub_managed.c.
 */
#ifndef STUB_MANAGED_STREAM_H
#define STUB_MANAGED_STREAM_H

#include "cuda_abi.h"

/* That of the current context. */
CUresult managed_stream(CUstream *ret);

#endif
