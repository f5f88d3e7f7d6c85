/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts with a sticky error.
 *
 * After a kernel has made a fatal error a driver returns the same error from nearly
 * every call in that context, at once.  Most calls here are posted without a reply.  So
 * once such an error has been received, calls to that server are waited for until the
 * context is destroyed or reset: only the driver knows which of them fail, and how.
 *
 * The link's STUB_ATTEND_REPLY is set while one of its contexts has ctx->failed set.
 * Any thread.
 */
#ifndef STUB_STICKY_H
#define STUB_STICKY_H

#include "cuda_abi.h"

struct stub_feature;

extern const struct stub_feature stub_sticky_feature;

/* The sticky error of the current context, for calls that are answered without the
 * server. */
CUresult stub_sticky_result(void);

#endif
