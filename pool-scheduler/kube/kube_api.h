/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs of the API server on one object, as JSON, and its refusals as -errno.
 *
 * Calls wait (kube_http.h has the limit) and are made once: a caller that gets -EAGAIN
 * comes back later, from its queue.  No state of its own; thread of the kube_http.
 *
 *   -ENOENT 404   -EEXIST 409 (the name is taken)   -ESTALE 409, 410 (read it again)
 *   -EINVAL 400, 422   -EACCES 401   -EPERM 403   -EAGAIN 429, 5xx
 *   -EHOSTUNREACH the server did not answer   -EPROTO its answer is no JSON
 */
#ifndef KUBE_API_H
#define KUBE_API_H

#include "gp_base.h"

#include <jansson.h>

struct gp_err;
struct kube_http;

struct kube_resource {
    const char *api; /* "/api/v1", "/apis/elasticgpu.io/v1alpha1" */
    const char *plural;
    const char *kind;
    bool namespaced;
};

extern const struct kube_resource KUBE_PODS, KUBE_NODES, KUBE_NAMESPACES, KUBE_EVENTS,
    KUBE_SECRETS, KUBE_QUOTAS, KUBE_LEASES, KUBE_CLAIMS, KUBE_CLASSES, KUBE_GPUS,
    KUBE_TOKEN_REVIEWS, KUBE_WEBHOOKS, KUBE_SLICES, KUBE_DEVICE_CLAIMS,
    KUBE_DEVICE_TEMPLATES, KUBE_DEVICE_CLASSES, KUBE_LEGACY_GPUS;

/* "apiVersion" of objects of @res. */
const char *kube_resource_version(const struct kube_resource *res);
/* The path of a collection (@name NULL), object or sub-resource (@sub may be NULL).
 * malloc'ed; NULL on lack of memory.  Names are escaped. */
char *kube_path(const struct kube_resource *res, const char *ns, const char *name,
                const char *sub);

/* What an answer means: 0, or -errno as above with the server's own words. */
int kube_api_error(long status, const char *body, struct gp_err *err);

/* Each answers with the object, which is the caller's; @ret_object may be NULL. */
int kube_api_get(struct kube_http *http, const struct kube_resource *res,
                 const char *ns, const char *name, json_t **ret_object,
                 struct gp_err *err);
int kube_api_create(struct kube_http *http, const struct kube_resource *res,
                    const char *ns, const json_t *object, json_t **ret_object,
                    struct gp_err *err);
/* As kube_api_create(), of an object without namespace, but nothing is kept. */
int kube_api_try_create(struct kube_http *http, const struct kube_resource *res,
                        const json_t *object, json_t **ret_object, struct gp_err *err);
/* For sub-resources that are made: @sub "binding". */
int kube_api_create_sub(struct kube_http *http, const struct kube_resource *res,
                        const char *ns, const char *name, const char *sub,
                        const json_t *object, json_t **ret_object, struct gp_err *err);
int kube_api_update(struct kube_http *http, const struct kube_resource *res,
                    const char *ns, const char *name, const char *sub,
                    const json_t *object, json_t **ret_object, struct gp_err *err);
/* A merge patch; with metadata.resourceVersion in it, -ESTALE when that is old. */
int kube_api_patch(struct kube_http *http, const struct kube_resource *res,
                   const char *ns, const char *name, const char *sub,
                   const json_t *patch, json_t **ret_object, struct gp_err *err);
/* A merge patch of one object, as an order. */
struct kube_patch {
    const struct kube_resource *res;
    const char *ns, *name, *sub;
    const json_t *patch;
};
/* Two at the same time, of objects that have nothing to do with each other.  0: both
 * were made; else the first one's errno.  @answers are the caller's, NULL where
 * refused. */
int kube_api_patch_both(struct kube_http *http, const struct kube_patch patches[2],
                        json_t *answers[2], struct gp_err *err);
/* Only the object of that @uid (NULL: any). */
int kube_api_delete(struct kube_http *http, const struct kube_resource *res,
                    const char *ns, const char *name, const char *uid,
                    struct gp_err *err);

#endif
