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

/* 0: no form differs; @driver may be NULL. */
int rk_probe(const char *driver, const char *file, unsigned jobs);

#endif
