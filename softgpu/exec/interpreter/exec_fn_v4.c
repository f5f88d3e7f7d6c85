/* SPDX-License-Identifier: Apache-2.0 */
/* Functions over whole warps for x86-64-v4; see exec_fn_body.h. */
#define SG_ISA v4
#include "exec_fn_body.h"
