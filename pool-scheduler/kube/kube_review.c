/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_review.h"

#include "gp_err.h"
#include "gp_log.h"
#include "kube_cert.h"
#include "kube_object.h"

#include <errno.h>
#include <string.h>

static json_t *
envelope(const json_t *review, json_t *response)
{
    json_object_set_new(response, "uid", json_string(kube_str(review, "request.uid")));
    return json_pack("{s:s, s:s, s:o}", "apiVersion", kube_str(review, "apiVersion"),
                     "kind", "AdmissionReview", "response", response);
}

static json_t *
allowed(void)
{
    return json_pack("{s:b}", "allowed", 1);
}

static json_t *
refused(int code, const char *words)
{
    return json_pack("{s:b, s:{s:s, s:s, s:i}}", "allowed", 0, "status", "message",
                     words, "reason", code == 422 ? "Invalid" : "InternalError", "code",
                     code);
}

/* The parts that differ, each whole: short to read, and right whatever the order of
 * other webhooks was. */
static json_t *
patch_of(const json_t *before, const json_t *after)
{
    static const char *const PARTS[][2] = {
        {"metadata", "labels"}, {"metadata", "annotations"}, {"spec", NULL}};
    json_t *patch = json_array();

    for (size_t i = 0; i < ARRAY_SIZE(PARTS); i++) {
        const char *a = PARTS[i][0], *b = PARTS[i][1];
        json_t *was = json_object_get(before, a), *is = json_object_get(after, a);

        if (b) {
            was = json_object_get(was, b);
            is = json_object_get(is, b);
        }
        if (!is || (was && json_equal(was, is)))
            continue;
        json_array_append_new(
            patch, json_pack("{s:s, s:o, s:O}", "op", "add", "path",
                             json_sprintf("/%s%s%s", a, b ? "/" : "", b ? b : ""),
                             "value", is));
    }
    return patch;
}

static json_t *
patched(const json_t *before, const json_t *after)
{
    CLEANUP_JSON json_t *patch = patch_of(before, after);
    CLEANUP_FREE char *text = patch ? json_dumps(patch, JSON_COMPACT) : NULL;
    CLEANUP_FREE char *base64 = text ? kube_base64(text, strlen(text)) : NULL;

    if (!base64)
        return NULL;
    return json_pack("{s:b, s:s, s:s}", "allowed", 1, "patchType", "JSONPatch", "patch",
                     base64);
}

static json_t *
decide(const struct kube_inject *inject,
       int (*class_of)(void *arg, const char *ns, char ret[254], struct gp_err *err),
       const json_t *review)
{
    const char *ns = kube_str(review, "request.namespace");
    const json_t *pod = kube_at(review, "request.object");
    CLEANUP_JSON json_t *changed = json_deep_copy(pod);
    struct gp_err err = {0};
    char class[254] = "";
    json_t *answer;
    int r = 0;

    if (strcmp(kube_str(review, "request.kind.kind"), "Pod") != 0 || !changed)
        return allowed();
    r = class_of(inject->arg, ns, class, &err);
    if (!r)
        r = kube_inject_pod(inject, ns, class, kube_str(review, "request.uid"), changed,
                            &err);
    if (!r)
        return allowed();
    if (r < 0) {
        gp_log_info("webhook", "pod %s/%s%s refused: %s", ns, kube_name(pod),
                    kube_str(pod, "metadata.generateName"), gp_err_msg(&err, r));
        return refused(r == -EINVAL ? 422 : 500, gp_err_msg(&err, r));
    }
    gp_log_info("webhook", "pod %s/%s%s gets a remote GPU", ns, kube_name(pod),
                kube_str(pod, "metadata.generateName"));
    answer = patched(pod, changed);
    return answer ? answer : refused(500, "out of memory");
}

unsigned
kube_review(const struct kube_inject *inject,
            int (*class_of)(void *arg, const char *ns, char ret[254],
                            struct gp_err *err),
            const char *body, size_t len, char **ret_body)
{
    CLEANUP_JSON json_t *review = json_loadb(body, len, 0, NULL), *answer = NULL;

    if (!review || strcmp(kube_str(review, "kind"), "AdmissionReview") != 0 ||
        !*kube_str(review, "request.uid")) {
        *ret_body = strdup("{\"message\":\"this is no AdmissionReview\"}");
        return 400;
    }
    answer = envelope(review, decide(inject, class_of, review));
    *ret_body = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
    return *ret_body ? 200 : 500;
}
