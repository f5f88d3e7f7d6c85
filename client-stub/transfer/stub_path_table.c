/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the table of transfer paths; see stub_path_table.h. */
#include "stub_path_table.h"

#include "gp_log.h"
#include "stub_trace.h"

#include <assert.h>
#include <inttypes.h>

#define H2D (1u << STUB_H2D)
#define D2H (1u << STUB_D2H)
#define D2D (1u << STUB_D2D)
#define H2H (1u << STUB_H2H)

/* The order is the order of preference.  The last rows of each direction match
 * always. */
const struct stub_path_row stub_path_rows[] = {
    {STUB_PATH_CAPTURE_NODE, H2D | D2H | H2H, STUB_COPY_CAPTURED, 0,
     "the stream is being captured"},
    {STUB_PATH_HOST_COPY, H2D | D2H, STUB_COPY_OF_HOST, 0,
     "the device address is page-locked memory of this process"},
    {STUB_PATH_HOST_COPY, H2H, 0, 0, "both sides are memory of this process"},
    {STUB_PATH_GRAPH, H2D | D2H, STUB_COPY_AT_ITS_TURN,
     STUB_COPY_BLOCKING | STUB_COPY_SAME_ADDRESS | STUB_COPY_ALIAS,
     "the program may act before its turn in the stream"},
    {STUB_PATH_SHARED_PINNED, H2D, STUB_COPY_KNOWN | STUB_COPY_SHARED_PINNED, 0,
     "the worker has mapped the source"},
    {STUB_PATH_SHARED_PINNED, D2H,
     STUB_COPY_KNOWN | STUB_COPY_SHARED_PINNED | STUB_COPY_BLOCKING, 0,
     "the worker has mapped the destination"},
    /* A blocking copy behind finished work finds nothing newer on the device, and
     * sending is faster.  Behind unfinished work the device's copy of that memory
     * may change once more, and would come to the host after what was sent. */
    {STUB_PATH_DEVICE_COPY, H2D, STUB_COPY_SAME_ADDRESS, STUB_COPY_IDLE,
     "the device reads the source at the same address"},
    {STUB_PATH_DEVICE_COPY, D2H, STUB_COPY_SAME_ADDRESS, STUB_COPY_IDLE,
     "the device writes the destination at the same address"},
    {STUB_PATH_DEVICE_COPY, D2D, 0, 0, "both sides are memory of devices"},
    {STUB_PATH_DEVICE_ALIAS, H2D, STUB_COPY_ALIAS, 0,
     "the device may have changed its pages of the source"},
    {STUB_PATH_DEVICE_ALIAS, D2H, STUB_COPY_ALIAS, 0,
     "the device has pages of its own of the destination"},
    {STUB_PATH_D2H_ASYNC, D2H, STUB_COPY_KNOWN | STUB_COPY_UNAWAITED,
     STUB_COPY_BLOCKING, "nobody waits, and the destination is page-locked"},
    {STUB_PATH_INLINE, H2D, STUB_COPY_SMALL, 0, "so few bytes fit into the frame"},
    {STUB_PATH_PAYLOAD, H2D, 0, 0, "no shorter path from this memory"},
    {STUB_PATH_PAYLOAD, D2H, 0, 0, "no shorter path to this memory"},
};

const size_t stub_path_rows_n = ARRAY_SIZE(stub_path_rows);

static const char *const path_names[STUB_PATHS] = {
    [STUB_PATH_CAPTURE_NODE] = "capture_node",
    [STUB_PATH_GRAPH] = "graph",
    [STUB_PATH_HOST_COPY] = "host_copy",
    [STUB_PATH_DEVICE_COPY] = "device_copy",
    [STUB_PATH_DEVICE_ALIAS] = "device_alias",
    [STUB_PATH_SHARED_PINNED] = "shared_pinned",
    [STUB_PATH_D2H_ASYNC] = "d2h_async",
    [STUB_PATH_INLINE] = "inline",
    [STUB_PATH_PAYLOAD] = "payload",
};

static const char *const direction_names[STUB_DIRECTIONS] = {
    [STUB_H2D] = "host-to-device",
    [STUB_D2H] = "device-to-host",
    [STUB_D2D] = "device-to-device",
    [STUB_H2H] = "host-to-host",
};

_Atomic uint8_t stub_path_firsts[STUB_DIRECTIONS][STUB_COPY_FACTS];

static const struct stub_path_row *
path_search(enum stub_direction direction, uint32_t facts,
            const struct stub_path_row *row)
{
    for (const struct stub_path_row *end = stub_path_rows + stub_path_rows_n; row < end;
         row++)
        if (row->directions & 1u << direction && (facts & row->needs) == row->needs &&
            !(facts & row->excludes))
            return row;
    return NULL;
}

const struct stub_path_row *
stub_path_search_first(enum stub_direction direction, uint32_t facts)
{
    const struct stub_path_row *row = path_search(direction, facts, stub_path_rows);

    static_assert(ARRAY_SIZE(stub_path_rows) < UINT8_MAX, "numbers of rows");
    atomic_store_explicit(&stub_path_firsts[direction][facts % STUB_COPY_FACTS],
                          (uint8_t)(row - stub_path_rows + 1), memory_order_relaxed);
    return row;
}

const struct stub_path_row *
stub_path_next(enum stub_direction direction, uint32_t facts,
               const struct stub_path_row *after)
{
    return path_search(direction, facts, after + 1);
}

const char *
stub_path_name(enum stub_path path)
{
    return path_names[path];
}

/* Linear copies are the usual ones, and have no adjective. */
static const char *const shape_names[STUB_SHAPES] = {
    [STUB_LINEAR] = "",
    [STUB_BOX] = " box",
    [STUB_ARRAY] = " array",
};

bool stub_paths_shown;

void
stub_path_show(const struct stub_path_row *row, enum stub_shape shape,
               enum stub_direction direction, uint64_t n)
{
    const char *way = direction_names[direction], *of = shape_names[shape];

    if (stub_tracing)
        stub_trace("  %s%s copy of %" PRIu64 " bytes: path %s, because %s", way, of, n,
                   stub_path_name(row->path), row->why);
    gp_log_debug("copy", "%s%s copy of %" PRIu64 " bytes: path %s, because %s", way, of,
                 n, stub_path_name(row->path), row->why);
}
