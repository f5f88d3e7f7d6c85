/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices for x86-64-v4; see exec_mma_body.h. */
#define SG_ISA v4
#include "exec_mma_body.h"
