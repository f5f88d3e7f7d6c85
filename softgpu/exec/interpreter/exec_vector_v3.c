/* SPDX-License-Identifier: Apache-2.0 */
/* Vector loads and stores for x86-64-v3; see exec_vector_body.h. */
#define SG_ISA v3
#include "exec_vector_body.h"
