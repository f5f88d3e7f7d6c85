/* SPDX-License-Identifier: Apache-2.0 */
/* Functions over whole warps for x86-64-v3; see exec_fn_body.h. */
#define SG_ISA v3
#include "exec_fn_body.h"
