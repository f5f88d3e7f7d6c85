/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of ours in the driver's table: what stands before the driver's own, or in
 * for one that it lacks.  Which they are, and in which order they are entered, is the
 * list SHIMS at the end of wrk_drv_shims.c, and nobody else changes the table.
 *
 *   charged    copies between two places on the card and fills are launches to the
 *              governor: they wait for the turn, and their time is charged
 *   in stream  their forms without a stream, in which a driver may wait for the work
 *              before them although their contract does not ask for it: the form in a
 *              stream, in the default one, means the same and never waits
 *   capture    that a client captures is noted: what is put into a capturing stream
 * does not run, and the governor leaves it alone from then on missing    the list of a
 * module's functions, which a driver before 12.4 lacks and the client's private tables
 * need
 *
 * Entered once, by the main thread, before the table is sealed (wrk_seal.h); they run
 * on the receive thread, as launches.  For one worker, that of the process.
 */
#ifndef WRK_DRV_SHIMS_H
#define WRK_DRV_SHIMS_H

struct drv;
struct wrk;

/* Enter them into @drv, which is @w's and holds the driver's own functions. */
void wrk_drv_shims_enter(struct wrk *w, struct drv *drv);

#endif
