/* SPDX-License-Identifier: Apache-2.0 */
#include "stub_launch_shape.h"

#include "stub_call.h"
#include "wire_api.h"

struct stub_launch_shapes stub_launch_shapes[STUB_LINKS_MAX];

void
stub_launch_shape_tell(struct stub_link *link)
{
    struct stub_launch_shapes *shapes = stub_launch_shapes_of(link);
    const struct stub_launch_shape *shape = &shapes->last;
    bool can = stub_link_can(link, "shapes");
    struct wire_gp_launch_shape_req *req;
    struct stub_call c;
    uint32_t number;

    if (stub_call_begin_on(&c, link, WIRE_CALL_gp_launch_shape, sizeof(*req)) !=
        CUDA_SUCCESS)
        return;
    if (!can || stub_launch_shape_told(shapes)) {
        shapes->never = !can;
        stub_call_cancel(&c);
        return;
    }
    number = stub_launch_shape_number(shape);
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
    shapes->told[number] = *shape;
    stub_call_post(&c);
}
