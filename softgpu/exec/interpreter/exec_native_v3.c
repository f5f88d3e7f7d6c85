/* SPDX-License-Identifier: Apache-2.0 */
#define SG_ISA v3
#include "exec_native_body.h"
