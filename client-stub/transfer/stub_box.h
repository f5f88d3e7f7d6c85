/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The description of a copy of a rectangle or a box: 2D, 3D and peer copies.
 *
 * All of them are converted to the 3D form.  The worker sees `rows` rows of `pitch`
 * bytes, the last one only as wide as the copy, in place of the host side, whose
 * offsets are applied here.  A struct stub_box lives on the stack of the thread that
 * makes the call; the paths of such copies are in stub_path_<name>.c.
 */
#ifndef STUB_BOX_H
#define STUB_BOX_H

#include "cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct stub_call;

/* The host side of a copy; base NULL: it is not on the host. */
struct stub_box_host {
    char *base; /* of the first row */
    uint64_t pitch;
    uint64_t slice; /* from one z to the next */
};

struct stub_box {
    uint16_t call;              /* number of the call that the program made */
    const CUDA_MEMCPY3D *given; /* as the program described it */
    CUDA_MEMCPY3D copy;         /* as it goes on the wire */
    struct stub_box_host src, dst;
    uint64_t rows;
    uint64_t width;
};

/* CUDA_ERROR_INVALID_VALUE: a host side that cannot be, or a pitch or height that has
 * no room for the copy. */
CUresult stub_box_open(struct stub_box *box, uint16_t call, const CUDA_MEMCPY3D *given);

/* A host side that the device reaches, too, becomes a device side, so that the copy
 * comes behind the kernels before it that use that memory, and before those behind it.
 * True if there was one. */
bool stub_box_use_device(struct stub_box *box);

/* A rectangle as a box of depth one. */
void stub_box_widen(CUDA_MEMCPY3D *to, const CUDA_MEMCPY2D *from);

/* Row number @i of @host, one of the two sides. */
char *stub_box_row(const struct stub_box *box, const struct stub_box_host *host,
                   uint64_t i);

/* Bytes from the first one of @host to the last; there is at least one row. */
uint64_t stub_box_extent(const struct stub_box *box, const struct stub_box_host *host);

/* Do the rows follow each other at one distance? */
bool stub_box_is_span(const struct stub_box *box, const struct stub_box_host *host);

/* True if the source is inside one known allocation.  Then only a fatal error of the
 * context can keep the bytes from coming. */
bool stub_box_source_inside(const struct stub_box *box);
/* The same for the destination. */
bool stub_box_target_inside(const struct stub_box *box);

/* True if a side overruns memory that every server has (stub_memory_overruns()). */
bool stub_box_overruns(const struct stub_box *box);

/* Begin the frame of the call, whose payload is rows at a distance of @pitch, and
 * @input bytes of it follow (0: none do). */
CUresult stub_box_begin(struct stub_call *c, const struct stub_box *box,
                        uint64_t stream, uint64_t pitch, uint64_t input);

#endif
