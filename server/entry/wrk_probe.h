/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool-worker --probe: print which cards the driver shows, for the supervisor.
 */
#ifndef WRK_PROBE_H
#define WRK_PROBE_H

struct gp_err;

/* One "driver" line, then a "card" and a "facts" line per card, on stdout.  @check not
 * negative: instead whether that card works (wrk_check.h); 1: it does not. */
int wrk_probe(const char *driver, const char *user, const char *readable, int check,
              struct gp_err *err);

#endif
