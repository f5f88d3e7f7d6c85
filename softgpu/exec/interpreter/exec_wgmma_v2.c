/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices of warpgroups for x86-64-v2 and for every other architecture;
 * see exec_wgmma_body.h. */
#define SG_ISA v2
#include "exec_wgmma_body.h"
