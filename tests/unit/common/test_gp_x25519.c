/* SPDX-License-Identifier: Apache-2.0 */
/* X25519 is what RFC 7748 says it is, and what OpenSSL computes. */
#include "ut.h"

#include "gp_x25519.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

static void
from_hex(const char *text, uint8_t ret[32])
{
    for (int i = 0; i < 32; i++)
        assert_int_equal(sscanf(text + 2 * i, "%2hhx", &ret[i]), 1);
}

/* RFC 7748, section 5.2. */
static void
the_vectors_of_the_rfc_come_out(void **state)
{
    static const struct {
        const char *secret, *point, *result;
    } cases[] = {
        {"a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
         "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
         "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"},
        {"4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
         "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
         "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957"},
    };
    uint8_t secret[32], point[32], wanted[32], got[32];

    for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
        from_hex(cases[i].secret, secret);
        from_hex(cases[i].point, point);
        from_hex(cases[i].result, wanted);
        assert_int_equal(gp_x25519(secret, point, got), 0);
        assert_memory_equal(got, wanted, 32);
    }
}

/* The same section: a thousand times, each result the next secret. */
static void
a_thousand_times_come_out(void **state)
{
    uint8_t k[32] = {9}, u[32] = {9}, next[32], wanted[32];

    from_hex("684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51",
             wanted);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(gp_x25519(k, u, next), 0);
        memcpy(u, k, 32);
        memcpy(k, next, 32);
    }
    assert_memory_equal(k, wanted, 32);
}

static void
openssl_agrees(void **state)
{
    uint8_t a[32], pub[32], theirs[32], ours[32], shared[32];
    size_t size;

    for (int i = 0; i < 200; i++) {
        EVP_PKEY *mine, *key = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
        EVP_PKEY_CTX *ctx;

        assert_int_equal(gp_x25519_new(a), 0);
        mine = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, a, 32);
        assert_non_null(mine);
        size = 32;
        assert_int_equal(EVP_PKEY_get_raw_public_key(mine, theirs, &size), 1);
        gp_x25519_public(a, pub);
        assert_memory_equal(pub, theirs, 32);

        ctx = EVP_PKEY_CTX_new(mine, NULL);
        assert_int_equal(EVP_PKEY_derive_init(ctx), 1);
        assert_int_equal(EVP_PKEY_derive_set_peer(ctx, key), 1);
        size = 32;
        assert_int_equal(EVP_PKEY_derive(ctx, shared, &size), 1);
        size = 32;
        assert_int_equal(EVP_PKEY_get_raw_public_key(key, theirs, &size), 1);
        assert_int_equal(gp_x25519(a, theirs, ours), 0);
        assert_memory_equal(ours, shared, 32);
        EVP_PKEY_CTX_free(ctx);
        EVP_PKEY_free(mine);
        EVP_PKEY_free(key);
    }
}

/* Who offers such a point would know the result without any secret. */
static void
points_of_small_order_are_refused(void **state)
{
    static const char *const points[] = {
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    };
    uint8_t secret[32], point[32], got[32];

    assert_int_equal(gp_x25519_new(secret), 0);
    for (unsigned i = 0; i < ARRAY_SIZE(points); i++) {
        from_hex(points[i], point);
        assert_int_equal(gp_x25519(secret, point, got), -EBADMSG);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vectors_of_the_rfc_come_out),
        cmocka_unit_test(a_thousand_times_come_out),
        cmocka_unit_test(openssl_agrees),
        cmocka_unit_test(points_of_small_order_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
