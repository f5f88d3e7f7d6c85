/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data that is written while a worker starts and never again: the tables of driver
 * functions and of shims.
 *
 * A stray write into such a table would let its author choose what is called.  Every
 * object of a sealed type fills whole pages of one section, which wrk_seal() makes
 * read-only once, after the start and before the first byte of the client is read; from
 * then on a write to it faults.  Reads cost the same as before.
 */
#ifndef WRK_SEAL_H
#define WRK_SEAL_H

#include "drv.h"

struct gp_err;

/* The largest page of the architecture, so that the section ends where a page does. */
#ifdef __aarch64__
#define WRK_SEAL_PAGE 65536
#else
#define WRK_SEAL_PAGE 4096
#endif

/* Its size is a multiple of its alignment: nothing else comes into its pages. */
struct wrk_sealed_drv {
    struct drv drv;
} __attribute__((aligned(WRK_SEAL_PAGE)));

/* Goes before the definition of an object of a sealed type. */
#define WRK_SEALED __attribute__((section("wrk_sealed")))

/* Make all of it read-only, for good.  Main thread, before the system call filter. */
int wrk_seal(struct gp_err *err);

#endif
