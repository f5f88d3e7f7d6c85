/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The webhook's answers to AdmissionReviews as an API server of 1.34 sends them:
 * tests/data/kube/NAME.in.json and what must come of it, NAME.out.json, with the patch
 * decoded.  KUBE_GOLDEN=write writes the answers anew, for reading.
 */
#include "ut.h"

#include "gp_err.h"
#include "gp_file.h"
#include "gp_str.h"
#include "kube_inject.h"
#include "kube_object.h"
#include "kube_review.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define FOLDER "tests/data/kube/"

static int
find_class(void *arg, const char *name, json_t **ret, struct gp_err *err)
{
    if (name && strcmp(name, "remote") != 0)
        return gp_err_set(err, -ENOENT, "no such class");
    *ret = json_pack("{s:{s:s}, s:s}", "metadata", "name", "remote", "provisioner",
                     "elasticgpu.io/remote");
    return 0;
}

static int
namespace_class(void *arg, const char *ns, char ret[254], struct gp_err *err)
{
    gp_str_copy(ret, 254, "remote");
    return 0;
}

/* "ours" and "half" are of the pool, "others" are of another driver. */
static int
find_device_claim(void *arg, const char *ns, const json_t *entry, json_t *notes,
                  bool *ret_ours, struct gp_err *err)
{
    const char *name = kube_str(entry, "resourceClaimName");

    if (!*name)
        name = kube_str(entry, "resourceClaimTemplateName");
    if (strcmp(name, "nobody") == 0)
        return gp_err_set(err, -EINVAL, "there is no ResourceClaim nobody");
    *ret_ours = strcmp(name, "others") != 0;
    return 0;
}

static const struct kube_inject INJECT = {
    .scheduler = "pool:7480",
    .scheduler_key = "the key of the scheduler",
    .image = "gpupool-kube-client:test",
    .pull_policy = "IfNotPresent",
    .audience = "egpu",
    .find_class = find_class,
    .find_device_claim = find_device_claim,
};

static json_t *
decoded(json_t *answer)
{
    json_t *response = json_object_get(answer, "response");
    const char *base64 = kube_str(response, "patch");
    size_t len = strlen(base64);
    CLEANUP_FREE unsigned char *text = calloc(1, len + 4);

    if (!len)
        return answer;
    assert_true(EVP_DecodeBlock(text, (const unsigned char *)base64, (int)len) > 0);
    json_object_set_new(response, "patch", json_loads((char *)text, 0, NULL));
    assert_non_null(json_object_get(response, "patch"));
    return answer;
}

static void
golden(const char *name)
{
    CLEANUP_FREE char *in_path = gp_str_printf(FOLDER "%s.in.json", name);
    CLEANUP_FREE char *out_path = gp_str_printf(FOLDER "%s.out.json", name);
    CLEANUP_FREE char *body = NULL, *answer = NULL, *seen = NULL;
    CLEANUP_JSON json_t *got = NULL, *want = NULL;
    size_t len;

    assert_int_equal(gp_file_read(in_path, 1 << 20, &body, &len, NULL), 0);
    assert_int_equal(kube_review(&INJECT, namespace_class, body, len, &answer), 200);
    got = decoded(json_loads(answer, 0, NULL));
    if (getenv("KUBE_GOLDEN"))
        assert_int_equal(json_dump_file(got, out_path, JSON_INDENT(1) | JSON_SORT_KEYS),
                         0);
    want = json_load_file(out_path, 0, NULL);
    seen = json_dumps(got, JSON_INDENT(1) | JSON_SORT_KEYS);
    if (!json_equal(got, want))
        fail_msg("%s: %s", name, seen);
}

static void
a_claim_by_annotation(void **state)
{
    golden("claim");
}

static void
qgpu_with_pins_and_a_generated_name(void **state)
{
    golden("qgpu");
}

static void
all_containers_on_one_session(void **state)
{
    golden("shared");
}

static void
a_wrong_range_is_refused_in_words(void **state)
{
    golden("range");
}

static void
annotations_that_disagree_are_refused(void **state)
{
    golden("disagree");
}

static void
a_pod_without_asks_is_allowed_unchanged(void **state)
{
    golden("plain");
}

static void
a_resource_claim_of_a_template_and_one_of_another_driver(void **state)
{
    golden("dra-template");
}

static void
two_containers_of_one_resource_claim(void **state)
{
    golden("dra-named");
}

static void
a_resource_claim_and_a_resource_name_are_refused(void **state)
{
    golden("dra-both");
}

static void
two_resource_claims_of_one_container_are_refused(void **state)
{
    golden("dra-two");
}

static void
a_resource_claim_that_is_not_there_is_refused(void **state)
{
    golden("dra-missing");
}

static void
a_resource_claim_of_another_driver_is_left_alone(void **state)
{
    golden("dra-others");
}

/* The API server asks again when a webhook after this one has changed the pod
 * (reinvocationPolicy: IfNeeded). */
static void
a_pod_that_was_changed_already_is_left_as_it_is(void **state)
{
    static const char *const NAMES[] = {"claim", "qgpu", "shared", "dra-template",
                                        "dra-named"};
    static const char *const PATHS[] = {NULL, "/usr/local/lib", "image"};

    for (size_t i = 0; i < ARRAY_SIZE(NAMES) * ARRAY_SIZE(PATHS); i++) {
        const char *libs = PATHS[i % ARRAY_SIZE(PATHS)];
        const char *name = NAMES[i / ARRAY_SIZE(PATHS)];
        CLEANUP_FREE char *path = gp_str_printf(FOLDER "%s.in.json", name),
                          *seen = NULL;
        CLEANUP_JSON json_t *review = json_load_file(path, 0, NULL), *once = NULL;
        json_t *pod = kube_at(review, "request.object");

        if (!kube_at(pod, "metadata.annotations"))
            json_object_set_new(kube_at(pod, "metadata"), "annotations", json_object());
        if (libs)
            json_object_set_new(kube_at(pod, "metadata.annotations"),
                                "elasticgpu.io/library-path", json_string(libs));
        assert_int_equal(kube_inject_pod(&INJECT, "team", "remote", "first", pod, NULL),
                         1);
        once = json_deep_copy(pod);
        assert_true(kube_inject_pod(&INJECT, "team", "remote", "second", pod, NULL) >=
                    0);
        seen = json_dumps(pod, JSON_INDENT(1) | JSON_SORT_KEYS);
        if (!json_equal(pod, once))
            fail_msg("%s, %s: %s", name, libs ? libs : "no path", seen);
    }
}

/* A pod of @n containers and one init container, of which the last one names a claim.
 */
static json_t *
large_pod(size_t n)
{
    json_t *containers = json_array(), *pod;
    char last[64];

    for (size_t i = 0; i < n; i++)
        json_array_append_new(containers,
                              json_pack("{s:o}", "name", json_sprintf("c%zu", i)));
    snprintf(last, sizeof(last), "elasticgpu.io/egpuc-c%zu", n - 1);
    pod = json_pack("{s:{s:s, s:{s:s}}, s:{s:o, s:[{s:s}]}}", "metadata", "name", "p",
                    "annotations", last, "claim", "spec", "containers", containers,
                    "initContainers", "name", "i");
    assert_non_null(pod);
    return pod;
}

static void
a_pod_with_too_many_containers_is_refused_in_words(void **state)
{
    CLEANUP_JSON json_t *most = large_pod(KUBE_CONTAINERS_MAX - 1);
    CLEANUP_JSON json_t *more = large_pod(KUBE_CONTAINERS_MAX);
    struct gp_err err = {0};

    assert_int_equal(kube_inject_pod(&INJECT, "team", "", "uid", most, &err), 1);
    assert_int_equal(kube_inject_pod(&INJECT, "team", "", "uid", more, &err), -EINVAL);
    assert_string_equal(err.msg, "the pod has more than 256 containers, which is the "
                                 "limit for pods with remote cards");
}

static void
an_unknown_word_for_the_session_is_refused(void **state)
{
    CLEANUP_JSON json_t *pod = large_pod(1);
    json_t *notes = json_object_get(json_object_get(pod, "metadata"), "annotations");
    struct gp_err err = {0};

    json_object_set_new(notes, "elasticgpu.io/session", json_string("pods"));
    assert_int_equal(kube_inject_pod(&INJECT, "team", "", "uid", pod, &err), -EINVAL);
    assert_string_equal(
        err.msg, "the annotation elasticgpu.io/session: \"pods\" is not possible; "
                 "it is pod, or left out for a session of each container");
}

static int
count_look_ups(void *arg, const char *ns, const json_t *entry, json_t *notes,
               bool *ret_ours, struct gp_err *err)
{
    assert_int_equal(json_object_size(notes), *(int *)arg);
    json_object_set_new(notes, kube_str(entry, "name"), json_true());
    ++*(int *)arg;
    *ret_ours = false;
    return 0;
}

static void
an_entry_is_looked_up_once_for_all_containers_and_pods_share_no_notes(void **state)
{
    struct kube_inject inject = INJECT;
    int n;

    inject.find_device_claim = count_look_ups;
    inject.arg = &n;
    for (int i = 0; i < 2; i++) {
        CLEANUP_JSON json_t *pod = json_pack(
            "{s:{s:s}, s:{s:[{s:s, s:s}, {s:s, s:s}], s:[]}}", "metadata", "name", "p",
            "spec", "resourceClaims", "name", "a", "resourceClaimName", "x", "name",
            "b", "resourceClaimName", "y", "containers");

        for (int k = 0; k < 20; k++)
            json_array_append_new(kube_at(pod, "spec.containers"),
                                  json_pack("{s:o, s:{s:[{s:s}, {s:s}]}}", "name",
                                            json_sprintf("c%d", k), "resources",
                                            "claims", "name", "a", "name", "b"));
        n = 0;
        assert_int_equal(kube_inject_pod(&inject, "team", "", "uid", pod, NULL), 0);
        assert_int_equal(n, 2);
    }
}

static void
what_is_no_review_is_an_error(void **state)
{
    CLEANUP_FREE char *answer = NULL;

    assert_int_equal(kube_review(&INJECT, namespace_class, "{}", 2, &answer), 400);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claim_by_annotation),
        cmocka_unit_test(qgpu_with_pins_and_a_generated_name),
        cmocka_unit_test(all_containers_on_one_session),
        cmocka_unit_test(a_wrong_range_is_refused_in_words),
        cmocka_unit_test(annotations_that_disagree_are_refused),
        cmocka_unit_test(a_pod_without_asks_is_allowed_unchanged),
        cmocka_unit_test(a_resource_claim_of_a_template_and_one_of_another_driver),
        cmocka_unit_test(two_containers_of_one_resource_claim),
        cmocka_unit_test(a_resource_claim_and_a_resource_name_are_refused),
        cmocka_unit_test(two_resource_claims_of_one_container_are_refused),
        cmocka_unit_test(a_resource_claim_that_is_not_there_is_refused),
        cmocka_unit_test(a_resource_claim_of_another_driver_is_left_alone),
        cmocka_unit_test(a_pod_that_was_changed_already_is_left_as_it_is),
        cmocka_unit_test(a_pod_with_too_many_containers_is_refused_in_words),
        cmocka_unit_test(an_unknown_word_for_the_session_is_refused),
        cmocka_unit_test(
            an_entry_is_looked_up_once_for_all_containers_and_pods_share_no_notes),
        cmocka_unit_test(what_is_no_review_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
