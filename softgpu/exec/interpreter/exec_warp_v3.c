/* SPDX-License-Identifier: Apache-2.0 */
/* Operations across lanes for x86-64-v3; see exec_warp_body.h. */
#define SG_ISA v3
#include "exec_warp_body.h"
