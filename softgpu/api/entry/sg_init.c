/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuInit: the configuration, the devices, and what a context consists of.
 */
#include "sg_array.h"
#include "sg_capture.h"
#include "sg_check.h"
#include "sg_cond.h"
#include "sg_conf.h"
#include "sg_core.h"
#include "sg_ctx.h"
#include "sg_dev.h"
#include "sg_event.h"
#include "sg_graph_capture.h"
#include "sg_green.h"
#include "sg_launch_device.h"
#include "sg_mem.h"
#include "sg_module.h"
#include "sg_output.h"
#include "sg_sm.h"
#include "sg_stream.h"
#include "sg_texobj.h"
#include "sg_texref.h"
#include "sg_work.h"

#include "gp_err.h"
#include "gp_log.h"

#include <errno.h>
#include <string.h>

/* That room is kept for; larger cards have more multiprocessors, on machines with more
 * memory. */
#define ROOM_THREADS_MAX 16

static CUresult
make_legacy_stream(struct sg_ctx *ctx)
{
    return sg_stream_new(ctx, SG_STREAM_LEGACY_KIND, CU_STREAM_DEFAULT, 0,
                         &ctx->legacy);
}

static void
unload_modules(struct sg_ctx *ctx)
{
    while (ctx->modules)
        sg_module_unload(ctx->modules);
}

/* A copy of another context may use this one's memory. */
static void
pass_barrier(struct sg_ctx *ctx)
{
    sg_work_wait(ctx->barrier);
    sg_work_unref(ctx->barrier);
    ctx->barrier = NULL;
}

static void
destroy_events(struct sg_ctx *ctx)
{
    while (ctx->events)
        sg_event_destroy(ctx->events);
}

static void
destroy_streams(struct sg_ctx *ctx)
{
    while (ctx->streams)
        sg_stream_destroy(ctx->streams);
    ctx->legacy = NULL;
}

static void
lose_green_handles(struct sg_ctx *ctx)
{
    if (ctx->primary)
        sg_green_ctx_gone(ctx->handle);
}

/* What a context consists of, in the order in which it is made and taken apart. */
static const struct sg_ctx_part parts[] = {
    {.lose_handle = lose_green_handles},
    {.begin = sg_output_begin, .flush = sg_output_flush},
    {.cancel = sg_sm_cancel},
    {.end = pass_barrier},
    {.end = unload_modules},
    {.end = destroy_events},
    {.begin = make_legacy_stream, .end = destroy_streams},
    {.end = sg_texobj_detach_ctx},
    {.end = sg_array_detach_ctx},
    {.begin = sg_mem_attach_ctx, .end = sg_mem_detach_ctx},
    {.end = sg_output_end},
};

static int
make_multiprocessors(struct gp_err *err)
{
    unsigned n_threads = 1; /* and one for a stream */
    int r = 0;

    for (unsigned i = 0; i < sg_dev_count() && r == 0; i++) {
        r = sg_sm_new(sg_dev_get((CUdevice)i), &sg_dev_get((CUdevice)i)->sm);
        n_threads += sg_dev_get((CUdevice)i)->sms;
    }
    sg_thread_keep_room(gp_min(n_threads, (unsigned)ROOM_THREADS_MAX));
    if (r == 0)
        r = sg_mem_init();
    if (r < 0)
        gp_err_set(err, r, "multiprocessors and device addresses: %s", strerror(-r));
    return r;
}

static int
driver_init(void)
{
    struct gp_err err = {0};
    struct sg_conf conf;
    int r;

    gp_log_init("softgpu", GP_LOG_ERROR);
    r = sg_conf_read(&conf, &err);
    if (r == 0)
        r = sg_check_init(&conf, sg_mem_report_leaks, &err);
    if (r == 0)
        r = sg_dev_init(&conf, &err);
    if (r == 0) {
        r = make_multiprocessors(&err);
        if (r < 0)
            sg_dev_fini();
    }
    if (r < 0)
        gp_log_error("softgpu", "cuInit: %s", gp_err_msg(&err, r));
    sg_ctx_set_parts(parts, ARRAY_SIZE(parts));
    sg_capture_set_graphs(&sg_graph_capture);
    sg_module_on_unload(sg_texref_detach_module);
    sg_output_on_condition(sg_cond_hook);
    sg_launch_device_init();
    sg_mem_on_leak(sg_output_tell);
    return r;
}

static CUresult
init(void)
{
    int r = driver_init();

    return r == -ENODEV ? CUDA_ERROR_NO_DEVICE
           : r < 0      ? CUDA_ERROR_OPERATING_SYSTEM
                        : CUDA_SUCCESS;
}

SG_CALL(cuInit, unsigned int Flags)
{
    return Flags ? CUDA_ERROR_INVALID_VALUE : sg_core_init(init);
}

SG_CALL(cuDriverGetVersion, int *driverVersion)
{
    if (!driverVersion)
        return CUDA_ERROR_INVALID_VALUE;
    *driverVersion = sg_conf_cuda_version();
    return CUDA_SUCCESS;
}
