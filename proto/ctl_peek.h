/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first fields of a CtlRequest, read without unpacking it.
 *
 * A registration unpacks to a hundred times its size, so the receiver looks at its
 * token first.  Reads at most @len bytes, allocates nothing, and trusts nothing: what
 * it cannot read is "not a request", which the full decoder then judges.  No state; any
 * thread.
 */
#ifndef CTL_PEEK_H
#define CTL_PEEK_H

#include "ctl_limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ctl_peek {
    uint32_t id;
    bool is_register;          /* the body is a CtlRegister */
    char token[CTL_TOKEN_MAX]; /* of the registration; empty: none, or too long */
};

/* @data may be the beginning of a message only.  False: no request begins so. */
bool ctl_peek(const void *data, size_t len, struct ctl_peek *ret);

#endif
