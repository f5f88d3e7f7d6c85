/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a container or a claim asks for, in every published spelling, as one value.
 *
 * Pure functions on JSON; no state, any thread.  Units (docs/kubernetes.md has the
 * table): qGPU memory counts GiB, Tencent's vCUDA 256 MiB, gpu-manager's vCUDA 1 MiB,
 * elasticgpu.io bytes with a suffix; core is percent of a card everywhere.
 */
#ifndef KUBE_ASK_H
#define KUBE_ASK_H

#include "gp_base.h"

#include <jansson.h>

struct gp_err;

struct kube_ask {
    uint32_t core;    /* percent of each card, 1..100, or N*100: N whole cards */
    uint64_t memory;  /* bytes of each card; 0: all of it */
    uint32_t cards;   /* how many of one size; 1 unless core is N*100 */
    const char *card; /* "GPU-...": this one and no other; NULL or "": any */
    const char *node; /* where its programs run; NULL or "": not known yet */
};

/* What an ElasticGPUClass says of its claims. */
struct kube_class {
    const char *name, *provisioner; /* into the object */
    bool retain;                    /* reclaimPolicy */
    bool wait;                      /* WaitForFirstConsumer */
    uint32_t core_min, core_step;   /* qGPU has 5 and 5; 1 and 1 by default */
    unsigned policy, placement, offline, spatial; /* numbers of control.proto */
};

#define KUBE_PROVISIONER "elasticgpu.io/remote"

/* A quantity as Kubernetes writes it, by its whole grammar: "4Gi", "4G", "1.5M", "1e3",
 * "1E", "100m".  Rounded up to whole units; as in Kubernetes, what is over
 * KUBE_QUANTITY_MAX counts as that.  -EINVAL with words that name the mistake; an
 * amount below zero is one. */
#define KUBE_QUANTITY_MAX ((uint64_t)INT64_MAX)
int kube_quantity(const json_t *value, uint64_t *ret, struct gp_err *err);

/* Read @resources ({"requests", "limits"}).  -ENODATA: nothing of ours is asked for;
 * -EINVAL with words.  @class may be NULL. */
int kube_ask_read(const json_t *resources, const struct kube_class *class,
                  struct kube_ask *ret, struct gp_err *err);
/* Take our resource names out of @resources. True when there were any. */
bool kube_ask_strip(json_t *resources);
/* @ask as a resource list of elasticgpu.io names. */
json_t *kube_ask_write(const struct kube_ask *ask);

/* -EINVAL: a parameter that we do not know, or a bad value. */
int kube_class_read(const json_t *object, struct kube_class *ret, struct gp_err *err);

/* The class that a claim names, in any of the three published keys; "" when none.
 * -EINVAL: two keys disagree. */
int kube_claim_class(const json_t *claim, const char **ret_name, struct gp_err *err);

#endif
