/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool-worker --probe: print which cards the driver shows, for the supervisor.
 */
#ifndef WRK_PROBE_H
#define WRK_PROBE_H

#include <stdbool.h>

struct gp_err;

struct wrk_probe {
    const char *driver, *user, *readable;
    int check;   /* not negative: whether that card works (wrk_check.h) */
    bool events; /* errors of the cards as they happen (wrk_nvml.h) */
};

/* One "driver" line, "events" if the cards' errors are reported, then a "card" and a
 * "facts" line per card, and what else is known of it, on stdout; or what @what asks
 * for instead.  1: the card that was checked does not work. */
int wrk_probe(const struct wrk_probe *what, struct gp_err *err);

#endif
