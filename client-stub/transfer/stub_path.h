/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One copy, and the paths that its bytes can take.
 *
 * A struct stub_copy lives on the stack of the thread that makes the call, which finds
 * out the facts (stub_copy_facts.h for linear copies).  stub_path_table.h names the
 * path, and the path's function for copies of that shape makes the copy.  Each path is
 * one file, stub_path_<name>.c, with a function for each shape that can take it.
 */
#ifndef STUB_PATH_H
#define STUB_PATH_H

#include "cuda_abi.h"
#include "stub_path_table.h"
#include "stub_shared_pinned.h"
#include "wire_result.h"

#include <stdbool.h>
#include <stdint.h>

struct stub_box;

struct stub_copy {
    enum stub_direction direction;
    bool blocking; /* the call promises that the copy is done when it returns */
    bool per_thread;
    CUdeviceptr dst, src; /* the host side is an address like any other */
    uint64_t n;
    CUstream stream;    /* as the program named it */
    uint64_t stream_id; /* on the wire */
    uint32_t facts;     /* enum stub_copy_fact */

    /* Set only with their facts. */
    CUdeviceptr alias; /* STUB_COPY_ALIAS: where the device has it */
    union {
        struct stub_pinned_place pinned; /* STUB_COPY_SHARED_PINNED */
        const struct stub_box *box;      /* of STUB_BOX; n is all of its bytes */
        uint64_t array_offset;           /* of STUB_ARRAY; dst or src is its handle */
    };
};

static inline void *
stub_copy_host_side(const struct stub_copy *copy)
{
    return (void *)(uintptr_t)(copy->direction == STUB_H2D ? copy->src : copy->dst);
}

static inline CUdeviceptr
stub_copy_device_side(const struct stub_copy *copy)
{
    return copy->direction == STUB_H2D ? copy->dst : copy->src;
}

/* A path returns what the program's call returns, or WIRE_RESULT_SEND_BYTES: nothing
 * has happened, and the next row of the table is to be tried. */
typedef CUresult stub_path_fn(struct stub_copy *copy);

stub_path_fn stub_path_capture_node, stub_path_graph, stub_path_host_copy,
    stub_path_device_copy, stub_path_device_alias, stub_path_shared_pinned,
    stub_path_d2h_async, stub_path_inline, stub_path_payload;
stub_path_fn stub_path_capture_node_box, stub_path_graph_box, stub_path_host_copy_box,
    stub_path_device_copy_box, stub_path_d2h_async_box, stub_path_payload_box;
stub_path_fn stub_path_inline_array, stub_path_payload_array;

/* NULL: copies of that shape never have the facts of the path's rows. */
extern stub_path_fn *const stub_path_fns[STUB_SHAPES][STUB_PATHS];

/* @row was taken, and its path returned WIRE_RESULT_SEND_BYTES: the rows behind it. */
CUresult stub_path_run_next(enum stub_shape shape, struct stub_copy *copy,
                            const struct stub_path_row *row);

/* Make the copy by the first path that the table names for its facts. */
static inline __attribute__((always_inline)) CUresult
stub_path_run(enum stub_shape shape, struct stub_copy *copy)
{
    const struct stub_path_row *row =
        stub_path_choose(shape, copy->direction, copy->facts, copy->n);
    CUresult r = stub_path_fns[shape][row->path](copy);

    return likely(r != WIRE_RESULT_SEND_BYTES) ? r
                                               : stub_path_run_next(shape, copy, row);
}

#endif
