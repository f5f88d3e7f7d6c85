/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts whose work has failed for good, and were heard to say so.
 *
 * After a kernel has gone astray a driver answers nearly every call in that context
 * with the same error, at once.  Most calls here are sent without asking for an answer.
 * So once such an error has come back, calls to that server are asked for theirs until
 * the context is destroyed or reset: which of them fail, and with what, is the driver's
 * business and not known here.
 *
 * The link's STUB_ATTEND_REPLY is set while a context of it has ctx->failed set.  Any
 * thread.
 */
#ifndef STUB_STICKY_H
#define STUB_STICKY_H

#include "cuda_abi.h"

struct stub_feature;

extern const struct stub_feature stub_sticky_feature;

/* What the driver has to say of the current context, to a call that is answered
 * here. */
CUresult stub_sticky_result(void);

#endif
