/* SPDX-License-Identifier: Apache-2.0 */
/* The published vectors, and that every way through the tree gives the same. */
#include "ut.h"

#include "gp_blake3.h"

#include <stdio.h>
#include <string.h>

static uint8_t input[200 * 1024];

static void
hex_of(size_t len, char text[2 * GP_BLAKE3_SIZE + 1])
{
    uint8_t hash[GP_BLAKE3_SIZE];

    gp_blake3(input, len, hash);
    for (unsigned i = 0; i < sizeof(hash); i++)
        snprintf(text + 2 * i, 3, "%02x", hash[i]);
}

/* The authors' own: the input repeats the bytes 0..250. */
static void
published_vectors_come_out(void **state)
{
    static const struct {
        size_t len;
        const char *hash;
    } cases[] = {
        {0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"},
        {1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"},
        {1023, "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11"},
        {1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"},
        {1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"},
        {3073, "7124b49501012f81cc7f11ca069ec9226cecb8a2c850cfe644e327d22d3e1cd3"},
        {8192, "aae792484c8efe4f19e2ca7d371d8c467ffb10748d8a5a1ae579948f718a2a63"},
        {8193, "bab6c09cb8ce8cf459261398d2e7aef35700bf488116ceb94a36d0f5f1b7bc3b"},
        {16384, "f875d6646de28985646f34ee13be9a576fd515f76b5b0a26bb324735041ddde4"},
        {31744, "62b6960e1a44bcc1eb1a611a8d6235b6b4b78f32e7abc4fb4c6cdcce94895c47"},
        {102400, "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085"},
    };
    char text[2 * GP_BLAKE3_SIZE + 1];

    for (size_t i = 0; i < sizeof(input); i++)
        input[i] = (uint8_t)(i % 251);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        hex_of(cases[i].len, text);
        assert_string_equal(text, cases[i].hash);
    }
}

static void
one_changed_bit_anywhere_changes_the_name(void **state)
{
    static const size_t places[] = {0, 1023, 1024, 65535, 65536, 131071, 199999};
    uint8_t before[GP_BLAKE3_SIZE], after[GP_BLAKE3_SIZE];

    gp_blake3(input, 200000, before);
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        input[places[i]] ^= 0x10;
        gp_blake3(input, 200000, after);
        assert_memory_not_equal(before, after, sizeof(before));
        input[places[i]] ^= 0x10;
    }
    gp_blake3(input, 200000, after);
    assert_memory_equal(before, after, sizeof(before));
}

static void
wide_form_goes_on_where_the_plain_one_ends(void **state)
{
    static const struct {
        size_t len;
        const char *hash;
    } cases[] = {
        {0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
            "e00f03e7b69af26b7faaf09fcd333050338ddfe085b8cc869ca98b206c08243a"},
        {8193, "bab6c09cb8ce8cf459261398d2e7aef35700bf488116ceb94a36d0f5f1b7bc3b"
               "b2282aa69be089359ea1154b9a9286c4a56af4de975a9aa4a5c497654914d279"},
        {102400, "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085"
                 "e01c59dab908c04c3342b816941a26d69c2605ebee5ec5291cc55e15b76146e6"},
    };
    char text[2 * GP_BLAKE3_WIDE + 1];
    uint8_t hash[GP_BLAKE3_WIDE];

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        gp_blake3_wide(input, cases[i].len, hash);
        for (unsigned j = 0; j < sizeof(hash); j++)
            snprintf(text + 2 * j, 3, "%02x", hash[j]);
        assert_string_equal(text, cases[i].hash);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors_come_out),
        cmocka_unit_test(wide_form_goes_on_where_the_plain_one_ends),
        cmocka_unit_test(one_changed_bit_anywhere_changes_the_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
