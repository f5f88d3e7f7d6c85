/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices for x86-64-v2 and for every other architecture; see
 * exec_mma_body.h. */
#define SG_ISA v2
#include "exec_mma_body.h"
