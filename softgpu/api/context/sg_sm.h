/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The multiprocessors of one device, as this process has them: threads that run
 * the thread blocks of ready launches, each only while it holds a token of the
 * card (sg_card.h).
 *
 * Owned by its device.  Lock held for all functions.
 */
#ifndef SG_SM_H
#define SG_SM_H

#include "sg_sm_set.h"
#include "sg_work.h"

#include "sg_exec.h"

#include "gp_base.h"

#include <stdint.h>

struct sg_ctx;
struct sg_dev;
struct sg_func;
struct sg_launches;
struct sg_module;
struct sg_sm;

/* One launch.  Made by sg_launch.c; runs as a work item of SG_QUEUE_OTHER. */
struct sg_run {
    struct sg_work work; /* first */
    struct sg_launch launch;
    struct sg_hooks hooks;
    struct sg_dev *dev;
    void *params;
    uint64_t workspace;    /* device address, 0 if none */
    struct sg_sm_set sms;  /* where it runs */
    unsigned max_resident; /* blocks that one multiprocessor may hold */
    unsigned cluster; /* blocks of a cluster, which start and end together; 1: none */
    int cancel;
    bool late; /* ended by the card's time limit */
    uint64_t next_cta, n_active;
    uint64_t first_ns; /* when its first block began */
    /* Set while its kernels have launched others: after the last block of one, @launch
     * becomes the next.  Lock held; CUDA_ERROR_NOT_READY: it has. */
    CUresult (*then)(struct sg_run *run);
    void (*forget)(struct sg_run *run); /* what was not begun; with @then */
    struct sg_module *module;           /* of the kernels */
    struct sg_launches *pending; /* what they have launched (sg_launch_device.c) */
    struct sg_run *next;
};

int sg_sm_new(struct sg_dev *dev, struct sg_sm **ret_sm);
void sg_sm_submit(struct sg_work *work);
/* Ends all launches of @ctx at their next back edge. */
void sg_sm_cancel(struct sg_ctx *ctx);

#endif
