/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose error it is that a call returns.
 *
 * A call that needs no answer is posted: it returns before the server has made it.  If
 * it fails there, the next call that waits for an answer returns its error, as CUDA
 * allows; a program's message then names the wrong one.  The server says which call it
 * was, and that goes to GPUPOOL_TRACE, to GPUPOOL_LOG (area "call", warn) and to
 * `gpupool doctor -- PROGRAM`.
 */
#ifndef STUB_DEFERRED_H
#define STUB_DEFERRED_H

#include "cuda_abi.h"

#include <stdint.h>

/* The server's word: @call is the number in the frame, which may be one of gpupool's
 * own.  From whichever thread reads the connection. */
void stub_deferred_error(uint16_t call, CUresult result);

#endif
