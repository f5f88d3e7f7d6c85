/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shims: functions of the worker's in the table of driver functions, in front of the
 * driver's own or in place of one that it lacks.  The list SHIMS at the end of
 * wrk_drv_shims.c says which they are and in which order they are entered; nothing else
 * changes the table.
 *
 *   charged    copies within the GPU and fills are launches for the governor: they wait
 *              for the turn, and their time is charged
 *   in stream  calls without a stream, in which a driver may wait for earlier work
 *              although their contract does not ask for it, become the call in the
 *              default stream, which means the same and never waits
 *   capture    the first capture of the client is noted: work in a capturing stream
 *              does not run, so the governor ignores it
 *   nodes ahead  a call gets the nodes that came in front of it (wrk_graph_nodes.h)
 *   opaque     of values that only the driver understands it is given its own
 *              (wrk_opaque.h)
 *   missing    the list of a module's functions, which a driver before 12.4 lacks and
 *              the client's private tables need
 *
 * Entered once, by the main thread, before the table is sealed (wrk_seal.h); called on
 * the receive thread.  For the one worker of the process.
 */
#ifndef WRK_DRV_SHIMS_H
#define WRK_DRV_SHIMS_H

struct drv;
struct wrk;

/* Enter them into @drv, which is @w's and holds the driver's own functions. */
void wrk_drv_shims_enter(struct wrk *w, struct drv *drv);

#endif
