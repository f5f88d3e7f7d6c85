/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SOFTGPU_CHECK: what is looked for, what was found, the summary when the process ends
 * (docs/softgpu-check.md).
 *
 * One for the process, set up by cuInit and only read afterwards but for the list of
 * findings, which has a lock of its own: any thread, with or without the lock of the
 * library.
 */
#ifndef SG_CHECK_H
#define SG_CHECK_H

#include "gp_base.h"
#include "sg_conf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gp_err;
struct sg_finding;

#define SG_CHECK_TEXT 1024 /* the longest text of a finding */

/* Opens the log.  From then on the end of the process is reported, with whatever
 * @leaks (may be NULL) gives to sg_check_leak(). */
int sg_check_init(const struct sg_conf *conf, void (*leaks)(void), struct gp_err *err);
/* SG_CHECK_*; 0: nothing is checked. */
unsigned sg_check_flags(void);

/* Counts a finding.  The length of its text for the user's stderr; 0: it is known
 * already, or is in the log. */
size_t sg_check_note(const struct sg_finding *finding, char text[SG_CHECK_TEXT]);
/* The same for an allocation that was not freed; @what: "64 bytes of ...". */
size_t sg_check_leak(const char *what, char text[SG_CHECK_TEXT]);

/* What was found so far. */
struct sg_check_counts {
    uint64_t errors, leaks;
};

/* The same for the last line of the process. */
size_t sg_check_summary(char *text, size_t size, struct sg_check_counts *counts);

#endif
