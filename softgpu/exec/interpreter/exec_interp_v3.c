/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter for x86-64-v3; see exec_interp_body.h. */
#define SG_ISA v3
#include "exec_interp_body.h"
