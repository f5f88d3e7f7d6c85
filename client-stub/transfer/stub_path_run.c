/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the transfer paths, by the shape of the copy; see stub_path.h. */
#include "stub_path.h"

stub_path_fn *const stub_path_fns[STUB_SHAPES][STUB_PATHS] = {
    [STUB_LINEAR] =
        {
            [STUB_PATH_CAPTURE_NODE] = stub_path_capture_node,
            [STUB_PATH_GRAPH] = stub_path_graph,
            [STUB_PATH_HOST_COPY] = stub_path_host_copy,
            [STUB_PATH_DEVICE_COPY] = stub_path_device_copy,
            [STUB_PATH_DEVICE_ALIAS] = stub_path_device_alias,
            [STUB_PATH_SHARED_PINNED] = stub_path_shared_pinned,
            [STUB_PATH_D2H_ASYNC] = stub_path_d2h_async,
            [STUB_PATH_INLINE] = stub_path_inline,
            [STUB_PATH_PAYLOAD] = stub_path_payload,
        },
    [STUB_BOX] =
        {
            [STUB_PATH_CAPTURE_NODE] = stub_path_capture_node_box,
            [STUB_PATH_GRAPH] = stub_path_graph_box,
            [STUB_PATH_HOST_COPY] = stub_path_host_copy_box,
            [STUB_PATH_DEVICE_COPY] = stub_path_device_copy_box,
            [STUB_PATH_D2H_ASYNC] = stub_path_d2h_async_box,
            [STUB_PATH_PAYLOAD] = stub_path_payload_box,
        },
    [STUB_ARRAY] =
        {
            [STUB_PATH_INLINE] = stub_path_inline_array,
            [STUB_PATH_PAYLOAD] = stub_path_payload_array,
        },
};

GP_COLD CUresult
stub_path_run_next(enum stub_shape shape, struct stub_copy *copy,
                   const struct stub_path_row *row)
{
    CUresult r = WIRE_RESULT_SEND_BYTES;

    while (r == WIRE_RESULT_SEND_BYTES &&
           (row = stub_path_next(copy->direction, copy->facts, row))) {
        if (stub_paths_shown)
            stub_path_show(row, shape, copy->direction, copy->n);
        r = stub_path_fns[shape][row->path](copy);
    }
    return r;
}
