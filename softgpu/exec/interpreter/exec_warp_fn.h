/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions over whole warps, by enum sg_fn_id; NULL: there is only the one for a lane.
 */
#ifndef EXEC_WARP_FN_H
#define EXEC_WARP_FN_H

#include "exec_scalar.h"

/* For the lanes of @m, from registers of 32 lanes in the classes of the function's
 * signature to @d, which may be one of them; operands that it does not have are not
 * read.  With all lanes @m is UINT32_MAX.  Any thread. */
typedef void sg_warp_fn(void *d, const void *a, const void *b, const void *c,
                        uint32_t m);

extern sg_warp_fn *const sg_warp_fns_v2[SG_N_FNS];
extern sg_warp_fn *const sg_warp_fns_v3[SG_N_FNS];
extern sg_warp_fn *const sg_warp_fns_v4[SG_N_FNS];

#endif
