/* SPDX-License-Identifier: Apache-2.0 */
/* How rk_ops*.c fill the table of operations, and nobody else. */
#ifndef RK_OPS_TABLE_H
#define RK_OPS_TABLE_H

#include "rk_ops.h"

#include <stdarg.h>
#include <stdio.h>

/* What is added from here on is a family of its own. */
void rk_family(void);
struct rk_op *rk_add(const char *sig, rk_ref *ref, const char *name, ...)
    __attribute__((format(printf, 3, 4)));

#endif
