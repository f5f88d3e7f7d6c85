/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's contexts, those made from green contexts among them: which there are,
 * and that a question about the work of all of them asks each and comes back.
 */
#include "ut.h"

#include "drv.h"
#include "wrk_capture.h"
#include "wrk_ctx.h"
#include "wrk_hooks.h"
#include "wrk_hostfn.h"
#include "wrk_left.h"
#include "wrk_object.h"
#include "wrk_priv.h"
#include "wrk_state.h"
#include "wrk_wait.h"

#define CTX(n) ((CUcontext)(uintptr_t)(0x1000 + 16 * (uintptr_t)(n)))

const struct wrk_hooks wrk_hooks;

static CUcontext current, busy;

static CUresult
set_current(CUcontext ctx)
{
    current = ctx;
    return CUDA_SUCCESS;
}

static CUresult
stream_query(CUstream stream)
{
    return stream == NULL && current == busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static const struct drv drv = {.cuCtxSetCurrent = set_current,
                               .cuStreamQuery = stream_query};
static struct wrk_priv priv;
static struct wrk worker = {.drv = &drv, .priv = &priv};

void
wrk_handle_put(struct wrk *w, unsigned kind, uint64_t id, void *obj)
{
    assert_int_equal(wrk_handles_put(&w->handles, kind, id, obj), 0);
}

void
wrk_handle_del(struct wrk *w, unsigned kind, uint64_t id)
{
    wrk_handles_del(&w->handles, kind, id);
}

void
wrk_capture_relax_own(struct wrk *w)
{
    (void)w;
}

void
wrk_capture_relax_client(struct wrk *w)
{
    (void)w;
}

CUresult
wrk_capturing(struct wrk *w, CUstream stream)
{
    (void)w;
    (void)stream;
    return CUDA_SUCCESS;
}

bool
wrk_hostfns_none(struct wrk_hostfns *hosts)
{
    (void)hosts;
    return true;
}

CUresult
wrk_left_query(struct wrk *w, uint32_t ctx_index)
{
    (void)w;
    (void)ctx_index;
    return CUDA_SUCCESS;
}

/* What waits of calls need, which are not made here. */
#define NEVER(type, name, ...)                                                         \
    extern type name(__VA_ARGS__);                                                     \
    type name(__VA_ARGS__)                                                             \
    {                                                                                  \
        abort();                                                                       \
    }

NEVER(void, wrk_ctx_jobs_await, void)
NEVER(void, wrk_ctx_jobs_newest, void)
NEVER(void, wrk_ctx_jobs_pending, void)
NEVER(CUresult, wrk_deferred, struct wrk *w, CUresult r)
NEVER(void, wrk_elapsed_begin, void)
NEVER(void, wrk_elapsed_end, void)
NEVER(void, wrk_evpool_get, void)
NEVER(void, wrk_evpool_put, void)
NEVER(bool, wrk_frame_bad, struct wrk *w, const struct wire_req *req, const char *why)
NEVER(void, wrk_parts_captures, void)
NEVER(void, wrk_parts_drop, void)
NEVER(void, wrk_parts_take, void)
NEVER(void, wrk_parts_wait, void)
NEVER(void *, wrk_reply_reserve, struct wrk *w, const struct wire_req *req,
      uint32_t size)
NEVER(void, wrk_reply_send, struct wrk *w, const struct wire_req *req, CUresult result)
NEVER(void, wrk_reply_whole, struct wrk *w, const struct wire_req *req, CUresult result,
      const void *body, uint32_t size)
NEVER(void, wrk_waiters_background, void)

/* The driver's @ctx, which the worker names. */
static uint64_t
name(CUcontext ctx)
{
    uint64_t id = 0;

    assert_int_equal(wrk_handles_name(&worker.handles, WIRE_KIND_CTX, ctx, &id), 0);
    return id;
}

static void
default_stream_of_a_green_context_is_asked_as_well(void **state)
{
    uint64_t primary = wrk_ctx_primary_id(&worker, 0), green, other;

    (void)state;
    wrk_ctx_put(&worker, primary, CTX(1), 0);
    assert_int_equal(wrk_ctx_count(), 1);
    green = name(CTX(2));
    wrk_ctx_put_green(&worker, green, 0);
    wrk_ctx_put_green(&worker, green, 0); /* asked for again */
    other = name(CTX(3)); /* came in an answer, and no frame may name it */
    assert_int_equal(wrk_ctx_count(), 2);
    assert_int_equal(wrk_ctx_next(&worker, 0), wire_handle_index(primary));
    assert_int_equal(wrk_ctx_next(&worker, wire_handle_index(primary)),
                     wire_handle_index(green));
    assert_int_equal(wrk_ctx_next(&worker, wire_handle_index(green)), 0);

    assert_int_equal(wrk_ctx_use(&worker, wire_handle_index(primary)), CUDA_SUCCESS);
    assert_true(wrk_wait_all_end_alone(&worker));
    busy = CTX(2);
    assert_false(wrk_wait_all_end_alone(&worker));
    assert_ptr_equal(current, CTX(1));
    busy = CTX(1);
    assert_int_equal(wrk_ctx_use(&worker, wire_handle_index(green)), CUDA_SUCCESS);
    assert_false(wrk_wait_all_end_alone(&worker));
    assert_ptr_equal(current, CTX(2));
    assert_int_equal(worker.ctx_frame, wire_handle_index(green));
    assert_int_equal(worker.ctx_index, wire_handle_index(primary));
    busy = NULL;
    assert_true(wrk_wait_all_end_alone(&worker));
    assert_ptr_equal(current, CTX(2));

    wrk_handle_del(&worker, WIRE_KIND_CTX, other);
    wrk_ctx_gone(&worker, primary); /* the green one goes with it */
    assert_int_equal(wrk_ctx_count(), 0);
    assert_int_equal(wrk_ctx_next(&worker, 0), 0);
    wrk_handles_fini(&worker.handles);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_stream_of_a_green_context_is_asked_as_well),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
