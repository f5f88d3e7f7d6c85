/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter for x86-64-v4; see exec_interp_body.h. */
#define SG_ISA v4
#include "exec_interp_body.h"
