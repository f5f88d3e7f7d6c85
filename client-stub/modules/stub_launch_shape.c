/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_launch_shape.h"

#include "stub_call.h"
#include "wire_api.h"

struct stub_launch_shape stub_launch_shapes[STUB_LINKS_MAX][WIRE_LAUNCH_SHAPES];
struct stub_launch_shape stub_launch_open[STUB_LINKS_MAX];

void
stub_launch_shape_tell(struct stub_link *link, uint32_t number)
{
    struct stub_launch_shape *shape = stub_launch_shape_at(link, number);
    bool can = stub_link_can(link, "shapes");
    struct wire_gp_launch_shape_req *req;
    struct stub_call c;

    if (stub_call_begin_on(&c, link, WIRE_CALL_gp_launch_shape, sizeof(*req)) !=
        CUDA_SUCCESS)
        return;
    if (shape->known != STUB_LAUNCH_ONCE || !can) {
        if (!can)
            shape->known = STUB_LAUNCH_NEVER;
        stub_call_cancel(&c);
        return;
    }
    req = c.body;
    *req = (struct wire_gp_launch_shape_req){
        .f = shape->f,
        .hStream = shape->stream,
        .gridDimX = shape->grid[0],
        .gridDimY = shape->grid[1],
        .gridDimZ = shape->grid[2],
        .blockDimX = shape->block[0],
        .blockDimY = shape->block[1],
        .blockDimZ = shape->block[2],
        .sharedMemBytes = shape->shared,
        .n_params = shape->n_params,
        .number = number,
    };
    shape->known = STUB_LAUNCH_TOLD;
    stub_call_post(&c);
}
