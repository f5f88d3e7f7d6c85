/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches: from the arguments of cuLaunchKernel and its kin to an operation.
 *
 * A request is checked and copied at the call; it then lives in an operation,
 * in a graph node, or both.  Lock held for all functions.
 */
#ifndef SG_LAUNCH_H
#define SG_LAUNCH_H

#include "sg_node.h"

#include "cuda_abi.h"
#include "gp_base.h"

#include <stdbool.h>
#include <stdint.h>

struct sg_ctx;
struct sg_dev;
struct sg_func;
struct sg_kernel;
struct sg_launch;
struct sg_run;
struct sg_sm_set;
struct sg_work;
struct sg_stream;

/* Blocks of @threads threads that one multiprocessor holds at a time; 0 when
 * not even one fits. */
int sg_occupancy(const struct sg_dev *dev, const struct sg_kernel *kernel,
                 unsigned threads, uint64_t dyn_shared);

/* The shape of the clusters that @req will have, 1, 1, 1 for none; checks it. */
CUresult sg_launch_cluster(const struct sg_dev *dev, const struct sg_func *func,
                           const struct sg_launch_req *req, unsigned ret[3]);
/* Blocks of the largest cluster that @func may be launched with. */
unsigned sg_launch_max_cluster(const struct sg_dev *dev, const struct sg_func *func);

/* A malloc'ed copy of the arguments, one of @params and @extra. */
CUresult sg_params_copy(const struct sg_kernel *kernel, void **params, void **extra,
                        void **ret_buf);

/* Checks everything that a launch can be refused for; may drop the lock. */
CUresult sg_launch_check(struct sg_ctx *ctx, const struct sg_launch_req *req,
                         unsigned n_sms, struct sg_func **ret_func);
/* The same for a kernel that is lowered, whoever launches it. */
CUresult sg_launch_check_func(const struct sg_func *func,
                              const struct sg_launch_req *req, unsigned n_sms);
/* What runs next in @run: a launch that has been checked, of @run->params. */
CUresult sg_launch_fill(struct sg_run *run, const struct sg_func *func,
                        const struct sg_launch_req *req);
/* What a launch by a kernel does: sg_hooks.launch. */
void sg_launch_on_device(uint32_t (*fn)(void *user, struct sg_launch *parent,
                                        uint64_t record));
/* False: the attribute names a memory synchronization domain that @dev has not. */
bool sg_launch_has_domain(const struct sg_dev *dev, int attr,
                          const CUlaunchAttributeValue *value);
/* Takes an attribute that is one of a node's hints.  False: it is none. */
bool sg_launch_hint(struct sg_kernel_hints *hints, int attr,
                    const CUlaunchAttributeValue *value, CUresult *ret);
/* An operation that runs it; copies @params (sg_params_copy's layout). */
CUresult sg_launch_work(struct sg_ctx *ctx, const struct sg_launch_req *req,
                        const void *params, const struct sg_sm_set *sms,
                        struct sg_work **ret_work);

#endif
