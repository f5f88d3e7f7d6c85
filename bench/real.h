/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the realistic rows work on: streams, events, blocks and graphs of one context.
 * One thread.
 */
#ifndef BENCH_REAL_H
#define BENCH_REAL_H

#include "net.h"
#include "rows.h"

#define REAL_STREAMS 4
#define REAL_EVENTS 16
#define REAL_BLOCKS 512
#define REAL_SIZES 16
#define REAL_NODES 64
#define REAL_BATCH_MAX (4u << 20)

struct real {
    struct bench_raw raw;
    struct net net;
    CUcontext context;
    CUstream streams[REAL_STREAMS];
    CUevent events[REAL_EVENTS], timed[2];
    CUdeviceptr batch;
    char *pageable, *pinned; /* REAL_BATCH_MAX */
    CUdeviceptr blocks[REAL_BLOCKS];
    size_t sizes[REAL_SIZES]; /* of the blocks of one step, in the next one as well */
    unsigned size_at;
    uint64_t random;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode nodes[REAL_NODES];
    unsigned long launches, batch_size;
};

uint64_t real_random(struct real *real);
void real_launch(struct real *real, CUstream stream);

/* --- real_memory.c: blocks and pools --- */
void real_blocks_open(struct real *real);
void real_blocks_close(struct real *real);
void real_act_alloc_free(void *data);
void real_act_pool(void *data);
void real_act_pool10(void *data);
void real_act_pool_step(void *data);
void real_act_pool10_step(void *data);

/* --- real_graph.c --- */
void real_graph_open(struct real *real);
void real_graph_close(struct real *real);
void real_act_graph(void *data);
void real_act_graph_update(void *data);

#endif
