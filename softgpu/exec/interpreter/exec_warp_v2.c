/* SPDX-License-Identifier: Apache-2.0 */
/* Operations across lanes for x86-64-v2 and for every other architecture; see
 * exec_warp_body.h. */
#define SG_ISA v2
#include "exec_warp_body.h"
