/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What checks (SOFTGPU_CHECK) have to know of each operation: how it touches memory, or
 * how it puts threads in order.
 *
 * Lowering asks which operations get a CHECK beside them, the CHECK what its neighbour
 * does.  A constant table; any thread.
 */
#ifndef INSN_WATCH_H
#define INSN_WATCH_H

#include "sg_insn.h"

#include <stdbool.h>

enum sg_watch_kind {
    SG_WATCH_NONE,
    SG_WATCH_ACCESS, /* one address a lane, in a, of `size` bytes */
    SG_WATCH_ATOM,
    SG_WATCH_MBAR,
    SG_WATCH_CPASYNC,
    SG_WATCH_BULK,
    SG_WATCH_TENSOR,
    SG_WATCH_ROWS, /* of small matrices: 16 bytes a lane */
    SG_WATCH_WMMA,
    SG_WATCH_FENCE,
    SG_WATCH_WARP, /* the lanes of a warp wait for each other */
    SG_WATCH_BAR,
    SG_WATCH_CLUSTER_ARRIVE,
    SG_WATCH_CLUSTER_WAIT,
};

struct sg_watch {
    uint8_t kind;  /* enum sg_watch_kind */
    uint8_t space; /* enum sg_mem_space of ACCESS */
    uint8_t size;  /* bytes of one lane; the least that may be touched */
    bool store;
    bool narrow; /* ACCESS: the address is 32 bits wide */
    bool wide;   /* registers with data are 64 bits wide */
    bool list;   /* and in a list */
};

extern const struct sg_watch sg_watches[SG_N_OPS];

/* Whether the operation gets a CHECK before it, and one behind it. */
static inline bool
sg_watch_before(unsigned code)
{
    return sg_watches[code].kind != SG_WATCH_NONE &&
           sg_watches[code].kind != SG_WATCH_CLUSTER_WAIT;
}

static inline bool
sg_watch_after(unsigned code)
{
    return sg_watches[code].kind == SG_WATCH_BAR ||
           sg_watches[code].kind == SG_WATCH_CLUSTER_WAIT;
}

#endif
