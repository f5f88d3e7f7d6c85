/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of the generated code in one process: a stub's frame goes straight into the
 * worker's dispatch, which calls whatever functions a test puts into the driver's
 * table.
 *
 * gen_loop.c stands in for both runtimes (stub_call.h, wrk_call.h).  One thread, test
 * code only.
 */
#ifndef GEN_LOOP_H
#define GEN_LOOP_H

#include "cuda_abi.h"
#include "drv.h"
#include "wire_format.h"

#include <stdbool.h>
#include <stdint.h>

struct gen_loop {
    struct drv drv;       /* what the driver can */
    uint64_t frames;      /* requests that arrived */
    uint16_t flags;       /* of the last one */
    uint32_t body_size;   /* of the last one */
    CUresult deferred;    /* of calls without answer */
    const char *bad;      /* why the last frame was refused */
    unsigned unsupported; /* calls that the stub refused */
    bool per_thread;      /* the last default stream asked for was a thread's own */
    char line[1024];      /* the last line traced */
};

extern struct gen_loop loop;

/* Forget everything: handles, driver, counts. */
void gen_loop_reset(void);

/* A live handle for driver object @obj, as if a hand-written call had made it. */
uint64_t gen_loop_handle(enum wire_kind kind, void *obj);

/* Hand a raw frame to the dispatch; false when it was refused. */
bool gen_loop_frame(uint16_t call, const void *body, uint32_t size);

#endif
