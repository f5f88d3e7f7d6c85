/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter for x86-64-v2 and for every other architecture; see
 * exec_interp_body.h. */
#define SG_ISA v2
#include "exec_interp_body.h"
