/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `kernelfuzz --specials`: every form of rk_forms.h on special operands, on the card of
 * a driver and on the executor; without a driver, on the executor and by the reference.
 *
 * Prints a line for each form that differs or that one side alone refuses: how many
 * rows differ, the largest distance of two numbers in units of the last place, and some
 * rows.  @file gets every row that differs.  @jobs processes share the forms.
 */
#ifndef RK_PROBE_H
#define RK_PROBE_H

#include "rk_operands.h"

#include <stdint.h>

struct rk_form;
struct rk_run;

/* 0: no form differs; @driver may be NULL. */
int rk_probe(const char *driver, const char *file, unsigned jobs);

/* What the executor gives for all rows of @form, as one number; < 0: it refuses it. @in
 * and @out are memory of @run for these many bytes. */
#define RK_PROBE_IN_BYTES (8u * RK_ROW_WORDS * RK_MAX_ROWS)
#define RK_PROBE_OUT_BYTES (8u * 4 * RK_MAX_ROWS)
int rk_probe_hash(struct rk_run *run, const struct rk_form *form, uint64_t *in,
                  uint64_t *out, uint64_t *ret);

#endif
