/* SPDX-License-Identifier: Apache-2.0 */
/* The webhook's certificate. */
#include "ut.h"

#include "gp_err.h"
#include "kube_cert.h"
#include "kube_object.h"

#include <string.h>

static const char *const NAMES[] = {"gpupool-webhook.gpupool.svc", "127.0.0.1", NULL};

static void
a_made_certificate_speaks_for_its_names(void **state)
{
    const char *const more[] = {"gpupool-webhook.gpupool.svc", "other", NULL};
    struct kube_cert cert;

    assert_int_equal(kube_cert_make(NAMES, 3600, &cert, NULL), 0);
    assert_true(kube_cert_covers(&cert, NAMES));
    assert_false(kube_cert_covers(&cert, more));
    assert_false(kube_cert_due(&cert));
    kube_cert_fini(&cert);
}

/* It begins a minute in the past, so that clocks may differ: of one that lasts 25 s,
 * less than a third is left at once. */
static void
a_certificate_is_due_when_a_third_is_left(void **state)
{
    struct kube_cert cert;

    assert_int_equal(kube_cert_make(NAMES, 25, &cert, NULL), 0);
    assert_true(kube_cert_due(&cert));
    kube_cert_fini(&cert);
    cert.cert = strdup("nonsense");
    assert_true(kube_cert_due(&cert));
    kube_cert_fini(&cert);
}

static void
a_secret_keeps_it_and_the_one_before(void **state)
{
    struct kube_cert cert, again;
    CLEANUP_JSON json_t *secret = NULL, *empty = json_object();
    struct gp_err err = {0};

    assert_int_equal(kube_cert_make(NAMES, 3600, &cert, NULL), 0);
    cert.old = strdup("the one before");
    secret = json_pack("{s:o}", "data", kube_cert_to_data(&cert));
    assert_int_equal(kube_cert_from_secret(secret, &again, &err), 0);
    assert_string_equal(again.cert, cert.cert);
    assert_string_equal(again.key, cert.key);
    assert_string_equal(again.old, "the one before");
    assert_true(kube_cert_from_secret(empty, &again, &err) < 0);
    assert_non_null(strstr(err.msg, "no certificate yet"));
    kube_cert_fini(&cert);
    kube_cert_fini(&again);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_made_certificate_speaks_for_its_names),
        cmocka_unit_test(a_certificate_is_due_when_a_third_is_left),
        cmocka_unit_test(a_secret_keeps_it_and_the_one_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
