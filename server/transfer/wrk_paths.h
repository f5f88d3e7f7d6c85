/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which path a copy takes: a table over facts about the copy.
 *
 * The caller gathers the facts as bits; the first row whose facts are all given is
 * taken.  Functions without state, any thread.
 */
#ifndef WRK_PATHS_H
#define WRK_PATHS_H

#include "wrk_path.h"

#include <stddef.h>
#include <stdint.h>

/* Direction: one of the two is always given. */
#define WRK_FACT_H2D 0x001u
#define WRK_FACT_D2H 0x002u
/* The request. */
#define WRK_FACT_IN_FRAME                                                              \
    0x004u                    /* the bytes came inside the frame, or there are none */
#define WRK_FACT_ASYNC 0x008u /* the client does not wait (WIRE_F_D2H_ASYNC) */
/* The kind of memory. */
#define WRK_FACT_RANGE 0x010u    /* one range of device addresses, no array or rows */
#define WRK_FACT_ANY_CUT 0x020u  /* chunks may end anywhere, not only between rows */
#define WRK_FACT_BOTH_MAP 0x040u /* page-locked memory that client and worker map */
/* The size. */
#define WRK_FACT_LONG 0x080u /* at least WRK_RING_UP_MIN, WRK_RING_DOWN_MIN */
/* The stream. */
#define WRK_FACT_IDLE 0x100u /* nothing that was called before can delay the copy */
/* The connection. */
#define WRK_FACT_RING 0x200u   /* its ring regions are mapped and registered */
#define WRK_FACT_WINDOW 0x400u /* RDMA to the range: one is, or may be, registered */

struct wrk_path {
    const char *name; /* the same as the client's */
    uint32_t needs;   /* WRK_FACT_*: all of them */
    const char *why;  /* for the log, after "because" */
    wrk_path_h2d *h2d;
    wrk_path_d2h_whole *d2h_whole; /* or NULL */
    wrk_path_d2h_begin *d2h_begin;
    wrk_path_d2h_send *d2h_send;
};

/* In the order in which they are tried; the last row of each direction needs nothing
 * else. */
extern const struct wrk_path wrk_paths[];
extern const size_t wrk_n_paths;

/* Never NULL if a direction is given. */
const struct wrk_path *wrk_path_choose(uint32_t facts);

/* Whether the path depends on WRK_FACT_IDLE, or may depend on WRK_FACT_RING: only then
 * is the driver asked. */
bool wrk_path_asks_idle(uint32_t facts);
bool wrk_path_asks_ring(uint32_t facts);

/* Log the choice (area "copy", level debug). */
void wrk_path_log(const struct wrk_path *path, uint64_t len);

#endif
