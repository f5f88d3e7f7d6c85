/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices of warpgroups for x86-64-v4; see exec_wgmma_body.h. */
#define SG_ISA v4
#include "exec_wgmma_body.h"
