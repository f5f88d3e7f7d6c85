/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only NVML knows of the cards: hardware errors as they happen, and the fabric
 * that a card is in.
 *
 * For the processes of --probe, which have the driver's library open.  A driver may
 * have no NVML, and an NVML may lack any of the calls: then nothing is known.  One
 * thread.
 */
#ifndef WRK_NVML_H
#define WRK_NVML_H

#include "gp_base.h"

#include <stddef.h>

struct gp_err;

/* @driver as at wrk_driver_open(), which came before.  False: there is no NVML. */
bool wrk_nvml_open(const char *driver);

/* The fabric of the card with that uuid ("GPU-..."), "" if it is in none. */
#define WRK_FABRIC_TEXT 56
void wrk_nvml_fabric(const char *uuid, char ret[WRK_FABRIC_TEXT]);
/* Does it report errors of any card? */
bool wrk_nvml_reports(void);
/* Print each error on stdout, as "xid UUID CODE" or "ecc UUID", until nobody reads that
 * any more.  -errno: the library gave up. */
int wrk_nvml_watch(struct gp_err *err);

#endif
