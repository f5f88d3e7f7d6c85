/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of transfer paths: which way the bytes of a copy take, and why.
 *
 * A copy is described by its direction and by facts about it (kind of memory, size,
 * what the transport can do, state of the stream).  The first row of the table whose
 * direction and facts match names the path.  Each shape of copy finds out its facts and
 * runs the path; each path is one file, stub_path_<name>.c.  docs/transfers.md explains
 * the paths and says how to add one; the worker uses the same names.
 *
 * Constant data, no object.  Any thread.
 */
#ifndef STUB_PATH_TABLE_H
#define STUB_PATH_TABLE_H

#include "gp_base.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum stub_direction {
    STUB_H2D, /* from memory of this process to a device */
    STUB_D2H,
    STUB_D2D,
    STUB_H2H,
    STUB_DIRECTIONS,
};

enum stub_shape {
    STUB_LINEAR,
    STUB_BOX,   /* rows of host memory, device memory or an array (stub_box.h) */
    STUB_ARRAY, /* linear on the host, an array on the device */
    STUB_SHAPES,
};

enum stub_path {
    STUB_PATH_CAPTURE_NODE, /* the copy becomes a node of the graph being captured */
    STUB_PATH_GRAPH,        /* it is launched as a graph of one node */
    STUB_PATH_HOST_COPY,    /* memmove, after the work before it in the stream */
    STUB_PATH_DEVICE_COPY,  /* the device copies: it can reach both addresses */
    STUB_PATH_DEVICE_ALIAS, /* the device copies from its own pages of managed memory */
    STUB_PATH_SHARED_PINNED, /* page-locked memory that the worker has mapped, too */
    STUB_PATH_D2H_ASYNC,     /* the bytes come as a message when the stream is there */
    STUB_PATH_INLINE,        /* the bytes are part of the frame */
    STUB_PATH_PAYLOAD,       /* the bytes follow the frame, or the reply */
    STUB_PATHS,
};

/* What is known of a copy. */
enum stub_copy_fact {
    STUB_COPY_BLOCKING = 0x1, /* the call returns after the copy */
    STUB_COPY_CAPTURED = 0x2, /* the stream is being captured */
    STUB_COPY_OF_HOST = 0x4,  /* the "device" address is page-locked host memory */
    STUB_COPY_KNOWN = 0x8,    /* the device side is inside one known allocation */
    STUB_COPY_SHARED_PINNED = 0x10, /* the host side is in memory shared with the
                                     * worker, over a transport with XPORT_CAN_SHARE */
    STUB_COPY_SAME_ADDRESS = 0x20, /* the device reaches the host side by its address */
    STUB_COPY_IDLE = 0x40,         /* the stream's work is known to be done */
    STUB_COPY_ALIAS = 0x80,        /* the device's pages of the host side are newer */
    STUB_COPY_UNAWAITED = 0x100,   /* the host side is page-locked, and the server can
                                    * send the bytes without being waited for */
    STUB_COPY_SMALL = 0x200,       /* cheaper in the frame than behind it */
    STUB_COPY_AT_ITS_TURN = 0x400, /* of page-locked memory, which the program may write
                                    * before; or it must not be waited for */
    STUB_COPY_FACTS = 0x800,       /* the number of sets of facts */
};

struct stub_path_row {
    enum stub_path path;
    uint32_t directions; /* bits 1 << enum stub_direction */
    uint32_t needs;      /* facts that must hold */
    uint32_t excludes;   /* and must not */
    const char *why;
};

extern const struct stub_path_row stub_path_rows[];
extern const size_t stub_path_rows_n;

/* The first row behind @after, for a path that found that it cannot do the copy after
 * all (WIRE_RESULT_SEND_BYTES).  NULL: there is none. */
const struct stub_path_row *stub_path_next(enum stub_direction direction,
                                           uint32_t facts,
                                           const struct stub_path_row *after);

/* As in the documents and in traces. */
const char *stub_path_name(enum stub_path path);

/* GPUPOOL_TRACE or GPUPOOL_LOG=copy:debug asks for a line about every copy; set when
 * the library is loaded. */
extern bool stub_paths_shown;

/* That line: the shape, the row's path and its reason. */
void stub_path_show(const struct stub_path_row *row, enum stub_shape shape,
                    enum stub_direction direction, uint64_t n);

/* The number of the first row, counted from 1, for each direction and set of facts that
 * a copy has had so far; 0: none had them.  Threads that fill in the same entry write
 * the same number. */
extern _Atomic uint8_t stub_path_firsts[STUB_DIRECTIONS][STUB_COPY_FACTS];

const struct stub_path_row *stub_path_search_first(enum stub_direction direction,
                                                   uint32_t facts);

/* The first row for such a copy.  There always is one. */
static inline const struct stub_path_row *
stub_path_first(enum stub_direction direction, uint32_t facts)
{
    uint8_t known = atomic_load_explicit(
        &stub_path_firsts[direction][facts % STUB_COPY_FACTS], memory_order_relaxed);

    return likely(known) ? &stub_path_rows[known - 1]
                         : stub_path_search_first(direction, facts);
}

/* The same search, and the line about the copy. */
static inline const struct stub_path_row *
stub_path_choose(enum stub_shape shape, enum stub_direction direction, uint32_t facts,
                 uint64_t n)
{
    const struct stub_path_row *row = stub_path_first(direction, facts);

    if (unlikely(stub_paths_shown))
        stub_path_show(row, shape, direction, n);
    return row;
}

#endif
