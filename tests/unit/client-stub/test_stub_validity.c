/* SPDX-License-Identifier: Apache-2.0 */
/* MD2 against the vectors of RFC 1319, and the message around it. */
#include "ut.h"

#include "gp_str.h"
#include "stub_validity.h"

#include <string.h>

static void
md2_gives_the_published_values(void **state)
{
    static const char *const vectors[][2] = {
        {"", "8350e5a3e24c153df2275c9f80692773"},
        {"a", "32ec01ec4a6dac72c0ab96fb34c0b5d1"},
        {"abc", "da853b0d3f88d99b30283a69e6ded6bb"},
        {"message digest", "ab4f496bfb2a530b219ff33031fe06b0"},
        {"abcdefghijklmnopqrstuvwxyz", "4e8ddff3650292ab5a4108c3aa47940b"},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
         "da33def2a42df13975352846c30338cd"},
        {"12345678901234567890123456789012345678901234567890123456789012345678901234567"
         "890",
         "d5976f79d83d3a0dc9806c3c66f3efd8"},
    };
    uint8_t out[16];
    char hex[33];

    for (size_t i = 0; i < ARRAY_SIZE(vectors); i++) {
        stub_validity_md2(vectors[i][0], strlen(vectors[i][0]), out);
        gp_str_hex(hex, out, sizeof(out));
        assert_string_equal(hex, vectors[i][1]);
    }
}

/* HMAC as RFC 2104 writes it, spelt out with the plain hash. */
static void
hmac_is_the_hash_of_the_hash(void **state)
{
    uint8_t key[16], inner[16 + 5], outer[16 + 16], want[16], got[16];

    for (int i = 0; i < 16; i++) {
        key[i] = (uint8_t)(i * 7);
        inner[i] = key[i] ^ 0x36;
        outer[i] = key[i] ^ 0x5c;
    }
    memcpy(inner + 16, "hello", 5);
    stub_validity_md2(inner, sizeof(inner), outer + 16);
    stub_validity_md2(outer, sizeof(outer), want);
    stub_validity_hmac(key, sizeof(key), "hello", 5, got);
    assert_memory_equal(got, want, 16);
}

/* To the first two questions of a runtime, one of 11.8 among those that look at them.
 */
static void
first_two_answers_depend_on_no_fact(void **state)
{
    struct stub_validity_device device = {{1}, 0, 1, 0};
    struct stub_validity_facts f = {12040,  11080,  77, 5,       0x1000,
                                    0x2000, 0x3000, 99, &device, 1};
    char hex[33];
    uint8_t out[16];

    stub_validity_answer(&f, out);
    gp_str_hex(hex, out, sizeof(out));
    assert_string_equal(hex, "5c67cb031c184133e8d14c1faa83d38e");
    f = (struct stub_validity_facts){.runtime_version = 13001};
    stub_validity_answer(&f, out);
    gp_str_hex(hex, out, sizeof(out));
    assert_string_equal(hex, "5c67cb031c184118e8d14c1faa83d38e");
}

static void
answer_depends_on_every_fact(void **state)
{
    struct stub_validity_device devices[2] = {{{1}, 0, 1, 0}, {{2}, 0, 2, 0}};
    const struct stub_validity_facts base = {13000,  13002,  77, 5,       0x1000,
                                             0x2000, 0x3000, 99, devices, 2};
    struct stub_validity_facts f;
    uint8_t want[16], again[16], got[16];

    stub_validity_answer(&base, want);
    stub_validity_answer(&base, again);
    assert_memory_equal(want, again, 16);
#define DIFFERS(field)                                                                 \
    do {                                                                               \
        f = base;                                                                      \
        f.field++;                                                                     \
        stub_validity_answer(&f, got);                                                 \
        assert_memory_not_equal(got, want, 16);                                        \
    } while (0)
    DIFFERS(driver_version);
    DIFFERS(runtime_version);
    DIFFERS(pid);
    DIFFERS(thread);
    DIFFERS(cudart_table);
    DIFFERS(check_table);
    DIFFERS(check_function);
    DIFFERS(seconds);
    f = base;
    f.n_devices = 1;
    stub_validity_answer(&f, got);
    assert_memory_not_equal(got, want, 16);
    devices[1].bus = 3;
    stub_validity_answer(&base, got);
    assert_memory_not_equal(got, want, 16);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(md2_gives_the_published_values),
        cmocka_unit_test(hmac_is_the_hash_of_the_hash),
        cmocka_unit_test(first_two_answers_depend_on_no_fact),
        cmocka_unit_test(answer_depends_on_every_fact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
