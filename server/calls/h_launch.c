/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches: the governor is asked, then the driver.
 *
 * Parameters arrive as one buffer, laid out as the kernel has them; the driver
 * takes them in that form.
 */
#include "drv.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_batch.h"
#include "wrk_governor.h"
#include "wrk_params.h"
#include "wrk_priv.h"

#include <string.h>

/* What comes before the parameters in a frame of cuLaunchKernel. */
#define LAUNCH_HEAD                                                                    \
    (uint32_t)(sizeof(struct wire_req) + sizeof(struct wire_cuLaunchKernel_req))
#define LAUNCH_WORDS 6
static_assert(sizeof(struct wire_cuLaunchKernel_req) == LAUNCH_WORDS * 8, "words");

/* What gp_launch_run means by a number, as the client said it. */
static struct wire_gp_launch_shape_req shapes[WIRE_LAUNCH_SHAPES];

GP_HOT static inline CUresult
launch(struct wrk *w, const struct wire_args_cuLaunchKernel *a, struct wrk_params *p,
       const uint8_t *params)
{
    return WRK_CALL(w, cuLaunchKernel, a->f, a->gridDimX, a->gridDimY, a->gridDimZ,
                    a->blockDimX, a->blockDimY, a->blockDimZ, a->sharedMemBytes,
                    a->hStream, NULL, wrk_params_fill(p, params, a->params_len));
}

static inline uint64_t
launch_key(const struct wire_args_cuLaunchKernel *a)
{
    const unsigned grid[] = {a->gridDimX, a->gridDimY, a->gridDimZ};
    const unsigned block[] = {a->blockDimX, a->blockDimY, a->blockDimZ};

    return wrk_governor_key(a->f, grid, block);
}

/* Launches that the governor lets go without being asked again. */
struct launch_credit {
    struct wrk_charge *charge;
    unsigned left, n;
};

static inline void
launch_again(struct wrk *w, const struct wire_args_cuLaunchKernel *a,
             struct launch_credit *credit, const struct wire_req *req,
             const uint8_t *params)
{
    struct wrk_params p;
    CUresult r;

    if (credit->n == credit->left) {
        wrk_governor_launched_n(w, credit->charge, credit->n);
        credit->left = wrk_governor_again(w, credit->charge);
        credit->n = 0;
    }
    r = launch(w, a, &p, params);
    if (unlikely(r != CUDA_SUCCESS))
        wrk_defer(w, req, r);
    credit->n++;
}

/* The next frame, received, if it launches the same kernel and differs in its
 * parameters only. */
static inline const struct wire_req *
next_launch(struct wrk *w, const struct wire_args_cuLaunchKernel *a,
            const struct wire_req *req)
{
    if (req->flags)
        return NULL;
    return wrk_batch_next(w, req, LAUNCH_HEAD + wire_align(a->params_len),
                          LAUNCH_WORDS);
}

/* Launches of one kernel often follow each other with different parameters only.  The
 * checks of the first launch hold for those that are already in the receive buffer:
 * only equal launches are between them, so nothing can have changed. */
GP_HOT __attribute__((noinline)) static void
launch_batch(struct wrk *w, const struct wire_args_cuLaunchKernel *a,
             const struct wire_req *first, const struct wire_req *req,
             struct wrk_charge *charge)
{
    struct launch_credit credit = {.charge = charge};

    for (; req; req = next_launch(w, a, first))
        launch_again(w, a, &credit, req, (const uint8_t *)req + LAUNCH_HEAD);
    wrk_governor_launched_n(w, charge, credit.n);
}

GP_HOT CUresult
h_cuLaunchKernel(struct wrk *w, const struct wire_args_cuLaunchKernel *a,
                 struct wrk_reply *rep)
{
    const struct wire_req *next;
    struct wrk_charge charge;
    struct wrk_params p;
    CUresult r;

    wrk_governor_acquire(w, a->hStream, launch_key(a), &charge);
    r = launch(w, a, &p, a->params);
    wrk_governor_launched(w, &charge);
    if (r == CUDA_SUCCESS && (next = next_launch(w, a, rep->req)))
        launch_batch(w, a, rep->req, next, &charge);
    return r;
}

CUresult
h_gp_launch_shape(struct wrk *w, const struct wire_args_gp_launch_shape *a,
                  struct wrk_reply *rep)
{
    (void)w, (void)rep;
    if (a->number >= WIRE_LAUNCH_SHAPES || a->n_params > WIRE_LAUNCH_PARAMS_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    shapes[a->number] = (struct wire_gp_launch_shape_req){
        .f = a->f,
        .hStream = a->hStream,
        .gridDimX = a->gridDimX,
        .gridDimY = a->gridDimY,
        .gridDimZ = a->gridDimZ,
        .blockDimX = a->blockDimX,
        .blockDimY = a->blockDimY,
        .blockDimZ = a->blockDimZ,
        .sharedMemBytes = a->sharedMemBytes,
        .n_params = a->n_params,
    };
    return CUDA_SUCCESS;
}

static CUresult
shape_find(struct wrk *w, const struct wire_gp_launch_shape_req *shape,
           struct wire_args_cuLaunchKernel *ret)
{
    void *f = NULL, *stream = NULL;
    CUresult r = wrk_handle_get(w, WIRE_KIND_FUNC, shape->f, &f);

    if (r == CUDA_SUCCESS)
        r = wrk_handle_get(w, WIRE_KIND_STREAM, shape->hStream, &stream);
    *ret = (struct wire_args_cuLaunchKernel){
        .f = (CUfunction)f,
        .f_id = shape->f,
        .gridDimX = shape->gridDimX,
        .gridDimY = shape->gridDimY,
        .gridDimZ = shape->gridDimZ,
        .blockDimX = shape->blockDimX,
        .blockDimY = shape->blockDimY,
        .blockDimZ = shape->blockDimZ,
        .sharedMemBytes = shape->sharedMemBytes,
        .hStream = (CUstream)stream,
        .hStream_id = shape->hStream,
        .params_len = shape->n_params,
    };
    return r;
}

/* Has the run a shape, and no part of a launch?  How many launches it is. */
static bool
run_check(struct wrk *w, const struct wire_args_gp_launch_run *a,
          const struct wire_req *req, uint32_t *ret_n)
{
    uint32_t stride;

    if (a->number >= WIRE_LAUNCH_SHAPES || !shapes[a->number].f)
        return wrk_frame_bad(w, req, "launches of a shape that was never sent");
    stride = wire_launch_stride(shapes[a->number].n_params);
    *ret_n = a->n / stride;
    return (a->n && a->n % stride == 0) ||
           wrk_frame_bad(w, req, "a run of launches with a part of one");
}

static inline CUresult
run_launch(struct wrk *w, const struct wire_args_gp_launch_run *a,
           const struct wire_req *req)
{
    const uint8_t *params = a->params, *end = params + a->n;
    struct wire_args_cuLaunchKernel args;
    struct wrk_charge charge;
    struct launch_credit credit = {.charge = &charge};
    struct wrk_params p;
    uint32_t stride;
    CUresult r = wrk_call_enter(w, req, 0);

    if (r == CUDA_SUCCESS)
        r = shape_find(w, &shapes[a->number], &args);
    if (unlikely(r != CUDA_SUCCESS))
        return r;
    stride = wire_launch_stride(args.params_len);
    wrk_governor_acquire(w, args.hStream, launch_key(&args), &charge);
    r = launch(w, &args, &p, params);
    wrk_governor_launched(w, &charge);
    for (params += stride; params < end; params += stride)
        launch_again(w, &args, &credit, req, params);
    wrk_governor_launched_n(w, &charge, credit.n);
    return r;
}

/* The launches count as frames, whatever becomes of them, the first one as this frame:
 * that is what the governor looks at. */
GP_HOT CUresult
h_gp_launch_run(struct wrk *w, const struct wire_args_gp_launch_run *a,
                struct wrk_reply *rep)
{
    uint32_t seq = rep->req->seq, n = 1;
    CUresult r;

    if (unlikely(!run_check(w, a, rep->req, &n)))
        return CUDA_ERROR_INVALID_VALUE;
    r = run_launch(w, a, rep->req);
    atomic_store_explicit(&w->priv->seq, seq + n - 1, memory_order_relaxed);
    return r;
}

static CUresult
launch_config(struct wrk *w, const CUlaunchConfig *config, CUfunction f,
              const uint8_t *params, uint32_t params_len)
{
    const unsigned grid[] = {config->gridDimX, config->gridDimY, config->gridDimZ};
    const unsigned block[] = {config->blockDimX, config->blockDimY, config->blockDimZ};
    struct wrk_charge charge;
    struct wrk_params p;
    CUresult r;

    wrk_governor_acquire(w, config->hStream, wrk_governor_key(f, grid, block), &charge);
    r = WRK_CALL(w, cuLaunchKernelEx, config, f, NULL,
                 wrk_params_fill(&p, params, params_len));
    wrk_governor_launched(w, &charge);
    return r;
}

CUresult
h_cuLaunchKernelEx(struct wrk *w, const struct wire_args_cuLaunchKernelEx *a,
                   struct wrk_reply *rep)
{
    (void)rep;
    return launch_config(w, a->config, a->f, a->params, a->params_len);
}

/* The call itself takes no parameter buffer; the extended launch does. */
CUresult
h_cuLaunchCooperativeKernel(struct wrk *w,
                            const struct wire_args_cuLaunchCooperativeKernel *a,
                            struct wrk_reply *rep)
{
    CUlaunchAttribute attr;
    CUlaunchConfig config;

    (void)rep;
    memset(&attr, 0, sizeof(attr));
    attr.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attr.value.cooperative = 1;
    memset(&config, 0, sizeof(config));
    config.gridDimX = a->gridDimX;
    config.gridDimY = a->gridDimY;
    config.gridDimZ = a->gridDimZ;
    config.blockDimX = a->blockDimX;
    config.blockDimY = a->blockDimY;
    config.blockDimZ = a->blockDimZ;
    config.sharedMemBytes = a->sharedMemBytes;
    config.hStream = a->hStream;
    config.attrs = &attr;
    config.numAttrs = 1;
    return launch_config(w, &config, a->f, a->params, a->params_len);
}
