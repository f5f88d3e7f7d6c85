/* SPDX-License-Identifier: Apache-2.0 */
/* What a ResourceSlice says of a card, and what a ResourceClaim got of it. */
#include "ut.h"

#include "gp_err.h"
#include "kube_dra.h"
#include "kube_object.h"

#include <errno.h>
#include <string.h>

static struct kube_dra_card
a_card(uint32_t core, uint64_t memory_mib)
{
    return (struct kube_dra_card){.uuid = "GPU-B11ED4CB-980c-4281-b98c-5f971c95dffe",
                                  .model = "M",
                                  .server = "s",
                                  .transport = "tcp",
                                  .memory = 4096ull << 20,
                                  .free_core = core,
                                  .free_slices = 16,
                                  .free_memory = memory_mib << 20};
}

static const char *
capacity(const json_t *devices, size_t i, const char *what)
{
    return kube_str(
        json_object_get(json_object_get(json_array_get(devices, i), "capacity"), what),
        "value");
}

static void
a_shared_device_says_what_others_leave(void **state)
{
    struct kube_dra_card card = a_card(70, 1000);
    CLEANUP_JSON json_t *devices = json_array();

    kube_dra_devices(devices, &card, 0);
    assert_int_equal(json_array_size(devices), 1);
    assert_string_equal(capacity(devices, 0, "core"), "70");
    assert_string_equal(capacity(devices, 0, "memory"), "1000Mi");
    card = a_card(100, 4096); /* as the API server would write it back */
    kube_dra_devices(devices, &card, 0);
    assert_string_equal(capacity(devices, 1, "memory"), "4Gi");
    card = a_card(1, 4096); /* less than the API server takes */
    kube_dra_devices(devices, &card, 0);
    assert_int_equal(json_array_size(devices), 2);
}

static void
exclusive_parts_are_those_that_fit_and_those_that_are_held(void **state)
{
    struct kube_dra_card card = a_card(50, 4096);
    CLEANUP_JSON json_t *devices = json_array();
    char name[KUBE_DRA_NAME];

    card.allocated[3] = true; /* one of the two that have room is taken already */
    kube_dra_devices(devices, &card, 4);
    assert_int_equal(json_array_size(devices), 2);
    kube_dra_device_name(name, card.uuid, 0, 4);
    assert_string_equal(kube_str(json_array_get(devices, 0), "name"), name);
    kube_dra_device_name(name, card.uuid, 3, 4);
    assert_string_equal(kube_str(json_array_get(devices, 1), "name"), name);
    assert_string_equal(capacity(devices, 1, "core"), "25");
    assert_string_equal(capacity(devices, 1, "memory"), "1Gi");
}

static void
names_of_devices_lead_back_to_cards(void **state)
{
    char uuid[48];
    unsigned part = 9;

    assert_true(
        kube_dra_device_card("gpu-b11ed4cb-980c-4281-b98c-5f971c95dffe", uuid, &part));
    assert_string_equal(uuid, "GPU-b11ed4cb-980c-4281-b98c-5f971c95dffe");
    assert_int_equal(part, 0);
    assert_true(kube_dra_device_card("gpu-b11ed4cb-980c-4281-b98c-5f971c95dffe-7", uuid,
                                     &part));
    assert_int_equal(part, 7);
    assert_false(kube_dra_device_card("gpu-b11ed4cb-980c-4281-b98c-5f971c95dffe-8",
                                      uuid, &part));
    assert_false(kube_dra_device_card("gpu-1", uuid, &part));
    assert_false(kube_dra_device_card("", uuid, &part));
}

static void
a_claim_with_two_devices_is_refused_in_words(void **state)
{
    CLEANUP_JSON json_t *claim = json_pack(
        "{s:{s:{s:{s:[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}]}}}}", "status", "allocation",
        "devices", "results", "driver", KUBE_DRA_DRIVER, "device", "a", "driver",
        "gpu.example.com", "device", "x", "driver", KUBE_DRA_DRIVER, "device", "b");
    const json_t *result = NULL;
    struct gp_err err = {0};

    assert_int_equal(kube_dra_result(claim, &result, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "several devices"));
    json_array_remove(kube_at(claim, "status.allocation.devices.results"), 2);
    assert_int_equal(kube_dra_result(claim, &result, &err), 0);
    assert_string_equal(kube_str(result, "device"), "a");
}

static void
what_is_consumed_counts_before_what_the_device_has(void **state)
{
    CLEANUP_JSON json_t *device =
        json_pack("{s:{s:{s:s}, s:{s:s}}}", "capacity", "core", "value", "100",
                  "memory", "value", "4Gi");
    CLEANUP_JSON json_t *whole = json_pack("{s:s}", "device", "a");
    CLEANUP_JSON json_t *part =
        json_pack("{s:{s:s, s:s}}", "consumedCapacity", "core", "30", "memory", "1Gi");
    CLEANUP_JSON json_t *a = kube_dra_resources(whole, device);
    CLEANUP_JSON json_t *b = kube_dra_resources(part, device);

    assert_string_equal(json_string_value(json_object_get(a, "elasticgpu.io/gpu-core")),
                        "100");
    assert_string_equal(json_string_value(json_object_get(b, "elasticgpu.io/gpu-core")),
                        "30");
    assert_string_equal(
        json_string_value(json_object_get(b, "elasticgpu.io/gpu-memory")), "1Gi");
    assert_null(kube_dra_resources(whole, NULL));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shared_device_says_what_others_leave),
        cmocka_unit_test(exclusive_parts_are_those_that_fit_and_those_that_are_held),
        cmocka_unit_test(names_of_devices_lead_back_to_cards),
        cmocka_unit_test(a_claim_with_two_devices_is_refused_in_words),
        cmocka_unit_test(what_is_consumed_counts_before_what_the_device_has),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
