/* SPDX-License-Identifier: Apache-2.0 */
#define SG_ISA v4
#include "exec_native_body.h"
