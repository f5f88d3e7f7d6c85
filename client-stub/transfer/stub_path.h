/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One linear copy, and the paths that its bytes can take.
 *
 * A struct stub_copy lives on the stack of the thread that makes the call.
 * stub_copy_find_facts() fills it in, stub_path_table.h names the path, and the
 * function of the path, each in a file of its own (stub_path_<name>.c), makes the copy.
 */
#ifndef STUB_PATH_H
#define STUB_PATH_H

#include "cuda_abi.h"
#include "stub_path_table.h"
#include "stub_shared_pinned.h"

#include <stdbool.h>
#include <stdint.h>

struct stub_call;

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
    CUdeviceptr alias;               /* STUB_COPY_ALIAS: where the device has it */
    struct stub_pinned_place pinned; /* STUB_COPY_SHARED_PINNED */
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

/* Paths return what the program's call returns, or WIRE_RESULT_SEND_BYTES: nothing has
 * happened, and the next row of the table is to be tried. */
CUresult stub_path_capture_node(struct stub_copy *copy);
CUresult stub_path_host_copy(struct stub_copy *copy);
CUresult stub_path_device_copy(struct stub_copy *copy);
CUresult stub_path_device_alias(struct stub_copy *copy);
CUresult stub_path_shared_pinned(struct stub_copy *copy);
CUresult stub_path_d2h_async(struct stub_copy *copy);
CUresult stub_path_inline(struct stub_copy *copy);
CUresult stub_path_payload(struct stub_copy *copy);

#endif
