/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row of the benchmark: something through the stub and the same over the raw link,
 * in turns.
 *
 * Slices of both alternate, and so does the side that begins, so that a disturbance
 * hits both.  A slice gives one ratio of medians; all ratios leave as a line "SAMPLES
 * KEY VALUE...", from which the runner makes an interval.  Beside them leave the
 * median, the slow one in a hundred and the processor time of both ends of both sides.
 */
#ifndef ROWS_H
#define ROWS_H

#include "bench.h"
#include "raw_link.h"

struct bench_raw {
    struct raw_peer peer;
    struct raw_link call; /* set for round trips */
    const char *settings; /* the search's file, or NULL */
    int beside;           /* 0: no raw side at all */
};

/* What the raw side of a row does: one round trip with so many bytes each way. */
struct bench_move {
    size_t up, down;
    void *host;
    int shared; /* out of and into peer.shared: one copy */
};

struct bench_row {
    const char *name;
    void (*act)(void *data);
    void *data;
    struct bench_move raw;
    int slices;
    long calls;        /* in a slice */
    uint64_t slice_ns; /* unless 0: a slice takes so long, and means are compared, not
                          medians.  For cores that others want as well: a slice covers
                          several turns of theirs */
    double times;      /* so many of what is reported in one act; 0: one */
    size_t bytes;      /* a copy: its speed is reported, and raw time / our time */
};

/* Options: --shm=1, --peer-core=N, --peer-netns=PATH, --raw-host=ADDRESS,
 * --settings=FILE, --beside=0.  Before CUDA. */
void bench_raw_open(struct bench_raw *raw, int argc, char **argv, size_t bulk_max);
void bench_raw_close(struct bench_raw *raw);

void bench_row_run(struct bench_raw *raw, const struct bench_row *row);

#endif
