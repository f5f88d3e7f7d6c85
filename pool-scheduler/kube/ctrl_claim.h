/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a claim while it is looked at, and the steps on its way to a
 * session.
 *
 * ctrl_claim.c takes one claim through them, ctrl_together.c those of a pod.  A value
 * on the stack of whoever looks, from ctrl_work_init() to ctrl_work_fini(); event loop
 * thread.
 */
#ifndef CTRL_CLAIM_H
#define CTRL_CLAIM_H

#include "ctrl.h"

struct ctrl_work {
    struct ctrl *ctrl;
    const char *key; /* "default/train"; the caller's */
    json_t *claim;   /* NULL: there is none */
    struct kube_class class;
    struct kube_ask ask;
    json_t *consumers; /* ctrl_pod_consumers() */
    json_t *gpu; /* its ElasticGPU, when it is bound to that and the session is open */
    char name[254];    /* of its ElasticGPU */
    bool chosen;       /* by its user: an ElasticGPU that exists */
    bool in_place;     /* it waits in the scheduler's queue (ctrl_place.c) */
    char program[121]; /* of its session, for people */
};

/* The claim, its consumers and its names; the rest is empty. */
void ctrl_work_init(struct ctrl_work *work, struct ctrl *ctrl, const char *key);
void ctrl_work_fini(struct ctrl_work *work);

/* Its class.  0: ours; 1: somebody else's; -errno with words that the user can act on.
 */
int ctrl_work_find_class(struct ctrl_work *work, struct gp_err *err);
/* May it hold the ElasticGPU that it names?  -EBUSY, -ENOENT, -EINVAL with words. */
int ctrl_work_check_gpu(struct ctrl_work *work, struct gp_err *err);
/* Complete what is asked of the pool: the card, the node, the program. */
void ctrl_work_fill_ask(struct ctrl_work *work);
/* Finalizer and name are on it before anything is taken for it. */
int ctrl_work_hold(struct ctrl_work *work, struct gp_err *err);
/* Its status: not bound, and why. */
int ctrl_work_set_waiting(struct ctrl_work *work, const char *phase, const char *reason,
                          const char *message, struct gp_err *err);
/* Its session was refused with @r and the words of @err: its status says so.  -errno:
 * it is looked at again soon. */
int ctrl_work_refused(struct ctrl_work *work, int r, struct gp_err *err);

/* ctrl_together.c: the sessions of all claims that its pod waits for, if it is to have
 * them together.  0: it may have its session, if it has none yet; 1: it waits. */
int ctrl_work_open_with_pod(struct ctrl_work *work, struct gp_err *err);

#endif
