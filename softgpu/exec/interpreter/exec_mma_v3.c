/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices for x86-64-v3; see exec_mma_body.h. */
#define SG_ISA v3
#include "exec_mma_body.h"
