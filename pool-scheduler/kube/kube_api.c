/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_api.h"

#include "gp_err.h"
#include "gp_str.h"
#include "kube_http.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CORE "/api/v1"
#define OURS "/apis/elasticgpu.io/v1alpha1"

const struct kube_resource KUBE_PODS = {CORE, "pods", "Pod", true};
const struct kube_resource KUBE_NODES = {CORE, "nodes", "Node", false};
const struct kube_resource KUBE_NAMESPACES = {CORE, "namespaces", "Namespace", false};
const struct kube_resource KUBE_EVENTS = {CORE, "events", "Event", true};
const struct kube_resource KUBE_SECRETS = {CORE, "secrets", "Secret", true};
const struct kube_resource KUBE_QUOTAS = {CORE, "resourcequotas", "ResourceQuota",
                                          true};
const struct kube_resource KUBE_LEASES = {"/apis/coordination.k8s.io/v1", "leases",
                                          "Lease", true};
const struct kube_resource KUBE_CLAIMS = {OURS, "elasticgpuclaims", "ElasticGPUClaim",
                                          true};
const struct kube_resource KUBE_CLASSES = {OURS, "elasticgpuclasses", "ElasticGPUClass",
                                           false};
const struct kube_resource KUBE_GPUS = {OURS, "elasticgpus", "ElasticGPU", false};
const struct kube_resource KUBE_TOKEN_REVIEWS = {"/apis/authentication.k8s.io/v1",
                                                 "tokenreviews", "TokenReview", false};
const struct kube_resource KUBE_WEBHOOKS = {"/apis/admissionregistration.k8s.io/v1",
                                            "mutatingwebhookconfigurations",
                                            "MutatingWebhookConfiguration", false};
const struct kube_resource KUBE_SLICES = {"/apis/resource.k8s.io/v1", "resourceslices",
                                          "ResourceSlice", false};
const struct kube_resource KUBE_DEVICE_CLAIMS = {
    "/apis/resource.k8s.io/v1", "resourceclaims", "ResourceClaim", true};
const struct kube_resource KUBE_DEVICE_TEMPLATES = {"/apis/resource.k8s.io/v1",
                                                    "resourceclaimtemplates",
                                                    "ResourceClaimTemplate", true};
const struct kube_resource KUBE_DEVICE_CLASSES = {
    "/apis/resource.k8s.io/v1", "deviceclasses", "DeviceClass", false};
const struct kube_resource KUBE_LEGACY_GPUS = {OURS, "gpus", "GPU", false};

const char *
kube_resource_version(const struct kube_resource *res)
{
    return strncmp(res->api, "/apis/", 6) == 0 ? res->api + 6 : "v1";
}

/* Names come from objects that anybody may have made; a path must not follow them
 * elsewhere. */
static void
put_escaped(FILE *f, const char *name)
{
    for (; *name; name++)
        if (isalnum((unsigned char)*name) || strchr("-_~", *name) ||
            (*name == '.' && name[1] != '.'))
            fputc(*name, f);
        else
            fprintf(f, "%%%02X", (unsigned char)*name);
}

char *
kube_path(const struct kube_resource *res, const char *ns, const char *name,
          const char *sub)
{
    char *path = NULL;
    size_t size;
    FILE *f = open_memstream(&path, &size);

    if (!f)
        return NULL;
    fputs(res->api, f);
    if (res->namespaced && ns) {
        fputs("/namespaces/", f);
        put_escaped(f, ns);
    }
    fprintf(f, "/%s", res->plural);
    if (name) {
        fputc('/', f);
        put_escaped(f, name);
    }
    if (sub)
        fprintf(f, "/%s", sub);
    if (fclose(f) != 0) {
        free(path);
        return NULL;
    }
    return path;
}

static int
errno_of(long status, const char *reason)
{
    switch (status) {
    case 400:
    case 422:
        return -EINVAL;
    case 401:
        return -EACCES;
    case 403:
        return -EPERM;
    case 404:
        return -ENOENT;
    case 409:
        return strcmp(reason, "AlreadyExists") == 0 ? -EEXIST : -ESTALE;
    case 410:
        return -ESTALE;
    default:
        return status == 429 || status >= 500 ? -EAGAIN : -EPROTO;
    }
}

int
kube_api_error(long status, const char *body, struct gp_err *err)
{
    json_t *object;
    const char *reason = "", *words = "";
    int r;

    if (status >= 200 && status < 300)
        return 0;
    object = json_loads(body, 0, NULL);
    json_unpack(object, "{s?s, s?s}", "reason", &reason, "message", &words);
    r = gp_err_set(err, errno_of(status, reason), "%s (HTTP %ld)",
                   *words  ? words
                   : *body ? body
                           : "no words",
                   status);
    json_decref(object);
    return r;
}

static json_t *
read_object(const struct kube_reply *reply)
{
    json_t *object = json_loads(reply->body, 0, NULL);

    json_object_del(json_object_get(object, "metadata"), "managedFields");
    return object;
}

static int
call(struct kube_http *http, const char *method, char *path, const char *type,
     const json_t *object, json_t **ret_object, struct gp_err *err)
{
    CLEANUP_FREE char *owned = path;
    CLEANUP_FREE char *body = object ? json_dumps(object, JSON_COMPACT) : NULL;
    CLEANUP(kube_reply_fini) struct kube_reply reply = {0};
    struct kube_request req = {method, owned, type, body};
    json_t *answer;
    int r;

    if (!owned || (object && !body))
        return -ENOMEM;
    r = kube_http_call(http, &req, &reply, err);
    if (!r)
        r = kube_api_error(reply.status, reply.body, err);
    if (r < 0)
        return gp_err_wrap(err, r, "%s %s", method, owned);
    if (!ret_object)
        return 0;
    answer = read_object(&reply);
    if (!answer)
        return gp_err_set(err, -EPROTO, "%s %s: the answer is no JSON", method, owned);
    *ret_object = answer;
    return 0;
}

int
kube_api_get(struct kube_http *http, const struct kube_resource *res, const char *ns,
             const char *name, json_t **ret_object, struct gp_err *err)
{
    return call(http, "GET", kube_path(res, ns, name, NULL), NULL, NULL, ret_object,
                err);
}

int
kube_api_create(struct kube_http *http, const struct kube_resource *res, const char *ns,
                const json_t *object, json_t **ret_object, struct gp_err *err)
{
    return call(http, "POST", kube_path(res, ns, NULL, NULL), NULL, object, ret_object,
                err);
}

int
kube_api_try_create(struct kube_http *http, const struct kube_resource *res,
                    const json_t *object, json_t **ret_object, struct gp_err *err)
{
    return call(http, "POST", gp_str_printf("%s/%s?dryRun=All", res->api, res->plural),
                NULL, object, ret_object, err);
}

int
kube_api_create_sub(struct kube_http *http, const struct kube_resource *res,
                    const char *ns, const char *name, const char *sub,
                    const json_t *object, json_t **ret_object, struct gp_err *err)
{
    return call(http, "POST", kube_path(res, ns, name, sub), NULL, object, ret_object,
                err);
}

int
kube_api_update(struct kube_http *http, const struct kube_resource *res, const char *ns,
                const char *name, const char *sub, const json_t *object,
                json_t **ret_object, struct gp_err *err)
{
    return call(http, "PUT", kube_path(res, ns, name, sub), NULL, object, ret_object,
                err);
}

int
kube_api_patch(struct kube_http *http, const struct kube_resource *res, const char *ns,
               const char *name, const char *sub, const json_t *patch,
               json_t **ret_object, struct gp_err *err)
{
    return call(http, "PATCH", kube_path(res, ns, name, sub),
                "application/merge-patch+json", patch, ret_object, err);
}

int
kube_api_patch_both(struct kube_http *http, const struct kube_patch patches[2],
                    json_t *answers[2], struct gp_err *err)
{
    struct kube_request reqs[2] = {0};
    struct kube_reply replies[2] = {0};
    struct gp_err errs[2] = {0};
    char *paths[2], *bodies[2];
    int results[2] = {-ENOMEM, -ENOMEM};

    for (int i = 0; i < 2; i++) {
        const struct kube_patch *p = &patches[i];

        answers[i] = NULL;
        paths[i] = kube_path(p->res, p->ns, p->name, p->sub);
        bodies[i] = json_dumps(p->patch, JSON_COMPACT);
        reqs[i] = (struct kube_request){"PATCH", paths[i],
                                        "application/merge-patch+json", bodies[i]};
    }
    if (paths[0] && paths[1] && bodies[0] && bodies[1])
        kube_http_call_both(http, reqs, replies, results, errs);
    for (int i = 0; i < 2; i++) {
        if (!results[i])
            results[i] = kube_api_error(replies[i].status, replies[i].body, &errs[i]);
        if (!results[i] && !(answers[i] = read_object(&replies[i])))
            results[i] = gp_err_set(&errs[i], -EPROTO, "the answer is no JSON");
        if (results[i] < 0)
            results[i] = gp_err_set(err, results[i], "PATCH %s: %s",
                                    paths[i] ? paths[i] : "", errs[i].msg);
        kube_reply_fini(&replies[i]);
        free(paths[i]);
        free(bodies[i]);
    }
    return results[0] < 0 ? results[0] : results[1];
}

int
kube_api_delete(struct kube_http *http, const struct kube_resource *res, const char *ns,
                const char *name, const char *uid, struct gp_err *err)
{
    json_t *options = uid ? json_pack("{s:{s:s}}", "preconditions", "uid", uid) : NULL;
    int r =
        call(http, "DELETE", kube_path(res, ns, name, NULL), NULL, options, NULL, err);

    json_decref(options);
    return r;
}
