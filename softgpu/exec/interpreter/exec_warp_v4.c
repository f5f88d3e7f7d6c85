/* SPDX-License-Identifier: Apache-2.0 */
/* Operations across lanes for x86-64-v4; see exec_warp_body.h. */
#define SG_ISA v4
#include "exec_warp_body.h"
