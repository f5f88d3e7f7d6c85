/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words for an error.  Functions return -errno; the one that decides the error writes
 * the words here, its callers only put context in front.
 *
 * Owned by the caller, usually on the stack, one thread at a time.  Every function
 * takes NULL for "no words wanted".  Zero-initialise before use.
 */
#ifndef GP_ERR_H
#define GP_ERR_H

#include "gp_base.h"

struct gp_err {
    int code; /* -errno of the last gp_err_set(), 0 when unused */
    char msg[512];
};

/* Write the words; returns @code (a negative errno) so that it can be returned on. */
int gp_err_set(struct gp_err *err, int code, const char *fmt, ...) GP_PRINTF(3, 4);

/* Put "context: " in front of the words that are there; with none there, the words of
 * @code's errno follow.  Returns @code. */
int gp_err_wrap(struct gp_err *err, int code, const char *fmt, ...) GP_PRINTF(3, 4);

/* The words, or those of the errno when nobody wrote any; never NULL. */
const char *gp_err_msg(const struct gp_err *err, int code);

#endif
