/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the worker that generated code and all layers above the link see; there
 * is one per process.  Fields that are not atomic belong to the receive thread; the
 * rest of the worker's state is in wrk_priv.h.
 */
#ifndef WRK_STATE_H
#define WRK_STATE_H

#include "cuda_abi.h"
#include "gp_base.h"
#include "wrk_handle.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct drv; /* generated: one function pointer per driver name, NULL if absent */
struct wrk_priv;

struct wrk {
    const struct drv *drv;
    struct wrk_priv *priv;      /* everything else: wrk_priv.h */
    uint32_t ctx_index;         /* context current on the reader thread, 0 = none */
    uint32_t ctx_frame;         /* the same as frames name it; another number for a
                                 * context made from a green one (wrk_ctx.h) */
    _Atomic(CUresult) deferred; /* first failing result of calls without reply */
    bool relaxed;               /* WIRE_F_RELAXED holds for the reader thread */
    _Atomic bool capturing;     /* of the client, a stream or more */
    bool before_call;           /* the next frame runs those hooks (wrk_hooks.h) */
    struct wrk_handles handles;
};

/* WRK_CALL(w, cuX, args...): the driver's function, or the one fixed refusal
 * when this driver does not have it.  Needs the generated struct drv. */
#define WRK_CALL(w, name, ...)                                                         \
    (likely((w)->drv->name) ? (w)->drv->name(__VA_ARGS__) : CUDA_ERROR_NOT_SUPPORTED)

#endif
