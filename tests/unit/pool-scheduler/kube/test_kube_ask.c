/* SPDX-License-Identifier: Apache-2.0 */
/* Every published way of asking, its units, and the words for what is wrong. */
#include "ut.h"

#include "gp_err.h"
#include "kube_ask.h"
#include "kube_object.h"

#include <errno.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

static json_t *
resources(const char *limits)
{
    json_error_t error;
    json_t *list = json_loads(limits, 0, &error);

    assert_non_null(list);
    return json_pack("{s:o}", "limits", list);
}

static void
asks_right(const char *limits, uint32_t core, uint64_t memory, uint32_t cards)
{
    CLEANUP_JSON json_t *res = resources(limits);
    struct gp_err err = {0};
    struct kube_ask ask;
    int r = kube_ask_read(res, NULL, &ask, &err);

    if (r < 0)
        fail_msg("%s: %s", limits, err.msg);
    assert_int_equal(ask.core, core);
    assert_int_equal(ask.memory, memory);
    assert_int_equal(ask.cards, cards);
}

static void
is_refused(const char *limits, const char *words)
{
    CLEANUP_JSON json_t *res = resources(limits);
    struct gp_err err = {0};
    struct kube_ask ask;

    assert_int_equal(kube_ask_read(res, NULL, &ask, &err), -EINVAL);
    if (!strstr(err.msg, words))
        fail_msg("%s: \"%s\" has no \"%s\"", limits, err.msg, words);
}

static void
every_family_has_its_unit(void **state)
{
    asks_right("{\"tke.cloud.tencent.com/qgpu-core\": 30,"
               " \"tke.cloud.tencent.com/qgpu-memory\": \"4\"}",
               30, 4096 * MIB, 1);
    asks_right("{\"tencent.com/vcuda-core\": \"33\", \"tencent.com/vcuda-memory\": 20}",
               33, 5120 * MIB, 1);
    asks_right("{\"nvidia.com/vcuda-core\": 10, \"nvidia.com/vcuda-memory\": 700}", 10,
               700 * MIB, 1);
    asks_right("{\"elasticgpu.io/gpu-core\": 1, \"elasticgpu.io/gpu-memory\": \"1Gi\"}",
               1, 1024 * MIB, 1);
    asks_right(
        "{\"elasticgpu.com/gpu-core\": 50, \"elasticgpu.com/gpu-memory\": \"4G\"}", 50,
        UINT64_C(4000000000), 1);
    asks_right("{\"gpushare.provisioner.elasticgpu.io/gpu-core\": 50,"
               " \"gpushare.provisioner.elasticgpu.io/gpu-memory\": \"512Mi\"}",
               50, 512 * MIB, 1);
    asks_right("{\"nvidia.com/gpu\": 2}", 200, 0, 2);
    asks_right("{\"tke.cloud.tencent.com/qgpu-core\": 300}", 300, 0, 3);
    asks_right("{\"tencent.com/vcuda-core\": 100}", 100, 0, 1);
}

static void
what_no_card_has_is_refused_with_the_range(void **state)
{
    is_refused("{\"tke.cloud.tencent.com/qgpu-core\": 33,"
               " \"tke.cloud.tencent.com/qgpu-memory\": 1}",
               "from 5 in steps of 5");
    is_refused("{\"tencent.com/vcuda-core\": 150}", "N*100");
    is_refused("{\"tencent.com/vcuda-core\": 1700}", "at most 16");
    is_refused("{\"tencent.com/vcuda-core\": 0}", "0 is not possible");
    is_refused("{\"nvidia.com/gpu\": 17}", "1 to 16");
    is_refused("{\"tencent.com/vcuda-core\": 30}", "needs a tencent.com/vcuda-memory");
    is_refused("{\"tencent.com/vcuda-memory\": 4}", "no tencent.com/vcuda-core");
    is_refused("{\"nvidia.com/vcuda-core\": 10, \"nvidia.com/vcuda-memory\": 0}",
               "it counts MiB");
    is_refused("{\"elasticgpu.io/gpu-core\": 10, \"elasticgpu.io/gpu-memory\": 4}",
               "as in 4Gi");
    is_refused("{\"nvidia.com/gpu\": 1, \"tencent.com/vcuda-core\": 100}",
               "asks in one way");
}

static void
what_is_no_quantity_is_named(void **state)
{
    is_refused(
        "{\"elasticgpu.io/gpu-core\": 10, \"elasticgpu.io/gpu-memory\": \"4GB\"}",
        "Kubernetes writes 4G or 4Gi");
    is_refused("{\"elasticgpu.io/gpu-core\": \"150%\"}", "without the sign");
    is_refused("{\"elasticgpu.io/gpu-core\": \"many\"}", "\"many\" is not a quantity");
    is_refused("{\"elasticgpu.io/gpu-core\": -5}", "not a quantity");
    is_refused("{\"elasticgpu.io/gpu-core\": 5, \"elasticgpu.io/gpu-memory\": "
               "\"99999999P\"}",
               "too much");
}

static void
the_whole_grammar_of_quantities_is_read(void **state)
{
    static const struct {
        const char *text;
        uint64_t value;
    } GOOD[] = {
        {"0", 0},
        {"12", 12},
        {"+7", 7},
        {"1.", 1},
        {".5", 1},
        {"1.5k", 1500},
        {"1n", 1},
        {"1000000000n", 1},
        {"1000000001n", 2},
        {"2500000u", 3},
        {"100m", 1},
        {"3000m", 3},
        {"1e3", 1000},
        {"1E3", 1000},
        {"12e-1", 2},
        {"1.5e+3", 1500},
        {"2E", UINT64_C(2000000000000000000)},
        {"2P", UINT64_C(2000000000000000)},
        {"3Ki", 3072},
        {"2Pi", UINT64_C(2) << 50},
        {"1Ei", UINT64_C(1) << 60},
        {"1.5Ei", UINT64_C(3) << 59},
        /* Beyond what a double holds. */
        {"9007199254740993", UINT64_C(9007199254740993)},
        {"0.1Gi", 107374183},
        {"9223372036854775806", INT64_MAX - 1},
        /* As much as Kubernetes knows. */
        {"8Ei", INT64_MAX},
        {"10E", INT64_MAX},
        {"1e900", INT64_MAX},
        {"99999999999999999999999999999999", INT64_MAX},
        {"0.00000000000000000000000000000000000000000001", 1},
        {"1e-900", 1},
        {"0e900", 0},
        {"1.00000000000000000000000000000001", 2},
    };
    static const char *const BAD[] = {"",   ".",   "-1", "1e",  "1e+",  "E",    "1K",
                                      "1i", "1 G", "0x", "1gi", "1Gii", "1.2.3"};

    for (size_t i = 0; i < ARRAY_SIZE(GOOD); i++) {
        CLEANUP_JSON json_t *text = json_string(GOOD[i].text);
        struct gp_err err = {0};
        uint64_t value = 77;

        if (kube_quantity(text, &value, &err) < 0)
            fail_msg("%s: %s", GOOD[i].text, err.msg);
        if (value != GOOD[i].value)
            fail_msg("%s is read as %llu", GOOD[i].text, (unsigned long long)value);
    }
    for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
        CLEANUP_JSON json_t *text = json_string(BAD[i]);
        struct gp_err err = {0};
        uint64_t value;

        if (kube_quantity(text, &value, &err) != -EINVAL)
            fail_msg("\"%s\" is taken for a quantity", BAD[i]);
        assert_non_null(strstr(err.msg, "is not a quantity"));
    }
}

static void
requests_and_limits_must_agree(void **state)
{
    CLEANUP_JSON json_t *res =
        json_pack("{s:{s:i}, s:{s:i}}", "requests", "nvidia.com/gpu", 1, "limits",
                  "nvidia.com/gpu", 2);
    struct gp_err err = {0};
    struct kube_ask ask;

    assert_int_equal(kube_ask_read(res, NULL, &ask, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "must be equal"));
    json_object_set_new(json_object_get(res, "requests"), "nvidia.com/gpu",
                        json_string("2"));
    assert_int_equal(kube_ask_read(res, NULL, &ask, &err), 0);
    assert_true(kube_ask_strip(res));
    assert_int_equal(kube_ask_read(res, NULL, &ask, &err), -ENODATA);
    assert_false(kube_ask_strip(res));
}

static void
a_class_narrows_what_may_be_asked(void **state)
{
    CLEANUP_JSON json_t *object = json_loads(
        "{\"metadata\": {\"name\": \"q\"}, \"provisioner\": \"elasticgpu.io/remote\","
        " \"reclaimPolicy\": \"Retain\", \"egpuBindingMode\": \"WaitForFirstConsumer\","
        " \"parameters\": {\"coreMin\": \"10\", \"coreStep\": \"10\","
        "                  \"policy\": \"burst-share\"}}",
        0, NULL);
    CLEANUP_JSON json_t *res = resources(
        "{\"elasticgpu.io/gpu-core\": 5, \"elasticgpu.io/gpu-memory\": \"1Gi\"}");
    struct kube_class class;
    struct gp_err err = {0};
    struct kube_ask ask;

    assert_int_equal(kube_class_read(object, &class, &err), 0);
    assert_true(class.retain && class.wait);
    assert_int_equal(class.policy, 1);
    assert_int_equal(kube_ask_read(res, &class, &ask, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "from 10 in steps of 10"));

    json_object_set_new(json_object_get(object, "parameters"), "colour",
                        json_string("red"));
    assert_int_equal(kube_class_read(object, &class, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "unknown parameter \"colour\""));
}

static void
the_three_keys_of_a_class_are_one(void **state)
{
    static const char *const KEYS[] = {"elasticGPUClassName", "egpuClassName",
                                       "storageClassName"};
    const char *name;
    struct gp_err err = {0};

    for (size_t i = 0; i < 3; i++) {
        CLEANUP_JSON json_t *claim = json_pack("{s:{s:s}}", "spec", KEYS[i], "remote");

        assert_int_equal(kube_claim_class(claim, &name, &err), 0);
        assert_string_equal(name, "remote");
        json_object_set_new(json_object_get(claim, "spec"), KEYS[(i + 1) % 3],
                            json_string("other"));
        assert_int_equal(kube_claim_class(claim, &name, &err), -EINVAL);
    }
}

static void
what_is_written_reads_the_same(void **state)
{
    struct kube_ask ask = {.core = 30, .memory = 700 * MIB, .cards = 1}, again;
    CLEANUP_JSON json_t *list = kube_ask_write(&ask);
    CLEANUP_JSON json_t *res = json_pack("{s:O}", "requests", list);

    assert_int_equal(kube_ask_read(res, NULL, &again, NULL), 0);
    assert_int_equal(again.core, 30);
    assert_int_equal(again.memory, 700 * MIB);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_has_its_unit),
        cmocka_unit_test(what_no_card_has_is_refused_with_the_range),
        cmocka_unit_test(what_is_no_quantity_is_named),
        cmocka_unit_test(the_whole_grammar_of_quantities_is_read),
        cmocka_unit_test(requests_and_limits_must_agree),
        cmocka_unit_test(a_class_narrows_what_may_be_asked),
        cmocka_unit_test(the_three_keys_of_a_class_are_one),
        cmocka_unit_test(what_is_written_reads_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
