/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way into and out of a driver call.
 *
 * A call enters with one of the sg_enter*() functions, works with the lock held and
 * leaves with sg_leave().  After a fork the child may not use the library: every entry
 * answers CUDA_ERROR_NOT_INITIALIZED there.
 */
#ifndef SG_CORE_H
#define SG_CORE_H

#include "sg_lock.h"

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

/* Declares and defines one exported call. */
#define SG_CALL(name, ...)                                                             \
    CUresult name(__VA_ARGS__);                                                        \
    __attribute__((visibility("default"))) CUresult name(__VA_ARGS__)

/* What stream 0 means to the per-thread (_ptsz) variant of a call. */
#define SG_PTSZ(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

/* Into a call that needs cuInit and no context; sg_ctx.h and sg_work.h have the others.
 * On success the lock is held, otherwise it is not. */
CUresult sg_enter_init(void);
/* Around a function of the program: calls that it makes fail, for the work that it is
 * part of could be what they wait for. */
void sg_calls_forbid(bool forbidden);
/* Unlocks, returns @rc; an error gets a line in the log (sg_logs.h). */
CUresult sg_leave(CUresult rc);

/* Runs @init with the lock if no earlier call has succeeded. */
CUresult sg_core_init(CUresult (*init)(void));

#endif
