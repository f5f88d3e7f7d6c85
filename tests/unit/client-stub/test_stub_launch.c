/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches as the worker gets them: whole, with a shape behind the second one, and as
 * runs; from a client whose worker knows shapes and from one whose worker does not.
 */
#include "ut_stub.h"

#include "stub_func.h"
#include "stub_handle.h"
#include "stub_launch_shape.h"
#include "stub_manual.h"
#include "wire_api.h"

#include <stdlib.h>

static struct stub_link *const the_link = &stub_links[0];
static struct xport_conn *worker;
static char *shapes_capability[] = {(char *)"shapes"};
static struct stub_func *kernels[3];
#define BARE 2 /* the one without parameters */

/* A kernel of 12 bytes of parameters or none, as this thread has just looked it up. */
static void
kernel_use(unsigned i)
{
    if (!kernels[i]) {
        kernels[i] = calloc(1, sizeof(*kernels[i]) + 2 * sizeof(struct stub_param));
        assert_non_null(kernels[i]);
        kernels[i]->handle = wire_handle_make(WIRE_KIND_FUNC, 1, i + 1);
        kernels[i]->param_bytes = i == BARE ? 0 : 12;
        kernels[i]->n_params = i == BARE ? 0 : 2;
        kernels[i]->params[0] = (struct stub_param){0, 8};
        kernels[i]->params[1] = (struct stub_param){8, 4};
    }
    stub_tls.func = kernels[i];
    stub_tls.func_handle = kernels[i]->handle;
    stub_tls.func_gone = atomic_load(&stub_func_gone);
}

static int
connect_both_ends(void **state)
{
    ut_stub_attach(NULL);
    worker = ut_stub_connect();
    return 0;
}

static CUresult
launch(unsigned kernel, unsigned grid, uint32_t number)
{
    uint64_t p = UINT64_C(0x1122334455667788);
    void *params[] = {&p, &number};

    kernel_use(kernel);
    return stub_fast_cuLaunchKernel((CUfunction)(uintptr_t)kernels[kernel]->handle,
                                    grid, 1, 1, 32, 1, 1, 0, NULL, params, NULL);
}

static void
flush(void)
{
    assert_int_equal(xport_flush(the_link->conn), 0);
    atomic_store(&the_link->queued, 0);
}

static const struct wire_req *
next(void)
{
    return ut_stub_sent(worker);
}

/* The next frame is a whole launch with these. */
static void
next_is_whole(unsigned kernel, unsigned grid, uint32_t number)
{
    const struct wire_req *req = next();
    const struct wire_cuLaunchKernel_req *body = (const void *)(req + 1);

    assert_non_null(req);
    assert_int_equal(req->call, WIRE_CALL_cuLaunchKernel);
    assert_int_equal(req->size, sizeof(*req) + sizeof(*body) + 16);
    assert_int_equal(body->f, kernels[kernel]->handle);
    assert_int_equal(body->gridDimX, grid);
    assert_int_equal(body->params_len, 12);
    assert_memory_equal((const uint8_t *)(body + 1) + 8, &number, 4);
}

/* It says what a number means, which is returned. */
static uint32_t
next_is_shape(unsigned kernel, unsigned grid)
{
    const struct wire_req *req = next();
    const struct wire_gp_launch_shape_req *body = (const void *)(req + 1);

    assert_non_null(req);
    assert_int_equal(req->call, WIRE_CALL_gp_launch_shape);
    assert_int_equal(body->f, kernels[kernel]->handle);
    assert_int_equal(body->gridDimX, grid);
    assert_int_equal(body->blockDimX, 32);
    assert_int_equal(body->n_params, 12);
    assert_in_range(body->number, 0, WIRE_LAUNCH_SHAPES - 1);
    return body->number;
}

/* It is a run of @n launches of that number, whose own numbers begin with @first. */
static void
next_is_run(uint32_t shape, unsigned n, uint32_t first)
{
    const struct wire_req *req = next();
    const struct wire_gp_launch_run_req *body = (const void *)(req + 1);
    const uint8_t *params = (const uint8_t *)(body + 1);

    assert_non_null(req);
    assert_int_equal(req->call, WIRE_CALL_gp_launch_run);
    assert_int_equal(body->number, shape);
    assert_int_equal(body->n, 16 * n);
    assert_int_equal(req->size, sizeof(*req) + sizeof(*body) + 16 * n);
    for (unsigned i = 0; i < n; i++, params += 16) {
        uint32_t number = first + i;

        assert_memory_equal(params + 8, &number, 4);
    }
}

static void
worker_knows_shapes(bool knows)
{
    ut_reply.n_capabilities = knows ? 1 : 0;
    ut_reply.capabilities = shapes_capability;
    memset(stub_launch_shapes, 0, sizeof(stub_launch_shapes));
}

static void
launches_of_one_shape_become_a_run(void **state)
{
    uint32_t shape, seq = atomic_load(&the_link->seq);
    const struct wire_req *req;

    worker_knows_shapes(true);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(launch(0, 1, i), CUDA_SUCCESS);
    assert_int_equal(atomic_load(&the_link->seq), seq + 11); /* and the shape */
    flush();
    next_is_whole(0, 1, 0);
    next_is_whole(0, 1, 1);
    shape = next_is_shape(0, 1);
    next_is_run(shape, 8, 2);
    assert_null(next());

    /* A frame that was sent ends the run; the shape is known still. */
    assert_int_equal(launch(0, 1, 20), CUDA_SUCCESS);
    assert_int_equal(launch(0, 1, 21), CUDA_SUCCESS);
    flush();
    next_is_run(shape, 2, 20);

    /* So do another shape and another kernel, of which each begins whole. */
    assert_int_equal(launch(0, 2, 30), CUDA_SUCCESS);
    assert_int_equal(launch(0, 1, 31), CUDA_SUCCESS);
    assert_int_equal(launch(0, 1, 32), CUDA_SUCCESS);
    assert_int_equal(launch(1, 1, 33), CUDA_SUCCESS);
    assert_int_equal(launch(0, 1, 34), CUDA_SUCCESS);
    assert_int_equal(launch(0, 1, 35), CUDA_SUCCESS);
    assert_int_equal(launch(0, 1, 36), CUDA_SUCCESS);
    flush();
    next_is_whole(0, 2, 30);
    next_is_whole(0, 1, 31);
    next_is_run(shape, 1, 32);
    next_is_whole(1, 1, 33);
    next_is_whole(0, 1, 34);
    next_is_run(shape, 2, 35);

    /* And another context. */
    assert_int_equal(launch(0, 1, 40), CUDA_SUCCESS);
    stub_tls.ctx_frame++;
    assert_int_equal(launch(0, 1, 41), CUDA_SUCCESS);
    stub_tls.ctx_frame--;
    flush();
    next_is_run(shape, 1, 40);
    req = next();
    assert_non_null(req);
    assert_int_equal(req->ctx, stub_tls.ctx_frame + 1);
    assert_null(next());
}

static void
run_does_not_grow_without_bound(void **state)
{
    uint32_t found = 0, n = 1000;
    const struct wire_req *req;

    worker_knows_shapes(true);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(launch(0, 1, i), CUDA_SUCCESS);
    flush();
    next_is_whole(0, 1, 0);
    next_is_whole(0, 1, 1);
    next_is_shape(0, 1);
    while ((req = next())) {
        assert_int_equal(req->call, WIRE_CALL_gp_launch_run);
        assert_in_range(req->size, sizeof(*req) + 24, STUB_LAUNCH_RUN_MAX);
        found += (req->size - (uint32_t)sizeof(*req) - 8) / 16;
    }
    assert_int_equal(found, n - 2);
}

static void
launch_that_is_refused_leaves_the_run_as_it_is(void **state)
{
    uint32_t shape;

    worker_knows_shapes(true);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(launch(0, 1, i), CUDA_SUCCESS);
    assert_int_equal(launch(0, 0, 9), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(launch(0, 1, 4), CUDA_SUCCESS);
    flush();
    next_is_whole(0, 1, 0);
    next_is_whole(0, 1, 1);
    shape = next_is_shape(0, 1);
    next_is_run(shape, 3, 2);
    assert_null(next());
}

/* Of a version from before: asked once. */
static void
worker_that_knows_no_shapes_gets_whole_frames(void **state)
{
    worker_knows_shapes(false);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(launch(0, 1, i), CUDA_SUCCESS);
    flush();
    for (uint32_t i = 0; i < 5; i++)
        next_is_whole(0, 1, i);
    assert_null(next());
    assert_true(stub_launch_shapes[0].never);
}

/* A whole frame has nothing in the place of parameters that there are not; in a run the
 * places count the launches. */
static void
kernel_without_parameters(void **state)
{
    uint32_t size = sizeof(struct wire_req) + sizeof(struct wire_cuLaunchKernel_req);
    const struct wire_gp_launch_run_req *run;
    const struct wire_req *req;

    worker_knows_shapes(true);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(launch(BARE, 1, 0), CUDA_SUCCESS);
    flush();
    for (uint32_t i = 0; i < 2; i++) {
        req = next();
        assert_non_null(req);
        assert_int_equal(req->call, WIRE_CALL_cuLaunchKernel);
        assert_int_equal(req->size, size);
        assert_int_equal(wire_cuLaunchKernel_req_size((const void *)(req + 1)),
                         size - sizeof(*req));
    }
    assert_int_equal(next()->call, WIRE_CALL_gp_launch_shape);
    req = next();
    assert_non_null(req);
    assert_int_equal(req->call, WIRE_CALL_gp_launch_run);
    assert_int_equal(req->size, sizeof(*req) + sizeof(*run) + 3 * 8);
    run = (const void *)(req + 1);
    assert_int_equal(run->n, 3 * 8);
    assert_null(next());
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_of_one_shape_become_a_run),
        cmocka_unit_test(run_does_not_grow_without_bound),
        cmocka_unit_test(launch_that_is_refused_leaves_the_run_as_it_is),
        cmocka_unit_test(worker_that_knows_no_shapes_gets_whole_frames),
        cmocka_unit_test(kernel_without_parameters),
    };

    return cmocka_run_group_tests(tests, connect_both_ends, NULL);
}
