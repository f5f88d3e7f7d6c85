/* SPDX-License-Identifier: Apache-2.0 */
/* Vector loads and stores for x86-64-v2 and for every other architecture; see
 * exec_vector_body.h. */
#define SG_ISA v2
#include "exec_vector_body.h"
