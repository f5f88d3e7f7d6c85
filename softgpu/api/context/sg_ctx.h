/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context: the owner of streams, modules and memory on one device, and the
 * place where the first asynchronous error sticks.
 *
 * Lives from its creation until it is destroyed *and* the last operation,
 * event or waiter lets go of it (refs).  After destruction `dead` is set, its
 * handle names nothing, and every owned object's handle is gone as well.  Lock
 * held for all functions; sg_ctx_destroy() drops it while it waits.
 */
#ifndef SG_CTX_H
#define SG_CTX_H

#include "sg_sm_set.h"

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct sg_alloc;
struct sg_dev;
struct sg_event;
struct sg_memview;
struct sg_module;
struct sg_output;
struct sg_stream;
struct sg_work;

struct sg_ctx {
    uint64_t handle;
    unsigned refs;
    unsigned attached; /* by cuCtxAttach, beside its maker */
    struct sg_dev *dev;
    struct sg_ctx *next, **at; /* all live contexts */
    bool primary, dead;
    unsigned flags, api_version;
    uint64_t id;
    CUresult error;  /* sticky */
    unsigned n_work; /* submitted and not done */
    struct sg_memview *view;
    struct sg_stream *legacy; /* also in the list */
    struct sg_stream *streams;
    struct sg_work *barrier; /* reference; NULL, or all later work comes behind it */
    struct sg_event *events;
    struct sg_module *modules;
    struct sg_ctx **peers; /* whose memory kernels of this one may touch */
    unsigned n_peers;
    size_t limits[16];
    CUfunc_cache cache_config;
    struct sg_output *output; /* device printf, assert and heap */
    struct sg_sm_set sms;     /* of the card: all of them */
};

CUresult sg_ctx_new(struct sg_dev *dev, unsigned flags, bool primary,
                    struct sg_ctx **ret_ctx);
void sg_ctx_destroy(struct sg_ctx *ctx);
/* A number that no context has had (cuCtxGetId). */
uint64_t sg_ctx_new_id(void);
struct sg_ctx *sg_ctx_ref(struct sg_ctx *ctx); /* NULL passes through */
void sg_ctx_unref(struct sg_ctx *ctx);         /* NULL is a no-op */

/* First error wins; running kernels of the context are told to end.  After the error of
 * a kernel that CUDA says leaves the process in an inconsistent state every context of
 * the process has it, and no other can be made. */
void sg_ctx_fail(struct sg_ctx *ctx, CUresult error);
CUresult sg_ctx_process_error(void); /* CUDA_SUCCESS: none */

/* The calling thread's stack of current contexts. */
CUresult sg_ctx_current(struct sg_ctx **ret_ctx);
uint64_t sg_ctx_current_handle(void);
/* Into a call (sg_core.h) with the current context: one without a sticky error, or any.
 */
CUresult sg_enter(struct sg_ctx **ret_ctx);
CUresult sg_enter_broken(struct sg_ctx **ret_ctx);
int sg_ctx_push(uint64_t handle);
int sg_ctx_set_current(uint64_t handle); /* 0: none */

/* What a context consists of, for the layers above: each function may be NULL.  They
 * are called in the order of the list (sg_init.c). */
struct sg_ctx_part {
    CUresult (*begin)(struct sg_ctx *ctx);   /* the context is being made */
    void (*lose_handle)(struct sg_ctx *ctx); /* it is about to have no name any more */
    void (*flush)(struct sg_ctx *ctx);       /* before and after its work has ended */
    void (*cancel)(struct sg_ctx *ctx);      /* what runs is to end soon */
    void (*end)(struct sg_ctx *ctx);         /* nothing runs: free what it owns */
};
void sg_ctx_set_parts(const struct sg_ctx_part *list, size_t n);

/* All live contexts of the process. */
extern struct sg_ctx *sg_ctx_list;

/* Primary contexts (sg_primary.c). */
CUresult sg_primary_retain(struct sg_dev *dev, struct sg_ctx **ret_ctx);

#endif
