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

#include <string.h>

/* What comes before the parameters in a frame. */
#define LAUNCH_HEAD                                                                    \
    (uint32_t)(sizeof(struct wire_req) + sizeof(struct wire_cuLaunchKernel_req))
#define LAUNCH_WORDS 6
static_assert(sizeof(struct wire_cuLaunchKernel_req) == LAUNCH_WORDS * 8, "words");

GP_HOT static inline CUresult
launch(struct wrk *w, const struct wire_args_cuLaunchKernel *a, struct wrk_params *p,
       const uint8_t *params)
{
    return WRK_CALL(w, cuLaunchKernel, a->f, a->gridDimX, a->gridDimY, a->gridDimZ,
                    a->blockDimX, a->blockDimY, a->blockDimZ, a->sharedMemBytes,
                    a->hStream, NULL, wrk_params_fill(p, params, a->params_len));
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
launch_again(struct wrk *w, const struct wire_args_cuLaunchKernel *a,
             const struct wire_req *first, const struct wire_req *req,
             struct wrk_charge *charge)
{
    unsigned left = 0, n = 0;
    struct wrk_params p;

    for (; req; req = next_launch(w, a, first)) {
        CUresult r;

        if (n == left) {
            wrk_governor_launched_n(w, charge, n);
            left = wrk_governor_again(w, charge);
            n = 0;
        }
        r = launch(w, a, &p, (const uint8_t *)req + LAUNCH_HEAD);
        if (unlikely(r != CUDA_SUCCESS))
            wrk_defer(w, req, r);
        n++;
    }
    wrk_governor_launched_n(w, charge, n);
}

GP_HOT CUresult
h_cuLaunchKernel(struct wrk *w, const struct wire_args_cuLaunchKernel *a,
                 struct wrk_reply *rep)
{
    const unsigned grid[] = {a->gridDimX, a->gridDimY, a->gridDimZ};
    const unsigned block[] = {a->blockDimX, a->blockDimY, a->blockDimZ};
    const struct wire_req *next;
    struct wrk_charge charge;
    struct wrk_params p;
    CUresult r;

    wrk_governor_acquire(w, a->hStream, wrk_governor_key(a->f, grid, block), &charge);
    r = launch(w, a, &p, a->params);
    wrk_governor_launched(w, &charge);
    if (r == CUDA_SUCCESS && (next = next_launch(w, a, rep->req)))
        launch_again(w, a, rep->req, next, &charge);
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
