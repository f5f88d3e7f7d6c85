/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of bytes in memory that host and card share, each with a word on what has become
 * of them since both ends last agreed (gp_runs_up, gp_runs_down).
 */
#ifndef WIRE_RUNS_H
#define WIRE_RUNS_H

#include <assert.h>
#include <stdint.h>

enum wire_run_kind {
    WIRE_RUN_RANGE,   /* up: what is asked about */
    WIRE_RUN_BYTES,   /* changed; the next bytes of the frame's data are these */
    WIRE_RUN_CHANGED, /* down: changed, to be copied by a call of its own */
    WIRE_RUN_UNKNOWN, /* down: the driver cannot say, now or later */
    WIRE_RUN_AGREED,  /* up: both ends have the same bytes */
    WIRE_RUN_IDLE,    /* up: what is asked about, while no card works */
    WIRE_RUN_STALE,   /* up: what the client has is not what was agreed on any more */
};

/* On the wire, little-endian. */
struct wire_run {
    uint64_t addr;
    uint64_t len;
    uint32_t kind;
    uint32_t zero;
};
static_assert(sizeof(struct wire_run) == 24, "layout on the wire");

/* As many as go into one frame, and the bytes of their data. */
#define WIRE_RUNS_MAX 1024u
#define WIRE_RUNS_DATA 65536u

/* Longer runs are copied by a call of their own. */
#define WIRE_RUN_BYTES_MAX (WIRE_RUNS_DATA / 2)

#endif
