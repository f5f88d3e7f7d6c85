/* SPDX-License-Identifier: Apache-2.0 */
/* Functions over whole warps for x86-64-v2 and for every other architecture; see
 * exec_fn_body.h. */
#define SG_ISA v2
#include "exec_fn_body.h"
